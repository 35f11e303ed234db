"""Kills a child with SIGKILL before each of its steps that change the disk, one after the other.

    python kill_driver.py pull|publish RUN FOLDER

The child pulls weights into FOLDER/cache, or publishes the run to FOLDER/shared. The first child
dies before its first step, the next one before its second, until one lives to its end. After each
death the parent looks at what is left: whatever was there before still loads, and nothing else
does. Prints the number of deaths.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from fixtures import kills

from zoo_core.io.errors import ZooError
from zoo_core.publish.publish import plan, publish
from zoo_core.runs.run import Run
from zoo_core.use.load import answers, load
from zoo_core.weights.manifest import all_weights
from zoo_core.weights.references import obtain


def main() -> None:
    what, run, folder = sys.argv[1], Run(Path(sys.argv[2])), Path(sys.argv[3])
    shared = f"file:{folder / 'shared'}"
    os.environ["ZOO_CACHE"] = str(folder / "cache")
    os.environ["ZOO_MANIFEST"] = str(folder / "manifest.json")
    expected = answers(load(run.path))
    digest = run.read()["result"]["model"]["sha256"]
    if what == "pull":
        publish(plan(run, shared))
        work = lambda: obtain("fcn_numpy.synthetic")  # noqa: E731
    else:
        publish(plan(run, shared, license="old"))
        work = lambda: publish(plan(run, shared, license="new"))  # noqa: E731
    number = 0
    while kills.child(work, folder, number := number + 1)[0]:
        for path in (folder / "cache").glob("weights/*.safetensors"):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.stem == digest, path
        listed, problems = all_weights()
        assert not problems, problems
        if what == "publish":
            ours = {weights.license for who, weights in listed if who == "your manifest"}
            assert ours and ours <= {"old", "new"}
            os.environ["ZOO_CACHE"] = str(folder / f"look-{number}")
            assert answers(load(shared)) == expected
            os.environ["ZOO_CACHE"] = str(folder / "cache")
        else:
            for path in (folder / "cache").rglob("*"):  # so that every child starts from nothing
                if (
                    path.is_file()
                    and path.suffix == ".safetensors"
                    and path.parent.name == "weights"
                ):
                    path.unlink()
    assert answers(load("fcn_numpy.synthetic")) == expected
    left = [p for p in folder.rglob("*.tmp") if "look" not in str(p)]
    assert not left, left
    print(number - 1)


if __name__ == "__main__":
    try:
        main()
    except ZooError as error:
        sys.exit(f"{error}")
