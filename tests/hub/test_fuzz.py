"""Mutated files: nothing but ZooErrors comes out, and no altered bytes are ever loaded.

The slow run tries 100,000 files and 50,000 manifests; the quick one a few hundred. Two questions
are asked of a file: is it refused by its digest, wherever it was changed; and with the digest made
right, as somebody who controls a repository would, is what loads exactly what the file says, or
else one typed error.
"""

import functools
import hashlib
import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hub.parts import entry, join_file, split_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zoo
from zoo_core.io.errors import ManifestError, WeightsError
from zoo_core.io.tensors import to_bytes
from zoo_core.spec.framework import check_options
from zoo_core.train.job import trainer_of
from zoo_core.use.load import load_model
from zoo_core.weights.manifest import Manifest, Weights, parse
from zoo_core.weights.verify import Located, check, read_tensors

QUICK = {"deadline": None, "max_examples": 150, "database": None,
         "suppress_health_check": list(HealthCheck)}  # fmt: skip
SLOW = QUICK | {"max_examples": 50_000}

OPTIONS = {"hidden": (4,), "image_size": 4, "in_channels": 1, "num_classes": 3}
WORDS = st.text(max_size=5)
FLOATS = st.floats(allow_subnormal=False)  # which training in the same process turns off
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@functools.cache
def original() -> bytes:
    """A small mlp, complete with what it says about itself."""
    mlp = zoo.info("mlp")
    config = check_options(mlp, OPTIONS)
    spec = trainer_of(mlp).tensor_spec(mlp, config)
    generator = np.random.default_rng(0)
    arrays = {
        name: generator.normal(size=shape).astype(np.float32) for name, (shape, _) in spec.items()
    }
    preprocess = {"size": 4, "channels": 1, "mean": [0.5], "std": [0.5]}
    about = {"model": "mlp/mlp", "config": config, "dataset": "x", "classes": ["a", "b", "c"],
             "preprocess": preprocess}  # fmt: skip
    return to_bytes(arrays, json.dumps(about))


@st.composite
def mutated(draw) -> bytes:
    """The file with something changed in its bytes, in its header, or in what it tells."""
    data = original()
    sort = draw(st.sampled_from(["bytes", "cut", "insert", "number", "header", "about"]))
    place = draw(st.integers(0, len(data) - 1))
    if sort == "bytes":
        changed = bytearray(data)
        for _ in range(draw(st.integers(1, 4))):
            changed[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        return bytes(changed)
    if sort == "cut":
        return data[:place] + data[place + draw(st.integers(0, 40)) :]
    if sort == "insert":
        return data[:place] + draw(st.binary(min_size=1, max_size=40)) + data[place:]
    if sort == "number":  # lengths and offsets, where a bit changes a lot
        return draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little") + data[8:]
    header, body = split_file(data)
    if sort == "header":
        name = draw(st.sampled_from([*header, "new"]))
        field = draw(st.sampled_from(["dtype", "shape", "data_offsets", "new", ""]))
        if field and isinstance(header.get(name), dict):
            header[name][field] = draw(JSON)
        else:
            header[name] = draw(JSON)
    else:
        about = json.loads(header["__metadata__"]["zoo"])
        field = draw(st.sampled_from([*about, "new"]))
        if isinstance(about.get(field), dict) and draw(st.booleans()):
            about[field][draw(st.sampled_from([*about[field], "new"]))] = draw(JSON)
        else:
            about[field] = draw(JSON)
        header["__metadata__"]["zoo"] = json.dumps(about)
    return join_file(json.dumps(header).encode(), body)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "model.safetensors"


@pytest.fixture(autouse=True)
def bounded_memory():
    """What asks for a gigabyte more than now fails here, and not the machine."""
    if sys.platform != "linux":
        yield
        return
    import resource

    original()  # imports torch, which takes more
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def only_the_original_passes_its_digest(file, data):
    file.write_bytes(data)
    digest = hashlib.sha256(original()).hexdigest()
    try:
        read_tensors(file, sha256=digest, size=len(original()))
    except WeightsError:
        assert data != original()
        return
    assert data == original()


def what_loads_is_what_the_file_says(file, data):
    file.write_bytes(data)
    try:
        found = read_tensors(file)
        model = load_model(check(Located(reference="it", source="it", path=file)))
    except zoo.ZooError:
        return
    header, body = split_file(data)
    spec = trainer_of(model.zoo.entry).tensor_spec(model.zoo.entry, model.zoo.config)
    state = model.state_dict()
    assert set(state) == set(found) == set(spec) == set(header) - {"__metadata__"}
    for name, tensor in state.items():
        begin, end = header[name]["data_offsets"]
        assert list(tensor.shape) == header[name]["shape"] and np.isfinite(tensor.numpy()).all()
        if header[name]["dtype"] == "F32":
            assert tensor.numpy().tobytes() == body[begin:end]


def a_manifest_is_valid_or_refused(text):
    for kind in (Manifest, Weights):
        try:
            found = parse(text, kind, "it")
        except ManifestError:
            continue
        assert parse(msgspec.json.encode(found), kind, "it again") == found


@st.composite
def mutated_manifest(draw) -> bytes:
    document = json.loads(msgspec.json.encode(entry()))
    if draw(st.booleans()):
        field = draw(st.sampled_from([*document, "new"]))
        if isinstance(document.get(field), dict) and draw(st.booleans()):
            document[field][draw(st.text(max_size=3))] = draw(JSON)
        else:
            document[field] = draw(JSON)
    whole = document if draw(st.booleans()) else {"version": 1, "weights": [document]}
    text = json.dumps(whole).encode()
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.binary(max_size=4)) + text[place + draw(st.integers(0, 4)) :]
    return text


def test_what_fuzzing_found(file):
    """Pairs instead of an object make a dict as well, with keys that are no words."""
    header, body = split_file(original())
    about = json.loads(header["__metadata__"]["zoo"])
    for config in ([[None, None]], [["hidden", [4]]], {"hidden": {"a": 1}}, None, "ab"):
        header["__metadata__"]["zoo"] = json.dumps(about | {"config": config})
        file.write_bytes(join_file(header, body))
        with pytest.raises(WeightsError, match="does not say which model"):
            check(Located(reference="it", source="it", path=file))


def fuzz(function, strategy, how, *arguments):
    settings(**how)(given(strategy)(lambda value: function(*arguments, value)))()


def test_an_altered_file_is_never_loaded(file):
    only_the_original_passes_its_digest(file, original())
    fuzz(only_the_original_passes_its_digest, mutated(), QUICK, file)


def test_a_file_with_a_right_digest_loads_as_it_is_or_not_at_all(file):
    what_loads_is_what_the_file_says(file, original())
    fuzz(what_loads_is_what_the_file_says, mutated(), QUICK, file)


def test_a_mutated_manifest_is_valid_or_refused():
    fuzz(a_manifest_is_valid_or_refused, mutated_manifest(), QUICK)


@pytest.mark.slow
def test_50_000_altered_files_are_never_loaded(file):
    fuzz(only_the_original_passes_its_digest, mutated(), SLOW, file)


@pytest.mark.slow
def test_50_000_files_with_a_right_digest_load_as_they_are_or_not_at_all(file):
    fuzz(what_loads_is_what_the_file_says, mutated(), SLOW, file)


@pytest.mark.slow
def test_50_000_mutated_manifests_are_valid_or_refused():
    fuzz(a_manifest_is_valid_or_refused, mutated_manifest(), SLOW)
