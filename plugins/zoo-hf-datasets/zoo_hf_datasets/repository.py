"""A repository of the Hub as a folder of this machine, which the readers of the zoo then read.

Its files are fetched once for each commit. The Hub's client compares sizes only; here each file
must have the digest that the Hub lists for it.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import zoo
from zoo import kit

REFERENCE = re.compile(
    r"hf:(?P<name>[\w.-]+/[\w.-]+)(?P<folder>(/[\w.-]+)*)(@(?P<revision>[\w./-]+))?"
)
IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
METADATA = ("metadata.csv", "metadata.jsonl")
# What is fetched: the first sort that the repository has.
SORTS = ((".parquet",), (".tar",), (*IMAGES, *METADATA))
FORMAT = 1  # of the list that is kept
CONVERTED = "refs/convert/parquet"


def repository(*, path: str, **options: Any) -> zoo.Originals:
    """The target of the reader `hf`."""
    asked = REFERENCE.fullmatch(path or "")
    if asked is None or ".." in path:
        what = f"{path} does not name a dataset of the Hub"
        raise zoo.OptionError(what, "write hf:ORGANISATION/NAME, and @REVISION for an older one")
    name, inside = asked["name"], asked["folder"].strip("/")
    hub = kit.HuggingFace(name, kind="dataset")
    commit = hub.resolve(asked["revision"] or "")
    place = kit.cache_dir("hf-datasets") / name.replace("/", "--") / commit
    listed = _listed(hub, commit, place)
    wanted = _wanted(listed, inside)
    if not wanted:
        what = f"{path} has no images, and no Parquet or tar files"
        hint = f"the Hub keeps a copy of most datasets as Parquet files: hf:{name}@{CONVERTED}"
        raise zoo.DataError(what, hint)
    _fetch(hub, commit, wanted, place / "files")
    given = {option: value for option, value in options.items() if value not in (None, "auto")}
    if not any(name.lower().endswith(IMAGES) for name in wanted):  # data/train-0.parquet: read data
        inside = posixpath.commonpath([posixpath.dirname(name) for name in wanted])
    found = kit.read_originals(place / "files" / inside, given)
    # The files' times are those of the download; the digests are what they are.
    key = [wanted, found.labels is None, [*map(str, found.names)]]
    reference = f"hf:{name}{asked['folder']}@{commit}"
    return replace(found, key=key, reference=reference)


def _listed(hub: Any, commit: str, place: Path) -> dict[str, tuple[str, int]]:
    """All files of a commit with digest and size; asked for once: a commit cannot change."""
    file = place / "files.json"
    if not file.is_file():
        files = hub.files(commit)
        if without := [name for name, (digest, _) in files.items() if not digest]:
            what = f"{hub.reference}: the hub lists {without[0]} without a digest"  # not kept
            raise zoo.DataError(what, "try again later")
        place.mkdir(parents=True, exist_ok=True)
        kit.write_document(file, {"format": FORMAT, "files": files})
    listed = kit.read_document(file, FORMAT)["files"]
    return {name: tuple(facts) for name, facts in listed.items() if ".." not in name}


def _wanted(listed: Mapping[str, tuple[str, int]], inside: str) -> dict[str, tuple[str, int]]:
    below = {n: f for n, f in listed.items() if n.startswith(f"{inside}/" if inside else "")}
    for sort in SORTS:
        if found := {name: below[name] for name in sorted(below) if name.lower().endswith(sort)}:
            return found
    return {}


def _fetch(hub: Any, commit: str, wanted: Mapping[str, tuple[str, int]], folder: Path) -> None:
    """Bring the files that are not there yet; each appears whole and verified, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with kit.locked(folder, lambda: kit.say(f"{hub.reference}: another process fetches it")):
        missing = {
            name: (digest, size)
            for name, (digest, size) in wanted.items()
            if not (folder / name).is_file() or (folder / name).stat().st_size != size
        }
        total = sum(size for _, size in missing.values())
        with kit.progress(f"fetching {hub.reference}", total) as advance:
            for name, (digest, size) in missing.items():
                with kit.temporary_folder(folder) as temporary:
                    fetched = hub.fetch(commit, name, temporary, size)
                    if _digest(fetched, len(digest)) != digest:
                        what = f"{name} of {hub.reference} is damaged: its digest is another one"
                        raise zoo.DataError(what, "try again later")
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    fetched.replace(folder / name)
                advance(size)


def _digest(file: Path, digits: int) -> str:
    """SHA-256 of a large file; of others Git's, which has 40 digits."""
    if digits != 40:
        return kit.file_digest(file)
    data = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
