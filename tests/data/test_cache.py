"""The cache of datasets: whole files or none, one fetch for many processes, nothing unverified."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from fixtures import datasets as made
from safetensors import safe_open
from support import environment

import zoo
from zoo_core.data import datasets
from zoo_core.data.datasets import open_dataset
from zoo_core.io import tensors
from zoo_core.io.errors import DataError
from zoo_core.io.files import atomic_write

POSIX = pytest.mark.skipif(os.name != "posix", reason="uses signals or limits of POSIX")

PLUGIN = """
import os, pathlib, time
import zoo

@zoo.hookimpl
def zoo_datasets():
    return [zoo.DatasetEntry(name="dots", target="fixture_dots:dots", summary="For tests")]

def dots():
    return [zoo.Source("a slow server", fetch)]

def fetch(folder):
    import numpy as np
    here = pathlib.Path(os.environ["DOTS"])
    (folder / "half.bin").write_bytes(bytes(1000))
    with (here / "fetches").open("a") as log:
        log.write("x")
    while (here / "wait").exists():
        time.sleep(0.02)
    images = np.zeros((300, 16, 16, 3), np.uint8)
    return {"train_images": images, "train_labels": np.arange(300) % 3}
"""


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def dots(tmp_path):
    """Start `zoo data ...` with a plugin whose fetch waits as long as the file `wait` is there."""
    site = made.install_plugin(tmp_path / "site", "fixture_dots", PLUGIN)
    env = environment(
        PYTHONPATH=str(site), DOTS=str(tmp_path), ZOO_CACHE=str(tmp_path / "cache"), LC_ALL="C"
    )

    def start(*arguments, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "zoo", "data", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            **options,
        )

    return start


def wait_for(condition):
    deadline = time.monotonic() + 300  # so that a test that hangs fails
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def hidden(tmp_path):
    return [p.name for p in (tmp_path / "cache" / "data").iterdir() if p.suffix == ".tmp"]


def test_two_processes_fetch_once(dots, tmp_path):
    (tmp_path / "wait").touch()
    first = dots("fetch", "dots")
    wait_for((tmp_path / "fetches").exists)
    second = dots("fetch", "dots")
    assert "being fetched by another process; waiting" in second.stderr.readline()
    (tmp_path / "wait").unlink()
    outputs = [process.communicate(timeout=300) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], outputs
    assert all("300 images" in out for out, _ in outputs)
    assert (tmp_path / "fetches").read_text() == "x"
    assert hidden(tmp_path) == []


@POSIX
def test_ctrl_c_during_a_fetch_leaves_nothing(dots, tmp_path):
    (tmp_path / "wait").touch()
    process = dots("fetch", "dots")
    wait_for((tmp_path / "fetches").exists)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "Error: interrupted."
    assert list((tmp_path / "cache" / "data").iterdir()) == []


@POSIX
def test_what_a_killed_process_left_is_cleaned_by_the_next_fetch(dots, tmp_path):
    (tmp_path / "wait").touch()
    process = dots("fetch", "dots")
    wait_for((tmp_path / "fetches").exists)
    process.kill()
    process.communicate()
    assert hidden(tmp_path)
    (tmp_path / "wait").unlink()
    out, _ = dots("fetch", "dots").communicate(timeout=300)
    assert "300 images" in out
    assert hidden(tmp_path) == []


@POSIX
def test_a_full_disk_is_one_sentence_and_leaves_nothing(dots, tmp_path):
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = dots("fetch", "dots", preexec_fn=limit)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    error = err.splitlines()[-2:]
    assert error[0].startswith("Error: ")
    assert error[0].endswith("dots.safetensors could not be written: File too large.")
    assert error[1] == "Hint: make room or choose another folder with ZOO_CACHE"
    assert hidden(tmp_path) == []
    assert not list((tmp_path / "cache" / "data").glob("*.safetensors"))


@POSIX
def test_no_write_permission_is_one_sentence(dots, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # root may write everywhere
        folder.rmdir()
        folder.touch()
    process = dots("fetch", "dots")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "could not be written" in err.splitlines()[-2]
    assert "ZOO_CACHE" in err.splitlines()[-1]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "new folder" / "x.json"
    with atomic_write(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


# ---------------------------------------------------------------- one file


ARRAYS = made.grey_arrays()


@pytest.fixture
def one(own_cache, monkeypatch):
    """One dataset with pinned digests, and how often its source was asked."""
    asked = []

    def fetch(folder):
        asked.append(folder)
        return ARRAYS

    entry = made.little(ARRAYS)
    known = made.registry_of(entry)
    monkeypatch.setattr(datasets, "registry", lambda: known)
    monkeypatch.setattr(made, "target", lambda: [zoo.Source("memory", fetch)])
    return asked


def the_file():
    ((_, path),) = datasets.cached("little")
    return path


def test_the_file_is_plain_safetensors_with_one_metadata_key(one):
    open_dataset("little")
    with safe_open(the_file(), "numpy") as file:
        assert set(file.keys()) == set(ARRAYS)
        assert {file.get_tensor(name).dtype for name in ARRAYS} == {np.dtype(np.uint8)}
        assert np.array_equal(file.get_tensor("train_images")[..., 0], ARRAYS["train_images"])
        assert set(file.metadata()) == {"zoo"}
        record = json.loads(file.metadata()["zoo"])
    assert record["dataset"] == "little"
    assert record["source"] == "memory"
    assert {k: v for k, v in record["digests"].items() if k != "classes"} == made.digests(ARRAYS)


def test_the_file_can_be_read_by_others(one):
    mask = os.umask(0o022)
    try:
        open_dataset("little")
    finally:
        os.umask(mask)
    assert the_file().stat().st_mode & 0o777 == 0o644


def test_large_labels_are_aligned_and_read_back(tmp_path):
    arrays = {"a": np.zeros((3, 5), np.uint8), "b": np.arange(3, dtype=np.int64)}
    tensors.write_tensors(tmp_path / "x.safetensors", arrays, "{}")
    with safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert file.get_tensor("b").tolist() == [0, 1, 2]
    _, read = datasets.read_cache(tmp_path / "x.safetensors")
    assert {name: array.tolist() for name, array in read.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


def flip_a_pixel(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def cut_the_end(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"x")


def huge_header(path):
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def no_json(path):
    path.write_bytes(path.read_bytes().replace(b'{"__metadata__"', b"{'__metadata__'"))


def no_record(path):
    path.write_bytes(path.read_bytes().replace(b'{"zoo"', b'{"ooz"'))


def another_class(path):
    path.write_bytes(path.read_bytes().replace(b'\\"9\\"', b'\\"8\\"'))


def other_shape(path):
    path.write_bytes(path.read_bytes().replace(b"[20,28,28,1]", b"[20,28,14,2]"))


def negative_offset(path):
    path.write_bytes(path.read_bytes().replace(b"[0,7840]", b"[-1,839]"))


def no_digests(path):
    path.write_bytes(path.read_bytes().replace(b'\\"digests\\": {', b'\\"digests\\":{}, \\"x\\":{'))


DAMAGE = [flip_a_pixel, cut_the_end, empty, lengthen, huge_header, no_json, no_record]
DAMAGE += [another_class, other_shape, negative_offset]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_reported_and_fetched_again(one, damage):
    good = open_dataset("little")
    before = the_file().read_bytes()
    damage(the_file())
    assert the_file().read_bytes() != before
    lines = []
    assert open_dataset("little", report=lines.append).digest == good.digest
    assert str(the_file()) in lines[0]
    assert lines[0].endswith("a new copy is needed")
    assert len(one) == 2
    assert open_dataset("little", fetch=False).digest == good.digest


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_where_nothing_may_be_fetched(one, damage):
    open_dataset("little")
    damage(the_file())
    with pytest.raises(DataError, match="not in the cache"):
        open_dataset("little", fetch=False)


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_finds_the_damage(one, damage):
    open_dataset("little")
    damage(the_file())
    ((request, path),) = datasets.cached("little")
    with pytest.raises(DataError, match="little.safetensors"):
        datasets.verify_cached(request, path)


def test_a_damaged_file_goes_even_when_no_source_has_another(one, monkeypatch):
    open_dataset("little")
    flip_a_pixel(the_file())
    monkeypatch.setattr(made, "target", lambda: [zoo.Source("gone", lambda folder: 1 / 0)])
    with pytest.raises(DataError, match="could not be fetched"):
        open_dataset("little")
    assert datasets.cached("little") == []


def test_digests_that_a_newer_plugin_pins_make_the_old_copy_useless(one, monkeypatch):
    open_dataset("little")
    known = made.registry_of(made.little(made.grey_arrays(seed=5)))
    monkeypatch.setattr(datasets, "registry", lambda: known)
    with pytest.raises(DataError, match="train_images is not what it should be"):
        open_dataset("little")


def test_a_cached_dataset_needs_no_permission_to_write(one, monkeypatch):
    open_dataset("little")
    monkeypatch.setattr(tensors, "atomic_write", None)
    monkeypatch.setattr(datasets, "locked", None)
    assert len(open_dataset("little").train) == 20


def test_reading_takes_the_memory_of_the_arrays_once(tmp_path):
    import tracemalloc

    big = {"train_images": np.zeros((20_000, 32, 32, 1), np.uint8)}
    tensors.write_tensors(tmp_path / "x.safetensors", big, "{}")
    tracemalloc.start()
    datasets.read_cache(tmp_path / "x.safetensors")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.05 * big["train_images"].nbytes
