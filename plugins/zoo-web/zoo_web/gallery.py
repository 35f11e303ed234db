"""The site: its pages and its files. What they show is computed by computed.py, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo import kit
from zoo_web import vendoring
from zoo_web.computed import Computed, compute, copied
from zoo_web.model_page import model_page
from zoo_web.pages import STATIC
from zoo_web.start_page import start_page
from zoo_web.subjects import Subject, subjects

MARK = "gallery.json"  # what says that a folder is a gallery, and may be replaced
SCRIPTS = ("gallery.js", "box.js", "onnx.js", "tables.js", "charts.js")


def gallery(
    references: str | Path | Sequence[str] = (),
    out: str | Path = "site",
    *,
    runs: str | Path | None = None,
) -> dict[str, Any]:
    """Write a static site of trained models, which compute in the browser.

        zoo.gallery(out="site")                     # everything installed that is trained
        zoo.gallery(["cnn", "latest"], "mine")      # some weights and runs, or one

    references: names of weights, or runs; nothing means all. out: a folder, which becomes the site:
    it must be empty, or a gallery that is replaced. What takes long is computed once, and goes on
    where it was interrupted.
    """
    references = [str(references)] if isinstance(references, str | Path) else references
    out = Path(out)
    if out.exists() and not (out / MARK).exists() and (out.is_file() or any(out.iterdir())):
        raise zoo.UsageError(f"{out} holds something else than a gallery", "name another folder")
    wrong = f"{out} could not be written"
    with kit.os_errors(wrong):
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        with kit.temporary_folder(out):  # said now, not after minutes of measuring
            pass
    with kit.os_errors("the cache could not be written", hint="ZOO_CACHE names another folder"):
        kit.cache_dir("web").mkdir(parents=True, exist_ok=True)
    missing = vendoring.missing()
    if missing:
        kit.warn(f"the models of this site will not compute: {why_missing()}")
    shown = subjects(references, Path(runs) if runs else None)
    if not shown:
        raise zoo.ZooError("nothing is trained", "zoo train MODEL trains one")
    try:
        known = [(one, compute(one)) for one in shown]
    except KeyboardInterrupt:
        kit.say("The same command goes on from here")
        raise
    with kit.os_errors(wrong), kit.temporary_folder(out) as folder:
        site = folder / "site"
        site.mkdir()
        write(site, known, why_missing() if missing else "")
        replace(out, site, folder / "old")
    sizes = [path.stat().st_size for path in out.rglob("*") if path.is_file()]
    return {
        "path": str(out),
        "start": str(out / "index.html"),
        "models": [one.title for one in shown],
        "compute": [one.title for one, made in known if made.parts.get("onnx") and not missing],
        "problems": {one.title: dict(made.problems) for one, made in known if made.problems},
        "bytes": sum(sizes),
    }


def write(site: Path, known: Sequence[tuple[Subject, Computed]], missing: str) -> None:
    """All files of the site."""
    (site / "static").mkdir()
    for name in ("style.css", "icon.svg", *SCRIPTS):
        copied(STATIC / name, site / "static" / name)
    for name in vendoring.FILES.values() if not missing else ():
        copied(vendoring.VENDOR / name, site / "vendor" / name)
    for one, made in known:
        for folder in made.files.values():
            for path in folder.iterdir():
                if path.suffix in (".webp", ".onnx"):
                    copied(path, site / "files" / one.slug / path.name)
        text(site / "models" / f"{one.slug}.html", model_page(one, made, missing))
    text(site / "index.html", start_page(known, missing))
    kit.write_document(site / MARK, {"format": 1, "models": [one.title for one, _ in known]})


def text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def replace(out: Path, site: Path, old: Path) -> None:
    """The new site in the place of an old one."""
    if out.exists():
        out.rename(old)
    site.rename(out)


def why_missing() -> str:
    """A sentence for somebody whose zoo-web has no onnxruntime-web."""
    return (
        "zoo-web was installed without onnxruntime-web. Install npm, then install zoo-web again: "
        "pip install --force-reinstall --no-deps zoo-web; in a clone with "
        "-e plugins/zoo-web."
    )
