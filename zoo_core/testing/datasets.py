"""Checks of datasets: what is declared is what the target delivers."""

from __future__ import annotations

from zoo_core.data import checks
from zoo_core.data.datasets import open_dataset
from zoo_core.errors import DataError, UsageError
from zoo_core.registry import registry
from zoo_core.testing.finding import Finding, Skipped


def check_arrays(name: str) -> None:
    """It can be opened: sizes, labels and digests are those of the entry, which has digests."""
    entry = registry().datasets.get(name)
    try:
        data = open_dataset(name)
    except UsageError as error:
        raise Skipped(f"it needs options: {error}") from error
    except DataError as error:
        said = " ".join(str(error).split())
        if "could not be fetched" in said and "not what it should be" not in said:
            raise Skipped(said) from error
        raise Finding(
            said,
            "`zoo train --dataset` stops with that sentence",
            "correct the entry or the target; docs/datasets.md says what it delivers",
        ) from error
    if entry.digests:
        return
    arrays = {
        f"{split}_{what}": getattr(part, what)
        for split, part in (("train", data.train), ("test", data.test))
        if part is not None
        for what in ("images", "labels")
    }
    digests = checks.check_arrays(entry, arrays, {}, declared=False).digests
    digests.pop("classes")  # these are in the entry
    raise Finding(
        f"{name} does not say which bytes it is made of",
        "whoever fetches it next year cannot know whether it is still the same data",
        f"write digests={digests!r} into the entry",
    )
