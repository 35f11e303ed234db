"""The one place that decides whether a weight file is what it should be; every load passes here.

In this order: size and sha256 of the whole file, before a byte of it is parsed; the header; names,
shapes and dtypes against what the model needs; whether all numbers are finite. Any failure is one
WeightsError, and nothing of the file is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from zoo_core.data.preprocess import Preprocess
from zoo_core.io.documents import strict_loads
from zoo_core.io.errors import MissingDependency, OptionError, UnknownName, WeightsError, ZooError
from zoo_core.io.files import open_regular
from zoo_core.io.targets import describe
from zoo_core.io.tensors import FLOATS, Header, arrays_in, contents, header_in
from zoo_core.spec.answers import Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Framework, Shape, TensorSpec, check_options, framework_of
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import how_to_get, registry
from zoo_core.weights.manifest import Name, Names, Options, Text
from zoo_core.weights.store import BadCopy

KNOWN_FORMATS = {  # what people download instead of weights, by its first bytes
    b"\x80": "a pickle, which could run code when it is read",
    b"PK\x03\x04": "a zip archive, perhaps a torch checkpoint",
    b"<": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS, not the file that it points to",
}
TOLD = {  # what a run, or a file on its own, must say about its model
    "model": Name,
    "config": Options,
    "dataset": Text,
    "classes": Names,
    "preprocess": Options,
    "targets": Options,  # where it is more than one of these classes
}
EXPONENTS = {"float16": np.uint16(0x7C00), "bfloat16": np.uint16(0x7F80)}  # of what is not finite
SPARE_PARTS = 1000  # layers without tensors, and what a model replaces while it is built
PART = 1 << 18  # numbers that are looked at together: they stay in the processor's cache
Arrays = dict[str, np.ndarray]
Model = tuple[ModelEntry, dict[str, Any], Framework]  # its options in between
CHANGED = "the plugin may have changed since; zoo plugins shows its version"


@dataclass(frozen=True, kw_only=True)
class Located:
    """Weights on this machine, and what is said about them; the file is not checked yet."""

    reference: str  # as it was typed
    source: str  # where they come from, exactly
    path: Path
    model: str = ""  # plugin/name; "" where only the file itself can tell
    distribution: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    targets: Mapping[str, Any] = field(default_factory=dict)  # beside the classes, see Targets
    temperature: float = 1.0  # of their logits, see Targets
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""  # a name or a folder
    data_options: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    sha256: str = ""  # "" and None where there is nothing to compare with
    bytes: int | None = None
    dtype: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)  # run.json, where they are a run's

    @property
    def name(self) -> str:
        """What people call it: the run by its path, other weights as they were typed."""
        return self.source if self.run else self.reference


@dataclass(frozen=True)
class Verified:
    """The same, once every check is passed, and all that loading needs."""

    located: Located
    sha256: str
    bytes: int
    header: Header
    tensors: Mapping[str, np.ndarray]
    preprocess: Preprocess | None
    targets: Targets
    built_by: Model | ZooError  # or what has to be installed for the model

    @property
    def fits(self) -> bool:
        """Whether the tensors were compared with the model."""
        return not isinstance(self.built_by, ZooError)

    @property
    def model(self) -> Model:
        if isinstance(self.built_by, ZooError):
            raise self.built_by
        return self.built_by


def check(located: Located, *, tensors_only: bool = False, exact: bool = False) -> Verified:
    """Everything that must hold of weights before they are kept or used.

    tensors_only: for somebody who takes those that fit another model. exact: floats have the
    model's own dtype, as a run's must; a published file may hold smaller ones.
    """
    header, arrays, digest, size = _open(located.path, located.sha256, located.bytes)
    built_by: Model | ZooError = WeightsError(f"{located.reference} was not compared with a model")
    preprocess, spec, targets = None, None, Targets()
    if not tensors_only:
        if not located.model:  # a file on its own describes itself in its metadata
            try:
                described = told(**strict_loads(header.metadata["zoo"].encode()))
            except (KeyError, TypeError, ValueError) as error:
                what = f"{located.path} does not say which model it belongs to"
                what += f": {describe(error)}" * ("zoo" in header.metadata)
                hint = "put the config.json of its repository beside it"
                raise WeightsError(what, hint) from error
            located = replace(located, **described)
        try:
            preprocess = Preprocess.from_dict(located.preprocess)
            targets = Targets.from_dict(located.classes, located.targets, located.temperature)
        except (ArithmeticError, TypeError, ValueError) as error:
            what = f"the preprocessing or the targets that come with {located.reference}"
            raise WeightsError(f"{what} cannot be used: {describe(error)}") from error
        except OptionError as error:
            raise not_the_callers(error, located) from error
        try:
            entry, config = model_of(located)
            preprocess.check_model(config)
            built_by = entry, config, framework_of(entry)
            _check_names(built_by, targets, located)
            spec = spec_of(built_by[2], entry, config, len(header.places))
        except (UnknownName, MissingDependency) as error:
            built_by = error
        except OptionError as error:
            raise not_the_callers(error, located) from error
    tensors = _check_tensors(located.path, header, arrays, spec, located.dtype, exact)
    if not isinstance(built_by, ZooError) and any(None in s for s, _ in (spec or {}).values()):
        assemble(built_by, tensors, located)  # only the model knows whether they agree
    return Verified(located, digest, size, header, tensors, preprocess, targets, built_by)


def _check_names(built_by: Model, targets: Targets, located: Located) -> None:
    """Refuse targets of another number than the model's outputs."""
    entry, config, framework = built_by
    answers, outputs = framework.answers(entry, targets), config.get("num_classes")
    named = answers.size if answers and answers.targets == targets else 0
    if named and outputs and named != outputs:
        what = f"{located.reference} cannot be used: it names {named} classes or numbers"
        raise WeightsError(f"{what}, and its model has {outputs} outputs", CHANGED)


