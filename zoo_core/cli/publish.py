"""zoo publish: the weights of a run, or those that plugins ship."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import complete_runs, runs_option
from zoo_core.cli.output import Answer, command, echo, note, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.publish import publish as publishing
from zoo_core.runs.run import Run
from zoo_core.spec.plugins import load_plugins
from zoo_core.weights.repository import CARD, CONFIG, MODEL


@command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--to", required=True,
              help="hf:ORG/NAME, file:FOLDER for a disk that you share, or package:FOLDER to ship "
              "them with a plugin. With --all hf:ORG or file:FOLDER.")  # fmt: skip
@click.option("--all", "everything", is_flag=True,
              help="All weights that plugins ship, each to its own repository.")  # fmt: skip
@click.option("--plugin", "plugins", multiple=True,
              help="With --all: those of this plugin; may be repeated.")  # fmt: skip
@click.option("--tag", default="", help="The part after the dot of model.tag (default: dataset).")
@click.option("--license", default="", help="License of the weights, for example mit.")
@click.option("--full", is_flag=True,
              help="Publish the frozen backbone too, not only its digest.")  # fmt: skip
@click.option("--private", is_flag=True, help="If the repository is new, make it a private one.")
@click.option("--message", default="", help="Message of the commit.")
@click.option("--dtype", type=click.Choice(["float32", "float16"]), default="float32",
              help="Dtype of the file (only with package:); measures figures again.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the files and the card; publish nothing.")
@runs_option
def publish_command(
    run: str | None, to: str, everything: bool, plugins: tuple[str, ...], tag: str, license: str,
    full: bool, private: bool, message: str, dtype: str, dry_run: bool, runs: Path | None,
) -> Answer:  # fmt: skip
    """Publish the weights of a run, with a card.

    RUN is a path, a name in the runs folder, or latest. The command pulls the published weights
    again and compares them with the run. Then it lists them in your manifest.

    Examples:
      zoo publish latest --to hf:org/name --license mit --dry-run
      zoo publish runs/cnn-... --to file:/shared/weights/cnn --tag ours
      zoo publish latest --to package:zoo-mixer/zoo_mixer --dtype float16
      zoo publish --all --to hf:org --plugin mixer
    """
    packaged = to.startswith("package:")
    if bool(run) == everything:
        raise click.UsageError("name one run, or --all for the weights that plugins ship")
    if plugins and not everything:
        raise click.UsageError("--plugin is for --all only")
    if everything and (tag or license or full or packaged or dtype != "float32"):
        raise click.UsageError(
            "--tag, --license, --full, --dtype and package: are for a run; "
            "--all publishes the weights that plugins ship as they are"
        )
    if packaged and (dry_run or private or message or full):
        raise click.UsageError("--dry-run, --full, --private and --message are for repositories")
    if dtype != "float32" and not packaged:
        raise click.UsageError("--dtype is for package: only")
    how = {"message": message, "private": private}
    if not run:
        return publish_all(to, plugins, dry_run, how)
    chosen = Run.find_trained(run, runs)
    if packaged:
        package = Path(to.removeprefix("package:"))
        return ship_run(chosen, package, tag=tag, license=license, dtype=dtype)
    planned = publishing.plan(chosen, to, tag=tag, license=license, full=full)
    if dry_run:
        return preview(planned)
    done = published(planned, how)

    def show() -> None:
        new = "Published, pulled again and checked."
        note(new if done["new"] else "The same bytes were there.")
        if done["replaced"]:
            what = f"{done['name']} now replaces {done['replaced']} in your manifest"
            note(f"{what}; use --tag for another name.")
        echo(f"{done['name']}  {done['source']}")

    return Answer(done, show)


def published(planned: publishing.Publication, how: dict[str, Any]) -> dict[str, Any]:
    done = publishing.publish(planned, **how)
    return {
        "name": done.weights.name,
        "source": f"{done.repository.reference}@{done.revision}",
        "revision": done.revision,
        "new": done.new,
        "sha256": done.weights.sha256,
        "replaced": done.replaced or None,
    }


def preview(planned: publishing.Publication) -> Answer:
    """What --dry-run shows: the files and the card."""
    to, name, card = planned.repository.reference, planned.weights.name, planned.card
    files = {CONFIG: len(planned.config), MODEL: planned.weights.bytes, CARD: len(card.encode())}

    def show() -> None:
        note(f"This would be published as {name} to {to}:")
        print_table(["file", "#size"], [[file, size(used)] for file, used in files.items()])
        echo(f"\n{card}")

    return Answer({"to": to, "name": name, "files": files, "card": card}, show)


def ship_run(run: Run, package: Path, **settings: str) -> Answer:
    shipped = publishing.ship(run, package, **settings)

    def show() -> None:
        echo(f"{shipped.name}  {shipped.file}, {size(shipped.bytes)}")
        hint = f"{package.name}:{publishing.MANIFEST}"
        if not any(hint in record.entries("manifests") for record in load_plugins().records):
            note(f'The plugin does not list them yet: let its zoo_manifests return ["{hint}"].')

    names = ("name", "file", "bytes", "sha256", "metrics")
    return Answer({name: getattr(shipped, name) for name in names}, show)


def publish_all(to: str, plugins: tuple[str, ...], dry_run: bool, how: dict[str, Any]) -> Answer:
    listed = publishing.shipped(plugins)
    if not listed:
        which = f"none of the plugins {', '.join(plugins)}" if plugins else "no installed plugin"
        able = ", ".join(sorted({one.plugin for one in publishing.shipped()}))
        raise UsageError(f"{which} ships weights", f"these do: {able}" if able else "")
    plans = [publishing.plan_shipped(one, to) for one in listed]  # all before anything is sent
    if dry_run:
        rows = [(one.weights.name, one.repository.reference, one.weights.bytes) for one in plans]

        def show_plans() -> None:
            note("This would be published:")
            cells = [[name, to, size(used)] for name, to, used in rows]
            print_table(["name", "to", "#size"], cells)

        document = [{"name": name, "to": to, "bytes": used} for name, to, used in rows]
        return Answer(document, show_plans)
    done: list[dict[str, Any]] = []
    for number, planned in enumerate(plans, 1):
        note(f"{number} of {len(plans)}: {planned.weights.name} to {planned.repository.reference}")
        hint = f"{number - 1} of {len(plans)} are published; run the command again for the rest"
        try:
            done.append(published(planned, how))
        except KeyboardInterrupt:
            note(f"\n{hint}")
            raise
        except ZooError as error:
            hint = f"{error.hint}; {hint}" if error.hint else hint
            raise type(error)(str(error), hint) from error

    def show() -> None:
        new = sum(one["new"] for one in done)
        note(f"{new} new, {len(done) - new} were there; all {len(done)} pulled again and checked.")
        print_table(["name", "source"], done)

    return Answer(done, show)
