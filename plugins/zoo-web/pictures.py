"""The pictures of pages that the documentation shows, and how long a page takes to answer.

    make demo && zoo gallery
    python plugins/zoo-web/pictures.py site "$(cat runs/.demo)" docs/pictures

site: the gallery of everything. Then a run, whose report is shown. Needs Chromium and playwright
(requirements-dev.txt).
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from fixtures.chromium import browser, dropped, hosted, png, seen

MODEL, GENERATOR, IMAGE = "cnn.cifar10", "acgan.cifar10", 8  # a cat
BESIDE = ("mlp.cifar10", "nano_vit_p4.cifar10")  # models that answer side by side with MODEL
ANSWERS = 5
LIGHT, DARK, PHONE = ("desktop", "light"), ("desktop", "dark"), ("phone", "light")


def main(site: Path, run: Path, pictures: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    file = png(np.asarray(zoo.open_dataset("cifar10").test.images[IMAGE]))
    with tempfile.TemporaryDirectory() as folder, hosted(site) as address, browser() as chrome:

        def take(name: str, look: tuple[str, str], url: str, answers: int = 0) -> None:
            with seen(chrome, look) as page:
                page.goto(url)
                for title in BESIDE[: answers - 1] if answers else ():
                    page.get_by_role("checkbox", name=title).check()
                if answers:
                    dropped(page, file, answers)
                save(page, pictures / f"{name}.webp")

        take("gallery", LIGHT, f"{address}/index.html", answers=3)
        take("gallery-phone", PHONE, f"{address}/index.html", answers=1)
        take("gallery-model", DARK, f"{address}/models/{MODEL}.html#confusion")
        take("gallery-generator", LIGHT, f"{address}/models/{GENERATOR}.html#samples")
        report = zoo.report_html(run, Path(folder) / "report.html").absolute().as_uri()
        take("report", LIGHT, f"{report}#curves")
        with zoo.serve(MODEL, port=0, wait=False) as server:
            take("serve", LIGHT, server.url, answers=1)
        print(f"first answer of {MODEL}: {first_answer(chrome, address, file)}")


def save(page: Any, path: Path) -> None:
    """What is seen of a page at once, small."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.save(path, "WEBP", quality=80)


SEEN = """() => new MutationObserver((_, observer) => {
  if (!document.querySelector(".answer[data-answer]")) return;
  window.answered = performance.now();
  observer.disconnect();
}).observe(document.getElementById("box"), { subtree: true, attributes: true, childList: true })"""
LOADED = "Math.max(...performance.getEntriesByType('resource').map((one) => one.responseEnd))"


def first_answer(chrome: Any, address: str, file: bytes) -> str:
    """Median milliseconds of new pages: from the last byte that they load to the answer; in all."""
    answers, whole = [], []
    for _ in range(ANSWERS):
        with seen(chrome, LIGHT) as page:
            page.goto(f"{address}/models/{MODEL}.html")
            page.evaluate(SEEN)
            started = page.evaluate("performance.now()")
            dropped(page, file, 1)
            answered, loaded = page.evaluate("window.answered"), page.evaluate(LOADED)
            answers.append(answered - loaded)
            whole.append(answered - started)
    return (
        f"{statistics.median(answers):.0f} ms after the model is there "
        f"({min(answers):.0f} to {max(answers):.0f}); "
        f"{statistics.median(whole):.0f} ms with all that it loads, over {ANSWERS} new pages"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