def not_the_callers(error: OptionError, located: Located) -> WeightsError:
    """What comes with weights is wrong, and nothing that the person asked for."""
    return WeightsError(f"{located.reference} cannot be used: {error}", CHANGED)


def assemble(built_by: Model, tensors: Mapping[str, Any], located: Located, **how: Any) -> Any:
    """The model with these tensors; its reason to refuse them becomes one sentence."""
    entry, config, framework = built_by
    try:
        return framework.assemble(entry, config, tensors, **how)
    except ValueError as error:
        raise WeightsError(f"{located.path} does not fit the model: {error}", CHANGED) from error


def fits(shape: Sequence[int], wanted: Shape) -> bool:
    """Whether a tensor has the shape that is needed; None there is any size but 0."""
    # A size of 0 would allow absurd other sizes in a small file; otherwise the file bounds them.
    sizes = zip(shape, wanted, strict=True)
    return len(shape) == len(wanted) and all(s > 0 if n is None else s == n for s, n in sizes)


def read_tensors(path: Path, *, sha256: str = "", size: int | None = None) -> Arrays:
    """The tensors of a file of any model, read as strictly; "" and None where nobody knows."""
    header, arrays, *_ = _open(path, sha256, size)
    return _check_tensors(path, header, arrays)


def _open(path: Path, sha256: str, size: int | None) -> tuple[Header, Arrays, str, int]:
    """Header, tensors, digest and size of a file that is right as a whole."""
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno()).st_size
            if size is not None and found != size:
                what = f"{path} has {found:,} bytes instead of {size:,}"
                raise BadCopy(what, "it is incomplete, or another file")
            content, digest = contents(file)
            if sha256 and digest != sha256:
                both = f"its sha256 is {digest}, not {sha256}"
                what = f"{path} is not the file that was published: {both}"
                raise BadCopy(what, "it was damaged or replaced; nothing of it was used")
            # The bytes that were hashed: nobody can put others in their place in between.
            header = _header(path, content)
            return header, arrays_in(content, header), digest, found
    except OSError as error:
        raise BadCopy(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WeightsError(f"{path} cannot be read: {error}") from error


def _header(path: Path, content: memoryview) -> Header:
    try:
        return header_in(content)
    except ValueError as error:
        start = bytes(content[:32])
        known = {} if start[8:9] == b"{" else KNOWN_FORMATS
        kinds = (what for magic, what in known.items() if start.lstrip().startswith(magic))
        reason = next((f"it is {what}" for what in kinds), error)
        raise WeightsError(f"{path} is not a safetensors file: {reason}") from error


def _check_tensors(
    path: Path, header: Header, arrays: Arrays, spec: TensorSpec | None = None, dtype: str = "",
    exact: bool = False,
) -> Arrays:  # fmt: skip
    """The tensors, once they are known to fit.

    spec: names, shapes and dtypes of the model's tensors; None where nobody knows.
    dtype: of all floats in the file, where it is known; they may be others than the model's, if
    these need not be exact.
    """
    if spec is not None:
        missing, extra = spec.keys() - arrays.keys(), arrays.keys() - spec.keys()
        words = [f"{_some(missing)} missing"] * bool(missing)
        words += [f"{_some(extra)} not part of it"] * bool(extra)
        if words:
            raise WeightsError(f"{path} does not fit the model: {', and '.join(words)}", CHANGED)
        dtypes = [(name, one.dtype) for name, one in header.places.items() if one.dtype in FLOATS]
        kinds = sorted({kind for _, kind in dtypes})
        if len(kinds) > 1 and any(spec[name][1] != kind for name, kind in dtypes):
            raise WeightsError(f"{path} mixes {' and '.join(kinds)}, and its model does not")
    tensors = {}
    for name, (kind, shape, _, _) in header.places.items():
        wanted, array = spec[name] if spec is not None else (shape, kind), arrays[name]
        if not fits(shape, wanted[0]):
            needed = ", ".join("any" if size is None else str(size) for size in wanted[0])
            what = f"{name} has the shape {list(shape)}, and [{needed}] is needed"
            raise WeightsError(f"{path} does not fit the model: {what}", CHANGED)
        floats = kind in FLOATS and wanted[1] in FLOATS and not exact
        expected = (dtype or kind) if floats else wanted[1]
        if kind != expected:
            raise WeightsError(f"{path}: {name} is {kind} instead of {expected}")
        if kind in FLOATS and not finite(array, kind):
            raise WeightsError(f"{path}: {name} holds numbers that are not finite")
        if kind == "bfloat16":  # the upper half of float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        if kind == "bool" and (array.view(np.uint8) > 1).any():
            raise WeightsError(f"{path}: {name} holds values that are neither true nor false")
        tensors[name] = array
    return tensors


def finite(array: np.ndarray, kind: str) -> bool:
    """Whether a tensor of this dtype holds neither NaN nor infinity."""
    flat, most = array.reshape(-1), EXPONENTS.get(kind)
    parts = (flat[begin : begin + PART] for begin in range(0, flat.size, PART))
    if most is None:
        return all(np.isfinite(part).all() for part in parts)
    # NumPy computes with float16 slowly, and does not know bfloat16; their bits say it as well.
    return all((part.view(np.uint16) & most).max() < most for part in parts)


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest} {'is' if len(names) == 1 else 'are'}"


