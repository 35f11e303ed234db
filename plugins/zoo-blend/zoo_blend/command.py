"""zoo blend: what `zoo.blend` found, for people."""

from __future__ import annotations

from pathlib import Path

import click

import zoo
from zoo import kit


@kit.command()
@click.argument("references", metavar="RUN RUN...", nargs=-1)
@kit.output_option(".png", ".pdf", ".svg", default="blend.png", help="The plot to write.")
@click.option("--distil", default="", metavar="STUDENT", help="Train this model on the ensemble.")
@click.option("--recipe", default="", help="Recipe of the student.")
@kit.set_option("A setting of the student, such as epochs=5 or task.temperature=4.")
@click.option(
    "--name", default="", help="Name of the student's run; the same command continues it."
)
@kit.device_option
@kit.runs_option
@kit.quiet_option
def blend_command(
    references: tuple[str, ...], output: Path, distil: str, recipe: str,
    assignments: tuple[str, ...], name: str, device: str, runs: Path | None, quiet: bool,
) -> kit.Answer:  # fmt: skip
    """Say what an ensemble of runs would gain, and train a student on it.

    RUN is as for zoo compare: a run, a sweep (all its runs), or weights. The ensemble says the
    weighted mean of what its members say. Images that no member trained on choose the weights; if a
    member trained on all, the weights are equal. The gain over the best member is of the test
    images, with its interval. Stored predictions of runs are used; what else is needed is computed
    once and kept.

    With --distil, the members say what is in each training image, and STUDENT learns that: any
    classifier of torch. Its run records the digests of its teachers.

    Examples:
      zoo blend cnn-a cnn-b resnet18-c
      zoo blend cnn efficientnet_lite0_finetune --distil mlp
      zoo blend resnet8 mnist_cnn2 --distil mnist_cnn1 --set task.temperature=4 --name student
    """
    from zoo_blend.blend import blend

    if not distil and (assignments or recipe or name):
        raise zoo.UsageError("--set, --recipe and --name are for a student", "add --distil MODEL")
    given = kit.parse_settings(assignments, zoo.info(distil)) if distil else {}
    found = blend(
        *references, distil=distil, recipe=recipe, settings=given, name=name, device=device,
        runs=runs, quiet=quiet,
    )  # fmt: skip
    plot = found.draw(output)

    def show() -> None:
        columns = ["member", "#weight", "#accuracy", "#interval", "#loss", "#without it"]
        rows = [
            [one.name, f"{one.weight:.2f}", *_figures(one.accuracy, one.interval, one.loss),
             "-" if one.without is None else f"{one.without:.2%}"]
            for one in found.members
        ]  # fmt: skip
        whole = _figures(found.accuracy, found.interval, found.loss)
        kit.print_table(columns, [*rows, ["ensemble", "", *whole, ""]])
        kit.echo(f"\n{found.sentence}\n{found.chosen}\nPlot: {plot}")
        if found.student:
            kit.echo(f"Student: {found.student}")

    document = {**found.to_dict(), "plot": plot}
    return kit.Answer(document, show, brief=str(found.student or plot))


def _figures(accuracy: float, interval: tuple[float, float], loss: float) -> list[str]:
    low, high = interval
    return [f"{accuracy:.2%}", f"{low:.2%} to {high:.2%}", f"{loss:.4f}"]
