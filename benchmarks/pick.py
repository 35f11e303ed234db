"""What `zoo pick` recommends against the best of all models: the regret, on test images.

    python benchmarks/pick.py DATASET --pick FOLDER [--minutes 15] [--runs reference]
                              [--models NAME ...]

FOLDER is a complete pick on DATASET. Its recommendation is trained on everything, and so is every
model whose training with `zoo train` takes at most so many minutes by the pick's own measuring.
Printed: the test accuracy of each, best first, with its 95 % interval and its minutes; then the
regret, the difference between the best and the recommended one on the same test images, with
McNemar's p-value. The same command continues: what is trained is not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from zoo_pick.contest import recorded
from zoo_pick.pick import look
from zoo_pick.race import Race

import zoo
from zoo import kit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("dataset")
    parser.add_argument("--pick", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--runs", type=Path, default=Path("reference"))
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME")
    asked = parser.parse_args()
    document = kit.read_document(asked.pick / "pick.json", 1)
    settings, names = document["asked"]["settings"], document["asked"]["models"]
    _, candidates, _ = look(asked.dataset, settings, names)
    race = Race(candidates, document["images"]["learn"], document["budget"])
    race.records.extend(recorded(asked.pick / "trials.jsonl"))

    done = {}
    for candidate in race.candidates:
        name, measured = candidate.model.partition("/")[2], race.of(candidate.name, 0)
        if candidate.recipe != "default" or not measured or measured[0].state != "done":
            continue
        if asked.models and name not in asked.models:
            continue
        minutes = race.plain_seconds(candidate) / 60
        if minutes > asked.minutes:
            print(f"{name}: about {minutes:.0f} minutes, left out", flush=True)
            continue
        done[name] = zoo.train(
            candidate.model, asked.dataset, settings=settings, runs=asked.runs,
            name=f"reference-{name}", quiet=True,
        )  # fmt: skip
        print(f"{name}: {done[name].accuracy:.2%}", flush=True)
    found = zoo.pick(
        asked.dataset, budget=document["budget"], models=names, settings=settings, train=True,
        runs=asked.pick.parent, name=asked.pick.name, quiet=True,
    )  # fmt: skip
    done["the recommended"] = found.trained

    right = {name: answers(one) for name, one in done.items()}
    print(
        f"\n{found.recommendation}\n\nmodel | test accuracy | interval | minutes\n---|---|---|---"
    )
    for name in sorted(done, key=lambda name: -right[name].mean()):
        share = float(right[name].mean())
        low, high = kit.wilson(share, len(right[name]))
        print(f"{name} | {share:.2%} | {low:.2%} to {high:.2%} | {done[name].seconds / 60:.1f}")
    best = max((name for name in done if name != "the recommended"), key=lambda n: right[n].mean())
    ours, theirs = right["the recommended"], right[best]
    won, lost = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
    gap = kit.paired(won, lost, len(ours))
    low, high = gap.interval
    print(
        f"\nregret against {best}: {gap.value:+.2%} ({low:+.2%} to {high:+.2%}), p {gap.p:.3f}, "
        f"{len(ours):,} test images"
    )


def answers(result: zoo.Result) -> np.ndarray:
    """For each test image, whether its class was found."""
    arrays = load_file(result.run.predictions_file)
    return np.asarray(arrays["probabilities"].argmax(1) == arrays["labels"])


if __name__ == "__main__":
    main()
