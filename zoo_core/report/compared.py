"""Runs and weights side by side: `zoo compare` and `zoo.compare`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zoo_core.io.console import say
from zoo_core.io.errors import UnknownName, UsageError, ZooError, os_errors
from zoo_core.io.files import free_name
from zoo_core.io.targets import Displayed
from zoo_core.runs.compare import Comparison, Row, row_of, row_of_weights
from zoo_core.runs.compare import compare as grouped
from zoo_core.runs.run import Run, SearchFolder, runs_root
from zoo_core.runs.summary import Summary, intervals_of
from zoo_core.spec.registry import registry
from zoo_core.weights.listing import published
from zoo_core.weights.references import entry_beside, locate


@dataclass(frozen=True)
class Compared(Displayed):
    """Runs in groups whose figures compare, each the best first."""

    groups: list[Comparison]

    _html = "zoo_core.report.notebook:compared_html"

    def write(self, output: str | Path) -> list[Path | None]:
        """Draw the curves of each group; None where a group has none."""
        return [draw(Path(output), number, one) for number, one in enumerate(self.groups, 1)]


def compare(*references: str | Path, runs: Path | None = None) -> Compared:
    """Runs side by side; in a notebook their figures and curves.

        zoo.compare("cnn-cifar10-20261116T101500Z", "latest", "cnn.cifar10").groups[0].rows

    references: runs, sweeps (all their runs), or weights. Of copies of the same weights one is
    compared. `write(path)` of the result draws the curves.
    """
    if not references:
        raise UsageError("name what to compare", "zoo compare cnn mlp; zoo runs lists your runs")
    found = [row for reference in references for row in rows_for(str(reference), runs)]
    every = {row.summary.path: row for row in found}
    rows = different(every.values())
    if len(rows) < 2:
        raise UsageError("a comparison needs two different runs", "zoo runs lists them")
    return Compared(grouped(rows))


def different(rows: Iterable[Row]) -> list[Row]:
    """Rows without copies of the same weights; a run is kept rather than what was made from it."""
    kept: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.run is None):
        first = kept.setdefault(row.sha256 or row.summary.path, row)
        if first is not row:
            names = f"{row.summary.run} has the same weights as {first.summary.run}"
            say(f"Left out: {names}, byte for byte.")
    return list(kept.values())


def rows_for(reference: str, runs: Path | None) -> list[Row]:
    """The rows of what a person named: of a sweep those of its runs, of a repetition each seed."""
    search = SearchFolder.at(reference, runs_root(runs))
    if search and search.read()["plan"]["kind"] == "sweep":
        documents = sorted((search.path / "trials").glob(f"*/{Run.document}"))
        return [row_of(Run(one.parent)) for one in documents]
    row = row_for(reference, runs)
    return [row] if row else []


def row_for(reference: str, runs: Path | None) -> Row | None:
    """A run, or what a manifest says about weights; None: what is there is not a run."""
    weights = published(reference)
    if weights is None and reference.endswith(".safetensors"):
        located = locate(reference)
        if located.run:
            return row_of(Run(located.path.parent))
        weights = entry_beside(located.path)
    if weights is None:
        try:
            return row_of(Run.find(reference, runs))
        except UnknownName:
            raise  # a word that means nothing; a glob gives what is there
        except ZooError as error:
            say(f"Skipped: {error}" + (f"; {error.hint}." if error.hint else "."))
            return None
    figures = {name.partition("_")[2]: value for name, value in weights.metrics.items()}
    try:
        task = registry().models.get(f"{weights.plugin}/{weights.model}").task
    except UnknownName:
        task = weights.model
    sets, accuracy = registry().datasets, figures.get("accuracy")
    images = sets.get(weights.dataset).test_size if weights.dataset in sets else None
    summary = Summary(
        run=weights.name,
        path=weights.sources[0] if weights.sources else weights.sha256,
        status="complete",
        model=weights.model,
        dataset=weights.dataset,
        parameters=weights.parameters,
        bytes=weights.bytes,
        split=next(iter(weights.metrics), "test").partition("_")[0],
        loss=figures.get("loss"),
        accuracy=accuracy,
        images=images,
        intervals=intervals_of(figures, images),
        ranks="accuracy" if accuracy is not None else "",
        merit=accuracy,
        figures={n: v for n, v in figures.items() if n not in ("loss", "accuracy", "top5")},
        task=task,
    )
    return row_of_weights(summary, weights.recipe, weights.config, weights.sha256)


def draw(output: Path, number: int, one: Comparison) -> Path | None:
    """Draw the curves of a group, if there are any, and matplotlib to draw with."""
    drawn = []
    for name, row in zip(one.labels, one.rows, strict=True):
        curves = {m: c for m, c in (row.curves or {}).items() if m != "loss" or not one.unlike}
        if curves:
            one_run, ends = row.summary, row.summary.intervals.get("accuracy")
            drawn.append((name, curves, one_run.seconds, one_run.accuracy, ends))
    every = [set(curves) for _, curves, *_ in drawn]
    always = any({"loss", "accuracy"} & names for names in every)
    if not every or not (always or set.intersection(*every)):
        return None
    try:
        from zoo_core.report.plots import Line, draw_comparison
    except ImportError:
        say("No plot without matplotlib: pip install 'zoo-core[report]'")
        return None
    if number > 1:
        output = free_name(output.with_stem(f"{output.stem}-{number}"))
    with os_errors(f"{output} could not be written"):
        draw_comparison(output, [Line(*given) for given in drawn])
    return output
