"""How much faster an exported file with 8 bits is than the one with floats, as ratios of one run.

python benchmarks/exports.py cnn resnet8 nano_vit_p4 --folder exports

Writes NAME.onnx and NAME-int8.onnx into the folder, unless they are there, then times both in
turns, in blocks: 1 image at once and 64. A ratio above 1 means that 8 bits are faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from zoo_export.onnx_file import runner

import zoo


def seconds(run, images, least):
    """Of one call, the mean over at least so much time."""
    started, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < least or not calls:
        run([images])
        calls += 1
    return passed / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--folder", type=Path, default=Path("exports"))
    parser.add_argument("--margin", type=float, default=0.01)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    asked = parser.parse_args()
    print("| model | images at once | times as fast with 8 bits |\n|---|---|---|")
    for name in asked.models:
        files = [asked.folder / f"{name}{end}.onnx" for end in ("", "-int8")]
        for file, int8 in zip(files, (False, True), strict=True):
            if not file.exists():
                zoo.export(name, file, int8=int8, margin=asked.margin)
        floats, small = map(runner, files)
        size = zoo.load(name).zoo.preprocess.stored_size
        shape = (64, size, size, 3)
        images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        for count in (1, 64):
            given, ratios = images[:count], []
            for _ in range(asked.blocks):
                times = [seconds(run, given, asked.seconds) for run in (floats, small)]
                ratios.append(times[0] / times[1])
            low, high = min(ratios), max(ratios)
            told = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"
            print(f"| {name} | {count} | {told} |", flush=True)


if __name__ == "__main__":
    main()
