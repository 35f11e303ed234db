"""A real Chromium, and a host that is as awkward as hosts are."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

BELOW = "/some/where"  # the site is not at the root of its host
AXE = "4.11.1", "5b86f813d96904f2d925fed5715877c75fc1cc140f89565fb42145e7801b2305"


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("these tests need a browser: apt-get install -y chromium")


@contextmanager
def browser(*arguments: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", *arguments], timeout=120_000
        )
        yield found
        found.close()


class Host(SimpleHTTPRequestHandler):
    """Serves a folder below a path, knows no type but those of pages, and reports no size."""

    extensions_map = {
        "": "application/octet-stream", ".html": "text/html", ".js": "text/javascript",
        ".css": "text/css", ".svg": "image/svg+xml", ".webp": "image/webp",
    }  # fmt: skip

    def translate_path(self, path: str) -> str:
        if not path.startswith(BELOW + "/"):
            return str(Path(self.directory) / "outside")
        return super().translate_path(path.removeprefix(BELOW))

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hosted(site: Path) -> Iterator[str]:
    """The address of a site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Host, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{BELOW}"
    finally:
        server.shutdown()
        server.server_close()


def png(image: np.ndarray) -> bytes:
    """A file of an image, uint8 (h, w, c)."""
    written = io.BytesIO()
    Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(written, "png")
    return written.getvalue()


def encoded(files: list[bytes]) -> list[str]:
    return [base64.b64encode(one).decode() for one in files]


DROP = """(file) => {
  const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0));
  const given = new DataTransfer();
  given.items.add(new File([bytes], "image.png", { type: "image/png" }));
  const event = new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
  document.querySelector(".drop").dispatchEvent(event);
}"""
ANSWERS = """() => [...document.querySelectorAll(".answer")].map((card) => ({
  title: card.getAttribute("aria-label"),
  ...JSON.parse(card.dataset.answer),
}))"""


def dropped(page: Any, file: bytes, answers: int, timeout: float = 240_000) -> list[dict[str, Any]]:
    """What the models that are chosen on a page say of a file that is dropped there."""
    page.wait_for_selector(".drop")
    page.evaluate(DROP, *encoded([file]))
    counted = f"document.querySelectorAll('.answer[data-answer]').length == {answers}"
    page.wait_for_function(counted, timeout=timeout)
    return list(page.evaluate(ANSWERS))


@cache
def axe(folder: Path) -> str:
    """The script of axe-core, fetched once."""
    version, digest = AXE
    kept = folder / f"axe-core-{version}.tgz"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", f"axe-core@{version}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == digest
    with tarfile.open(kept) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()


def complaints(page: Any, script: str) -> list[str]:
    """What axe-core finds on a page as it is shown."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document)")
    return [
        f"{rule['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
