"""A small trained model and its site, which several tests look at; and a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fixtures.chromium import browser
from PIL import Image

import zoo

# What a folder may be called, and a page must not take for its own.
NAMES = ("<img src=x onerror=alert(1)>", "\"&quot;'", "{{ 7 * 7 }}")


class Made(NamedTuple):
    run: Path
    site: Path
    cache: Path
    images: Path
    names: tuple[str, ...]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A run on images whose classes have hostile names, and the gallery of it."""
    folder = tmp_path_factory.mktemp("gallery")
    rng = np.random.default_rng(0)
    for split, count in (("train", 24), ("test", 10)):
        for place, name in enumerate(NAMES):
            inside = folder / "images" / split / name
            inside.mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 120, (28, 28), np.uint8)
                pixels[place * 9 : place * 9 + 9] += 100
                Image.fromarray(pixels).save(inside / f"{number}.png")
    with pytest.MonkeyPatch.context() as patch:
        cache = folder / "cache"
        patch.setenv("ZOO_CACHE", str(cache))
        how = {"epochs": 1, "batch_size": 8, "lr": 0.01}
        data = str(folder / "images")
        run = zoo.train("lenet_numpy", data, runs=folder / "runs", quiet=True, **how).path
        zoo.gallery([str(run)], folder / "site")
        yield Made(run, folder / "site", cache, folder / "images", NAMES)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def page(chrome: Any) -> Iterator[Any]:
    """A page that records what it asks for and what goes wrong."""
    context = chrome.new_context()
    found = context.new_page()
    found.asked, found.wrong = [], []
    found.on("request", lambda request: found.asked.append(request.url))
    found.on("pageerror", lambda error: found.wrong.append(str(error)))
    found.on("console", lambda line: line.type == "error" and found.wrong.append(line.text))
    yield found
    context.close()
