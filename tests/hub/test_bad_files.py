"""Weight files that are wrong in one way each: one typed error, and nothing changes on disk.

Every file is offered in four ways: as a file on its own, in a run that records its digest, in a
folder that is a hub, and on the Hub. The digest is right unless the digest is what is wrong.
"""

import hashlib
import io
import itertools
import json
import os
import shutil
import zipfile

import numpy as np
import pytest
import torch
from hub.parts import NAME, REFERENCE, altered, join_file, on_disk, split_file

import zoo
from zoo_core.io.errors import UnknownName, WeightsError
from zoo_core.io.tensors import to_bytes
from zoo_core.publish.publish import plan
from zoo_core.spec.framework import check_options, framework_of
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.weights.repository import Folder
from zoo_core.weights.verify import read_tensors, spec_of


def edit(data, change):
    """The file with a changed header; `change` may return another body."""
    header, body = split_file(data)
    return join_file(header, change(header) or body)


def bias(data, **changes):
    """The file with something else in the record of one tensor."""
    return edit(data, lambda header: header["layers.3.bias"].update(changes))


def tensors(header):
    return [name for name in header if name != "__metadata__"]


def rename(header, old, new):
    header[new] = header.pop(old)


def gap(header):
    """The last tensor begins later, and the file is longer by as much."""
    last = max(tensors(header), key=lambda name: header[name]["data_offsets"])
    header[last]["data_offsets"] = [offset + 8 for offset in header[last]["data_offsets"]]


def overlap(header):
    first, second = sorted(tensors(header), key=lambda name: header[name]["data_offsets"])[:2]
    begin = header[second]["data_offsets"][0] + 4
    header[first]["shape"], header[first]["data_offsets"] = [begin // 4], [0, begin]


def transpose(header):
    header["layers.1.weight"]["shape"].reverse()


def drop(header):
    """Without one tensor, whose bytes are gone too; what follows moves up."""
    begin, end = header.pop("layers.3.bias")["data_offsets"]
    for name in tensors(header):
        if header[name]["data_offsets"][0] >= end:
            header[name]["data_offsets"] = [o - (end - begin) for o in header[name]["data_offsets"]]


def without(data):
    header, body = split_file(data)
    begin, end = header["layers.3.bias"]["data_offsets"]
    drop(header)
    return join_file(header, body[:begin] + body[end:])


def with_extra(data):
    header, body = split_file(data)
    header["extra"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(body), len(body) + 4]}
    return join_file(header, body + b"\0\0\0\0")


def twice(data):
    """One tensor key two times; the library would take the last one."""
    header, body = split_file(data)
    text = json.dumps(header).encode()
    record = json.dumps(header["layers.3.bias"]).encode()
    return join_file(text[:-1] + b', "layers.3.bias": ' + record + b"}", body)


def numbers(data, value, dtype=np.float32):
    header, body = split_file(data)
    array = np.frombuffer(body, np.float32).copy()
    array[5] = value
    return join_file(header, array.astype(dtype).tobytes())


def as_double(data):
    header, body = split_file(data)
    for name in tensors(header):
        header[name]["dtype"] = "F64"
        header[name]["data_offsets"] = [2 * o for o in header[name]["data_offsets"]]
    return join_file(header, np.frombuffer(body, np.float32).astype(np.float64).tobytes())


def as_integers(data):
    return edit(
        data, lambda header: [header[n].update(dtype="I32") for n in tensors(header)] and b""
    )


