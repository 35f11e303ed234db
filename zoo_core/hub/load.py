"""From weights to a model that can be used; whatever they are, they pass `check` first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.errors import UsageError
from zoo_core.hub.find import find
from zoo_core.hub.found import Found, check, model_of, spec_of
from zoo_core.hub.store import say
from zoo_core.models import assemble, check_options, trainer_of
from zoo_core.registry import registry
from zoo_core.types import ModelEntry, freeze

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.data.preprocess import Preprocess


@dataclass(frozen=True)
class About:
    """What `zoo.load(...).zoo` says about a model."""

    entry: ModelEntry
    config: Mapping[str, Any]
    classes: tuple[str, ...]
    preprocess: Preprocess | None
    metrics: Mapping[str, float]
    digest: str  # sha256 of the weight file; "" for a model without weights
    source: str
    dataset: str = ""  # that it was trained on


def load_found(
    found: Found, *, num_classes: int | None = None, device: str = "cpu", dtype: str = ""
) -> Any:
    """Check weights and make the model of them; its attribute `zoo` says what it is."""
    checked = check(found)
    found, tensors = checked.found, checked.tensors
    entry, config = model_of(found)  # or else the sentence that says what to install
    trainer = trainer_of(entry)
    classes, metrics = found.classes, found.metrics
    if num_classes is not None and num_classes != config.get("num_classes"):
        config = check_options(entry, {**config, "num_classes": num_classes})
        spec = spec_of(trainer, entry, config)
        tensors, classes, metrics = fitting(tensors, spec), (), {}
        new = ", ".join(name for name in spec if name not in tensors)
        say(f"{found.reference}: {len(tensors)} of {len(spec)} tensors; new: {new}.")
    model = assemble(trainer, entry, config, tensors, device, dtype)
    model.zoo = About(
        entry,
        freeze(config),
        classes,
        checked.preprocess,
        freeze(metrics),
        checked.file.sha256,
        found.source,
        found.dataset,
    )
    return model


def fitting(tensors: Mapping[str, np.ndarray], spec: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Those of the tensors that a model can take."""
    return {
        name: array
        for name, array in tensors.items()
        if name in spec and tuple(array.shape) == tuple(spec[name][0])
    }


def tensors_of(found: Found) -> dict[str, np.ndarray]:
    """All tensors of a file, for somebody who takes what fits another model."""
    from zoo_core.hub.verify import check_tensors, open_weights

    file = open_weights(found.path, sha256=found.sha256, size=found.bytes)
    return check_tensors(file, None, found.dtype)


def load_untrained(
    reference: str, runs: Path | None, num_classes: int | None, device: str, dtype: str
) -> Any:
    """The model of a reference as it is before any training; no weights are fetched."""
    if reference in registry().models:
        entry = registry().models.get(reference)
        config = entry.options
    else:
        found = find(reference, runs, fetch=False)
        entry, config = model_of(found if found.model else check(found).found)
    if num_classes is not None:
        config = check_options(entry, {**config, "num_classes": num_classes})
    model = assemble(trainer_of(entry), entry, config, {}, device, dtype)
    model.zoo = About(entry, freeze(config), (), None, freeze({}), "", "")
    return model


def load(
    reference: str | Path,
    *,
    pretrained: bool = True,
    num_classes: int | None = None,
    device: str = "cpu",
    dtype: Any = "",
    runs: Path | None = None,
) -> Any:
    """See zoo_core.api.load."""
    text, kind = str(reference), str(dtype).removeprefix("torch.") if dtype else ""
    if "\0" in text or not text:
        raise UsageError(f"{text!r} is no reference to weights")
    if isinstance(reference, Path) and not reference.is_absolute():
        text = f"./{text}"
    if not pretrained:
        return load_untrained(text, runs, num_classes, device, kind)
    return load_found(find(text, runs), num_classes=num_classes, device=device, dtype=kind)
