"""The pretrained networks of timm by name; importing timm takes seconds, so the list is kept."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata
from typing import Any

import zoo
from zoo import kit

FORMAT = 1


def networks() -> list[dict[str, Any]]:
    """Of the installed version: a name for `model.backbone`, pixels, the license of the weights."""
    try:
        version = metadata.version("timm")
    except metadata.PackageNotFoundError as error:
        raise zoo.ZooError("timm is not installed", "pip install 'zoo-frozen[timm]'") from error
    path = kit.cache_dir("frozen") / f"timm-{version}.json"
    try:
        rows: list[dict[str, Any]] = kit.read_document(path, FORMAT)["networks"]
        return rows
    except (OSError, KeyError, zoo.ZooError):  # not there yet, or damaged
        pass
    import timm

    configs: dict[str, Any] = {n: timm.get_pretrained_cfg(n) for n in timm.list_pretrained()}
    rows = [
        {"name": name, "pixels": config.input_size[1], "license": config.license}
        for name, config in configs.items()
    ]
    with suppress(OSError):  # a cache that others share may be read-only
        path.parent.mkdir(parents=True, exist_ok=True)
        kit.write_document(path, {"format": FORMAT, "networks": rows})
    return rows
