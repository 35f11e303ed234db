"""Functions of `zoo`: models by name, training. Those that use a model: use/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.io.errors import UnknownName, UsageError
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import check_options, framework_of
from zoo_core.spec.registry import brought, find_models, registry

if TYPE_CHECKING:
    from zoo_core.report.text import Facts
    from zoo_core.report.write import Report
    from zoo_core.runs.summary import Summary
    from zoo_core.spec.entries import PluginRecord
    from zoo_core.train.runner import Result
    from zoo_core.weights.statements import Statement


def list_models(
    text: str = "", *, kind: str = "", tag: str = "", dataset: str = "", plugin: str = ""
) -> list[str]:
    """Names of the installed models; text is a glob, or a part of name, tag or summary."""
    models = registry().models
    found = find_models(models, text, kind=kind, tag=tag, dataset=dataset, plugin=plugin)
    return [models.label(entry) for entry in found]


def info(name: str) -> ModelEntry:
    """The entry of a model: its options, recipes, parameter count and provider.

    name: a model, or a run or weights, as for `zoo.load`: the entry of their model.
    """
    try:
        return registry().models.get(name)
    except UnknownName as error:
        from zoo_core.weights.references import locate
        from zoo_core.weights.verify import check, model_of

        try:
            located = locate(name)
        except UnknownName:
            raise error from None
        return model_of(located if located.model else check(located).located)[0]


def create(name: str, **options: Any) -> Any:
    """Build an untrained model.

    name: a name of `zoo list`, or `plugin/name`. options: what `zoo info NAME` shows; the rest keep
    their defaults. Nothing is downloaded.
    """
    from zoo_core.weights.manifest import find_model

    entry = find_model(name)
    return framework_of(entry).build(entry, check_options(entry, options))


def train(
    model: str,
    /,  # so that `model={...}` can be given as the model's options
    dataset: Any = "",
    *,
    recipe: str = "",
    settings: Mapping[str, Any] | None = None,
    tune: bool = False,
    device: str = "auto",
    runs: str | Path | None = None,
    quiet: bool = False,
    name: str = "",
    seeds: int = 1,
    **changes: Any,
) -> Result | Any:
    """Train a model and return the result: its run directory, metrics and report.

        result = zoo.train("cnn", epochs=3, lr=1e-3, model={"dropout": 0.3})
        result.accuracy, result.path

    model: a name. dataset: a name, or whatever `zoo.open_dataset` takes: a path, (images, labels),
    a pandas DataFrame, a torch Dataset. recipe: one of the model's; where none is named, `default`,
    or the one for few images.
    changes: fields of the recipe to replace, options of the model among them. settings: the same as
    a mapping. tune: search the learning rate first; what is set here holds for the training with
    the best one too. After Ctrl-C, which raises zoo.Interrupted, `resume` goes on. name: of the
    run's folder; the same call goes on with a run that was stopped, or gives a complete one back.
    seeds: more than 1 trains so often, each time with the next seed, and returns a SearchResult.
    """
    if seeds > 1:
        from zoo_core.spec.settings import choose_recipe, override

        given = {**(settings or {}), **changes}
        first = override(choose_recipe(info(model), recipe or "default"), given).seed
        given.pop("seed", None)
        space = {"seed": list(range(first, first + seeds))}
        search = brought("search", "seeds")
        return search(kind="sweep", model=model, dataset=dataset, recipe=recipe, settings=given,
                      space=space, device=device, runs=runs, quiet=quiet, name=name)  # fmt: skip
    from zoo_core.report.write import write_report
    from zoo_core.train import runner

    how: dict[str, Any] = {"recipe": recipe, "settings": {**(settings or {}), **changes}}
    how |= {"device": device, "runs": Path(runs) if runs else None, "quiet": quiet}
    how |= {"command": "zoo.train(...)", "name": name}
    if tune:
        return brought("tune_and_train", "tune")(model, dataset, **how)
    return runner.train(model, dataset, report=write_report, **how)


def resume(
    run: str | Path = "latest",
    *,
    runs: str | Path | None = None,
    quiet: bool = False,
    dataset: Any = "",
) -> Result | Any:
    """Go on with a run, a search or a sweep that was stopped, to the same end.

    run: a path, a name in the runs folder, or latest: the latest run. A complete one is given back
    as it is. dataset: where the run began with an object in memory, that object.
    """
    from zoo_core.runs.run import SearchFolder, runs_root

    where = Path(runs) if runs else None
    if search := SearchFolder.at(str(run), runs_root(where)):
        return brought("open_search", "a search")(search.path).resume(quiet=quiet)
    from zoo_core.report.write import write_report
    from zoo_core.train import runner

    return runner.resume(str(run), runs=where, quiet=quiet, report=write_report, dataset=dataset)


def reproduce(
    record: str | Path,
    *,
    name: str = "",
    runs: str | Path | None = None,
    device: str = "",
    quiet: bool = False,
    statement: str | Path | None = None,
) -> Statement:
    """Train published weights or a run once more, and compare: what `zoo reproduce` prints.

        zoo.reproduce("mlp.cifar10").verdict     # "bytes" where the same bytes came out

    record: a name of `zoo list --weights`, a run, or a run.json. name: of the new run's folder; the
    same call goes on with one that was stopped. statement: a file to add the result to. What was
    trained with portable=True needs a process that has not imported NumPy yet, as the command has.
    """
    from zoo_core.weights.records import compute_as, read_record

    where = Path(runs) if runs else None
    found = read_record(str(record), where)
    compute_as(found)
    from zoo_core.publish.reproduce import reproduce as again

    return again(
        found, name=name, runs=where, device=device, quiet=quiet, command="zoo.reproduce(...)",
        statement=Path(statement) if statement else None,
    )  # fmt: skip


def plugins() -> Sequence[PluginRecord]:
    """The installed plugins, each with its state and, unless that is ok, the reason."""
    from zoo_core.spec.plugins import load_plugins

    return load_plugins().records


def runs(text: str = "", *, runs: str | Path | None = None) -> list[Summary]:
    """The runs and searches in the runs folder, newest last; text: as for `zoo runs`."""
    from zoo_core.runs.run import runs_and_searches, runs_root
    from zoo_core.runs.summary import matching, summarize_any

    root = runs_root(Path(runs) if runs else None)
    return matching(text, [summarize_any(one) for one in runs_and_searches(root)])


def report(run: str | Path = "latest", *, runs: str | Path | None = None) -> Report:
    """Write the report of a run or a search again; in a notebook it shows its plots.

    run: a path, a name in the runs folder, or latest.
    """
    from zoo_core.runs.run import Run, find_any

    found = find_any(str(run), Path(runs) if runs else None)
    if isinstance(found, Run):
        from zoo_core.report.write import build_report

        return build_report(found)
    written: Report = brought("open_search", "a search")(found.path).report()
    return written


def facts_of(run: str | Path, runs: Path | None = None) -> Facts | Any:
    """What the files of a run or a search say, read once: what its report is made of."""
    from zoo_core.runs.run import Run, find_any

    found = find_any(str(run), runs)
    if isinstance(found, Run):
        from zoo_core.report.write import read_facts

        return read_facts(found)
    return brought("open_search", "a search")(found.path).facts()


def pull(name: str) -> Path:
    """Bring weights to this machine and check them; the file.

    name: a model, model.tag, hf:ORG/NAME[@REVISION] or file:FOLDER.
    """
    from zoo_core.weights.references import obtain

    return obtain(name).located.path


def publish(
    run: str | Path,
    to: str,
    *,
    tag: str = "",
    license: str = "",
    full: bool = False,
    private: bool = False,
    message: str = "",
    dtype: str = "float32",
    dry_run: bool = False,
    runs: str | Path | None = None,
) -> str:
    """Publish the weights of a run, with a card; the name that they have in your manifest.

        zoo.publish("latest", "hf:org/name", license="mit")

    to: hf:ORG/NAME, file:FOLDER, or package:FOLDER to ship them with a plugin, which alone can have
    another dtype. full: with the frozen backbone inside. The weights are pulled again and checked.
    dry_run: check the weights and what would be written, and publish nothing.
    """
    from zoo_core.publish import publish as publishing
    from zoo_core.runs.run import Run

    chosen = Run.find_trained(str(run), Path(runs) if runs else None)
    if to.startswith("package:"):
        if full or private or message or dry_run:
            raise UsageError("full, private, message and dry_run are for repositories")
        folder = Path(to.removeprefix("package:"))
        return publishing.ship(chosen, folder, tag=tag, license=license, dtype=dtype).name
    if dtype != "float32":
        raise UsageError("dtype is for package: only")
    planned = publishing.plan(chosen, to, tag=tag, license=license, full=full)
    if not dry_run:
        planned = publishing.publish(planned, message=message, private=private)
    return planned.weights.name


def publish_all(
    to: str,
    *,
    plugins: Sequence[str] = (),
    private: bool = False,
    message: str = "",
    dry_run: bool = False,
) -> list[str]:
    """Publish the weights that plugins ship, as they are; their names in your manifest.

    to: hf:ORG or file:FOLDER, where each gets a repository. plugins: these; () means all. The same
    call continues after a failure.
    """
    from zoo_core.publish import publish as publishing

    plans = [publishing.plan_shipped(one, to) for one in publishing.shipped(tuple(plugins))]
    if not plans:
        raise UsageError("none of these plugins ships weights", "zoo.list_weights() has them all")
    if not dry_run:
        plans = [publishing.publish(one, message=message, private=private) for one in plans]
    return [one.weights.name for one in plans]
