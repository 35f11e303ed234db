"""What the files of runs and searches may say, with limits: whoever reads one can rely on it.

Keys that are not listed may have any value. docs/runs.md and docs/search.md describe them all.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from zoo_core.io.errors import EntryError
from zoo_core.spec.recipe import Recipe

Count = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=10_000)]
Names = Annotated[list[Text], Meta(max_length=1_000_000)]
Options = dict[Text, Any]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Number = float | None  # an integer too
Status = Literal["running", "interrupted", "failed", "complete"]


class Model(Struct):
    name: Text
    plugin: Text = ""
    distribution: Text = ""
    config: Options | None = None
    task: Text | None = None


class Data(Struct, kw_only=True):
    """Of a search: the number of classes alone."""

    name: Text
    digest: Text | None = None
    classes: Names | Count | None = None
    train: Count = 0
    validation: Count = 0


class RunData(Data, kw_only=True):
    reference: Text
    classes: Names = []
    options: Options | None = None
    targets: Options | None = None
    test: Count = 0
    remarks: Names | None = None


class Scores(Struct):
    loss: Number = None
    accuracy: Number = None
    images: Count | None = None
    intervals: dict[Text, tuple[float, float]] | None = None
    per_class: dict[str, float | dict[str, Number] | None] | None = None
    confusion: list[list[Count]] | None = None


class File(Struct):
    sha256: Text
    bytes: Count


class Result(Struct):
    epochs: Count | None = None
    best_epoch: Count | None = None
    seconds: Number = None
    images_per_second: Number = None
    inference_ms_per_image: Number = None
    train: Scores | None = None
    validation: Scores | None = None
    test: Scores | None = None
    temperature: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    model: File | None = None
    remarks: Names | None = None


class Figure(Struct):
    unit: Text
    better: Text | None


class Sizes(Struct):
    trainable: Count | None = None
    total: Count | None = None
    bytes: Count | None = None


class RunDocument(Struct):
    """run.json"""

    status: Status
    model: Model
    dataset: RunData
    recipe: Options
    preprocess: Options
    environment: Options
    result: Result | None = None
    figures: dict[Text, Figure] | None = None
    parameters: Sizes | None = None
    structure: str | None = None
    error: str | None = None
    created: Text | None = None
    command: str | None = None
    recipe_name: Text | None = None
    asked: Options | None = None

    def __post_init__(self) -> None:
        if self.status == "complete" and self.result is None:
            raise ValueError("it is complete, and has no result")
        known = {field.name for field in fields(Recipe)}  # a later zoo may write more
        try:
            Recipe(**{name: value for name, value in self.recipe.items() if name in known})
        except EntryError as error:
            raise ValueError(str(error)) from error
        result, classes = self.result or Result(), len(self.dataset.classes)
        for scores in (result.train, result.validation, result.test):
            rows = (scores and scores.confusion) or []
            if rows and {len(rows), *map(len, rows)} != {classes}:
                raise ValueError(f"its confusion matrix is not one of {classes} classes")


class Plan(Struct):
    model: Text
    kind: Literal["tune", "sweep"]
    trials: Count


class SearchDocument(Struct):
    """search.json"""

    status: Status
    plan: Plan
    dataset: Data
    environment: Options = {}
    best: Count | None = None
    result: dict[Text, Number] | None = None
    trained: Text | None = None
    created: Text | None = None
    command: str | None = None
    asked: Options | None = None


class Line(Struct):
    """Of metrics.jsonl"""

    epoch: Count
    lr: Number = None
    seconds: Number = None
    images_per_second: Number = None
    train_loss: Number = None
    validation_loss: Number = None
    test_loss: Number = None
    state: Digest | None = None  # of the weights after this epoch, and of the state before it


class TrialLine(Struct):
    """Of trials.jsonl"""

    number: Annotated[int, Meta(ge=1, le=2**53)]
    parameters: Options
    source: Text
    status: Literal["complete", "pruned", "failed"]
    loss: Number
    epoch: Count | None
    epochs: Count
    seconds: float
    curve: list[Line]
    error: str = ""
