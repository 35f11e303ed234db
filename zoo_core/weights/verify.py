"""The one place that decides whether a weight file is what it should be; every load passes here.

In this order: size and sha256 of the whole file before a byte of it is understood; then the header;
then names, shapes and dtypes against what the model needs; then whether all numbers are finite.
Any failure is one WeightsError, and nothing of the file is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from zoo_core.io.documents import strict_loads
from zoo_core.io.errors import MissingDependency, UnknownName, WeightsError, ZooError
from zoo_core.io.files import digest_of, open_regular
from zoo_core.io.targets import describe
from zoo_core.io.tensors import FLOATS, Header, read_arrays, read_header
from zoo_core.runs.run import Run
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Framework, TensorSpec, check_options, framework_of
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import registry
from zoo_core.weights.manifest import Value
from zoo_core.weights.store import check_digest, check_size

if TYPE_CHECKING:
    from zoo_core.data.preprocess import Preprocess


KNOWN_FORMATS = {  # what people download instead of weights, by its first bytes
    b"\x80": "a pickle, which could run code when it is read",
    b"PK\x03\x04": "a zip archive, perhaps a torch checkpoint",
    b"<": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS, not the file that it points to",
}


@dataclass(frozen=True)
class WeightsFile:
    """A file that has the right size, digest and header; its tensors are not checked yet."""

    path: Path
    sha256: str
    bytes: int
    header: Header
    arrays: Mapping[str, np.ndarray]

    @property
    def dtypes(self) -> set[str]:
        """Those of its floats."""
        return {place.dtype for place in self.header.places.values()} & set(FLOATS)


def open_weights(path: Path, *, sha256: str = "", size: int | None = None) -> WeightsFile:
    """Check a file as a whole and map it.

    sha256, size: what it must have; "" and None where nobody knows.
    """
    try:
        with open_regular(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, size)
            found = digest_of(file)
            check_digest(path, found, sha256)
            # The same open file: nobody can put another one in its place in between.
            header = _header(path, file)
            arrays = read_arrays(file, header, mapped=True)
            return WeightsFile(path, found, os.fstat(file.fileno()).st_size, header, arrays)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WeightsError(f"{path} cannot be read: {reason}") from error


def _header(path: Path, file: IO[bytes]) -> Header:
    try:
        return read_header(file)
    except ValueError as error:
        file.seek(0)
        start = file.read(32)
        known = {} if start[8:9] == b"{" else KNOWN_FORMATS
        what = next((w for magic, w in known.items() if start.lstrip().startswith(magic)), "")
        raise WeightsError(
            f"{path} is not a safetensors file: {f'it is {what}' if what else error}"
        ) from error


def check_tensors(
    file: WeightsFile, spec: TensorSpec | None, dtype: str = ""
) -> dict[str, np.ndarray]:
    """The tensors, once they are known to fit.

    spec: names, shapes and dtypes of the model's tensors; None where the model is not installed.
    dtype: of all floats in the file, where it is known; they may be others than the model's.
    """
    places = file.header.places
    if spec is not None:
        _same_names(file, spec)
    for name, (kind, shape, _, _) in places.items():
        wanted = spec[name] if spec is not None else (shape, kind)
        if shape != tuple(wanted[0]):
            raise WeightsError(
                f"{file.path} does not fit the model: {name} has the shape {list(shape)}, "
                f"and {list(wanted[0])} is needed",
                "the plugin may have changed since; zoo plugins shows its version",
            )
        expected = (dtype or kind) if kind in FLOATS and wanted[1] in FLOATS else wanted[1]
        if kind != expected:
            raise WeightsError(f"{file.path}: {name} is {kind} instead of {expected}")
        if not _finite(file.arrays[name], kind):
            raise WeightsError(
                f"{file.path}: {name} holds numbers that are not finite"
                if kind in FLOATS
                else f"{file.path}: {name} holds values that are neither true nor false"
            )
    return {name: _plain(array, places[name].dtype) for name, array in file.arrays.items()}


def _same_names(file: WeightsFile, spec: TensorSpec) -> None:
    missing, extra = spec.keys() - file.arrays.keys(), file.arrays.keys() - spec.keys()
    if missing or extra:
        words = [f"{_some(missing)} missing"] if missing else []
        words += [f"{_some(extra)} too much"] if extra else []
        raise WeightsError(
            f"{file.path} does not fit the model: {', and '.join(words)}",
            "the plugin may have changed since; zoo plugins shows its version",
        )


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest} {'is' if len(names) == 1 else 'are'}"


def _finite(array: np.ndarray, dtype: str) -> bool:
    if dtype == "bool":
        return bool((array.view(np.uint8) <= 1).all())
    if dtype == "bfloat16":  # the exponent of NaN and infinity is all ones
        return not bool(((array & 0x7F80) == 0x7F80).any())
    return dtype not in FLOATS or bool(np.isfinite(array).all())


def _plain(array: np.ndarray, dtype: str) -> np.ndarray:
    """bfloat16 is the upper half of float32."""
    if dtype != "bfloat16":
        return array
    widened: np.ndarray = (array.astype(np.uint32) << 16).view(np.float32)
    return widened


@dataclass(frozen=True, kw_only=True)
class Found:
    """Weights on this machine, and what is known about them; the file is not checked yet."""

    reference: str  # as it was typed
    source: str  # where they come from, exactly
    path: Path
    model: str = ""  # plugin/name; "" where only the file itself can tell
    config: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""  # a name or a folder
    data_options: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    sha256: str = ""  # "" and None where there is nothing to compare with
    bytes: int | None = None
    dtype: str = ""
    distribution: str = ""
    run: Run | None = None


class Told(msgspec.Struct, frozen=True):
    """What a run, or a file on its own, must say about its model; nobody else has checked it."""

    model: str
    config: dict[str, Value]
    dataset: str
    classes: tuple[str, ...]
    preprocess: dict[str, Value]


@dataclass(frozen=True)
class Checked:
    """The same, once every check is passed."""

    found: Found
    file: WeightsFile
    tensors: Mapping[str, np.ndarray]
    preprocess: Preprocess
    fits: bool  # the model; False where that is not installed, or its framework is not


def check(found: Found) -> Checked:
    """Everything that must hold of weights before they are kept or used."""
    from zoo_core.data.preprocess import Preprocess

    file = open_weights(found.path, sha256=found.sha256, size=found.bytes)
    if not found.model:
        found = _told_by(file, found)
    spec = _spec_of_found(found) if found.model in registry().models else None
    tensors = check_tensors(file, spec, found.dtype)
    try:
        preprocess = Preprocess.from_dict(found.preprocess)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise WeightsError(
            f"the preprocessing that comes with {found.reference} is none: {describe(error)}"
        ) from error
    return Checked(found, file, tensors, preprocess, spec is not None)


def _told_by(file: WeightsFile, found: Found) -> Found:
    """What a file on its own says about itself, in its metadata."""
    try:
        told = msgspec.convert(strict_loads(file.header.metadata["zoo"].encode()), Told)
    except (KeyError, ValueError) as error:
        raise WeightsError(
            f"{found.path} does not say of which model it is",
            "put the config.json of its repository beside it",
        ) from error
    return replace(found, **msgspec.structs.asdict(told))


def _spec_of_found(found: Found) -> TensorSpec | None:
    entry, config = model_of(found)
    try:
        spec = spec_of(framework_of(entry), entry, config)
    except MissingDependency:
        return None  # the plugin is here, and its framework is not
    outputs = config.get("num_classes")
    if isinstance(outputs, int) and len(found.classes) > outputs:
        raise WeightsError(f"{found.reference} names more classes than its model has")
    return spec


def model_of(found: Found) -> tuple[ModelEntry, dict[str, Any]]:
    """The model that weights belong to, with its options. Only installed plugins are asked."""
    try:
        entry = registry().models.get(found.model)
    except UnknownName as error:
        name = found.model.rpartition("/")[2]
        install = f"pip install {found.distribution}" if found.distribution else error.hint
        raise UnknownName(
            f"{found.reference} is made for model {found.model!r}, which is not installed",
            install if name not in registry().models else f"{install}, which has a {name} too",
        ) from error
    return entry, check_options(entry, freeze(found.config))


def spec_of(framework: Framework, entry: ModelEntry, config: Mapping[str, Any]) -> TensorSpec:
    """A framework's tensor_spec; options that come with weights may be absurd."""
    try:
        return framework.tensor_spec(entry, config)
    except ZooError:
        raise
    except Exception as error:
        raise WeightsError(
            f"model {entry.name!r} cannot be built with the options that come with the weights: "
            f"{describe(error)[:200]}"
        ) from error
