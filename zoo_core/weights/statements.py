"""What came of training published weights once more, as people keep it beside them.

A statement is a line of JSON, in NAME.reproduced.jsonl beside shipped weights or in any file that a
person names. `zoo list --weights` counts those that found the same bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, convert, structs

from zoo_core.io.console import warn
from zoo_core.io.documents import read_lines
from zoo_core.io.errors import ZooError, os_errors
from zoo_core.io.files import atomic_write, locked
from zoo_core.runs.schema import Count, Digest, Names, Number, Options, Text
from zoo_core.weights.manifest import Weights, packaged_file

SUFFIX = ".reproduced.jsonl"


class Statement(Struct, kw_only=True):
    """What came of training once more, as JSON; docs/reproduce.md explains it."""

    format: Literal[1] = 1
    of: Text  # weights, or a run
    verdict: Literal["bytes", "interval", "differs", "unknown"]
    sha256: Digest  # on record
    found: Digest  # of the new weights, in the dtype of those on record
    dtype: Text
    run: Text  # the new one
    created: Text
    trained: Digest  # its model.safetensors, in the dtype of the training
    different: Names  # here, in sentences
    epochs: Count  # whose states could be compared
    first_epoch: Count | None  # after which the states differ
    figures: Annotated[dict[Text, tuple[Number, Number]], Meta(max_length=1000)]  # then, now
    test: Text = ""  # the statistical test of the accuracy, where the bytes differ
    p: Number = None
    interval: tuple[float, float] | None = None  # of the difference, now minus then
    dataset: Text
    recipe: Options
    environment: Options


def statements(path: Path) -> list[Statement]:
    """Those in a file; a damaged one is warned about and has none."""
    try:
        return [convert(line, Statement) for line in read_lines(path, Statement)]
    except ZooError as error:
        warn(str(error))
        return []


def keep(path: Path, statement: Statement) -> None:
    """Add a statement to a file; one of the same run takes the place of the older one."""
    with os_errors(f"{path} could not be written", ZooError), locked(path):
        lines = read_lines(path, Statement)
        ours = statement.run, statement.created
        lines = [line for line in lines if (line["run"], line["created"]) != ours]
        text = "".join(json.dumps(one) + "\n" for one in (*lines, structs.asdict(statement)))
        with atomic_write(path) as temporary:
            temporary.write_text(text, "utf-8")


def rederived(weights: Weights) -> int:
    """How often the bytes of shipped weights were found again, by the statements beside them."""
    file = packaged_file(weights)
    path = file and file.with_suffix(SUFFIX)
    if not path or not path.exists():
        return 0
    return sum(one.sha256 == one.found == weights.sha256 for one in statements(path))
