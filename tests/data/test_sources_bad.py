"""Files that are damaged, wrong or hostile: one sentence each, and the cache stays as it was."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import zlib

import pytest
from fixtures import datasets as made

from zoo_core.data import datasets
from zoo_core.data import sources as classic
from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import DataError

MNIST = made.mnist_arrays()
CIFAR = made.cifar_arrays()
IMAGES, LABELS = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


@pytest.fixture(autouse=True)
def small_classics(tmp_path, monkeypatch):
    """Without digests: what is wrong here must be noticed before anybody hashes."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classic, "MNIST_SHAPE", made.MNIST_SHAPE)
    monkeypatch.setattr(classic, "CIFAR10_BATCH", made.CIFAR_BATCH)
    known = made.registry_of(
        made.small("mnist", MNIST, digests={}), made.small("cifar10", CIFAR, digests={})
    )
    monkeypatch.setattr(datasets, "registry", lambda: known)


@pytest.fixture
def refused(tmp_path):
    """The sentence with which a folder of files, or an archive, is refused."""

    def refuse(name, given):
        if isinstance(given, dict):
            given = made.write_folder(tmp_path / "given", given)
        with pytest.raises(DataError) as caught:
            open_dataset(name, source=given)
        left = [p.name for p in (tmp_path / "cache" / "data").iterdir() if p.suffix != ".lock"]
        assert left == []
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refuse


# ---------------------------------------------------------------- idx


def test_truncated_idx(refused):
    files = made.idx_files(MNIST)
    files[IMAGES] = files[IMAGES][:-100]
    assert refused("mnist", files).startswith(f"{IMAGES} is truncated")


def test_idx_without_a_whole_header(refused):
    files = made.idx_files(MNIST)
    files[IMAGES] = files[IMAGES][:7]
    assert refused("mnist", files).startswith(f"{IMAGES} is truncated")


def test_wrong_magic(refused):
    files = made.idx_files(MNIST)
    files[IMAGES] = b"\x89PNG" + files[IMAGES][4:]
    assert refused("mnist", files) == f"{IMAGES} is not an idx file: it starts with 89 50 4e 47"


def test_empty_idx(refused):
    assert "starts with nothing" in refused("mnist", made.idx_files(MNIST) | {IMAGES: b""})


def test_idx_of_images_in_place_of_labels(refused):
    files = made.idx_files(MNIST)
    files[LABELS] = files[IMAGES][:18]
    assert refused("mnist", files).startswith(f"{LABELS} is not an idx file")


def test_idx_that_is_too_long(refused):
    files = made.idx_files(MNIST)
    files[LABELS] += bytes(1000)
    assert refused("mnist", files) == f"{LABELS} is larger than the 18 bytes that it should have"


def test_wrong_label_count(refused):
    fewer = MNIST | {"test_labels": MNIST["test_labels"][:-1]}
    assert "test_labels has 9 labels for 10 images" in refused("mnist", made.idx_files(fewer))


def test_label_out_of_range(refused):
    labels = MNIST["train_labels"].copy()
    labels[3] = 10
    wrong = made.idx_files(MNIST | {"train_labels": labels})
    assert "train_labels has the label 10 at position 3, and there are 10" in refused(
        "mnist", wrong
    )


def test_truncated_gzip(refused):
    files = made.idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = files[IMAGES + ".gz"][:-50]
    assert refused("mnist", files).startswith(f"{IMAGES}.gz is truncated or damaged")


def test_something_else_called_gzip(refused):
    files = made.idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = b"<html>not found</html>"
    assert refused("mnist", files).startswith(f"{IMAGES}.gz is truncated or damaged")


def test_a_missing_file_is_named(refused):
    files = made.idx_files(MNIST)
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
    files = made.cifar_binary(CIFAR)
    files["data_batch_3.bin"] = files["data_batch_3.bin"][:-1]
    assert refused("cifar10", files).startswith("data_batch_3.bin is truncated")


def test_truncated_png(refused):
    files = made.cifar_sheets(CIFAR)
    files["data_batch_2.png"] = files["data_batch_2.png"][:-200]
    assert refused("cifar10", files).startswith("data_batch_2.png is truncated or damaged")


