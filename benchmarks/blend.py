"""What students of an ensemble gain over the same models trained on labels alone.

    python benchmarks/blend.py STUDENT TEACHER... [--seeds 0 1 2] [--set NAME=VALUE]...
                               [--try task.temperature=1,2,4]... [--runs DIR]

Each seed trains the student twice with the same settings: on the labels, and as
`zoo blend TEACHER... --distil STUDENT` does. Printed: the accuracies, and the difference of the
means for other images and for other seeds, as `zoo compare` tests it. --try trains a student with
each value, one option at a time; choose on validation images: --set validation_fraction=0.1. The
runs have names, so the same command continues.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from zoo_blend.distil import SHAPES

import zoo
from zoo import kit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("student")
    parser.add_argument("teachers", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", dest="assignments", action="append", default=[])
    parser.add_argument("--try", dest="tried", action="append", default=[])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    asked = parser.parse_args()
    entry = zoo.info(asked.student)
    located = kit.locate(asked.teachers[0], asked.runs)
    data = {k: v for k, v in located.data_options.items() if k not in SHAPES}
    ways = [assignment.partition("=") for assignment in asked.tried]
    tried = [""] + [f"{name}={value}" for name, _, values in ways for value in values.split(",")]
    print("student | setting | seed | trained | distilled")
    print("|".join(["---"] * 5))
    pairs: dict[str, list[Path]] = {}
    for setting in tried:
        for seed in asked.seeds:
            plain = kit.parse_settings([*asked.assignments, f"seed={seed}"], entry)
            given = kit.parse_settings(
                [*asked.assignments, f"seed={seed}", *filter(None, [setting])], entry
            )
            plain["data"] = {**data, **plain.get("data", {})}
            how: dict[str, Any] = {"runs": asked.runs, "quiet": True}
            name = f"{asked.student}-{seed}"
            trained = zoo.train(
                asked.student, located.dataset, settings=plain, name=name, **how
            ).path
            name += "-distilled" + (f"-{setting.replace('=', '-')}" if setting else "")
            found = zoo.blend(
                *asked.teachers, distil=asked.student, settings=given, name=name, **how
            )
            assert found.student
            pairs.setdefault("trained", []).append(trained)
            pairs.setdefault(setting, []).append(found.student)
            cells = [figure(kit.Run(path)) for path in (trained, found.student)]
            words = setting or "the defaults"
            print(asked.student, words, seed, *cells, sep=" | ", flush=True)
    compared = zoo.compare(*dict.fromkeys(pairs["trained"] + pairs[""]), runs=asked.runs)
    for group in compared.groups:
        for sentence in kit.verdicts(group):
            print(sentence)


def figure(run: kit.Run) -> str:
    """Accuracies on the test and, where there is one, on the validation split."""
    result, last = run.read()["result"], run.metrics()[-1]
    found = [f"{result['test']['accuracy']:.2%}"]
    if "validation_accuracy" in last:
        found.append(f"{last['validation_accuracy']:.2%} of validation")
    return ", ".join(found)


if __name__ == "__main__":
    main()
