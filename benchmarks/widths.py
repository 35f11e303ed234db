"""The best learning rate at several widths, with by_width and without it, in one run.

    python benchmarks/widths.py [MODEL...] [--images 4000] [--epochs 3] [--runs DIR] [--out DIR]

Each model trains at four widths with a grid of rates, on so many training images of CIFAR-10;
10,000 others decide, and the test set is not used. --runs keeps the searches, so that the same
command goes on where it was stopped. With --out it writes widths.jsonl and widths.png there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import zoo
from zoo import kit

# Rates around those of the default recipe, each twice the one before.
MODELS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mlp": ((0.25, 1, 2, 4), (1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3)),
    "cnn": ((0.25, 0.5, 1, 2), (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)),
    "nano_vit_p4": ((0.25, 0.5, 1, 2), (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--judges", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--runs", type=Path, default=Path("widths"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for model in asked.models:
        for by_width in (False, True):
            for scale in MODELS[model][0]:
                rows += tried(asked, model, scale, by_width)
                print(line(rows, model, scale, by_width), flush=True)
    if asked.out:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (asked.out / "widths.jsonl").write_text(text, encoding="utf-8")
        draw(rows, asked.out / "widths.png")


def tried(
    asked: argparse.Namespace, model: str, scale: float, by_width: bool
) -> list[dict[str, Any]]:
    rates = MODELS[model][1]
    whole = asked.images + asked.judges
    settings = kit.parse_settings(asked.settings, zoo.info(model))
    found = zoo.tune(
        model, asked.dataset, space={"lr": list(rates)}, searcher="grid", trials=len(rates),
        prune=False, epochs=asked.epochs, model={"scale": scale}, by_width=by_width,
        subset=whole / len(zoo.open_dataset(asked.dataset).train),
        validation_fraction=asked.judges / whole, evaluate_every=0,
        settings=settings, runs=asked.runs, quiet=True,
        name=f"{model}-{scale:g}-{'by-width' if by_width else 'plain'}",
    )  # fmt: skip
    same = {"model": model, "scale": scale, "by_width": by_width}
    return [
        {**same, "lr": trial.parameters["lr"], "loss": trial.loss, "seconds": trial.seconds}
        for trial in found.trials
    ]


def chosen(rows: list[dict[str, Any]], **same: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in same.items())]


def line(rows: list[dict[str, Any]], model: str, scale: float, by_width: bool) -> str:
    mine = chosen(rows, model=model, scale=scale, by_width=by_width)
    best = min((row for row in mine if row["loss"] is not None), key=lambda row: row["loss"])
    seconds = sum(row["seconds"] for row in mine)
    what = f"{model:12} {'by_width' if by_width else 'plain':9} scale {scale:<5g}"
    return f"{what} best lr {best['lr']:<8g} loss {best['loss']:.4f}  {seconds:.0f} s"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = kit.new_figure(10, 3.4 * len(models), columns=2, rows=len(models))
    for place, panel in enumerate(axes):
        model, by_width = models[place // 2], bool(place % 2)
        mine = chosen(rows, model=model, by_width=by_width)
        for scale in dict.fromkeys(row["scale"] for row in mine):
            points = [(r["lr"], r["loss"]) for r in chosen(mine, scale=scale) if r["loss"]]
            panel.plot(*zip(*points, strict=True), marker="o", label=f"{scale:g}")
        panel.set_xscale("log", base=2)
        panel.set_xticks([row["lr"] for row in chosen(mine, scale=mine[0]["scale"])])
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.set_title(f"{model}, {'by_width' if by_width else 'one rate for all layers'}")
        panel.set_xlabel("learning rate")
        panel.set_ylabel("validation loss")
        panel.legend(title="scale")
        both = [r["loss"] for r in chosen(rows, model=model) if r["loss"]]
        panel.set_ylim(min(both) * 0.97, min(max(both), 1.35 * min(both)))
    kit.save_figure(figure, path)


if __name__ == "__main__":
    main()
