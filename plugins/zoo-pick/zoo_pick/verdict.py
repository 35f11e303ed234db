"""What a pick found, for people: table, recommendation, plot, recipe, report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo import kit
from zoo_pick.race import Candidate, Race, Record

if TYPE_CHECKING:
    from zoo_pick.pick import Picked

COSTS = {"ms": "milliseconds an image", "mb": "megabytes", "minutes": "minutes of training"}


def ranked(race: Race) -> list[Record]:
    """The best training of each candidate that is not left out, best first."""
    found = [race.best(candidate) for candidate in race.candidates]
    return sorted((r for r in found if r), key=lambda r: (-r.score, r.found["ms"]))


def alike(one: Record, other: Record) -> bool | None:
    """Whether chance may explain the difference; None: nothing says that."""
    bits = [_bits(record) for record in (one, other)]
    if bits[0] is None or bits[1] is None:
        return None
    won, lost = int((bits[0] & ~bits[1]).sum()), int((bits[1] & ~bits[0]).sum())
    return not kit.paired(won, lost, len(bits[0])).significant


def _bits(record: Record) -> np.ndarray | None:
    """For each judge, whether the model was right."""
    text, count = record.found["right"], record.found["judges"]
    if not text:
        return None
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[:count].astype(bool)


def minutes(race: Race, record: Record) -> float:
    """Of the recommended training: on all images, those that judge too."""
    candidate = named(race, record.candidate)
    images = race.images + record.found["judges"]
    return race.seconds(candidate, images, record.epochs, fresh=True) / 60


def named(race: Race, name: str) -> Candidate:
    return next(candidate for candidate in race.candidates if candidate.name == name)


def rows(race: Race) -> list[dict[str, Any]]:
    """What is known of each candidate that has trained, best first."""
    found, best = [], next(iter(ranked(race)), None)
    for record in ranked(race):
        figures, judges = record.found["figures"], record.found["judges"]
        accuracy = figures.get("accuracy")
        found.append(
            {
                "candidate": record.candidate,
                "accuracy": accuracy,
                "interval": None if accuracy is None else [*kit.wilson(accuracy, judges)],
                "loss": figures.get("loss"),
                "ms": record.found["ms"],
                "mb": record.found["bytes"] / 1e6,
                "minutes": minutes(race, record),
                "learn": record.learn,
                "epochs": record.epochs,
                "share": record.share,
                "seconds": record.seconds,
                "alike": best is not None and (record is best or alike(best, record)),
            }
        )
    front = {row["candidate"] for cost in COSTS for row in pareto(found, cost)}
    return [row | {"front": row["candidate"] in front} for row in found]


def error(row: Mapping[str, Any]) -> float:
    """What the plot shows: the share of errors, or the loss."""
    value = row["loss"] if row["accuracy"] is None else 1 - row["accuracy"]
    return float(math.nan if value is None else value)


def pareto(found: Sequence[Mapping[str, Any]], cost: str) -> list[Mapping[str, Any]]:
    """Those of which none is both better and cheaper, cheapest first."""
    front: list[Mapping[str, Any]] = []
    for row in sorted(found, key=lambda row: (row[cost], error(row))):
        if not front or error(row) < error(front[-1]):
            front.append(row)
    return front


def table(race: Race) -> tuple[list[str], list[list[object]]]:
    """Titles and rows; titles that begin with # are of numbers."""
    found = rows(race)
    exact = any(row["accuracy"] is not None for row in found)
    titles = ["model", "#accuracy" if exact else "#loss", "interval", "#ms", "#MB", "#minutes",
              "#images", "#epochs", "note"]  # fmt: skip
    lines = []
    for place, row in enumerate(found):
        value, interval = row["accuracy"], row["interval"]
        shown = f"{value:.2%}" if value is not None else f"{row['loss']:.4f}"
        notes = {
            "recommended": place == 0,
            "not worse for sure": bool(place and row["alike"]),
            f"{row['share']:.0%} of its training": row["share"] < 0.995,
        }
        lines.append(
            [row["candidate"], shown,
             interval and f"{interval[0]:.1%} to {interval[1]:.1%}", f"{row['ms']:.3g}",
             f"{row['mb']:.3g}", f"{row['minutes']:.2g}", f"{row['learn']:,}", row["epochs"],
             ", ".join(word for word, true in notes.items() if true)]
        )  # fmt: skip
    return titles, lines


def line_of(race: Race, record: Record) -> str:
    """One line while the pick goes on."""
    found = record.found
    if record.state != "done":
        return f"{record.candidate}: left out, {record.why}"
    if not record.rung:
        if refused := race.limits.refuses(found):
            return f"{record.candidate}: left out, {refused}"
        whole = race.seconds(named(race, record.candidate), race.images,
                             race.whole(named(race, record.candidate))[0])  # fmt: skip
        return (
            f"{record.candidate}: {found['ms']:.3g} ms an image, {found['bytes'] / 1e6:.3g} MB, "
            f"its training takes about {clock(whole)}"
        )
    accuracy = found["figures"].get("accuracy")
    told = f"loss {found['figures'].get('loss', math.nan):.4f}"
    told = told if accuracy is None else f"{accuracy:.2%}"
    part = "" if record.share >= 0.995 else f", {record.share:.0%} of its training"
    return f"{record.candidate}: {told} in {clock(record.seconds)}{part}"


