"""From weights to a model that can be used; whatever they are, they pass `check` first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import say
from zoo_core.io.errors import UsageError
from zoo_core.runs.run import Run
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Framework, check_options, framework_of
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import registry
from zoo_core.weights.references import find
from zoo_core.weights.verify import Found, check, model_of, spec_of

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
    framework = framework_of(entry)
    classes, metrics = found.classes, found.metrics
    if num_classes is not None and num_classes != config.get("num_classes"):
        config = check_options(entry, {**config, "num_classes": num_classes})
        spec = spec_of(framework, entry, config)
        tensors, classes, metrics = fitting(tensors, spec), (), {}
        new = ", ".join(name for name in spec if name not in tensors)
        say(f"{found.reference}: {len(tensors)} of {len(spec)} tensors; new: {new}.")
    model = framework.assemble(entry, config, tensors, device=device, dtype=dtype)
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
    from zoo_core.weights.verify import check_tensors, open_weights

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
    model = framework_of(entry).assemble(entry, config, {}, device=device, dtype=dtype)
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
    """A trained model in evaluation mode, its weights checked; `.zoo` says what it is.

        model = zoo.load("cnn")                    # the published weights of its own dataset
        model = zoo.load("hf:org/name@v1")         # or a run, `latest`, a .safetensors file
        model.zoo.classes, model.zoo.preprocess, model.zoo.metrics, model.zoo.digest
        zoo.predict(model, "cat.jpg")

    pretrained: False builds the model untrained. num_classes: another number keeps the body and
    gives it a new head. device, dtype: where and in what it computes, "cuda" and "bfloat16" say.
    """
    text, kind = str(reference), str(dtype).removeprefix("torch.") if dtype else ""
    if "\0" in text or not text:
        raise UsageError(f"{text!r} is no reference to weights")
    if isinstance(reference, Path) and not reference.is_absolute():
        text = f"./{text}"
    if not pretrained:
        return load_untrained(text, runs, num_classes, device, kind)
    return load_found(find(text, runs), num_classes=num_classes, device=device, dtype=kind)


@dataclass(frozen=True)
class Loaded:
    """A trained model and what it needs to be used."""

    run: Run | None  # None for weights that are not those of a run
    entry: ModelEntry
    model: Any
    trainer: Framework
    classes: tuple[str, ...]
    preprocess: Preprocess
    dataset: str  # the reference of what it was trained on, with its options
    options: Mapping[str, Any]
    source: str  # where exactly the weights come from
    task: Mapping[str, Any] = field(default_factory=dict)  # options that it was trained with


def load_run(reference: str, runs: Path | None = None) -> Loaded:
    """Trained weights, of a run or published ones, ready to predict."""
    found = find(reference, runs)
    model = load_found(found)
    return Loaded(
        found.run,
        model.zoo.entry,
        model,
        framework_of(model.zoo.entry),
        model.zoo.classes,
        model.zoo.preprocess,
        model.zoo.dataset,
        found.data_options,
        found.source,
        found.task_options,
    )


def in_memory(model: Any) -> Loaded:
    """A model that zoo.load returned."""
    about = getattr(model, "zoo", None)
    if about is None:
        raise UsageError("only a model that zoo.load returned can be used like this")
    trainer = framework_of(about.entry)
    return Loaded(
        None, about.entry, model, trainer, about.classes, about.preprocess, "", {}, about.source
    )


PROBES = 4  # pictures that the published model must answer exactly as the run's does


def probes(model: Any) -> Any:
    """A few made-up pictures, the same ones everywhere, as a loaded model is given them."""
    import numpy as np

    preprocess = model.zoo.preprocess
    shape = (PROBES, preprocess.stored_size, preprocess.stored_size, preprocess.stored_channels)
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    return preprocess.batch(list(pixels), backend=framework_of(model.zoo.entry).backend)


def answers(model: Any) -> bytes:
    """What the model says about them, or samples of it, to the last bit."""
    about = model.zoo
    if not about.entry.classifies:
        if "generate" not in about.entry.capabilities:
            return b""
        from zoo_core.use.generate import open_sampler

        source = open_sampler(about.entry, model, about.preprocess, about.classes)
        return source.sample(PROBES).images.tobytes()
    return framework_of(model.zoo.entry).predict_batch(model, probes(model)).tobytes()
