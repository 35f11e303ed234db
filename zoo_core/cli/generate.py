"""zoo generate."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.output import complete_trained, note, print_json
from zoo_core.io.errors import UsageError, ZooError

FORMATS = (".png", ".webp", ".jpg")
STEPS = 8  # of an interpolation


@click.command(
    epilog="""\b
Examples:
  zoo generate latest
  zoo generate latest --class frog --n 16 --seed 3 -o frogs.png
  zoo generate latest --interpolate
  zoo generate latest --distance cnn.cifar10      how far from real pictures
  zoo list --kind generation                      what can be trained to generate
"""
)
@click.argument("run", shell_complete=complete_trained)
@click.option("--class", "condition", default="", help="Only this class; otherwise all in turn.")
@click.option("--n", "count", type=click.IntRange(1, 10_000), default=64, show_default=True,
              help="Samples; an interpolation has a row for each eight.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the noise.")
@click.option("--interpolate", is_flag=True, help="Rows that lead from one sample to another.")
@click.option("--distance", "classifier", default="",
              help="Also measure the feature distance, with this trained classifier.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("samples.png"),
              show_default=True, help="The picture to write: .png, .webp or .jpg.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    run: str, condition: str, count: int, seed: int, interpolate: bool, classifier: str,
    output: Path, runs: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Draw pictures from a generative model.

    RUN is a path, a name in the runs folder, latest, or weights. The same seed gives the same
    pictures. The feature distance compares samples with the test set by what a trained
    classifier sees in them: smaller is nearer. It is not FID, and compares with figures of the same
    weights.
    """
    if output.suffix not in FORMATS:
        raise UsageError(f"{output} must end in one of {', '.join(FORMATS)}")
    from zoo_core.data.images import picture_grid
    from zoo_core.io.files import atomic_write
    from zoo_core.use.generate import SHEET_COLUMNS, load_sampler

    source, located = load_sampler(run, runs)
    title = f"{located.model.rpartition('/')[2]} trained on {Path(located.dataset).name}"
    if interpolate:
        samples = source.interpolate(max(1, count // STEPS), STEPS, seed, condition)
    else:
        samples = source.sample(count, seed, condition)
    columns = (
        STEPS if interpolate else 10 if len(source.names) == 10 and not condition else SHEET_COLUMNS
    )
    names = samples.names if not condition else ()
    sheet = picture_grid(
        samples.images,
        names or None,
        columns=columns,
        title=f"{title}: {condition}" if condition else title,
    )
    measured = {}
    if classifier:
        from zoo_core.data.datasets import open_dataset
        from zoo_core.use.generate import feature_distance

        data = open_dataset(located.dataset, **located.data_options)
        measured = feature_distance(source, data, classifier, seed=seed, runs=runs, say=note)
    try:
        with atomic_write(output) as temporary:
            sheet.save(temporary, format={".jpg": "jpeg"}.get(output.suffix, output.suffix[1:]))
    except OSError as error:
        raise ZooError(f"{output} could not be written: {error.strerror}") from error
    if as_json:
        print_json(
            {
                "run": located.source,
                "seed": seed,
                "samples": len(samples.images),
                "classes": samples.names,
                "output": str(output),
                "distance": measured or None,
            }
        )
        return
    if measured:
        click.echo(
            f"Feature distance: {measured['feature_distance']} ({measured['samples']:,} samples, "
            f"{measured['dataset']}, {measured['classifier']})"
        )
        if measured["of_training_pictures"] is not None:
            click.echo(f"As many training pictures: {measured['of_training_pictures']}")
    click.echo(f"Picture: {output}")
