"""Labels changed on purpose: how many of them `zoo data check --labels` finds, and what else.

    python benchmarks/labels.py [--images 6000] [--shares 0 2 5 10] [--seed 0]
                                [--models efficientnet_lite0_finetune cnn]

Training images of CIFAR-10, drawn with the seed. Of each share in percent, labels are changed to
another class, each equally likely, and the labels are judged by all models together, and by each
model alone. Printed: how many labels are suspected; the share of these that were changed
(precision) and the share of the changed ones that are among them (recall); the share of changed
ones among the first N suspects, where N is the number of changed labels, and among the first 50.
Labels of CIFAR-10 that are wrong by themselves count as wrong finds here. The features of a frozen
backbone are computed once: they do not depend on the labels.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest.mock import patch

import numpy as np
from zoo_check.labels import LabelCheck, check_labels
from zoo_check.members import Asked

import zoo

FIRST = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 2.0, 5.0, 10.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument(
        "--models", nargs="+", default=["efficientnet_lite0_finetune", "cnn"], metavar="NAME"
    )
    asked = parser.parse_args()
    data = zoo.open_dataset(asked.dataset)
    draw = np.random.default_rng(asked.seed)
    rows = np.sort(draw.permutation(len(data.train))[: asked.images])
    images, labels = data.train.images[rows], data.train.labels[rows]
    given = {"train_images": images, "train_labels": labels, "classes": data.classes}
    kept: dict[str, np.ndarray] = {}

    def features(one: Asked, model: str) -> np.ndarray:
        if model not in kept:  # of the images as they are: the pass is shared by all shares
            kept[model] = plain(Asked(given, {}, one.listed, one.rows, one.labels), model)
        return kept[model]

    plain = Asked.features
    print("share | judges | suspects | precision | recall | first N | first 50")
    print("|".join(["---"] * 7))
    for share in asked.shares:
        changed, wrong = relabelled(labels, len(data.classes), share / 100, asked.seed)
        together = [asked.models] + [[one] for one in asked.models if len(asked.models) > 1]
        for models in together:
            with patch.object(Asked, "features", features):
                found = check_labels({**given, "train_labels": changed}, models=models)
            print(row(share, found, wrong), flush=True)


def relabelled(
    labels: np.ndarray, classes: int, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The labels with some changed, and which."""
    draw, changed = np.random.default_rng([seed, 1]), labels.copy()
    wrong = draw.permutation(len(labels))[: round(share * len(labels))]
    changed[wrong] = (labels[wrong] + draw.integers(1, classes, len(wrong))) % classes
    return changed, wrong


def row(share: float, found: LabelCheck, wrong: np.ndarray) -> str:
    changed = {f"train {place}" for place in wrong.tolist()}
    hits = [one.image in changed for one in found.suspects]
    weights = ", ".join(f"{one.name} {one.accuracy:.1%}" for one in found.members)
    cells: list[Any] = [f"{share:g} %", weights, len(hits), part(hits)]
    cells += [f"{sum(hits) / len(wrong):.1%}" if len(wrong) else "-"]
    cells += [part(hits[: len(wrong)]), part(hits[:FIRST])]
    return " | ".join(map(str, cells))


def part(hits: list[bool]) -> str:
    return f"{sum(hits) / len(hits):.1%}" if hits else "-"


if __name__ == "__main__":
    main()
