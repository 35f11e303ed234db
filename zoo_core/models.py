"""From an entry to a model: its options, its trainer, the built thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoo_core.errors import OptionError, ZooError, did_you_mean
from zoo_core.registry import registry
from zoo_core.targets import describe, resolve
from zoo_core.types import ModelEntry

if TYPE_CHECKING:
    from zoo_core.train.job import Trainer

SHAPES = ("num_classes", "in_channels", "image_size")


def trainer_of(entry: ModelEntry) -> Trainer:
    """The trainer that a model names, ready to use."""
    trainer = registry().trainers.get(entry.trainer)
    made: Trainer = resolve(trainer.target, f"model {entry.name!r}")()
    return made


def check_options(entry: ModelEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model, with these in place of the defaults; unknown ones are refused."""
    for option in options:
        if option not in entry.options:
            hint = did_you_mean(option, entry.options, f"it has: {', '.join(entry.options)}")
            raise OptionError(f"model {entry.name!r} has no option {option!r}", hint)
        value = options[option]
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
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        # By agreement a ValueError explains the options, and a framework's RuntimeError tries to; a
        # TypeError is Python's own complaint.
        raise OptionError(
            f"model {entry.name!r} cannot be built with these options: {error}"
            if not isinstance(error, TypeError)
            else f"building model {entry.name!r} raised {describe(error)}",
            f"zoo info {entry.name} shows its options"
            if not isinstance(error, TypeError)
            else f"{entry.target} must take all options of zoo info {entry.name} as keywords; "
            "an entry with num_classes=None leaves that one out",
        ) from error


def assemble(
    trainer: Trainer,
    entry: ModelEntry,
    config: Mapping[str, Any],
    tensors: Mapping[str, Any],
    device: str = "cpu",
    dtype: str = "",
) -> Any:
    """A model in evaluation mode with these tensors; those that are not given are fresh ones.

    A trainer may have an `assemble` of its own, which can keep the tensors instead of copying them
    and knows devices and dtypes.
    """
    if own := getattr(trainer, "assemble", None):
        return own(entry, config, tensors, device=device, dtype=dtype)
    if device not in ("cpu", "auto") or dtype not in ("", "float32"):
        raise OptionError(
            f"model {entry.name!r} runs on the CPU in float32, not on {device}"
            + (f" in {dtype}" if dtype else "")
        )
    model = trainer.build(entry, config)
    if tensors:
        trainer.load_state(model, tensors)
    return model.eval() if hasattr(model, "eval") else model
