"""What the tests of the core and of all plugins share: a world of its own for each of them."""

import atexit
import gc
import logging
import os
import sys
from functools import update_wrapper
from pathlib import Path
from typing import Any

import pytest

gc.disable()  # until all tests are imported: none of what imports make is garbage
TORCHS_OWN = 67280421310721  # with which torch begins where nobody seeds it

for name in [name for name in os.environ if name.startswith("ZOO_")]:
    del os.environ[name]  # what a person has set decides no test


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, a library that prints nothing by itself, and torch's random numbers;
    pytest-randomly seeds random and numpy."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_CONFIG", str(tmp_path / "config"))
    # A command that a test runs in this process sets up printing, for good.
    monkeypatch.setattr("zoo_core.io.console._shown", False)
    monkeypatch.setattr("zoo_core.io.console._quiet", False)
    logger = logging.getLogger("zoo")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCHS_OWN)


def pytest_collection_finish() -> None:
    gc.freeze()  # what imports made stays: looking through it again and again finds nothing
    atexit.register(gc.unfreeze)  # or nanobind takes its own types for leaks
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before fixtures of any scope
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Rendering is most of what a report costs: a test that looks at plots is marked `renders`."""
    if look := sys.modules.get("zoo_core.report.look"):
        rendering = vars(look).setdefault("rendering", look.save_figure)
        update_wrapper(save_one_pixel, rendering)  # zoo.kit has it: what the docs say of it holds
        look.save_figure = rendering if item.get_closest_marker("renders") else save_one_pixel
        if kit := sys.modules.get("zoo.kit"):
            vars(kit).pop("save_figure", None)  # it keeps what it has found once


def save_one_pixel(figure: Any, path: Path) -> None:
    """In place of look.save_figure: the figure has been made, as always, and its file is there."""
    from PIL import Image

    from zoo.kit import atomic_write

    with atomic_write(path) as temporary:
        Image.new("RGB", (1, 1)).save(temporary, "png")
