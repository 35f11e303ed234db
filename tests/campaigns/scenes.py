"""What the campaigns play in: a small home for commands, and what is compared afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LITTER = re.compile(r"(^|/)(\.[^/]*\.(tmp|lock)|\.lock|\.loading-[^/]*|errors/[^/]*\.txt)(/|$)")
REVISION = re.compile(r"\b[0-9a-f]{40}\b")  # of what was published: it depends on the time
# Loggers write a file for each process; what was published is compared as it is pulled; the folder
# for temporary files is the system's to clean; `looked` is the cache of commands that only look.
NOT_COMPARED = re.compile(r"/tensorboard/|^shared/|^tmp/|^looked/")
DURATION = re.compile(r"\b\d+(\.\d+)? (ms|s|min|h)\b|\b\d+:\d\d(:\d\d)?\b")
STAMP = re.compile(r"\d{8}T\d{6}Z(-\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?")
# Fields that say how long something took, when, or in which process; not what came out of it.
CLOCK = re.compile(
    r"seconds|per_second|_ms_per_|started|ended|created|finished|updated|\btime|pid|memory"
)
TOKEN = "hf_campaign"


def environment(folder: Path) -> dict[str, str]:
    """Everything that a command may write lies below its folder."""
    return {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "ZOO_CACHE": str(folder / "cache"),
        "ZOO_CONFIG": str(folder / "config"),
        "ZOO_MANIFEST": str(folder / "manifest.json"),
        "HF_HOME": str(folder / "home" / "hf"),
        "TORCH_HOME": str(folder / "home" / "torch"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "home" / "inductor"),
        "HF_TOKEN": TOKEN,
        "HF_ENDPOINT": "http://127.0.0.1:9",  # where nobody listens
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1",
        "COLUMNS": "100",
    }


def make_home(folder: Path) -> None:
    """Folders, and a few images of two classes."""
    from PIL import Image

    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    draws = random.Random(0)
    for number in range(24):
        file = folder / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (20, 16), draws.randbytes(20 * 16 * 3)).save(file)
    shutil.copy(folder / "photos" / "a" / "0.png", folder / "image.png")


def facts(folder: Path) -> dict[str, Any]:
    """All files below a folder that mean something, as facts: a digest, or a field of a document.

    Without times, the folder's own path, and what only a killed process leaves.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = timeless(path.relative_to(folder).as_posix())
        if not path.is_file() or path.is_symlink():
            continue
        if LITTER.search(name) or NOT_COMPARED.search(name):
            continue
        if name.startswith("runs/") and not _of_a_run(path, folder / "runs"):
            continue  # a process that is killed before run.json exists leaves a folder without one
        found |= {f"{name}{place}": value for place, value in _content(path, str(folder))}
    return found


def timeless(text: str) -> str:
    return DURATION.sub("N s", REVISION.sub("REVISION", STAMP.sub("T", text)))


def _of_a_run(path: Path, runs: Path) -> bool:
    folder = path.parent
    while folder != runs:
        if any((folder / name).exists() for name in ("run.json", "search.json")):
            return True
        folder = folder.parent
    return False


def _content(path: Path, folder: str) -> Iterator[tuple[str, Any]]:
    data = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        lines = data.splitlines() if path.suffix == ".jsonl" else [data]
        if path.name == "trials.jsonl":  # in the order in which they ended
            lines.sort(key=lambda line: json.loads(line)["number"])
        for number, line in enumerate(lines):
            try:
                yield from _fields(json.loads(line), f":{number}" * (path.suffix == ".jsonl"))
            except ValueError:
                yield f":{number}", f"not JSON: {line[:80]!r}"
    elif path.suffix in (".md", ".toml", ".csv", ".py", ".txt"):
        for number, line in enumerate(data.decode(errors="replace").splitlines()):
            yield f":{number}", timeless(line.replace(folder, "HERE"))
    else:
        yield "", hashlib.sha256(data).hexdigest()


def _fields(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not CLOCK.search(key):
                yield from _fields(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _fields(inner, f"{place}[{number}]")
    else:
        yield place, timeless(str(value))


def told(text: str, folder: Path) -> str:
    """What a command printed, wherever and whenever it ran."""
    return " ".join(timeless(text.replace(str(folder), "HERE")).split())


def copy(template: Path, folder: Path) -> None:
    """A home like another one, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)


def around(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies beside a folder: names, with sizes and times."""
    found = {}
    for entry in os.scandir(folder.parent):
        if entry.name != folder.name:
            facts = entry.stat(follow_symlinks=False)
            found[entry.name] = (facts.st_size, facts.st_mtime_ns)
    return found