def zipped(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.pkl", data)
    return buffer.getvalue()


def deep(data):
    return join_file(b'{"a":' * 5000 + b"1" + b"}" * 5000, b"")


def told(data, part, **changes):
    """The file that says something else about its model."""
    header, body = split_file(data)
    about = json.loads(header["__metadata__"]["zoo"])
    about.update(changes) if part == "all" else about[part].update(changes)
    header["__metadata__"]["zoo"] = json.dumps(about)
    return join_file(header, body)


BAD = {
    "truncated": (lambda d: d[:-10], "bytes"),
    "truncated_in_the_header": (lambda d: d[:100], "not a safetensors file"),
    "empty": (lambda d: b"", "not a safetensors file"),
    "seven_bytes": (lambda d: d[:7], "not a safetensors file"),
    "trailing_bytes": (lambda d: d + b"\0" * 8, "bytes of tensors instead of"),
    "header_length_2_63": (lambda d: (2**63).to_bytes(8, "little") + d[8:], "not a safetensors"),
    "header_of_2_MB": (lambda d: join_file(b"{" + b" " * 2_000_000 + b"}", b""), "2,000,002"),
    "header_not_json": (lambda d: join_file(b"hello", b""), "not a safetensors file"),
    "header_not_utf8": (lambda d: join_file(b'{"\xff": 1}', b""), "not a safetensors file"),
    "header_a_list": (lambda d: join_file(b"[]", b""), "not a JSON object"),
    "header_too_deep": (deep, "nested too deeply"),
    "header_with_nan": (lambda d: join_file(b'{"a": NaN}', b""), "NaN is not a JSON number"),
    "metadata_not_text": (
        lambda d: edit(d, lambda h: h.update(__metadata__={"zoo": 1})), "metadata is not text"),
    "overlapping_tensors": (lambda d: edit(d, overlap), "does not begin where the one before"),
    "gapped_tensors": (lambda d: edit(d, gap) + b"\0" * 8, "does not begin where the one before"),
    "offsets_backwards": (
        lambda d: edit(d, lambda h: h["layers.3.bias"]["data_offsets"].reverse()), "do not fill"),
    "offsets_negative": (
        lambda d: bias(d, data_offsets=[-40, 0]), "not whole"),
    "offsets_of_floats": (
        lambda d: bias(d, data_offsets=[0.0, 40.0]), "not whole"),
    "shape_that_overflows": (
        lambda d: bias(d, shape=[2**62, 2**62]), "do not fill"),
    "shape_negative": (
        lambda d: bias(d, shape=[-10]), "not whole numbers"),
    "shape_of_booleans": (
        lambda d: bias(d, shape=[True]), "not whole numbers"),
    "unknown_dtype": (
        lambda d: bias(d, dtype="F128"), "unknown dtype"),
    "unknown_field": (
        lambda d: bias(d, more=1), "nothing else"),
    "duplicate_tensor_keys": (twice, "'layers.3.bias' occurs twice"),
    "wrong_dtype_integers": (as_integers, "is int32 instead of float32"),
    "missing_tensor": (without, "layers.3.bias is missing"),
    "extra_tensor": (with_extra, "extra is not part of it"),
    "renamed_tensor": (
        lambda d: edit(d, lambda h: rename(h, "layers.3.bias", "../../x")), "bias is missing"),
    "transposed_tensor": (lambda d: edit(d, transpose), "layers.1.weight has the shape"),
    "nan": (lambda d: numbers(d, np.nan), "not finite"),
    "infinity": (lambda d: numbers(d, -np.inf), "not finite"),
    "pickle": (lambda d: b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00c", "it is a pickle"),
    "zip": (zipped, "it is a zip archive"),
    "html": (lambda d: b"<!DOCTYPE html><html>Not found</html>", "is a web page"),
    "lfs_pointer": (lambda d: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
                    "pointer of Git LFS"),
    "no_tensors_at_all": (lambda d: join_file({}, b""), "missing|does not say"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_file(name, run, hub, tmp_path):
    make, words = BAD[name]
    data = make(run.model_file.read_bytes())
    planned = plan(run, REFERENCE)

    alone = tmp_path / "alone.safetensors"
    alone.write_bytes(data)
    copied = tmp_path / "runs" / run.name
    shutil.copytree(run.path, copied)
    (copied / "model.safetensors").write_bytes(data)
    document = run.read()
    document["result"]["model"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (copied / "run.json").write_text(json.dumps(document))
    files = altered(planned, data)
    folder = tmp_path / "shared"
    digest = hashlib.sha256(data).hexdigest()
    Folder(folder).publish(files | {"model.safetensors": alone}, digest, "", False)
    hub.add(NAME, files)

    before = on_disk(tmp_path)
    for reference in (alone, copied, f"file:{folder}", REFERENCE):
        with pytest.raises(WeightsError, match=words) as caught:
            zoo.load(reference)
        assert ".tmp" not in str(caught.value)
    assert on_disk(tmp_path) == before


@pytest.mark.parametrize(
    ("part", "changes", "words"),
    [
        ("preprocess", {"std": [0.0]}, "preprocess: std must be one number for each channel"),
        ("preprocess", {"std": [1e-300]}, "preprocess: std must be one number for each channel"),
        ("preprocess", {"mean": [1e300]}, "preprocess: mean must be one number for each channel"),
        ("preprocess", {"size": 50_000}, "size must be a whole number, 1 to 4096"),
        ("preprocess", {"size": 3000}, "images have 27,000,000 numbers"),
        ("preprocess", {"stored_size": 20_000}, "stored_size must be a whole number, 1 to 4096"),
        ("preprocess", {"channels": 10**9, "mean": [0.5]}, "channels must be a whole number"),
        ("preprocess", {"size": 7}, "model.image_size is 32, but preprocess.size is 7"),
        ("preprocess", {"size": 1024}, "model.image_size is 32, but preprocess.size is 1024"),
        ("preprocess", {"channels": 1, "mean": [0.5], "std": [0.5]}, "model.in_channels is 3"),
        ("all", {"classes": ["a", "b"]}, "it names 2 classes or numbers, and its model has 10"),
        ("all", {"classes": list("abcdefghijk")}, "it names 11 classes or numbers"),
        ("all", {"targets": {"kind": "classes", "mean": [1e31] * 10}}, "must be at most 1e.30"),
        ("config", {"image_size": 2**31}, "image_size must be a whole number, 1 to 4096"),
        ("config", {"num_classes": 10**12}, "num_classes must be a whole number, 1 to 65536"),
        ("config", {"hidden": [10**12]}, "hidden must be a list of at most 100 whole numbers"),
        ("config", {"hidden": [1] * 101}, "hidden must be a list of at most 100 whole numbers"),
        ("preprocess", {"interpolation": "magic"}, "interpolation"),
        ("preprocess", {"blur": 3}, "preprocess has no option 'blur'"),
        ("config", {"depth": 3}, "has no option 'depth'"),
    ],
)
def test_what_a_file_says_of_itself_is_the_files_fault(run, tmp_path, part, changes, words):
    path = tmp_path / "alone.safetensors"
    path.write_bytes(told(run.model_file.read_bytes(), part, **changes))
    with pytest.raises(WeightsError, match=rf"alone\.safetensors cannot be used: .*{words}"):
        zoo.load(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preprocess": {"mean": 1e301}}, "Expected `float` <= 1e.300"),
        ({"classes": ["x" * 501]}, "Expected `str` of length <= 500"),
        ({"dataset": "x" * 4097}, "Expected `str` of length <= 4096"),
        ({"config": {"hidden": 2**64}}, "Expected `int` <= 9223372036854775807"),
    ],
)
def test_what_is_too_much_in_a_file_is_said(run, tmp_path, changes, words):
    path = tmp_path / "alone.safetensors"
    path.write_bytes(told(run.model_file.read_bytes(), "all", **changes))
    with pytest.raises(WeightsError, match=f"does not say which model it belongs to: .*{words}"):
        zoo.load(path)


def test_building_stops_once_there_are_more_tensors_than_the_file_can_fill():
    """A range admits what a network of a plugin takes for ever to make."""
    made = 0

    class Endless(torch.nn.Module):
        def __init__(self, layers=()):
            super().__init__()
            nonlocal made
            for made in itertools.count(1):
                self.add_module(str(made), torch.nn.Linear(1, 1) if layers else torch.nn.ReLU())

    trainer = TorchTrainer()
    for layers in (True, False):
        trainer.build = lambda entry, config, layers=layers: Endless(layers)
        with pytest.raises(WeightsError, match="more than 1,016 tensors and layers"):
            spec_of(trainer, zoo.info("mlp"), {}, 2)
        assert made <= 1017
    trainer.build = lambda entry, config: torch.nn.Linear(2, 3)
    assert spec_of(trainer, zoo.info("mlp"), {}, 2).keys() == {"weight", "bias"}


def test_the_shapes_of_a_numpy_model_take_no_memory():
    import tracemalloc

    entry = zoo.info("fcn_numpy")
    config = check_options(entry, {"hidden": (65_536,), "image_size": 1024})
    framework = framework_of(entry)  # imports what it needs
    tracemalloc.start()
    spec = framework.tensor_spec(entry, config)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spec["layers.1.weight"] == ((65_536, 1024**2), "float32") and peak < 1 << 20


def test_one_file_does_not_mix_floats(numpy_run, tmp_path):
    """A float16 tensor that is called bfloat16 has the right size, and other numbers."""
    about = split_file(numpy_run.model_file.read_bytes())[0]["__metadata__"]["zoo"]
    arrays = {n: a.astype(np.float16) for n, a in read_tensors(numpy_run.model_file).items()}
    path = tmp_path / "half.safetensors"
    path.write_bytes(to_bytes(arrays, about))
    zoo.load(path)
    header, body = split_file(path.read_bytes())
    next(record for name, record in header.items() if "bias" in name)["dtype"] = "BF16"
    path.write_bytes(join_file(header, body))
    with pytest.raises(WeightsError, match="mixes bfloat16 and float16, and its model does not"):
        zoo.load(path)


def test_outputs_that_nobody_can_read_are_the_weights_fault(run, tmp_path):
    """All numbers of a file can be finite, and what a model computes from them is not."""
    arrays = {n: np.full_like(a, 3e38) for n, a in read_tensors(run.model_file).items()}
    about = split_file(run.model_file.read_bytes())[0]["__metadata__"]["zoo"]
    path = tmp_path / "huge.safetensors"
    path.write_bytes(to_bytes(arrays, about))
    with pytest.raises(WeightsError, match="gives numbers that are not finite"):
        zoo.predict(path, np.full((32, 32, 3), 255, np.uint8))


def test_right_hash_and_wrong_size(run, hub, tmp_path):
    data = run.model_file.read_bytes()
    hub.add(NAME, altered(plan(run, REFERENCE), data, bytes=len(data) + 1))
    with pytest.raises(WeightsError, match="is inconsistent"):
        zoo.load(REFERENCE)


def test_wrong_hash(run, hub):
    hub.add(NAME, altered(plan(run, REFERENCE), run.model_file.read_bytes(), sha256="00" * 32))
    with pytest.raises(WeightsError, match="is inconsistent"):
        zoo.load(REFERENCE)


def test_wrong_hash_and_wrong_size_in_a_manifest(run, tmp_path):
    import msgspec

    from zoo_core.io.files import user_manifest
    from zoo_core.publish.publish import publish
    from zoo_core.weights.manifest import changing

    right = publish(plan(run, f"file:{tmp_path / 'shared'}")).weights
    both = f"its sha256 is {right.sha256}, not {'00' * 32}"  # in full: people copy them
    for change, words in (({"sha256": "00" * 32}, f"not the file that was published: {both}"),
                          ({"bytes": right.bytes + 1}, "instead of")):  # fmt: skip
        with changing(user_manifest()) as entries:
            entries[right.name] = msgspec.structs.replace(right, **change)
        before = on_disk(tmp_path)
        with pytest.raises(WeightsError, match=words):
            zoo.load(right.name)
        assert on_disk(tmp_path) == before


def test_wrong_dtype(run, hub):
    """Doubles are no mistake in themselves; they are if the entry says float32."""
    data = as_double(run.model_file.read_bytes())
    hub.add(NAME, altered(plan(run, REFERENCE), data))
    with pytest.raises(WeightsError, match="is float64 instead of float32"):
        zoo.load(REFERENCE)
    hub.add("org/double", altered(plan(run, REFERENCE), data, dtype="float64"))
    model = zoo.load("hf:org/double")
    import torch

    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_bfloat16_is_read_without_loss(run, hub):
    header, body = split_file(run.model_file.read_bytes())
    bits = np.frombuffer(body, np.uint32) >> 16
    for name in tensors(header):
        header[name]["dtype"] = "BF16"
        header[name]["data_offsets"] = [o // 2 for o in header[name]["data_offsets"]]
    data = join_file(header, bits.astype(np.uint16).tobytes())
    hub.add(NAME, altered(plan(run, REFERENCE), data, dtype="bfloat16"))
    model = zoo.load(REFERENCE)
    begin, end = (2 * o // 4 for o in header["layers.3.bias"]["data_offsets"])
    expected = (bits[begin:end].astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(model.state_dict()["layers.3.bias"].numpy(), expected)
    bad = bytearray(data)
    bad[-2:] = b"\xc0\x7f"  # NaN
    hub.add(NAME, altered(plan(run, REFERENCE), bytes(bad), dtype="bfloat16"))
    with pytest.raises(WeightsError, match="not finite"):
        zoo.load(REFERENCE)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_a_symbolic_link_in_a_folder_hub_is_not_followed(run, tmp_path):
    from zoo_core.publish.publish import publish

    done = publish(plan(run, f"file:{tmp_path / 'shared'}"))
    file = tmp_path / "shared" / done.revision / "model.safetensors"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WeightsError, match="symbolic link"):
        zoo.load(f"file:{tmp_path / 'shared'}")


def test_a_pipe_instead_of_a_file_does_not_hang(run, tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match="not a regular file"):
        zoo.load(tmp_path / "model.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(WeightsError, match="cannot be read"):
        zoo.load(tmp_path / "folder.safetensors")
    with pytest.raises(UnknownName, match="there is no file"):
        zoo.load(tmp_path / "missing.safetensors")


def test_what_the_zoo_writes_it_reads(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array(3, np.int64),
              "c": np.zeros((0, 4), np.float32), "d": np.array([True, False])}  # fmt: skip
    (tmp_path / "x.safetensors").write_bytes(to_bytes(arrays))
    found = read_tensors(tmp_path / "x.safetensors")
    assert all(
        np.array_equal(found[n], arrays[n]) and found[n].dtype == arrays[n].dtype for n in arrays
    )
    data = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(data[:-2] + b"\x02\x00")
    with pytest.raises(WeightsError, match="neither true nor false"):
        read_tensors(tmp_path / "x.safetensors")
