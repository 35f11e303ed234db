"""Whether explanations mean anything: deletion scores of their maps beside those of random maps.

    python benchmarks/explain.py                         # cnn, nano_vit_p4, EfficientNet; CIFAR-10
    python benchmarks/explain.py --images 50 --models cnn

For test images, drawn with a seed: the area under the probability of the predicted class while the
image is hidden step by step, the most important places first; lower is better. Differences are
paired by image; the interval is 1.96 standard errors. `centre` marks the middle of every image,
whatever is in it: photographs have their subject there, so it is harder to beat than chance.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from zoo_explain import explain

import zoo
from zoo_core.io.process import keep_freed_memory

MODELS = ("cnn.cifar10", "nano_vit_p4.cifar10", "efficientnet_lite0_finetune.cifar10")


def areas(asked: explain.Asked, methods: list[str]) -> dict[str, float]:
    """The deletion score of each map of one image; of random maps, drawn like the first, a mean."""
    maps = {method: explain.resized(asked.map(method)[1], asked.size) for method in methods}
    y, x = np.mgrid[: asked.size, : asked.size] - (asked.size - 1) / 2
    maps["centre"] = -np.hypot(y, x)
    rng = np.random.default_rng(0)
    random = [explain.random_like(maps[methods[0]], rng) for _ in range(explain.DRAWS)]
    found = asked.deletion([*maps.values(), *random])
    return {**dict(zip(maps, found, strict=False)), "random": float(np.mean(found[len(maps) :]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dataset", default="", help="another one than each model's own")
    parser.add_argument("--methods", default="", help="cam,attention,occlusion: those to measure")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    keep_freed_memory()
    table = []
    for name in asked.models.split(","):
        model = zoo.load(name)
        split = zoo.open_dataset(asked.dataset or model.zoo.dataset).test
        chosen = np.random.default_rng(0).permutation(len(split.images))[: asked.images]
        methods = [m for m in asked.methods.split(",") if m]
        if not methods:
            declared = "attention" in model.zoo.entry.capabilities
            methods = ["cam", *["attention"] * declared]
        rows = [areas(explain.Asked(model, split.images[i]), methods) for i in chosen]
        random = np.array([row["random"] for row in rows])
        for method in [*methods, "centre"]:
            score = np.array([row[method] for row in rows])
            gain = random - score
            table.append(
                {
                    "model": name,
                    "method": method,
                    "images": len(rows),
                    "score": round(float(score.mean()), 3),
                    "random": round(float(random.mean()), 3),
                    "better_by": round(float(gain.mean()), 3),
                    "interval": round(float(1.96 * gain.std(ddof=1) / len(gain) ** 0.5), 3),
                    "better_in": round(float((gain > 0).mean()), 3),
                }
            )
            if not asked.json:
                print(
                    "{model:36} {method:10} {images} images: {score:.3f}, random maps "
                    "{random:.3f}; better by {better_by:.3f} ± {interval:.3f}, in "
                    "{better_in:.0%} of images".format_map(table[-1]),
                    flush=True,
                )
    if asked.json:
        print(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
