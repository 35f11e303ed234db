"""What a person sees of a search or a sweep: lines and bars while it works, then its report."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import Piece, Recipe, UsageError
from zoo.kit import (
    ALWAYS,
    FIELDS,
    SECTIONS,
    Bars,
    Display,
    Report,
    as_typed,
    asked,
    atomic_write,
    choose_recipe,
    curves_of,
    duration,
    escaped,
    figure,
    markdown_table,
    named,
    notebook_html,
    number,
    numeric,
    open_bars,
    open_display,
    os_errors,
    spread,
    to_type,
    typed,
    visible,
)
from zoo_tune.search import Search, SearchPlan, Trial, last_scores

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from zoo_tune.tuning import SearchResult

MOST_ROWS = 10  # trials that a notebook shows


class TrialBars(Bars):
    """The bars of one run, and one for the search; epochs leave no lines."""

    def __init__(self, number: int, trials: int) -> None:
        super().__init__(quiet=True, warns=True)
        self.number, self.trials = number, trials

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        super().start(epochs, steps, first_epoch, first_step)
        title = f"trial {self.number} of {self.trials}"
        self._bars.add_task(title, total=self.trials, completed=self.number - 1, note="")


class SearchDisplay(Display):
    """A line for each trial that has ended; on a terminal, bars for those at work."""

    def __init__(self, plan: SearchPlan, quiet: bool) -> None:
        super().__init__(quiet)
        self.plan = plan
        self.draws = isinstance(open_display(quiet), Bars)
        self._bars: Progress | None = None  # of trials in other processes
        self._tasks: dict[int | str, TaskID] = {}

    def of_trial(self, number: int) -> Display:
        """For a run in this process."""
        lines = Display(quiet=True, warns=self.warns)
        return TrialBars(number, self.plan.trials) if self.draws else lines

    def told(self, piece: Piece, line: Mapping[str, Any]) -> None:
        """A trial has ended an epoch; one in this process has bars of its own."""
        if not self.draws or piece.given.display:
            return
        if self._bars is None:
            self._bars = open_bars()
            self._bars.start()
        if piece.key not in self._tasks:
            title, epochs = f"trial {piece.key}", piece.given.recipe.epochs
            self._tasks[piece.key] = self._bars.add_task(title, total=epochs, note="")
        losses = (named(key, line[key]) for key in ("train_loss", "validation_loss") if key in line)
        self._bars.update(self._tasks[piece.key], completed=line["epoch"], note="  ".join(losses))

    def stop(self) -> None:
        if self._bars:
            self._bars.stop()

    def end(self, trial: Trial, trials: Iterable[Trial]) -> None:
        """trials: all that have ended so far, with this one."""
        if self._bars and trial.number in self._tasks:
            self._bars.remove_task(self._tasks.pop(trial.number))
        count = self.plan.trials
        losses = [t.loss for t in trials if t.loss is not None and t is not trial]
        outcome = f"failed: {trial.error}"
        if trial.loss is not None:
            outcome = f"loss {trial.loss:.4f} at epoch {trial.epoch} of {trial.epochs}"
            outcome += ", pruned" if trial.status == "pruned" else ""
            outcome += f"  {duration(trial.seconds)}"
            # A sweep is judged by its accuracies, and all together.
            if self.plan.kind == "tune" and trial.loss < min(losses, default=math.inf):
                outcome += "  best so far"
        word = "run" if self.plan.kind == "sweep" else "trial"
        place = f"{word} {trial.number:>{len(str(count))}}/{count}"
        self.say(f"{place}  {settings_text(trial.parameters)}  {outcome}")


def settings_text(parameters: Mapping[str, Any]) -> str:
    """`lr=0.00123 model.dropout=0.3`."""
    return " ".join(f"{name}={as_typed(value)}" for name, value in parameters.items())


def ranked(plan: SearchPlan, trials: Sequence[Trial]) -> list[Trial]:
    """By loss, of a sweep by accuracy where there is one, of several seeds by their means; those
    that failed last. In their order where nothing is chosen."""

    def rank(trial: Trial) -> tuple[bool, float, float, int]:
        if not plan.chooses:
            return trial.status == "failed", 0.0, 0.0, trial.number
        team = [one for one in trials if settled(one) == settled(trial)]
        accuracy, loss = (
            spread(known).mean if (known := [v for v in values if v is not None]) else None
            for values in ([t.accuracy for t in team], [t.loss for t in team])
        )
        accuracy = accuracy if plan.kind == "sweep" else None
        loss = math.inf if loss is None else loss
        return trial.status == "failed", -(accuracy or 0.0), loss, trial.number

    return sorted(trials, key=rank)


def settled(trial: Trial) -> dict[str, Any]:
    """Its parameters but for the seed."""
    return {name: value for name, value in trial.parameters.items() if name != "seed"}


def best_trial(plan: SearchPlan, trials: Sequence[Trial]) -> Trial | None:
    """None where all failed, or where nothing is chosen."""
    best = ranked(plan, trials)[0]
    return None if best.status == "failed" or not plan.chooses else best


def remarks_of(plan: SearchPlan, trials: Sequence[Trial]) -> list[str]:
    """What several seeds gave, and why nothing is the best."""
    teams: dict[str, list[float]] = {}
    for trial in trials:
        for name in ("test_accuracy", "validation_accuracy", "test_loss", "validation_loss"):
            value = number(trial.curve[-1].get(name)) if trial.curve else None
            if value is not None and trial.status != "failed":
                words = settings_text(settled(trial))
                teams.setdefault(": ".join(filter(None, (words, name))), []).append(value)
                break
    told = []
    for words, values in teams.items():
        before, name = words.rpartition(":")[::2]
        name, over = name.strip(), spread(values)
        if over.interval is None or "seed" not in {axis.name for axis in plan.axes}:
            continue
        centre, least, most, low, high = (
            figure(name, v) for v in (over.mean, over.low, over.high, *over.interval)
        )
        start = f"{before}: " if before else ""
        told.append(
            f"{start}{over.seeds} seeds, mean {name.replace('_', ' ')} {centre} ({least} to {most}"
            f"); 95 % interval of the mean over seeds: {low} to {high}"
        )
    if plan.kind == "sweep" and not plan.repeats and not plan.chooses:
        told.append(
            "No run is named the best: without validation images only the test set could choose. "
            "--set validation_fraction=0.1 keeps some; zoo compare says which runs differ for sure"
        )
    return told


def table_of(
    plan: SearchPlan, trials: Sequence[Trial], classes: int
) -> tuple[list[str], list[list[object]]]:
    """Titles and rows, best first; titles that begin with # are of numbers."""
    best = best_trial(plan, trials)
    rows: list[dict[str, object]] = []
    numbers = {
        axis.name: "#" * numeric(as_typed(trial.parameters[axis.name]) for trial in trials)
        for axis in plan.axes
    }
    for trial in ranked(plan, trials):
        row: dict[str, object] = {"#trial" if plan.kind == "tune" else "#run": trial.number}
        row |= {f"{numbers[name]}{name}": as_typed(v) for name, v in trial.parameters.items()}
        if plan.kind == "tune":
            at_best = next((line for line in trial.curve if line["epoch"] == trial.epoch), {})
            row |= {
                "#loss": _shown("loss", trial.loss),
                "#accuracy": _shown("accuracy", at_best.get("validation_accuracy")),
                "#best epoch": trial.epoch,
                "#epochs": trial.epochs,
                "from": trial.source,
            }
        else:
            row["#epochs"] = trial.epochs
            last = trial.curve[-1] if trial.curve else {}
            for split in ("validation", "test"):
                if f"{split}_loss" in last:
                    for name in ("loss", "accuracy"):
                        row[f"#{split} {name}"] = _shown(name, last.get(f"{split}_{name}"))
        notes = {
            "best": trial is best,
            "pruned": trial.status == "pruned",
            f"failed: {trial.error}": trial.status == "failed",
            "collapsed": plan.kind == "sweep" and trial.collapsed(classes),
        }
        note = ", ".join(word for word, true in notes.items() if true)
        rows.append(row | {"#time": duration(trial.seconds), "note": note})
    # What no trial has, the accuracy of an autoencoder for example, is no column.
    known = ((title, value) for row in rows for title, value in row.items())
    titles = list(dict.fromkeys(title for title, value in known if value is not None))
    titles.sort(key=lambda title: (title == "note", title == "#time"))
    return titles, [[row.get(title) for title in titles] for row in rows]


