"""The one safetensors writer and reader."""

import hashlib
import io
import json
import os

import numpy as np
import pytest
import safetensors.numpy

from zoo_core.io import tensors

NUMPY = [dtype for dtype in tensors.DTYPES if dtype != "bfloat16"]
ARRAYS = {
    f"{name}{number}": np.arange(number * 3).reshape(3, number).astype(dtype)
    for number, dtype in enumerate(NUMPY)
    for name in ("b", "a", 'é"\n')
} | {"scalar": np.float32(3).reshape(()), "columns": np.asfortranarray(np.eye(3)[:2])}


@pytest.mark.parametrize("about", ["", '{"classes": ["é", "\\u00e9"]}'])
def test_files_are_byte_for_byte_those_of_the_library(tmp_path, about):
    plain = {name: np.asarray(array, order="C") for name, array in ARRAYS.items()}
    wanted = safetensors.numpy.save(plain, {"zoo": about} if about else None)
    assert tensors.to_bytes(ARRAYS, about) == wanted
    assert tensors.to_bytes(dict(reversed(ARRAYS.items())), about) == wanted
    digest = tensors.write_tensors(tmp_path / "x.safetensors", ARRAYS, about)
    assert (tmp_path / "x.safetensors").read_bytes() == wanted
    assert digest == hashlib.sha256(wanted).hexdigest()


@pytest.mark.parametrize("mapped", [True, False])
def test_what_is_written_is_read_and_can_be_changed_without_the_file(tmp_path, mapped):
    path = tmp_path / "x.safetensors"
    digest = tensors.write_tensors(path, ARRAYS)
    with path.open("rb") as file:
        found = tensors.read_arrays(file, tensors.read_header(file), mapped=mapped)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
    found["columns"] += 1
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_large_arrays_are_written_without_a_second_copy(tmp_path):
    import tracemalloc

    big = np.zeros(20_000_000, np.uint8)
    tracemalloc.start()
    tensors.write_tensors(tmp_path / "x.safetensors", {"big": big})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * big.nbytes


def test_a_file_in_memory_is_read_as_strictly_as_one_on_the_disk():
    data = tensors.to_bytes({"a": np.arange(3)})
    assert tensors.read(data)["a"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="bytes of tensors instead of"):
        tensors.read(data + b"x")


@pytest.mark.parametrize("copied", [0, 100, 1 << 20])
def test_what_is_hashed_is_what_is_given(tmp_path, monkeypatch, copied):
    """Mapped, copied in many parts, copied in one."""
    path = tmp_path / "x.safetensors"
    wanted = tensors.write_tensors(path, ARRAYS)
    monkeypatch.setattr(tensors, "COPIED", copied and 1 << 20)
    monkeypatch.setattr(tensors, "CHUNK", copied or 1)
    with path.open("rb") as file:
        content, digest = tensors.contents(file)
    assert digest == wanted == hashlib.sha256(content).hexdigest()
    found = tensors.arrays_in(content, tensors.header_in(content))
    assert all(np.array_equal(found[name], array) for name, array in ARRAYS.items())
    found["columns"] += 1
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path):
    class Shrinking(io.FileIO):
        def readinto(self, part):
            os.truncate(self.name, 10)
            return super().readinto(part)

    tensors.write_tensors(tmp_path / "x.safetensors", ARRAYS)
    with (
        Shrinking(tmp_path / "x.safetensors") as file,
        pytest.raises(OSError, match="it became shorter while it was read"),
    ):
        tensors.contents(file)


@pytest.mark.parametrize(
    ("name", "shape"), [("x" * 501, [1]), ("x", [1] * 17), ("x", [99_991] * 100_000)]
)
def test_a_tensor_of_an_endless_name_or_shape_is_refused(name, shape):
    record = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}
    text = json.dumps({name: record}).encode()
    with pytest.raises(ValueError, match="a shape of at most 16 sizes"):
        tensors.read(len(text).to_bytes(8, "little") + text + bytes(4))


@pytest.mark.parametrize("size", [0, 1, 8 << 20, (8 << 20) + 1])
def test_a_file_of_any_size_is_hashed_whole(tmp_path, size):
    path = tmp_path / "x"
    path.write_bytes(np.random.default_rng(size).bytes(size))
    with path.open("rb") as file:
        content, digest = tensors.contents(file)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert bytes(content) == path.read_bytes()
