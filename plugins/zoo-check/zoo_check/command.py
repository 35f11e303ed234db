"""zoo data check: what `zoo.check_data` finds, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo import kit
from zoo_check.check import DataCheck, check_data

SHOWN = 5  # names of a list, for people; --json has them all


@kit.command(json_help="Print JSON, with all names.")
@kit.dataset_argument
@click.option("-o", "--output", type=kit.PATH, help="A folder for sheets of the odd images.")
@kit.set_option("An option of the dataset, such as image_size=64.", "OPTION=VALUE")
def check_command(name: str, output: Path | None, assignments: tuple[str, ...]) -> kit.Answer:
    """Look for broken images, copies, labels that differ, and training images among test images.

    Exits with 1 if there are problems, with 0 if there are only remarks.

    Example:
      zoo data check ./my_images -o odd     with sheets of duplicates, small and cropped images
    """
    found = check_data(name, kit.data_options(assignments), sheets=output)
    remarks = [f"Wrote {path}" for path in found.sheets]
    document, failed = found.to_dict(), not found.ok
    return kit.Answer(document, lambda: show(found), failed=failed, remarks=remarks)


def show(found: DataCheck) -> None:
    facts, total = found.facts, sum(found.images.values())
    sizes = ["{} {} x {}".format(name, *size) for name, size in facts["sizes"].items()]
    lost = [f"{share:.0%}" for share in facts["crop_loses"].values()]
    kit.print_fields(
        {
            "dataset": found.name,
            "images": ", ".join(f"{n:,} {part}" for part, n in found.images.items()),
            "labels": found.targets,
            "sizes": ", ".join(sizes),
            "crop loses": " of an image on average, ".join(lost) + " at most" * bool(lost),
            "formats": ", ".join(f"{n:,} {name}" for name, n in facts["formats"].items()),
            "colour": f"{total - facts['grey']:,} in colour, {facts['grey']:,} grey",
        }
    )
    rows = [[name, *map(_told, parts.values())] for name, parts in facts["labels"].items()]
    if rows:
        kit.echo()
        kit.print_table(["label", *(f"#{part}" for part in found.images)], rows)
    for one in found.odd:
        word = click.style("Problem" if one.problem else "Remark", bold=True)
        kit.echo(f"\n{word}: {one.what}{one.to_do and f'; {one.to_do}'}")
        for images in one.images[:SHOWN]:
            kit.echo(f"  {_told(images)}")
        if (more := len(one.images) - SHOWN) > 0:
            kit.echo(f"  ... and {more:,} more")


def _told(found: Any) -> str:
    """What a line has room for: a number, several, a name, the reason for one, alike names."""
    if isinstance(found, tuple):
        return str(found[1])
    if isinstance(found, list):
        few = [f"{one:g}" if isinstance(one, float) else one for one in found[:SHOWN]]
        return ", ".join(few) + (" ..." if len(found) > SHOWN else "")
    return f"{found:,}" if isinstance(found, int) else str(found)