def clock(seconds: float) -> str:
    """`12 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def recommendation(found: Picked) -> str:
    """Two sentences."""
    every = rows(found.race)
    if not every:
        return "No model could be trained in this time. A larger budget may help."
    best, judges = every[0], found.document["images"]["judge"]
    low, high = best["interval"] or (0, 0)
    figure = f"a validation loss of {best['loss'] or math.nan:.4f}"
    if best["accuracy"] is not None:
        figure = f"{best['accuracy']:.1%} of {judges:,} validation images ({low:.1%} to {high:.1%})"
    told = (
        f"Take {best['candidate']}: {figure}, {best['ms']:.3g} ms an image, {best['mb']:.3g} MB, "
        f"about {clock(60 * best['minutes'])} of training on everything."
    )
    near = [row for row in every[1:] if row["alike"]]
    if best["accuracy"] is None:
        return f"{told} Whether others are worse for sure is not tested for this kind of labels."
    if len(every) == 1:
        return f"{told} Nothing else could be trained."
    if not near:
        return f"{told} All others are worse for sure."
    names = ", ".join(row["candidate"] for row in near[:4])
    names += f" and {len(near) - 4} more" if len(near) > 4 else ""
    quick, small = (min((best, *near), key=lambda row: row[cost]) for cost in ("ms", "mb"))
    words = [
        f"{row['candidate']} is the {word}"
        for row, word in ((quick, "fastest"), (small, "smallest"))
        if row is not best
    ]
    return f"{told} It cannot be told apart from {names}" + (
        f"; of these, {' and '.join(words)}." if words else "."
    )


# ---------------------------------------------------------------- files


def final_settings(found: Picked) -> dict[str, Any]:
    """What a training of the recommended model sets, besides its recipe."""
    best = found.best
    assert best is not None
    recipe, used = named(found.race, best.candidate).planned, best.found["recipe"]
    settings = {k: v for k, v in found.document["asked"]["settings"].items()
                if k != "validation_fraction"}  # fmt: skip
    if "epochs" in used and best.epochs != recipe.epochs:
        settings["epochs"] = best.epochs
        if recipe.warmup:
            settings["warmup"] = recipe.warmup * min(1.0, best.epochs / recipe.epochs)
    return settings | {k: best.settings[k] for k in ("batch_size", "lr") if k in best.settings}


def write_recipe(found: Picked) -> None:
    """best.toml, for zoo train --config."""
    best = found.best
    assert best is not None
    candidate = named(found.race, best.candidate)
    settings = final_settings(found)
    lines = [f"# The choice of {found.path.name}: zoo train --config {found.recipe}", ""]
    lines += [f"{k} = {_toml(v)}" for k, v in settings.items() if not isinstance(v, Mapping)]
    tables = {k: v for k, v in settings.items() if isinstance(v, Mapping) and v}
    run = {"model": candidate.model, "dataset": found.document["reference"],
           "recipe": candidate.recipe}  # fmt: skip
    for title, options in (tables | {"run": run}).items():
        lines += ["", f"[{title}]"]
        lines += [f"{k} = {_toml(v)}" for k, v in options.items() if v is not None]
    with kit.atomic_write(found.recipe) as temporary:
        temporary.write_text("\n".join(lines) + "\n", "utf-8")


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and lists are alike


def write_report(found: Picked) -> Path:
    """report.md, with the plot where matplotlib is installed."""
    path, document = found.path / "report.md", found.document
    titles, lines = table(found.race)
    parts = [
        f"# A model for {document['name']}",
        found.recommendation,
        f"{clocked(document)} {document['images']['learn']:,} images to learn from, "
        f"{document['images']['judge']:,} to judge by; the test set was not touched. Intervals are "
        "95 % intervals, for other images of this kind.",
    ]
    if lines:
        parts.append(_markdown([title.lstrip("#") for title in titles], lines))
    try:
        from zoo_pick.drawing import draw_front

        draw_front(found, found.path / "pictures" / "front.png")
        parts.append("![error against cost](pictures/front.png)")
    except ImportError:
        pass
    if found.left_out:
        parts += ["## Left out", _markdown(["model", "why"], [*found.left_out.items()])]
    if found.best:
        text = found.recipe.read_text("utf-8").rstrip()
        parts += ["## The recipe", f"```toml\n{text}\n```"]
    with kit.atomic_write(path) as temporary:
        temporary.write_text(kit.visible("\n\n".join(parts) + "\n"), "utf-8")
    return path


def clocked(document: Mapping[str, Any]) -> str:
    return f"{clock(document['spent'])} of a budget of {clock(document['budget'])}."


def _markdown(titles: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    def row(cells: Sequence[object]) -> str:
        texts = ["" if cell is None else str(cell).replace("|", "\\|") for cell in cells]
        return f"| {' | '.join(texts)} |"

    return "\n".join([row(titles), row(["---"] * len(titles)), *map(row, lines)])
