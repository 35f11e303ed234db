"""What a person sees of a search: a line for each trial, bars for the running one.

The report of a search or a sweep: report.md, pictures/, and best.toml.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo_core.io.console import duration, percent
from zoo_core.io.errors import ZooError
from zoo_core.io.files import atomic_write
from zoo_core.report.text import plain, table
from zoo_core.runs.summary import curves_of, number
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import SECTIONS, as_typed
from zoo_core.train.display import Bars, Display, open_display
from zoo_core.tune.plan import SearchPlan, axes_of
from zoo_core.tune.search import Search
from zoo_core.tune.searcher import Trial, best_of


class TrialBars(Bars):
    """The bars of one run, and one for the search; epochs leave no lines."""

    def __init__(self, done: int, trials: int) -> None:
        super().__init__()
        self.done, self.trials = done, trials

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        super().start(epochs, steps, first_epoch, first_step)
        title = f"trial {self.done + 1} of {self.trials}"
        self._bars.add_task(title, total=self.trials, completed=self.done, note="")

    def epoch(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass


class SearchDisplay:
    def __init__(self, plan: SearchPlan, quiet: bool) -> None:
        self.plan, self.quiet = plan, quiet
        self._shown = open_display(quiet)
        self._lines = Display(quiet)
        self._done = 0
        self._best = math.inf

    def say(self, sentence: str) -> None:
        self._lines.say(sentence)

    def warn(self, sentence: str) -> None:
        self._lines.warn(sentence)

    def already(self, trials: Iterable[Trial]) -> None:
        """What a resumed search has had before."""
        self._best = min((t.loss for t in trials if t.loss is not None), default=math.inf)

    def of_trial(self) -> Display:
        """For the run itself; several at a time would write over each other."""
        if isinstance(self._shown, Bars) and self.plan.workers == 1:
            return TrialBars(self._done, self.plan.trials)
        return Display(quiet=True)

    def begin(self, number: int) -> None:
        self._done = number - 1

    def end(self, trial: Trial) -> None:
        # A sweep is judged by its accuracies, and all together.
        better = self.plan.kind == "tune" and (trial.loss or math.inf) < self._best
        self._best = min(self._best, trial.loss or math.inf)
        width = len(str(self.plan.trials))
        word = "run" if self.plan.kind == "sweep" else "trial"
        self.say(
            f"{word} {trial.number:>{width}}/{self.plan.trials}  {settings_text(trial.parameters)}"
            f"  {trial_outcome(trial)}{'  best so far' if better else ''}"
        )


def settings_text(parameters: Mapping[str, Any]) -> str:
    """`lr=0.00123 model.dropout=0.3`."""
    return " ".join(f"{name}={as_typed(value)}" for name, value in parameters.items())


def trial_outcome(trial: Trial) -> str:
    if trial.loss is None:
        return f"failed: {trial.error}"
    told = f"loss {trial.loss:.4f} at epoch {trial.epoch} of {trial.epochs}"
    return told + (", pruned" if trial.status == "pruned" else "") + f"  {duration(trial.seconds)}"


CHANCE = 1.5  # times a blind guess: a classifier below that has learnt nothing


# ---------------------------------------------------------------- what is said of trials


def ranked(plan: SearchPlan, trials: Sequence[Trial]) -> list[Trial]:
    """The best first; those that failed last."""

    def rank(trial: Trial) -> tuple[bool, float, float, int]:
        accuracy = score(trial) if plan.kind == "sweep" else None
        loss = math.inf if trial.loss is None else trial.loss
        return trial.status == "failed", -(accuracy or 0.0), loss, trial.number

    return sorted(trials, key=rank)


def best_trial(plan: SearchPlan, trials: Sequence[Trial]) -> Trial | None:
    """A search takes the lowest loss, a sweep the highest accuracy where there is one."""
    if plan.kind == "tune":
        return best_of(trials)
    good = [trial for trial in ranked(plan, trials) if trial.status != "failed"]
    return good[0] if good else None


def score(trial: Trial) -> float | None:
    """The accuracy that counts: validation where there is a split for it, otherwise test."""
    last = trial.curve[-1] if trial.curve else {}
    return number(last.get("validation_accuracy", last.get("test_accuracy")))


def collapsed(trial: Trial, classes: int) -> bool:
    """A run that ended, and knows nothing."""
    accuracy = score(trial)
    known = trial.status != "failed" and accuracy is not None and classes > 0
    return known and (accuracy or 0.0) * classes < CHANCE


def table_of(
    plan: SearchPlan, trials: Sequence[Trial], classes: int
) -> tuple[list[str], list[list[object]]]:
    """Titles and rows, best first; titles that begin with # are of numbers."""
    best = best_trial(plan, trials)
    names = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
    rows: list[dict[str, object]] = []
    for trial in ranked(plan, trials):
        last = trial.curve[-1] if trial.curve else {}
        row: dict[str, object] = {"#trial" if plan.kind == "tune" else "#run": trial.number}
        row |= {f"#{name}": as_typed(trial.parameters[name]) for name in names}
        if plan.kind == "tune":
            row |= {
                "#loss": shown(trial.loss),
                "#accuracy": share(_at(trial, "validation_accuracy")),
                "#best epoch": trial.epoch,
                "#epochs": trial.epochs,
                "from": trial.source,
            }
        else:
            row["#epochs"] = trial.epochs
            for split in ("validation", "test"):
                if f"{split}_loss" in last:
                    row[f"#{split} loss"] = shown(last[f"{split}_loss"])
                    row[f"#{split} accuracy"] = share(last.get(f"{split}_accuracy"))
        notes = ["best"] if best is not None and trial.number == best.number else []
        notes += [trial.status] if trial.status == "pruned" else []
        notes += [f"failed: {trial.error}"] if trial.status == "failed" else []
        notes += ["collapsed"] if plan.kind == "sweep" and collapsed(trial, classes) else []
        rows.append(row | {"#time": duration(trial.seconds), "note": ", ".join(notes)})
    titles = list(dict.fromkeys(title for row in rows for title in row))
    titles.sort(key=lambda title: (title == "note", title == "#time"))
    return titles, [[row.get(title) for title in titles] for row in rows]


