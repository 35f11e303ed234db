"""zoo predict."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.output import complete_trained, print_json, print_table


@click.command(
    epilog="""\b
Examples:
  zoo predict latest cat.jpg
  zoo predict latest holiday/ --top 1
  zoo predict latest *.png --json
"""
)
@click.argument("run", shell_complete=complete_trained)
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...", type=click.Path())
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Classes shown.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    run: str, pictures: tuple[str, ...], top: int, runs: Path | None, as_json: bool
) -> None:
    """Say what is on pictures.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name.
    A PICTURE is a file, or a folder of them.
    """
    from zoo_core.use.predict import predict_pictures

    predictions = predict_pictures(run, pictures, top=top, runs=runs)
    if as_json:
        print_json(
            [
                {
                    "picture": prediction.picture,
                    "classes": [
                        {"name": name, "probability": round(probability, 6)}
                        for name, probability in prediction.classes
                    ],
                }
                for prediction in predictions
            ]
        )
        return
    columns = ["picture", *(f"{n}." for n in range(1, 1 + len(predictions[0].classes)))]
    print_table(
        columns,
        [
            [p.picture, *(f"{name} {100 * probability:.1f} %" for name, probability in p.classes)]
            for p in predictions
        ],
    )
