"""zoo evaluate and predict: what one does with a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from zoo_core.cli.options import (
    PATH,
    data_options,
    device_option,
    engine_options,
    run_argument,
    runs_option,
    set_option,
)
from zoo_core.cli.output import Answer, command, echo, note, print_fields, print_table
from zoo_core.io.console import interval_text, label, percent, with_interval
from zoo_core.runs.statistics import wilson


@command()
@run_argument
@click.option("--dataset", default="",
              help="Evaluate on this dataset instead; the run must know its classes.")  # fmt: skip
@click.option("--split", type=click.Choice(["test", "validation", "train"]), default="test",
              show_default=True)  # fmt: skip
@set_option("An option of the data, such as data.seed=1.", "OPTION=VALUE")
@device_option
@runs_option
def evaluate_command(
    run: str, dataset: str, split: str, assignments: tuple[str, ...], device: str,
    runs: Path | None,
) -> Answer:  # fmt: skip
    """Measure a trained run: loss, accuracy and the other metrics of its task.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name.
    Of a run, train are the images that it was trained on, without those kept for validation.
    Another folder may lack some of the classes. Without train and test folders it is measured
    whole.

    Examples:
      zoo evaluate latest
      zoo evaluate latest --dataset ./new_photos
      zoo evaluate runs/cnn-cifar10-20261116T101500Z --split train
    """
    from zoo_core.use.evaluate import evaluate

    options = data_options(assignments)
    figures = evaluate(run, dataset, split=split, options=options, device=device, runs=runs)

    def show() -> None:
        images = f"{figures['images']:,} images of {split}"
        fields = {"run": figures["run"], "data": f"{figures['dataset']}, {images}"}
        for name, value in figures.items():
            if name == "inference_ms_per_image":
                fields["per image"] = f"{value:.3f} ms"
            elif isinstance(value, float):
                told = with_interval(name, value, figures.get("intervals", {}))
                fields[f"{split} {label(name)}"] = told
        print_fields(fields)
        if "per_class" in figures:
            echo()
            print_table(*by_class(figures["per_class"], split))

    return Answer(figures, show)


def by_class(scores: Mapping[str, Any], split: str) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of a table: the accuracy or, of several classes, all figures of each."""
    several = next((list(one) for one in scores.values() if isinstance(one, dict)), [])
    rows: list[list[object]] = []
    for name, one in scores.items():
        given = [(one or {}).get(key) for key in several] if several else [one]
        rows.append([name, *(None if value is None else percent(value) for value in given)])
        if several and one:
            rows[-1][1 + several.index("images")] = int(one["images"])
            share = one["accuracy" if "accuracy" in several else "recall"]
            rows[-1].append(interval_text("accuracy", wilson(share, one["images"])))
    rows.sort(key=lambda row: str(row[1] or "").rjust(9), reverse=True)
    of_split = {"accuracy": f"{split} accuracy"}  # figures of training images say so
    titles = [f"#{of_split.get(key, label(key))}" for key in several or ("accuracy",)]
    of = "interval" if "accuracy" in several else "interval of recall"
    return ["class", *titles, *([of] if several else ())], rows


@command()
@run_argument
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=click.Path())
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Classes shown.")
@click.option("--strict", is_flag=True, help="Stop at an image that cannot be read.")
@click.option("--out", type=PATH, metavar="FILE",
              help="Write a table of all images: .parquet, .csv or .jsonl.")  # fmt: skip
@click.option("--part", default="", metavar="I/N", help="With --out: only part I of N.")
@click.option("--join", is_flag=True, help="With --out: put the parts together.")
@click.option("--batch", type=click.IntRange(1), help="With --out: batch size.")
@click.option("--embeddings", is_flag=True, help="With --out: add the model's features.")
@set_option("With --out: an option of the data.", "OPTION=VALUE")
@engine_options
@device_option
@runs_option
@click.pass_context
def predict_command(
    ctx: click.Context, /, run: str, images: tuple[str, ...], top: int, strict: bool, device: str,
    runs: Path | None, out: Path | None, **many: Any,
) -> Answer:  # fmt: skip
    """Say what is in images: classes, or numbers.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name.
    An IMAGE is a file, a folder of files, or an address (http or https). Of several images,
    those that cannot be read are left out and named.

    With --out, IMAGE is whatever --dataset takes: a folder, a table, a dataset. All of its images
    become rows of a table, those that cannot be read with the reason. The same command continues
    after an interruption; several processes that run it on one disk share the work.

    Examples:
      zoo predict latest cat.jpg https://example.org/dog.png
      zoo predict latest holiday/ --top 1
      zoo predict latest holiday/ --out holiday.csv --workers 2
      zoo predict cnn photos.csv --out photos.parquet --part 3/16   one of sixteen jobs
      zoo predict cnn photos.csv --out photos.parquet --join        after the last of them
    """
    if out is not None:
        if strict:
            raise click.UsageError("--strict has no meaning with --out: each image is a row")
        return predict_many_images(run, images, out, top=top, device=device, runs=runs, **many)
    for name in many:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "set" if name == "assignments" else name
            raise click.UsageError(f"--{option} needs --out FILE")
    from zoo_core.use.predict import predict

    predictions = predict(run, images, top=top, strict=strict, device=device, runs=runs)
    document = [{"image": one.image, **one.answer} for one in predictions]
    document += [{"image": one.name, "error": one.reason} for one in predictions.left_out]
    rows = [[one.image, *one.words] for one in predictions]
    columns = ["image", *(f"{n}." for n in range(1, len(rows[0])))]

    def show() -> None:
        print_table(columns, rows)
        for _, reason in predictions.left_out:
            note(f"Left out: {reason}")

    return Answer(document, show)


def predict_many_images(
    run: str, images: tuple[str, ...], out: Path, assignments: tuple[str, ...], batch: int | None,
    **how: Any,
) -> Answer:  # fmt: skip
    from zoo_core.use.many import predict_many

    if len(images) != 1:
        raise click.UsageError("with --out, name one folder, table or dataset")
    options = data_options(assignments)
    done = predict_many(run, images[0], out, options=options, batch=batch or 0, **how)
    broken = f", {done.broken:,} of them cannot be read" * bool(done.broken)
    document = {"table": done.path, "images": done.images, "broken": done.broken}
    return Answer(document, f"{done.path}: {done.images:,} images{broken}", brief=str(done.path))