def _at(trial: Trial, name: str) -> float | None:
    """A figure of the best epoch."""
    lines = [line for line in trial.curve if line["epoch"] == trial.epoch]
    return number(lines[0].get(name)) if lines else None


def shown(loss: float | None) -> str | None:
    return None if number(loss) is None else f"{loss:.4f}"


def share(accuracy: float | None) -> str | None:
    return None if (found := number(accuracy)) is None else percent(found)


def spared(plan: SearchPlan, trials: Sequence[Trial]) -> str:
    """How many epochs pruning saved: nobody knows exactly what was not run."""
    pruned = [trial.epochs for trial in trials if trial.status == "pruned"]
    ended = [trial.epochs for trial in trials if trial.status == "complete"]
    if not pruned:
        return "none"
    most = sum(plan.recipe.epochs - epochs for epochs in pruned)
    if not ended:
        return f"at most {most}"
    usual = sum(ended) / len(ended)
    about = round(sum(max(0.0, usual - epochs) for epochs in pruned))
    return f"about {about}, had they run as long as the others on average; at most {most}"


# ---------------------------------------------------------------- files


def write_recipe(search: Search, plan: SearchPlan, recipe: Recipe, best: Trial) -> Path:
    """best.toml: every field, so that it means the same whatever becomes of the model's recipes."""
    values = asdict(recipe)
    lines = [
        f"# The best of {search.name}: {settings_text(best.parameters)}",
        "# zoo train --config best.toml",
        "",
        *(f"{name} = {toml(value)}" for name, value in values.items() if name not in SECTIONS),
    ]
    tables = {name: values[name] for name in SECTIONS} | {
        "run": {"model": plan.model, "dataset": plan.dataset, "recipe": plan.recipe_name}
    }
    for name, options in tables.items():
        if options:
            lines += ["", f"[{name}]"]
            # TOML has no word for nothing; an option that is None is one that nobody has set.
            lines += [f"{key} = {toml(v)}" for key, v in options.items() if v is not None]
    with atomic_write(search.best_file) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return search.best_file


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, true and false are alike


def write_search_report(search: Search) -> Path:
    """report.md and pictures/, from the files of the search."""
    plan, document = search.plan(), search.read()
    trials = list(search.trials().values())
    best = best_trial(plan, trials)
    classes = document["dataset"].get("classes") or 0
    try:
        pictures = draw(search, plan, trials, classes) if best else []
        text = markdown(search, plan, document, trials, best, pictures)
        with atomic_write(search.path / "report.md") as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ZooError(f"{search.path} could not be written: {error.strerror}") from error
    return search.path / "report.md"


