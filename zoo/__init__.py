"""Zoo: image models that grow by `pip install`.

    import zoo

    zoo.list_models("cnn*")                     # names of the installed architectures
    result = zoo.train("cnn", epochs=3)         # trains on real data; result.accuracy, result.path
    zoo.predict(result.path, "cat.jpg")         # the most likely classes
    model = zoo.load("cnn")                     # the published weights, checked
    zoo.tune("cnn", train=True)                 # searches the learning rate, then trains
    model = zoo.create("cnn", num_classes=10)   # a fresh, untrained network

Plugin authors need nothing else: `zoo.hookimpl` marks hooks, `zoo.ModelEntry` and its siblings
describe what a plugin contributes. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zoo_core.api import create as create
    from zoo_core.api import evaluate as evaluate
    from zoo_core.api import generate as generate
    from zoo_core.api import info as info
    from zoo_core.api import list_models as list_models
    from zoo_core.api import load as load
    from zoo_core.api import predict as predict
    from zoo_core.api import sweep as sweep
    from zoo_core.api import train as train
    from zoo_core.api import tune as tune
    from zoo_core.data.datasets import open_dataset as open_dataset
    from zoo_core.data.sources import Source as Source
    from zoo_core.errors import SourceUnavailable as SourceUnavailable
    from zoo_core.errors import WeightsError as WeightsError
    from zoo_core.errors import ZooError as ZooError
    from zoo_core.features.torch_model import FrozenModel as FrozenModel
    from zoo_core.hookspecs import hookimpl as hookimpl
    from zoo_core.pretrained import Pretrained as Pretrained
    from zoo_core.pretrained import pretrained_tensors as pretrained_tensors
    from zoo_core.train.generate import Generator as Generator
    from zoo_core.train.torch_task import Task as Task
    from zoo_core.types import DatasetEntry as DatasetEntry
    from zoo_core.types import ModelEntry as ModelEntry
    from zoo_core.types import Recipe as Recipe
    from zoo_core.types import TrainerEntry as TrainerEntry

_HOME = {
    "create": "zoo_core.api",
    "evaluate": "zoo_core.api",
    "generate": "zoo_core.api",
    "info": "zoo_core.api",
    "list_models": "zoo_core.api",
    "load": "zoo_core.api",
    "predict": "zoo_core.api",
    "sweep": "zoo_core.api",
    "train": "zoo_core.api",
    "tune": "zoo_core.api",
    "open_dataset": "zoo_core.data.datasets",
    "Source": "zoo_core.data.sources",
    "SourceUnavailable": "zoo_core.errors",
    "WeightsError": "zoo_core.errors",
    "ZooError": "zoo_core.errors",
    "FrozenModel": "zoo_core.features.torch_model",
    "hookimpl": "zoo_core.hookspecs",
    "Generator": "zoo_core.train.generate",
    "Pretrained": "zoo_core.pretrained",
    "pretrained_tensors": "zoo_core.pretrained",
    "Task": "zoo_core.train.torch_task",
    "DatasetEntry": "zoo_core.types",
    "ModelEntry": "zoo_core.types",
    "Recipe": "zoo_core.types",
    "TrainerEntry": "zoo_core.types",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}", name=name, obj=None)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
