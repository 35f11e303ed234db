"""Zoo: image models that grow by `pip install`.

    import zoo

    zoo.list_models("cnn*")                     # names of the installed architectures
    result = zoo.train("cnn", epochs=3)         # trains on real data; result.accuracy, result.path
    zoo.predict(result.path, "cat.jpg")         # the most likely classes
    model = zoo.load("cnn")                     # the published weights, checked
    zoo.tune("cnn", train=True)                 # searches the learning rate, then trains
    model = zoo.create("cnn", num_classes=10)   # a fresh, untrained network

Plugin authors find the rest here too: `zoo.hookimpl` marks hooks, `zoo.ModelEntry` and its siblings
describe what a plugin contributes; zoo.kit is for commands and engines, zoo.testing for tests.
Names are imported when they are first used. Commands that packages bring have their functions here
too: `zoo.generate_gallery` would be one of a package with `zoo gallery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zoo._lazy import lazy
from zoo_core import __version__ as __version__

if TYPE_CHECKING:
    from zoo_frozen.torch.backbones import FrozenModel as FrozenModel
    from zoo_frozen.torch.backbones import features_of as features_of

    from zoo_core.api import create as create
    from zoo_core.api import info as info
    from zoo_core.api import list_models as list_models
    from zoo_core.api import plugins as plugins
    from zoo_core.api import publish as publish
    from zoo_core.api import publish_all as publish_all
    from zoo_core.api import pull as pull
    from zoo_core.api import report as report
    from zoo_core.api import reproduce as reproduce
    from zoo_core.api import resume as resume
    from zoo_core.api import runs as runs
    from zoo_core.api import train as train
    from zoo_core.data.augment import Augmentation as Augmentation
    from zoo_core.data.dataset import Dataset as Dataset
    from zoo_core.data.dataset import Split as Split
    from zoo_core.data.datasets import open_dataset as open_dataset
    from zoo_core.data.draws import Draws as Draws
    from zoo_core.data.loader import Batch as Batch
    from zoo_core.data.ops import Ops as Ops
    from zoo_core.data.originals import Kept as Kept
    from zoo_core.data.originals import LeftOut as LeftOut
    from zoo_core.data.originals import Originals as Originals
    from zoo_core.data.originals import Source as Source
    from zoo_core.data.preprocess import Preprocess as Preprocess
    from zoo_core.io.engine import Engine as Engine
    from zoo_core.io.engine import Outcome as Outcome
    from zoo_core.io.engine import Piece as Piece
    from zoo_core.io.engine import Resources as Resources
    from zoo_core.io.engine import WorkerDied as WorkerDied
    from zoo_core.io.errors import DataError as DataError
    from zoo_core.io.errors import Interrupted as Interrupted
    from zoo_core.io.errors import OptionError as OptionError
    from zoo_core.io.errors import SourceUnavailable as SourceUnavailable
    from zoo_core.io.errors import TrainingError as TrainingError
    from zoo_core.io.errors import UsageError as UsageError
    from zoo_core.io.errors import WeightsError as WeightsError
    from zoo_core.io.errors import ZooError as ZooError
    from zoo_core.report.compared import compare as compare
    from zoo_core.spec.answers import Answers as Answers
    from zoo_core.spec.answers import ClassAnswers as ClassAnswers
    from zoo_core.spec.answers import ClassesAnswers as ClassesAnswers
    from zoo_core.spec.answers import Figure as Figure
    from zoo_core.spec.answers import NumberAnswers as NumberAnswers
    from zoo_core.spec.answers import Targets as Targets
    from zoo_core.spec.discovery import disable_plugin as disable_plugin
    from zoo_core.spec.discovery import enable_plugin as enable_plugin
    from zoo_core.spec.entries import AugmentationEntry as AugmentationEntry
    from zoo_core.spec.entries import CommandEntry as CommandEntry
    from zoo_core.spec.entries import DatasetEntry as DatasetEntry
    from zoo_core.spec.entries import EngineEntry as EngineEntry
    from zoo_core.spec.entries import ModelEntry as ModelEntry
    from zoo_core.spec.entries import ReaderEntry as ReaderEntry
    from zoo_core.spec.entries import TrainerEntry as TrainerEntry
    from zoo_core.spec.framework import Description as Description
    from zoo_core.spec.framework import Framework as Framework
    from zoo_core.spec.hooks import hookimpl as hookimpl
    from zoo_core.spec.recipe import Recipe as Recipe
    from zoo_core.torch.pretrained import Pretrained as Pretrained
    from zoo_core.torch.pretrained import pretrained_tensors as pretrained_tensors
    from zoo_core.torch.task import Classification as Classification
    from zoo_core.torch.task import SumOver as SumOver
    from zoo_core.torch.task import Task as Task
    from zoo_core.torch.task import Update as Update
    from zoo_core.train.job import Fitted as Fitted
    from zoo_core.train.job import Job as Job
    from zoo_core.train.job import Trainer as Trainer
    from zoo_core.train.learner import Learner as Learner
    from zoo_core.train.learner import Position as Position
    from zoo_core.train.loop import Loop as Loop
    from zoo_core.train.runner import Result as Result
    from zoo_core.use.evaluate import evaluate as evaluate
    from zoo_core.use.generate import Generator as Generator
    from zoo_core.use.generate import generate as generate
    from zoo_core.use.load import load as load
    from zoo_core.use.many import Predicted as Predicted
    from zoo_core.use.many import predict_many as predict_many
    from zoo_core.use.predict import features as features
    from zoo_core.use.predict import predict as predict
    from zoo_core.weights.listing import list_weights as list_weights


def _of_plugins(name: str) -> Any:
    from zoo_core.spec.registry import command_function

    return command_function(name)


__getattr__, __dir__, __all__ = lazy(globals(), "__version__", others=_of_plugins)