def test_something_else_called_png(refused):
    files = made.cifar_sheets(CIFAR) | {"test_batch.png": b"GIF89a"}
    assert refused("cifar10", files).startswith("test_batch.png is truncated or damaged")


def test_png_of_another_size(refused):
    files = made.cifar_sheets(CIFAR)
    files["test_batch.png"] = made.png(CIFAR["test_images"][0])
    assert refused("cifar10", files) == "test_batch.png is 32 x 32 RGB, not 1024 x 4 RGB"


def test_png_that_claims_more_pixels_than_any_memory_has(refused):
    files = made.cifar_sheets(CIFAR)
    data = bytearray(files["test_batch.png"])
    data[16:24] = b"\x00\x01\x00\x00\x00\x01\x00\x00"  # 65536 x 65536
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    files["test_batch.png"] = bytes(data)
    assert refused("cifar10", files).startswith("test_batch.png is")


@pytest.mark.parametrize("text", [b"[1, 2", b'{"a": 1}', b'["a"]', b"[" * 400, b"[1e99]", b"\xff"])
def test_labels_that_are_no_list_of_numbers(refused, text):
    files = made.cifar_sheets(CIFAR) | {"test_lables.json": text}
    assert "test_l" in refused("cifar10", files)


def test_too_few_labels_beside_the_png_sheets(refused):
    files = made.cifar_sheets(CIFAR)
    files["train_lables.json"] = json.dumps([1, 2, 3]).encode()
    assert "train_labels has 3 labels for 20 images" in refused("cifar10", files)


# ---------------------------------------------------------------- hostile


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


def test_a_python_batch_is_not_opened_before_its_md5_is_right(refused, monkeypatch):
    files = made.cifar_python(CIFAR)
    monkeypatch.setattr(classic, "_ArraysOnly", None)  # would raise TypeError if it were used
    assert "has the MD5" in refused("cifar10", files)


@pytest.mark.parametrize("protocol", range(6))
def test_a_python_batch_can_run_nothing_even_with_the_right_md5(refused, monkeypatch, protocol):
    files = made.cifar_python(CIFAR)
    files["data_batch_1"] = pickle.dumps({b"data": Evil()}, protocol=protocol)
    md5 = {name: hashlib.md5(data).hexdigest() for name, data in files.items()}
    monkeypatch.setattr(classic, "CIFAR10_PYTHON_MD5", md5)
    sentence = refused("cifar10", files)
    assert "asks for" in sentence
    assert sentence.endswith("which is refused")


def test_archive_members_with_hostile_names_write_nothing(tmp_path):
    files = {f"../../escaped/{name}": data for name, data in made.idx_files(MNIST).items()}
    archive = made.write_tar(tmp_path / "deep" / "er" / "x.tgz", files)
    before = set(tmp_path.rglob("*"))
    open_dataset("mnist", source=archive)
    new = set(tmp_path.rglob("*")) - before
    assert {path.relative_to(tmp_path).parts[0] for path in new} == {"cache"}


def test_links_in_archives_are_not_followed(refused, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(made.idx_files(MNIST)[IMAGES])
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, data in made.idx_files(MNIST).items():
            member = tarfile.TarInfo(name)
            if name == IMAGES:
                member.type, member.linkname = tarfile.SYMTYPE, str(secret)
                tar.addfile(member)
            else:
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    assert refused("mnist", tmp_path / "x.tar").endswith(f"has no {IMAGES}")


def test_gzip_bomb_in_an_idx_file(refused):
    files = made.idx_files(MNIST, packed=True)
    files[IMAGES + ".gz"] = gzip.compress(bytes(50_000_000))
    assert "larger than the 15696 bytes" in refused("mnist", files)


def test_gzip_bomb_as_an_archive(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(classic, "LARGEST_ARCHIVE", 5_000_000)
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
    archive = made.write_tar(tmp_path / "x.tgz", made.idx_files(MNIST))
    archive.write_bytes(archive.read_bytes()[:-1000])
    assert "x.tgz is not a complete archive" in refused("mnist", archive)


def test_something_else_called_a_debian_package(refused, tmp_path):
    (tmp_path / "x.deb").write_bytes(b"!<arch>\nno")
    assert "x.deb" in refused("mnist", tmp_path / "x.deb")
