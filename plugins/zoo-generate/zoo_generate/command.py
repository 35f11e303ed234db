"""zoo generate: a sheet of samples, drawn for classes, between two noises, or as they come."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

import zoo
from zoo import kit

STEPS = 8  # of an interpolation


@kit.command()
@kit.run_argument
@click.option("--class", "condition", default="", help="Only this class; otherwise all in turn.")
@click.option("--n", "count", type=click.IntRange(1, 10_000), default=64, show_default=True,
              help="Number of samples; with --interpolate, eight make a row.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Seed of the noise.")  # fmt: skip
@click.option("--interpolate", is_flag=True, help="Rows that lead from one sample to another.")
@click.option("--distance", "classifier", default="",
              help="Also measure the feature distance, with this trained classifier.")  # fmt: skip
@kit.output_option(".png", ".webp", ".jpg", default="samples.png",
                   help="The sheet of samples to write: .png, .webp or .jpg.")  # fmt: skip
@kit.device_option
@kit.runs_option
def generate_command(
    run: str, condition: str, count: int, seed: int, interpolate: bool, classifier: str,
    output: Path, device: str, runs: Path | None,
) -> kit.Answer:  # fmt: skip
    """Generate samples with a generative model.

    RUN is a path, a name in the runs folder, latest, or weights. The same seed gives the same
    samples. The feature distance compares samples with the test set by what a trained
    classifier sees in them: smaller is nearer. It is not FID; compare it only with figures of
    the same weights. Samples that do not fit on one page go on in NAME-page2.png and so on.

    Examples:
      zoo generate latest --class frog --n 16 --seed 3 -o frogs.png
      zoo generate latest --interpolate
      zoo generate latest --distance cnn.cifar10      how far from real images
      zoo list --kind generation                      what can be trained to generate
    """
    from zoo_generate.distance import feature_distance

    source, located = kit.load_sampler(run, runs, device)
    if interpolate:
        samples = interpolated(source, max(1, count // STEPS), seed, condition)
        columns: int | None = STEPS
    else:
        samples = source.sample(count, seed, condition)
        columns = len(source.names) if 4 <= len(source.names) <= 12 and not condition else None
    title = f"{located.model.rpartition('/')[2]} trained on {Path(located.dataset).name}"
    title = f"{title}{f': {condition}' if condition else ''}, seed {seed}"
    captions = () if condition else samples.names
    distance: dict[str, Any] | None = None
    if classifier:
        data = zoo.open_dataset(located.dataset, located.data_options)
        distance = feature_distance(source, data, classifier, seed=seed, device=device, runs=runs)
    with kit.os_errors(f"{output} could not be written"):
        pages = kit.write_sheet(output, samples.images, captions, columns=columns, title=title)
    lines = []
    if distance:
        how = "{samples:,} samples, {dataset}, {classifier}".format_map(distance)
        lines.append(f"Feature distance: {distance['feature_distance']} ({how})")
        if distance["of_training_images"] is not None:
            what = "Distance of the same number of training images"
            lines.append(f"{what}: {distance['of_training_images']}")
    lines.append(f"Samples: {', '.join(map(str, pages))} (seed {seed})")
    document = {
        "run": located.name,
        "seed": seed,
        "samples": len(samples.images),
        "classes": samples.names,
        "output": output,
        "pages": pages,
        "distance": distance,
    }
    return kit.Answer(document, "\n".join(lines))


def interpolated(source: Any, rows: int, seed: int, condition: str) -> Any:
    """Rows of samples, each on the way from one noise to another."""
    ends = source.noise(2 * rows, seed)
    pairs = zip(ends[::2], ends[1::2], strict=True)
    noise = np.concatenate([on_the_way(start, end, STEPS) for start, end in pairs])
    chosen = source.choose(rows, condition)
    return source.draw(noise, None if chosen is None else np.repeat(chosen, STEPS))


def on_the_way(start: np.ndarray, end: np.ndarray, steps: int) -> np.ndarray:
    """From one noise to another along the sphere that noise lies on: (steps, *shape).

    A straight line would lead through the middle, where hardly any noise is.
    """
    a, b = start.ravel().astype(float), end.ravel().astype(float)
    cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    angle = math.acos(np.clip(cosine, -1, 1)) or 1e-9
    parts = np.linspace(0, 1, steps)[:, None]
    rows = (np.sin((1 - parts) * angle) * a + np.sin(parts * angle) * b) / math.sin(angle)
    return np.asarray(rows.reshape(steps, *start.shape), np.float32)
