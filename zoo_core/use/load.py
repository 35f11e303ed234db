"""From checked weights to a model that can be used; its attribute `zoo` says what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.ops import open_ops
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import named, say
from zoo_core.io.errors import UsageError
from zoo_core.io.targets import Displayed, resolve
from zoo_core.spec.answers import Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Framework, check_options, framework_of
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import as_reference, is_path, qualified_name, registry
from zoo_core.weights.references import locate, obtain
from zoo_core.weights.verify import Verified, assemble, check, fits, model_of, spec_of

PROBES = 4  # images that the published model must answer exactly as the run's does
NEEDED = {  # capability -> what a model without it does not declare
    "generate": "way to draw samples",
    "features": "features to compare images by",
    "attention": "attention that could be drawn",
}


@dataclass(frozen=True, repr=False)
class About(Displayed):
    """What `zoo.load(...).zoo` says about a model."""

    entry: ModelEntry
    config: Mapping[str, Any]
    targets: Targets  # what it says of an image
    preprocess: Preprocess | None
    metrics: Mapping[str, float]
    digest: str  # sha256 of the weight file; "" for a model without weights
    source: str
    dataset: str = ""  # that it was trained on
    data_options: Mapping[str, Any] = field(
        default_factory=dict
    )  # with which zoo.open_dataset has it

    _html = "zoo_core.report.notebook:about_html"

    def __repr__(self) -> str:
        told = [self.entry.name, *([f"trained on {self.dataset}"] if self.dataset else ())]
        told += [f"{len(self.classes)} classes"] if self.classes else []
        told += [named(name, value) for name, value in [*self.metrics.items()][:2]]
        told += [f"sha256 {self.digest[:12]}"] if self.digest else ["untrained"]
        return f"About({', '.join(told)})"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; () where it has none."""
        return self.targets.classes

    @property
    def framework(self) -> Framework:
        """What computes it."""
        return framework_of(self.entry)

    @property
    def temperature(self) -> float:
        """What logits of one class are divided by before softmax; 1 where nothing decided it."""
        return self.targets.temperature

    def to_dict(self) -> dict[str, Any]:
        """What a program must know that has only an exported file."""
        answers = self.framework.answers(self.entry, self.targets)
        targets = answers.targets if answers else self.targets
        return {
            "model": qualified_name(self.entry),
            "task": answers.task if answers and not self.entry.own_task else self.entry.task,
            "outputs": answers.outputs if answers else "",
            "classes": targets.classes,
            "targets": {"kind": targets.kind, **targets.to_dict()},
            "temperature": targets.temperature,
            "preprocess": self.preprocess.to_dict() if self.preprocess else {},
            # A file that others get tells nobody where the images are on this disk.
            "dataset": Path(self.dataset).name if is_path(self.dataset) else self.dataset,
            "metrics": dict(self.metrics),
            "sha256": self.digest,
        }


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
    text, kind = as_reference(reference), str(dtype).removeprefix("torch.") if dtype else ""
    if "\0" in text or not text:
        raise UsageError(f"{text!r} cannot be a reference to weights")
    if pretrained:
        return load_model(obtain(text, runs), num_classes=num_classes, device=device, dtype=kind)
    if text in registry().models:
        entry = registry().models.get(text)
        config = entry.options
    else:
        located = locate(text, runs)
        entry, config = model_of(located if located.model else check(located).located)
    if num_classes is not None:
        config = check_options(entry, {**config, "num_classes": num_classes})
    model = framework_of(entry).assemble(entry, config, {}, device=device, dtype=kind)
    model.zoo = About(entry, freeze(config), Targets(), None, freeze({}), "", "")
    return model


def load_model(
    weights: Verified, *, num_classes: int | None = None, device: str = "cpu", dtype: str = ""
) -> Any:
    """The model of checked weights."""
    entry, config, framework = weights.model
    located, tensors = weights.located, weights.tensors
    targets, metrics = weights.targets, located.metrics
    if num_classes is not None and num_classes != config.get("num_classes"):
        config = check_options(entry, {**config, "num_classes": num_classes})
        spec = spec_of(framework, entry, config)
        tensors, targets, metrics = fitting(tensors, spec), Targets(), {}
        new = ", ".join(name for name in spec if name not in tensors)
        say(f"{located.reference}: {len(tensors)} of {len(spec)} tensors; new: {new}.")
    built_by = entry, config, framework
    model = assemble(built_by, tensors, located, device=device, dtype=dtype)
    model.zoo = About(
        entry, freeze(config), targets, weights.preprocess, freeze(metrics), weights.sha256,
        located.source, located.dataset, freeze(located.data_options),
    )  # fmt: skip
    return model


def fitting(tensors: Mapping[str, np.ndarray], spec: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors that a model can take."""
    return {k: v for k, v in tensors.items() if k in spec and fits(v.shape, spec[k][0])}


def loaded(model: Any, runs: Path | None = None, device: str = "auto") -> Any:
    """A model that zoo.load returned, or the one of a reference."""
    if isinstance(model, str | Path):
        return load(model, runs=runs, device=device)
    if not hasattr(model, "zoo"):
        raise UsageError("only a model that zoo.load returned can be used like this")
    if device != "auto":
        hint = f"zoo.load(..., device={device!r}) loads it there"
        raise UsageError("a model that is loaded stays on its device", hint)
    return model


def capability(entry: ModelEntry, name: str) -> Any:
    """The function that an entry declares under a name; or else a sentence on who does."""
    if name not in entry.capabilities:
        able = [other.name for other in registry().models if name in other.capabilities]
        raise UsageError(
            f"model {entry.name!r} declares no {NEEDED.get(name, name)}",
            f"these do: {', '.join(able)}" if able else "a plugin may bring models that do",
        )
    return resolve(entry.capabilities[name], f"model {entry.name!r}")


def blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover `count` rows."""
    return [slice(start, start + size) for start in range(0, count, size)]


def as_input(model: Any, images: Any) -> Any:
    """Images (h, w, c), files or PIL images, as the batch that a loaded model takes.

    float32 (n, channels, size, size) are prepared already.
    """
    preprocess, backend = model.zoo.preprocess, model.zoo.framework.backend
    if getattr(images, "dtype", None) == np.float32:
        return open_ops(backend).put(images)
    return preprocess.batch(list(images), backend=backend)


def probes(model: Any) -> Any:
    """A few made-up images, the same ones everywhere, as a loaded model is given them."""
    preprocess = model.zoo.preprocess
    shape = (PROBES, preprocess.stored_size, preprocess.stored_size, preprocess.stored_channels)
    return as_input(model, np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8))


def answers(model: Any) -> bytes:
    """What the model says about its probes, or samples of it, to the last bit."""
    entry, framework = model.zoo.entry, framework_of(model.zoo.entry)
    if framework.answers(entry, model.zoo.targets) is not None:
        return framework.predict_batch(model, probes(model)).tobytes()
    if "generate" not in entry.capabilities:
        return b""
    from zoo_core.use.generate import sampler_of

    return sampler_of(model).sample(PROBES).images.tobytes()