def _shown(name: str, value: Any) -> str | None:
    return None if number(value) is None else figure(name, value)


def write_recipe(search: Search, plan: SearchPlan, recipe: Recipe, best: Trial) -> None:
    """best.toml: what was found, what else differs from the model's recipe, then that recipe.

    The fields that nobody ever set are left out: in the model's recipe they are those of a plain
    one, and here they are the same.
    """
    values, base = asdict(recipe), asdict(choose_recipe(plan.entry, plan.recipe_name))
    plain = {name: v for name, v in values.items() if name not in SECTIONS}
    found = {name: v for name, v in plain.items() if name in best.parameters}
    changed = {name: v for name, v in plain.items() if v != base[name] and name not in found}
    kept = {name: v for name, v in plain.items() if v == base[name] and name not in found}
    kept = {name: v for name, v in kept.items() if name in (*ALWAYS, "seed") or v != FIELDS[name]}
    lines = [
        f"# The best of {search.name}: {settings_text(best.parameters)}",
        f"# {_config(search)}",
    ]
    for title, fields in (
        ("Found by the search", found),
        ("Set for the search, or to train on everything", changed),
        (f"As in the recipe {plan.recipe_name}; all other fields have their defaults", kept),
    ):
        if fields:
            lines += ["", f"# {title}:"]
            lines += [f"{name} = {_toml(value)}" for name, value in fields.items()]
    tables = {name: values[name] for name in SECTIONS} | {
        "run": {"model": plan.model, "dataset": plan.dataset, "recipe": plan.recipe_name}
    }
    for name, options in tables.items():
        if options:
            lines += ["", f"[{name}]"]
            # TOML has no word for nothing; an option that is None is one that nobody has set.
            lines += [f"{key} = {_toml(v)}" for key, v in options.items() if v is not None]
    with atomic_write(search.best_file) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _config(search: Search) -> str:
    """The command that trains the best."""
    return typed("zoo train --config", search.best_file)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, true and false are alike


