"""zoo export: a trained model as a file of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo import kit


@kit.command()
@kit.run_argument
@kit.output_option(".onnx", ".pt2", required=True,
                   help="The file: its ending says what is written.")  # fmt: skip
@click.option("--raw", is_flag=True, help="From normalised images to logits, nothing around it.")
@click.option("--generate", is_flag=True, help="Samples, of a model that also answers.")
@click.option("--int8", is_flag=True, help="With 8 bits, if the accuracy allows it (.onnx).")
@click.option("--margin", type=click.FloatRange(0, 1), default=0.01, show_default=True,
              help="With --int8: what it may cost of the accuracy, as a share.")  # fmt: skip
@kit.runs_option
def export_command(run: str, output: Path, **how: Any) -> kit.Answer:
    """Write a trained model for other programs: ONNX, or a program of torch.

    RUN is a path, a name in the runs folder, latest, or weights. The file takes RGB bytes, (batch,
    height, width, 3), of any size, and gives probabilities, or what the task of the model calls
    for: preparing images is a part of it. What it says is compared with what the model says, and
    it is kept only if both agree. Its metadata has the classes, the figures, the digest and the
    license.

    Examples:
      zoo export cnn.cifar10 -o cnn.onnx
      zoo export latest -o model.pt2
      zoo export cnn -o cnn.onnx --int8     smaller and quicker, kept only if it is as good
    """
    from zoo_export.export import export

    done = export(run, output, **how)
    return kit.Answer(done, lambda: kit.print_fields(done.facts()))
