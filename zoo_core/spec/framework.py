"""What a framework can do with a model, and the way from an entry to a built model.

A trainer is a framework that can also train; see train/job.py.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo_core.io.errors import OptionError, ZooError, check_names
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.entries import MOST_ITEMS, ModelEntry, is_inside
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.spec.answers import Answers, Figure, Targets

Config = Mapping[str, Any]  # all options of a model
Tensors = Mapping[str, Any]  # arrays by name
Shape = tuple[int | None, ...]  # None: a size that only fitting decides
TensorSpec = Mapping[str, tuple[Shape, str]]  # shape and NumPy dtype ("float32") by name


@dataclass(frozen=True)
class Description:
    """What there is to say about a model before it is trained.

    A model that is empty until it is fitted has a total of 0; the core then counts its weights
    after fitting, and run.json says that number.
    """

    trainable: int  # numbers that training changes
    total: int  # with those that it leaves alone
    bytes: int  # of all tensors
    structure: str  # text for the report: layers, options


class Framework(ABC):
    """What the core asks of a framework in order to use weights. Subclass it.

    A model is any Python object that takes new attributes: the core calls no method of it. What has
    a body here is optional. `tensor_spec`, `load_state` and `describe` call methods of the model
    that torch's modules have, with NumPy's arrays; for other models replace these three.
    """

    backend = "numpy"  # which arrays the loader makes for it: "torch" or "numpy"
    checks = ""  # string target of a list of functions: further checks of its classifiers
    # What else can be done with its models, each with the string target of a function: `onnx` for
    # zoo-export, `evidence` for zoo-explain, whose pages say what it is called with.
    capabilities: Mapping[str, str] = {}
    # How many tensors and modules a sketch may have. Set for a file, whose options may be absurd:
    # the sketch raises ValueError once it has more than the file could fill.
    most_parts: int | None = None

    def build(self, entry: ModelEntry, config: Config) -> Any:
        """An untrained model: calls the entry's target with all options as keywords."""
        return build_target(entry, config)

    def sketch(self, entry: ModelEntry, config: Config) -> Any:
        """A model that is only looked at, with `describe`; best without memory."""
        return self.build(entry, config)

    def tensor_spec(self, entry: ModelEntry, config: Config) -> TensorSpec:
        """Shape and dtype of every tensor of the model, by name; best without allocating them.

        A weight file must have exactly these names, shapes and dtypes. Where only fitting decides a
        size, the nodes of a tree for example, the shape has None, `(None, 3)`: a file may have any
        size of at least 1 there, and `load_state` must find out whether its arrays agree.

        Here: those of `model.state_dict()`.
        """
        state = self.build(entry, config).state_dict()
        return {name: (array.shape, str(array.dtype)) for name, array in state.items()}

    def load_state(self, model: Any, tensors: Tensors) -> None:
        """Put weights into a built model; tensors that are not given stay.

        They fit `tensor_spec`, floats may be narrower than there, and all are finite. That is all:
        they may come from a stranger. Raise ValueError with the reason, before the model is used,
        where arrays disagree in a size that the spec leaves open, where a number that is an index
        points nowhere, or where what is given is not enough. The core makes one sentence of it, a
        WeightsError.

        Here: calls `model.load_state_dict(tensors, strict=False)`.
        """
        model.load_state_dict(tensors, strict=False)

    def assemble(
        self,
        entry: ModelEntry,
        config: Config,
        tensors: Tensors,
        *,
        device: str = "cpu",
        dtype: str = "",
    ) -> Any:
        """A model that is ready to predict, with these tensors, kept or copied; others are fresh.

        device, dtype: where and in what it computes; here, on the CPU in float32 only. A framework
        whose models behave differently in training puts the model into evaluation.
        """
        if device not in ("cpu", "auto") or dtype not in ("", "float32"):
            wanted = f"{device} in {dtype}" if dtype else device
            raise OptionError(f"model {entry.name!r} runs on the CPU in float32, not on {wanted}")
        model = self.build(entry, config)
        if tensors:
            self.load_state(model, tensors)
        return model

    def whole(
        self, entry: ModelEntry, config: Config, tensors: Tensors
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options and tensors of the same model in a file that needs no other file.

        For models that refer to weights elsewhere, a frozen backbone say; `zoo publish --full`.
        """
        return dict(config), dict(tensors)

    def describe(self, model: Any) -> Description:
        """How large a model is, and its layers as text; see Description for one not yet fitted.

        Here: counts `model.parameters()`, which have `shape` and `requires_grad`.
        """
        parameters = [(math.prod(p.shape), p.requires_grad) for p in model.parameters()]
        return Description(
            trainable=sum(count for count, trained in parameters if trained),
            total=sum(count for count, _ in parameters),
            bytes=sum(array.nbytes for array in model.state_dict().values()),
            structure=str(model),
        )

    def environment(self, device: str) -> dict[str, Any]:
        """For run.json: versions of what the result depends on, `device` and `threads`."""
        import numpy as np

        blas = np.show_config("dicts")["Build Dependencies"]["blas"]
        asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS", "")
        threads = int(asked) if asked.isdigit() else os.cpu_count() or 1
        name = f"{blas['name']} {blas.get('version', '')}"
        return {"blas": name, "device": "cpu", "threads": threads}

    @abstractmethod
    def predict_batch(self, model: Any, images: Any) -> np.ndarray:
        """Scores (B, classes) of images, float32 (B, channels, height, width) of the backend.

        Softmax makes probabilities of them: a model that has probabilities gives their logarithm.
        """

    def score_split(
        self, model: Any, preprocess: Any, dataset: Any, split: str
    ) -> tuple[np.ndarray, float] | None:
        """Scores of a split and milliseconds for each image; None: no cache has them.

        For models whose answers are kept from an earlier time, as features of a frozen backbone.
        """
        return None

    def measure(
        self, entry: ModelEntry, model: Any, recipe: Recipe, loader: Any, targets: Targets
    ) -> dict[str, float]:
        """Figures of the images of a loader, for a model that has a task of its own.

        It is here and not in Trainer, because `zoo evaluate` measures weights without training.
        """
        raise OptionError(f"trainer {entry.trainer!r} has no tasks of plugins")

    def plots(
        self, entry: ModelEntry, model: Any, recipe: Recipe, loader: Any, targets: Targets
    ) -> Mapping[str, Any]:
        """Figures of matplotlib by name, which a task of a plugin adds to the report."""
        return {}

    def answers(self, entry: ModelEntry, targets: Targets) -> Answers | None:
        """What outputs of `predict_batch` mean, a zoo.Answers; None: they answer nothing.

        Here the targets of the training decide: a class, several, or numbers.
        """
        from zoo_core.spec.answers import ANSWERS  # NumPy, which listing models does without

        kind = ANSWERS.get(targets.kind)
        return kind(targets) if kind else None

    def figures(self, entry: ModelEntry, targets: Targets) -> Mapping[str, Figure]:
        """What each figure of a model is; here those of its answers."""
        answers = self.answers(entry, targets)
        return answers.figures if answers else {}


def framework_of(entry: ModelEntry) -> Framework:
    """The framework of a model, ready to use: the trainer that its entry names."""
    trainer = registry().trainers.get(entry.trainer)
    made: Framework = resolve(trainer.target, f"model {entry.name!r}")()
    return made


def check_options(entry: ModelEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model, with these in place of the defaults; unknown ones are refused."""
    check_names(f"model {entry.name!r}", options, entry.options)
    limits = entry.limits
    for option, value in options.items():
        if option in limits and not is_inside(value, entry.options[option], *limits[option]):
            low, high = limits[option]
            several = isinstance(entry.options[option], tuple)
            kind = f"a list of at most {MOST_ITEMS} whole numbers" if several else "a whole number"
            raise OptionError(f"{option} must be {kind}, {low} to {high}, not {value!r:.60}")
        if option in entry.choices and value not in entry.choices[option]:
            *others, last = map(str, entry.choices[option])
            allowed = f"{', '.join(others)} or {last}" if others else last
            raise OptionError(f"{option} must be {allowed}, not {value!r}")
    return {**entry.options, **options}


def build_target(entry: ModelEntry, config: Mapping[str, Any]) -> Any:
    """Call a model's target. What it says of impossible options becomes a sentence of ours."""
    target = resolve(entry.target, f"model {entry.name!r}")
    try:
        return target(**config)
    except ZooError:
        raise
    except TypeError as error:  # Python's own complaint
        raise OptionError(
            f"building model {entry.name!r} raised {describe(error)}",
            f"{entry.target} must take all options of zoo info {entry.name} as keywords; "
            "an entry with num_classes=None leaves that one out",
        ) from error
    except (ArithmeticError, RuntimeError, ValueError) as error:
        # By agreement a ValueError explains the options, and a framework's RuntimeError tries to.
        raise OptionError(
            f"model {entry.name!r} cannot be built with these options: {error}",
            f"zoo info {entry.name} shows its options",
        ) from error
