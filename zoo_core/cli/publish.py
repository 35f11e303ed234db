"""zoo publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.output import complete_runs, note, print_json, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.spec.plugins import load_plugins

if TYPE_CHECKING:
    from zoo_core.publish.publish import Publication
    from zoo_core.runs.run import Run


@click.command(
    epilog="""\b
Examples:
  zoo publish latest --to hf:org/name --dry-run
  zoo publish latest --to hf:org/name --license mit
  zoo publish runs/cnn-... --to file:/shared/weights/cnn --tag ours
  zoo publish latest --to package:zoo-mixer/zoo_mixer --dtype float16
  zoo publish --all --to hf:org --plugin mixer
"""
)
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option(
    "--to",
    required=True,
    help="hf:ORG/NAME, file:FOLDER for a disk that you share, "
    "or package:FOLDER to ship them with a plugin. With --all hf:ORG or file:FOLDER.",
)
@click.option("--all", "everything", is_flag=True,
              help="All weights that plugins bring along, a repository each.")  # fmt: skip
@click.option("--plugin", "plugins", multiple=True,
              help="With --all: those of this plugin; may be repeated.")  # fmt: skip
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
    run: str | None, to: str, everything: bool, plugins: tuple[str, ...], tag: str, license: str,
    full: bool, private: bool, message: str, dtype: str, dry_run: bool, runs: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Publish the weights of a run, with a card.

    RUN is a path, a name in the runs folder, or latest. What was published is pulled again, checked
    and compared with the run before it is listed in your manifest.
    """
    from zoo_core.publish.publish import plan
    from zoo_core.runs.run import find_run

    packaged = to.startswith("package:")
    if bool(run) == everything:
        raise click.UsageError("name one run, or --all for what plugins bring along")
    if plugins and not everything:
        raise click.UsageError("--plugin is for --all only")
    if everything:
        if tag or license or full or packaged or dtype != "float32":
            raise click.UsageError(
                "--tag, --license, --full, --dtype and package: are for a run; "
                "--all publishes what plugins bring along as it is"
            )
        _publish_all(to, plugins, message, private, dry_run, as_json)
        return
    assert run is not None
    if packaged:
        if dry_run or private or message or full:
            raise click.UsageError(
                "--dry-run, --full, --private and --message are for repositories"
            )
        chosen = find_run(run, runs, trained=True)
        _ship(chosen, Path(to.removeprefix("package:")), tag, license, dtype, as_json)
        return
    if dtype != "float32":
        raise click.UsageError("--dtype is for package: only")
    planned = plan(find_run(run, runs, trained=True), to, tag=tag, license=license, full=full)
    if dry_run:
        _show(planned, as_json)
        return
    done = _publish_one(planned, message, private)
    if as_json:
        print_json(done)
        return
    note("Published, pulled again and checked." if done["new"] else "The same bytes were there.")
    if done["replaced"]:
        note(f"{done['name']} meant {done['replaced']} before; --tag would give another name.")
    click.echo(f"{done['name']}  {done['source']}")


def _publish_one(planned: Publication, message: str, private: bool) -> dict[str, Any]:
    from zoo_core.publish.publish import publish

    done = publish(planned, message=message, private=private)
    return {
        "name": done.weights.name,
        "source": f"{done.repository.reference}@{done.revision}",
        "revision": done.revision,
        "new": done.new,
        "sha256": done.weights.sha256,
        "replaced": done.replaced or None,
    }


def _show(planned: Publication, as_json: bool) -> None:
    from zoo_core.weights.repository import CARD, CONFIG, MODEL

    to = planned.repository.reference
    files = {
        CONFIG: len(planned.config), MODEL: planned.weights.bytes, CARD: len(planned.card.encode()),
    }  # fmt: skip
    if as_json:
        print_json({"to": to, "name": planned.weights.name, "files": files,
                    "card": planned.card})  # fmt: skip
        return
    note(f"This would be published as {planned.weights.name} to {to}:")
    print_table(["file", "#size"], [[name, size(bytes_)] for name, bytes_ in files.items()])
    click.echo(f"\n{planned.card}")


def _ship(run: Run, package: Path, tag: str, license: str, dtype: str, as_json: bool) -> None:
    from zoo_core.publish.publish import MANIFEST, ship

    shipped = ship(run, package, tag=tag, license=license, dtype=dtype)
    if as_json:
        print_json({"name": shipped.name, "file": shipped.file, "bytes": shipped.bytes,
                    "sha256": shipped.sha256, "metrics": shipped.metrics})  # fmt: skip
        return
    click.echo(f"{shipped.name}  {shipped.file}, {size(shipped.bytes)}")
    hint = f"{package.name}:{MANIFEST}"
    if not any(hint in record.manifests for record in load_plugins().records):
        note(f'The plugin does not list them yet: let its zoo_manifests return ["{hint}"].')


def _publish_all(
    to: str, plugins: tuple[str, ...], message: str, private: bool, dry_run: bool, as_json: bool
) -> None:
    from zoo_core.publish.publish import plan_shipped, shipped

    listed = shipped(plugins)
    if not listed:
        which = f"none of the plugins {', '.join(plugins)}" if plugins else "no installed plugin"
        able = sorted({one.plugin for one in shipped()})
        raise UsageError(
            f"{which} brings weights along", f"these do: {', '.join(able)}" if able else ""
        )
    plans = [plan_shipped(one, to) for one in listed]  # all of them before anything is sent
    done: list[dict[str, Any]] = []
    for number, planned in enumerate(plans, 1):
        if dry_run:
            done.append({"name": planned.weights.name, "to": planned.repository.reference,
                         "bytes": planned.weights.bytes})  # fmt: skip
            continue
        note(f"{number} of {len(plans)}: {planned.weights.name} to {planned.repository.reference}")
        try:
            done.append(_publish_one(planned, message, private))
        except (ZooError, KeyboardInterrupt) as error:
            hint = f"{number - 1} of {len(plans)} are published; the same command goes on"
            if isinstance(error, KeyboardInterrupt):
                note(f"\n{hint}")
                raise
            raise type(error)(
                str(error), f"{error.hint}; {hint}" if error.hint else hint
            ) from error
    if as_json:
        print_json(done)
    elif dry_run:
        note("This would be published:")
        print_table(["name", "to", "#size"], [[d["name"], d["to"], size(d["bytes"])] for d in done])
    else:
        new = sum(one["new"] for one in done)
        note(f"{new} new, {len(done) - new} were there; all {len(done)} pulled again and checked.")
        print_table(["name", "source"], [[d["name"], d["source"]] for d in done])
