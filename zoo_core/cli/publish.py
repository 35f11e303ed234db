"""zoo publish."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.names import complete_runs
from zoo_core.cli.output import note, print_json, print_table, size


@click.command(
    epilog="""\b
Examples:
  zoo publish latest --to hf:org/name --dry-run
  zoo publish latest --to hf:org/name --license mit
  zoo publish runs/cnn-... --to file:/shared/weights/cnn --tag ours
  zoo publish latest --to package:zoo-mixer/zoo_mixer --dtype float16
"""
)
@click.argument("run", shell_complete=complete_runs)
@click.option(
    "--to",
    required=True,
    help="hf:ORG/NAME, file:FOLDER for a disk that you share, "
    "or package:FOLDER to ship them with a plugin.",
)
@click.option("--tag", default="", help="The part after the dot of model.tag (default: dataset).")
@click.option("--license", default="", help="Of the weights, mit for example.")
@click.option("--full", is_flag=True,
              help="With the frozen backbone inside, not just its digest.")  # fmt: skip
@click.option("--private", is_flag=True, help="If the repository is new, make it a private one.")
@click.option("--message", default="", help="Of the commit.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    help="Of the file, for package: only; figures are measured again.",
)
@click.option("--dry-run", is_flag=True, help="Show the files and the card; publish nothing.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    run: str, to: str, tag: str, license: str, full: bool, private: bool, message: str, dtype: str,
    dry_run: bool, runs: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Publish the weights of a run, with a card.

    RUN is a path, a name in the runs folder, or latest. What was published is pulled again, checked
    and compared with the run before it is listed in your manifest.
    """
    from zoo_core.hub.publish import plan, publish
    from zoo_core.hub.repository import CARD, CONFIG, MODEL
    from zoo_core.hub.ship import ship
    from zoo_core.train.run import find_run

    if to.startswith("package:"):
        if dry_run or private or message or full:
            raise click.UsageError(
                "--dry-run, --full, --private and --message are for repositories"
            )
        shipped = ship(
            find_run(run, runs, trained=True),
            Path(to.removeprefix("package:")),
            tag=tag,
            license=license,
            dtype=dtype,
        )
        if as_json:
            print_json({"name": shipped.name, "file": shipped.file, "bytes": shipped.bytes,
                        "sha256": shipped.sha256, "metrics": shipped.metrics})  # fmt: skip
            return
        click.echo(f"{shipped.name}  {shipped.file}, {size(shipped.bytes)}")
        return
    if dtype != "float32":
        raise click.UsageError("--dtype is for package: only")
    planned = plan(find_run(run, runs, trained=True), to, tag=tag, license=license, full=full)
    files = {
        CONFIG: len(planned.config), MODEL: planned.weights.bytes, CARD: len(planned.card.encode()),
    }  # fmt: skip
    if dry_run:
        if as_json:
            print_json({"to": planned.reference, "name": planned.weights.name, "files": files,
                        "card": planned.card})  # fmt: skip
            return
        note(f"This would be published as {planned.weights.name} to {planned.reference}:")
        print_table(["file", "#size"], [[name, size(bytes_)] for name, bytes_ in files.items()])
        click.echo(f"\n{planned.card}")
        return
    done = publish(planned, message=message, private=private)
    source = done.weights.sources[0]
    if as_json:
        print_json({"name": done.weights.name, "source": source, "revision": done.revision,
                    "new": done.new, "sha256": done.weights.sha256})  # fmt: skip
        return
    note("Published, pulled again and checked." if done.new else "The same bytes were there.")
    click.echo(f"{done.weights.name}  {source}")
