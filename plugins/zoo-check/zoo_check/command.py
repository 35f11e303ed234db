"""zoo data check: what `zoo.check_data` and `zoo.check_labels` find, for people."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from zoo import kit
from zoo_check.check import DataCheck, check_data

SHOWN = 5  # names of a list, for people; --json has them all
SUSPECTS = 20  # rows of their table


@kit.command(json_help="Print JSON, with all names.")
@kit.dataset_argument
@click.option("-o", "--output", type=kit.PATH,
              help="A folder for sheets of the odd images, and for corrections.")  # fmt: skip
@click.option("--labels", is_flag=True, help="Also look for labels that are probably wrong.")
@click.option("--model", "models", multiple=True,
              help="Who judges the labels; may be repeated.")  # fmt: skip
@kit.set_option("An option of the dataset, such as image_size=64.", "OPTION=VALUE")
def check_command(
    name: str, output: Path | None, labels: bool, models: tuple[str, ...],
    assignments: tuple[str, ...],
) -> kit.Answer:  # fmt: skip
    """Look for broken images, copies, labels that differ, and training images among test images.

    Exits with 1 if there are problems, with 0 if there are only remarks. With --labels, models
    that learned from the other images judge each label: heads on a frozen backbone, the nearest
    images, and a small network. Their suspects are remarks. With -o, the file corrections.csv
    has a row for each of them: edit it, then train with --set data.corrections=FILE.

    Examples:
      zoo data check ./my_images -o odd             with sheets of copies, small images, ...
      zoo data check ./my_images --labels -o odd    with suspects, and odd/corrections.csv
    """
    options = kit.data_options(assignments)
    found = check_data(name, options, sheets=output)
    remarks, document = [f"Wrote {path}" for path in found.sheets], found.to_dict()
    judged = None
    if labels or models:
        from zoo_check.labels import check_labels

        judged = check_labels(name, options, models=models, output=output)
        remarks += [f"Wrote {path}" for path in judged.sheets]
        document["label_check"] = judged.to_dict()
        if judged.corrections:
            remarks.append(f"Wrote {judged.corrections}. Look through it, then apply it:")
            how = f"--set data.corrections={shlex.quote(str(judged.corrections))}"
            remarks.append(f"  zoo train MODEL --dataset {shlex.quote(name)} {how}")

    def show() -> None:
        show_data(found)
        if judged:
            show_labels(judged)

    return kit.Answer(document, show, failed=not found.ok, remarks=remarks)


def show_data(found: DataCheck) -> None:
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
        word = "Problem" if one.problem else "Remark"
        _list(word, f"{one.what}{one.to_do and f'; {one.to_do}'}", map(_told, one.images))


def show_labels(judged: Any) -> None:
    kit.echo()
    columns = ["judge", "#right", "#weight"]
    rows = [[one.name, f"{one.accuracy:.1%}", f"{one.weight:.2f}"] for one in judged.members]
    kit.print_table(columns, rows)
    suspects = judged.suspects
    what = f"{len(suspects):,} of {judged.images:,} labels are probably wrong"
    _list("Remark", what + "; look at them" * bool(suspects), ())
    if suspects:
        few = [
            [one.image, one.split, f"{one.score:.0%}", one.label, f"{one.own:.1%}", one.thought,
             f"{one.other:.1%}", f"{one.agree} of {len(judged.members)}"]
            for one in suspects[:SUSPECTS]
        ]  # fmt: skip
        kit.print_table(
            ["image", "split", "#doubt", "label", "#own", "perhaps", "#other", "agree"], few
        )
    if (more := len(suspects) - SUSPECTS) > 0:
        kit.echo(f"... and {more:,} more")
    for what, names in (
        ("groups of images with nearly the same features", [_told([*g]) for g in judged.copies]),
        ("images unlike all others", [name for name, _ in judged.outliers]),
        ("pairs of classes that overlap: images of one are thought to be of the other",
         [f"{one} and {other}: {share:.0%}" for one, other, share in judged.overlaps]),
    ):  # fmt: skip
        if names:
            _list("Remark", f"{len(names):,} {what}", names)


def _list(word: str, what: str, lines: Any) -> None:
    kit.echo(f"\n{click.style(word, bold=True)}: {what}")
    lines = [*lines]
    for line in lines[:SHOWN]:
        kit.echo(f"  {line}")
    if (more := len(lines) - SHOWN) > 0:
        kit.echo(f"  ... and {more:,} more")


def _told(found: Any) -> str:
    """What a line has room for: a number, several, a name, the reason for one, alike names."""
    if isinstance(found, tuple):
        return str(found[1])
    if isinstance(found, list):
        few = [f"{one:g}" if isinstance(one, float) else one for one in found[:SHOWN]]
        return ", ".join(few) + (" ..." if len(found) > SHOWN else "")
    return f"{found:,}" if isinstance(found, int) else str(found)
