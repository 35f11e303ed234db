"""The pictures of the gallery that the documentation shows, and the figures that it tells.

    zoo gallery && python plugins/zoo-web/pictures.py site docs/pictures

Needs Chromium and playwright (requirements-dev.txt).
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from fixtures.chromium import browser, dropped, hosted, png

MODEL, IMAGE = "cnn.cifar10", 8  # a cat
ANSWERS = 5
SIZES = {"phone": (375, 812), "desktop": (1280, 900)}


def main(site: Path, pictures: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    file = png(np.asarray(zoo.open_dataset("cifar10").test.images[IMAGE]))
    with hosted(site) as address, browser() as chrome:
        for name, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                look = {"width": width, "height": height}
                context = chrome.new_context(color_scheme=scheme, viewport=look)
                for page_name, path in (("", "index.html"), ("-model", f"models/{MODEL}.html")):
                    page = context.new_page()
                    page.goto(f"{address}/{path}")
                    dropped(page, file, 1)
                    told = "" if scheme == "light" else "-dark"
                    save(page, pictures / f"gallery{page_name}-{name}{told}.webp")
                context.close()
        print(f"first answer of {MODEL}: {first_answer(chrome, address, file)}")


def save(page: Any, path: Path) -> None:
    """What is seen first of a page, small."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.save(path, "WEBP", quality=80)


def first_answer(chrome: Any, address: str, file: bytes) -> str:
    """Median milliseconds of new pages, once runtime and model are loaded; and until they are."""
    answers, whole = [], []
    for _ in range(ANSWERS):
        page = chrome.new_context().new_page()
        page.goto(f"{address}/models/{MODEL}.html")
        started = time.perf_counter()
        (said,) = dropped(page, file, 1)
        whole.append(1000 * (time.perf_counter() - started))
        answers.append(said["milliseconds"])
        page.context.close()
    return (
        f"{statistics.median(answers):.0f} ms after the model is there "
        f"({min(answers):.0f} to {max(answers):.0f}); "
        f"{statistics.median(whole):.0f} ms with all that it loads, over {ANSWERS} new pages"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
