"""Weights inside a plugin's own package: whoever installs the wheel has them, without any network.

zoo_mixer/weights.json                       the manifest that `zoo_manifests` names
zoo_mixer/weights/mixer.cifar10.safetensors
zoo_mixer/weights/mixer.cifar10.json         how they were trained, for the card
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from zoo_core.io.documents import write_document
from zoo_core.io.errors import UsageError, WeightsError
from zoo_core.io.files import atomic_write, lock_of
from zoo_core.io.tensors import to_bytes
from zoo_core.publish.card import card, training_of
from zoo_core.publish.publish import Publication, entry_of, refuse_taken_name
from zoo_core.runs.run import Run
from zoo_core.use.load import answers, load_found
from zoo_core.weights.manifest import Listed, Weights, all_weights, changing
from zoo_core.weights.references import of_weights
from zoo_core.weights.repository import MODEL, open_repository
from zoo_core.weights.store import packaged_file
from zoo_core.weights.verify import Found, check

MANIFEST = "weights.json"
DTYPES = ("float32", "float16")
TOLERANCE = 0.001  # of accuracy that a smaller dtype may cost


def ship(
    run: Run, package: Path, *, tag: str = "", license: str = "", dtype: str = "float32"
) -> Weights:
    """Put the weights of a run into the folder of a package, and list them there."""
    if not (package / "__init__.py").is_file():
        raise UsageError(
            f"{package} is no Python package: it has no __init__.py",
            "name the folder that holds plugin.py, package:zoo-mixer/zoo_mixer for example",
        )
    weights, found = entry_of(run, tag=tag, license=license)
    data = found.path.read_bytes() if dtype == weights.dtype else _converted(found, dtype)
    file = f"weights/{weights.name}.safetensors"
    weights = msgspec.structs.replace(
        weights,
        file=file,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        dtype=dtype,
        sources=(f"package:{file}",),
    )
    path = package / file
    try:
        with atomic_write(path) as temporary:
            temporary.write_bytes(data)
            weights = _compared(weights, temporary, found, dtype)
        write_document(_training_file(path), training_of(run.read()))
    except OSError as error:
        raise WeightsError(f"{path} could not be written: {error.strerror}") from error
    with changing(package / MANIFEST) as entries:
        entries[weights.name] = weights
    lock_of(package / MANIFEST).unlink(missing_ok=True)  # a package is no place for it
    return weights


def _converted(found: Found, dtype: str) -> bytes:
    import numpy as np

    checked = check(found)
    tensors = {
        name: array.astype(dtype) if array.dtype.kind == "f" else array
        for name, array in checked.tensors.items()
    }
    large = [name for name, array in tensors.items() if not np.isfinite(array).all()]
    if large:
        raise WeightsError(f"{large[0]} of {found.source} has numbers too large for {dtype}")
    return to_bytes(tensors, checked.file.header.metadata.get("zoo", ""))


def _compared(weights: Weights, path: Path, found: Found, dtype: str) -> Weights:
    """The entry with the figures of what is shipped; refused where these are not the run's."""
    shipped = of_weights(weights.name, weights, path)
    if shipped.sha256 == found.sha256:
        if answers(load_found(shipped)) != answers(load_found(found)):
            raise WeightsError(f"{path} does not give what {found.source} gives")
        return weights
    from zoo_core.use.predict import measure

    measured = measure(load_found(shipped), found.dataset, found.data_options, found.task_options)
    figures = {
        f"test_{name}": value
        for name, value in measured.items()
        if f"test_{name}" in weights.metrics
    }
    before, now = (m.get("test_accuracy", 0.0) for m in (weights.metrics, figures))
    if abs(before - now) > TOLERANCE:
        raise WeightsError(
            f"in {dtype} the accuracy is {100 * now:.2f} % instead of {100 * before:.2f} %",
            "ship them in float32",
        )
    return msgspec.structs.replace(weights, metrics={**weights.metrics, **figures})


# ---------------------------------------------------------------- from packages to a hub


def shipped(plugins: Sequence[str] = ()) -> list[Listed]:
    """The weights that installed plugins bring along, all or those of some plugins or packages."""
    return [
        one
        for one in all_weights()[0]
        if packaged_file(one)
        and (not plugins or {one.weights.plugin, one.weights.distribution} & set(plugins))
    ]


def plan_shipped(one: Listed, organisation: str) -> Publication:
    """Their publication: the same bytes in a repository with the name of the weights."""
    path = packaged_file(one)
    assert path is not None
    if not re.fullmatch(r"hf:[^/]+|file:.+", organisation):
        raise UsageError(
            f"{organisation!r} is no place for several repositories",
            "write hf:ORGANISATION or file:FOLDER",
        )
    repository, _ = open_repository(f"{organisation}/{one.weights.name.replace('.', '-')}")
    weights = msgspec.structs.replace(one.weights, file=MODEL, sources=())
    refuse_taken_name(weights)
    told = _training_file(path)
    try:
        text = card(weights, json.loads(told.read_text("utf-8")), repository.reference)
    except (OSError, ValueError, LookupError) as error:
        raise WeightsError(
            f"{told} does not say how {weights.name} was trained: {error}",
            "zoo publish RUN --to package:FOLDER writes it",
        ) from error
    return Publication(weights, of_weights(weights.name, weights, path), text, repository.reference)


def _training_file(path: Path) -> Path:
    return path.with_suffix(".json")