@dataclass(frozen=True)
class SearchFacts:
    """All that the files of a search say."""

    search: Search
    plan: SearchPlan
    document: Mapping[str, Any]  # search.json
    trials: Sequence[Trial]
    best: Trial | None

    @property
    def title(self) -> str:
        kind = "Sweep" if self.plan.kind == "sweep" else "Search"
        head = f"{kind} of {self.plan.entry.name} on {self.document['dataset']['name']}"
        return head + (f": {settings_text(self.best.parameters)}" if self.best else "")

    @property
    def figures(self) -> dict[str, str]:
        return _facts(self.plan, self.document, self.trials, self.best)

    @property
    def table(self) -> tuple[list[str], list[list[object]]]:
        """Titles and rows, as table_of gives them."""
        return table_of(self.plan, self.trials, self.document["dataset"]["classes"])

    @property
    def remarks(self) -> list[str]:
        return remarks_of(self.plan, self.trials)

    @property
    def recipe(self) -> str:
        """That of the best, as TOML; "" where there is none."""
        best = self.search.best_file
        return best.read_text(encoding="utf-8").rstrip() if best.exists() else ""

    @property
    def train(self) -> str:
        """The command that trains the best."""
        return _config(self.search)


def read_search(search: Search) -> SearchFacts:
    """The files of a search, finished or not, once a trial has ended."""
    document, trials, plan = search.read(), [*search.trials().values()], search.plan()
    if not trials:
        hint = typed(f"zoo {plan.kind} --resume", search.path) + " continues it"
        raise UsageError(f"no trial of {search.path} has ended yet", hint)
    return SearchFacts(search, plan, document, trials, best_trial(plan, trials))


def write_search_report(search: Search) -> Report:
    """report.md and pictures/, from the files of the search, finished or not."""
    facts, path = read_search(search), search.path / "report.md"
    document, them = facts.document, "Runs" if facts.plan.kind == "sweep" else "Trials"
    titles, rows = facts.table
    cells = [["" if cell is None else escaped(str(cell)) for cell in row] for row in rows]
    status = document["status"]
    unfinished = [] if status == "complete" else [f"**Not finished**: {status}."]
    recipe: list[str] = []
    if text := facts.recipe:
        train = to_type(search.path, facts.train)
        recipe = ["## The best recipe", *train, f"```toml\n{text}\n```"]
    with os_errors(f"{search.path} could not be written"):
        classes = document["dataset"]["classes"]
        plots = _draw(search.path / "pictures", facts.plan, facts.trials, classes)
        parts = [
            f"# {escaped(facts.title)}",
            f"`{search.name}`, {document.get('created')}: `{document.get('command')}`",
            *unfinished,
            markdown_table(facts.figures.items()),
            *(escaped(f"{remark}.") for remark in facts.remarks),
            f"## {them}",
            markdown_table(cells, titles),
            *(f"![{name.removesuffix('.png')}](pictures/{name})" for name in plots),
            *recipe,
        ]
        with atomic_write(path) as temporary:
            temporary.write_text(visible("\n\n".join(parts) + "\n"), encoding="utf-8")
    return Report(path, [search.path / "pictures" / name for name in plots], [])