def markdown(
    search: Search,
    plan: SearchPlan,
    document: Mapping[str, Any],
    trials: Sequence[Trial],
    best: Trial | None,
    pictures: Sequence[str],
) -> str:
    model = plan.model.rpartition("/")[2]
    data = document["dataset"]
    sweep = plan.kind == "sweep"
    found = f": {settings_text(best.parameters)}" if best else ""
    head = f"{'Sweep' if sweep else 'Search'} of {model} on {data['name']}{found}"
    titles, rows = table_of(plan, trials, data.get("classes") or 0)
    cells = [["" if cell is None else plain(str(cell)) for cell in row] for row in rows]
    parts = [
        f"# {plain(head)}",
        f"`{search.name}`, {document.get('created')}: `{document.get('command')}`",
        table(facts(plan, document, trials, best).items()),
        "## Runs" if sweep else "## Trials",
        table(cells, [title.lstrip("#") for title in titles]),
        *(f"![{name.removesuffix('.png')}](pictures/{name})" for name in pictures),
    ]
    if search.best_file.exists():
        parts += [
            "## The best recipe",
            "In this folder, `zoo train --config best.toml` trains it.",
            f"```toml\n{search.best_file.read_text(encoding='utf-8').rstrip()}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def facts(
    plan: SearchPlan,
    document: Mapping[str, Any],
    trials: Sequence[Trial],
    best: Trial | None,
) -> dict[str, str]:
    """The figures that people look for first."""
    data, sources = document["dataset"], Counter(trial.source for trial in trials)
    states = Counter(trial.status for trial in trials)
    told: dict[str, str] = {}
    if best is not None:
        told["best"] = f"{settings_text(best.parameters)} (number {best.number})"
        if plan.kind == "tune":
            told["best validation loss"] = f"{best.loss:.4f} in epoch {best.epoch}"
    if result := document.get("result"):
        told["trained on everything"] = f"{document['trained']}: " + ", ".join(
            f"test {name} {percent(value) if name == 'accuracy' else format(value, '.4f')}"
            for name, value in result.items()
        )
    told |= {
        "pictures": f"{data['train']:,} for training, {data['validation']:,} for validation",
        "recipe": f"{plan.recipe_name}" + (f", preset {plan.preset}" if plan.preset else ""),
        "space": ", ".join(f"`{shortened(text)}`" for text in plan.space),
        "trials": f"{len(trials)} of {plan.trials}: "
        + ", ".join(f"{count} {source}" for source, count in sources.items()),
    }
    if states["failed"]:
        told["failed"] = str(states["failed"])
    if plan.prune:
        told["pruned"] = f"{states['pruned']}; epochs spared: {spared(plan, trials)}"
    told["epochs"] = f"{sum(trial.epochs for trial in trials)} in all trials"
    told["time"] = f"{duration(sum(trial.seconds for trial in trials))} of training"
    if plan.workers > 1 or plan.engine != "local":
        told["workers"] = f"{plan.workers}, {plan.engine}"
    return told


def draw(search: Search, plan: SearchPlan, trials: Sequence[Trial], classes: int) -> list[str]:
    try:
        from zoo_core.report.comparison import Line, draw_comparison
        from zoo_core.tune import plots as pictures
    except ImportError:
        return []
    folder = search.path / "pictures"
    axes = axes_of(plan, registry().models.get(plan.model))
    model = plan.model.rpartition("/")[2]
    title = f"{model}: {len(trials)} {'runs' if plan.kind == 'sweep' else 'trials'}"
    if plan.kind == "tune":
        pictures.draw_trials(folder / "trials.png", axes, trials, title)
        pictures.draw_trial_curves(folder / "curves.png", trials, f"{title}, validation loss")
        return ["trials.png", "curves.png"]
    drawn = []
    if any(score(trial) is not None for trial in trials):
        split = "validation" if "validation_accuracy" in _last(trials) else "test"
        runs = [
            pictures.Swept(
                trial.parameters,
                None if trial.status == "failed" else score(trial),
                collapsed(trial, classes),
            )
            for trial in trials
        ]
        y = f"{split} accuracy at the end"
        chance = 1 / classes if classes else 0.0
        pictures.draw_sweep(folder / "axes.png", axes, runs, title, chance, y)
        drawn.append("axes.png")
    lines = [
        Line(
            " ".join(as_typed(value) for value in trial.parameters.values()),
            curves_of(trial.curve), trial.seconds, score(trial),
        )
        for trial in ranked(plan, trials)
        if trial.curve
    ]  # fmt: skip
    if lines:
        draw_comparison(folder / "curves.png", lines)
        drawn.append("curves.png")
    return drawn


def _last(trials: Sequence[Trial]) -> Mapping[str, Any]:
    return next((trial.curve[-1] for trial in trials if trial.curve), {})


def shortened(text: str) -> str:
    """An axis with numbers that a person reads: lr=log:4.54e-05:0.0183."""
    return re.sub(r"\d+\.\d{4,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.3g}", text)
