"""What a framework can do with a model, and the way from an entry to a built model.

A trainer is a framework that can also train; see train/job.py.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.io.errors import OptionError, UsageError, ZooError, check_names
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry

if TYPE_CHECKING:
    import numpy as np

SHAPES = ("num_classes", "in_channels", "image_size")

Config = Mapping[str, Any]  # all options of a model
Tensors = Mapping[str, Any]  # arrays by name
TensorSpec = Mapping[str, tuple[tuple[int, ...], str]]  # shape and dtype by name


@dataclass(frozen=True)
class Description:
    """What there is to say about a built model."""

    trainable: int
    total: int
    bytes: int  # of all tensors
    structure: str


class Framework(ABC):
    """What the core asks of a framework. Subclass it; what has a body here may stay as it is.

    The bodies are for models on a CPU that have torch's method names and NumPy's arrays.
    """

    backend = "numpy"  # which arrays the loader makes for it: "torch" or "numpy"
    checks = ""  # string target of what `zoo plugin check` checks of classifiers: check(name, ...)

    def build(self, entry: ModelEntry, config: Config) -> Any:
        """An untrained model."""
        return build_target(entry, config)

    def sketch(self, entry: ModelEntry, config: Config) -> Any:
        """A model that is only looked at, with `describe`; best without memory."""
        return self.build(entry, config)

    def tensor_spec(self, entry: ModelEntry, config: Config) -> TensorSpec:
        """Shape and dtype of every tensor of the model, by name; best without allocating them."""
        state = self.build(entry, config).state_dict()
        return {name: (array.shape, str(array.dtype)) for name, array in state.items()}

    def load_state(self, model: Any, tensors: Tensors) -> None:
        """Put weights that fit into a built model; tensors that are not given stay."""
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
        """A model in evaluation mode with these tensors, kept or copied; the others are fresh."""
        if device not in ("cpu", "auto") or dtype not in ("", "float32"):
            wanted = f"{device} in {dtype}" if dtype else device
            raise OptionError(f"model {entry.name!r} runs on the CPU in float32, not on {wanted}")
        model = self.build(entry, config)
        if tensors:
            self.load_state(model, tensors)
        return model.eval() if hasattr(model, "eval") else model

    def whole(
        self, entry: ModelEntry, config: Config, tensors: Tensors
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options and tensors of the same model in a file that needs no other file."""
        return dict(config), dict(tensors)

    def describe(self, model: Any) -> Description:
        """How large a model is, and its layers as text."""
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
        """Scores (B, classes) of a batch that the loader or `Preprocess` made."""

    def score_split(
        self, model: Any, preprocess: Any, dataset: Any, split: str
    ) -> tuple[np.ndarray, float] | None:
        """Scores of a split and milliseconds for each image; None: no cache has them."""
        return None

    def measure(
        self, entry: ModelEntry, model: Any, recipe: Recipe, loader: Any, classes: tuple[str, ...]
    ) -> dict[str, float]:
        """Figures of the images of a loader, for a model whose task is not classification."""
        raise OptionError(f"trainer {entry.trainer!r} measures classifiers only")

    def export(self, entry: ModelEntry, model: Any, images: Any, path: Path) -> float:
        """Write a model for other programs; by how much its answers on the images then differ."""
        raise UsageError(
            f"model {entry.name!r} cannot be exported: {entry.framework} has no such format"
        )


def framework_of(entry: ModelEntry) -> Framework:
    """The framework of a model, ready to use: the trainer that its entry names."""
    trainer = registry().trainers.get(entry.trainer)
    made: Framework = resolve(trainer.target, f"model {entry.name!r}")()
    return made


def check_options(entry: ModelEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model, with these in place of the defaults; unknown ones are refused."""
    check_names(f"model {entry.name!r}", options, entry.options)
    for option, value in options.items():
        if option in SHAPES and not (type(value) is int and value > 0):
            raise OptionError(f"{option} must be a whole number of at least 1, not {value!r}")
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