def _facts(
    plan: SearchPlan, document: Mapping[str, Any], trials: Sequence[Trial], best: Trial | None
) -> dict[str, str]:
    """The figures that people look for first."""
    data, result = document["dataset"], document.get("result") or {}
    states = Counter(trial.status for trial in trials)
    sources = Counter(trial.source for trial in trials).items()
    scores = ", ".join(f"test {name} {figure(name, value)}" for name, value in result.items())
    # With numbers that a person reads: lr=log:4.54e-05:0.0183.
    digits, short = r"\d+\.\d{4,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.3g}"
    told = {
        "best": best and f"{settings_text(best.parameters)} (number {best.number})",
        "best validation loss": plan.kind == "tune"
        and best
        and best.loss is not None
        and f"{best.loss:.4f} in epoch {best.epoch}",
        "trained": scores and f"{document['trained']}: {scores}",
        "images": f"{data['train']:,} for training, {data['validation']:,} for validation",
        "recipe": f"{plan.recipe_name}" + (f", preset {plan.preset}" if plan.preset else ""),
        "of the trials alone": settings_text(asked(plan.at)),
        "space": ", ".join(f"`{re.sub(digits, short, text)}`" for text in plan.space),
        "trials": f"{len(trials)} of {plan.trials}: "
        + ", ".join(f"{count} {source}" for source, count in sources),
        "failed": states["failed"] and str(states["failed"]),
        "pruned": plan.prune and f"{states['pruned']}; epochs saved: {_spared(plan, trials)}",
        "epochs": f"{sum(trial.epochs for trial in trials)} in all trials",
        "time": f"{duration(sum(trial.seconds for trial in trials))} of training",
        "workers": (plan.workers > 1 or plan.engine != "local")
        and f"{plan.workers}, {plan.engine}",
    }
    return {name: str(value) for name, value in told.items() if value}


def _spared(plan: SearchPlan, trials: Sequence[Trial]) -> str:
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
    return f"about {about} if they had run as long as the average trial; at most {most}"


def _draw(folder: Path, plan: SearchPlan, trials: Sequence[Trial], classes: int) -> list[str]:
    """Draw what can be drawn of these trials, if there is matplotlib; the names of the files."""
    try:
        from zoo.kit import Line, draw_comparison
        from zoo_tune import drawing
    except ImportError:
        return []
    if all(trial.loss is None for trial in trials):
        return []
    if plan.kind == "tune":
        title = f"{plan.entry.name}: {len(trials)} trials"
        drawing.draw_trials(folder / "trials.png", plan.axes, trials, title)
        drawing.draw_trial_curves(folder / "curves.png", trials, f"{title}, validation loss")
        return ["trials.png", "curves.png"]
    lines = []
    for trial in ranked(plan, trials):
        if trial.curve:
            label = " ".join(map(as_typed, trial.parameters.values()))
            lines.append(Line(label, curves_of(trial.curve), trial.seconds, trial.accuracy))
    draw_comparison(folder / "curves.png", lines)
    if all(trial.accuracy is None for trial in trials):
        return ["curves.png"]
    split = next(last_scores(trial.curve)[0] for trial in trials if trial.curve)
    title, y = f"{plan.entry.name}: {len(trials)} runs", f"{split} accuracy at the end"
    drawing.draw_sweep(folder / "axes.png", plan.axes, trials, title, classes, y)
    return ["axes.png", "curves.png"]


def result_html(result: SearchResult) -> str:
    """For a notebook: the search, and what was trained with its best settings."""
    trained = result.trained._repr_html_() if result.trained else ""
    return search_html(result.search) + (trained or "")


def search_html(search: Search) -> str:
    """For a notebook: the best trials and their plot, as far as the search has come."""
    plan, trials, data = search.plan(), [*search.trials().values()], search.read()["dataset"]
    title = f"{search.path}: {len(trials)} of {plan.trials} trials"
    if not trials:
        return notebook_html(title)
    titles, rows = table_of(plan, trials, data["classes"])
    shown = rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        shown.append([f"and {len(rows) - MOST_ROWS:,} more"])

    def draw(path: Path) -> None:
        (path.parent / _draw(path.parent, plan, trials, data["classes"])[0]).replace(path)

    names = [title.lstrip("#") for title in titles]
    return notebook_html(title, shown, draw, "Settings and losses of all trials", names)
