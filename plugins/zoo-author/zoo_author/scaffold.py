"""`zoo plugin new`: writes a package out of the files in the folder templates."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template

from zoo import UsageError, __version__
from zoo.kit import API, load_plugins, os_errors, temporary_folder

TEMPLATES = Path(__file__).parent / "templates"
NEEDS = {  # what the packages of a sort depend on; the models there train on cifar10
    "model": ("zoo-core[torch]", "zoo-classics"),
    "trainer": ("zoo-core", "zoo-classics"),
}
NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


def write_plugin(name: str, sort: str, parent: Path) -> tuple[Path, list[str]]:
    """Write a package of one sort, a folder of templates; its folder, and the files in it."""
    name = name.removeprefix("zoo-")
    if NAME.fullmatch(name) is None:
        rule = "a lower-case letter, then letters and digits with single - or _ between them"
        raise UsageError(f"{name!r} cannot name a plugin: {rule}", "zoo plugin new mixer")
    words = name.replace("-", "_")
    taken = {"zoo-core", *(record.distribution for record in load_plugins().records)}
    if keyword.iskeyword(words) or f"zoo-{name.replace('_', '-')}" in taken:
        why = "a word of Python" if keyword.iskeyword(words) else f"taken by zoo-{name}"
        raise UsageError(f"{name!r} cannot name a plugin: it is {why}", "choose another name")
    version = ".".join(__version__.split(".")[:2])
    values = {
        "name": words,
        "plugin": name.replace("_", "-"),
        "distribution": f"zoo-{name.replace('_', '-')}",
        "package": f"zoo_{words}",
        "module": words if words not in ("plugin", "trainer") else f"{words}_model",
        "class_name": "".join(word.capitalize() for word in words.split("_")),
        "description": f"{'An image model' if sort == 'model' else f'A {sort}'} for Zoo",
        "dependencies": ", ".join(
            f'"{one}>={version},<1"' for one in NEEDS.get(sort, ("zoo-core",))
        ),
        "api": str(API),
    }
    folder = parent / values["distribution"]
    if folder.exists():
        raise UsageError(f"{folder} exists already; nothing was written", "choose another name")
    files = {}
    for root in (TEMPLATES / "common", TEMPLATES / sort):
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            place = path.relative_to(root).as_posix().removesuffix(".txt").replace("__", "/", 1)
            for word, value in (("PACKAGE", "package"), ("MODULE", "module"), ("NAME", "name")):
                place = place.replace(word, values[value])
            files[place] = Template(path.read_text(encoding="utf-8")).substitute(values)
    with os_errors(f"{folder} could not be written"):
        parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder) as temporary:  # so that half a package is never found
            for place, text in files.items():
                (temporary / "new" / place).parent.mkdir(parents=True, exist_ok=True)
                (temporary / "new" / place).write_text(text, encoding="utf-8")
            (temporary / "new").rename(folder)
    return folder, sorted(files)
