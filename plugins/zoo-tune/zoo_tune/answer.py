"""What `zoo tune`, `zoo sweep` and `zoo train --seeds` answer, for programs and for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from zoo import kit
from zoo_tune.report import remarks_of, settings_text, table_of

if TYPE_CHECKING:
    from zoo_tune.tuning import SearchResult


def answer(result: SearchResult) -> kit.Answer:
    """The trials as a table, and where everything is."""
    best = result.best
    plan, document = result.search.plan(), result.search.read()
    final = document.get("result") or {}

    def show() -> None:
        columns, rows = table_of(plan, result.trials, document["dataset"]["classes"])
        axes = tuple(c for c in columns if c.lstrip("#") in result.trials[0].parameters)
        kit.print_table(columns, rows, ["from", "#time", "#best epoch", axes, "#epochs"])
        epochs = sum(trial.epochs for trial in result.trials)
        if best:
            found = settings_text(best.parameters)
            kit.echo(f"\nBest of {len(result.trials)}, in {epochs} epochs: {found}.")
        for remark in remarks_of(plan, result.trials):
            kit.echo(f"\n{remark}.")
        if result.trained:
            accuracy = final.get("accuracy")
            where = "" if result.trained.split == "test" else f"{result.trained.split} "
            reached = "" if accuracy is None else f", {where}accuracy {kit.percent(accuracy)}"
            kit.echo(f"Trained on everything: {result.trained.path}{reached}")
        if best:
            kit.echo(f"Recipe: {result.search.best_file}")
        if result.report:
            kit.echo(f"Report: {result.report}")
        kit.echo(result.path)

    return kit.Answer(
        {
            "search": result.path,
            "best": best and asdict(best),
            "recipe": result.search.best_file if best else None,
            "remarks": remarks_of(plan, result.trials),
            "trials": [asdict(trial) for trial in result.trials],
            "report": result.report,
            "trained": result.trained.path if result.trained else None,
            "result": final or None,
        },
        show,
        brief=str(result.path),
    )