def told(**document: Any) -> dict[str, Any]:
    """The fields of Located that are in TOLD, each of its type, from a document of anybody's."""
    document = {"targets": {}, **document}  # unknown to older files
    return {name: msgspec.convert(document[name], kind) for name, kind in TOLD.items()}


def model_of(located: Located) -> tuple[ModelEntry, dict[str, Any]]:
    """The model that weights belong to, with its options. Only installed plugins are asked."""
    try:
        entry = registry().models.get(located.model)
    except UnknownName as error:
        name = located.model.rpartition("/")[2]
        hint = how_to_get(located.distribution) if located.distribution else error.hint
        hint += f", which has a {name} too" if name in registry().models else ""
        what = f"{located.reference} is made for model {located.model!r}, which is not installed"
        raise UnknownName(what, hint) from error
    return entry, check_options(entry, freeze(located.config))


def spec_of(
    framework: Framework, entry: ModelEntry, config: Mapping[str, Any], tensors: int = 0
) -> TensorSpec:
    """A framework's tensor_spec; options that come with weights may be absurd.

    tensors: how many there are, where a file says so; a frozen backbone may be in another file.
    """
    if tensors and "backbone" not in entry.capabilities:
        framework.most_parts = SPARE_PARTS + 8 * tensors
    try:
        return framework.tensor_spec(entry, config)
    except ZooError:
        raise
    except Exception as error:
        what = f"model {entry.name!r} cannot be built with the options that come with the weights"
        raise WeightsError(f"{what}: {describe(error)[:200]}") from error
