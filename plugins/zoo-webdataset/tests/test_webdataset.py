"""Tar files as `--dataset`: samples, splits, labels, and what is wrong with one."""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

import zoo

COLOURS = {"blue": (0, 0, 220), "green": (0, 220, 0), "red": (220, 0, 0)}
NAMES = list(COLOURS)


def png(number):
    """The image of a number: the colour of its class, and the number in its first pixel."""
    pixels = np.full((8, 8, 3), COLOURS[NAMES[number % 3]], np.uint8)
    pixels[0, 0] = number
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_tar(path, numbers, parts):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for n in numbers:
            for ending, data in parts(n).items():
                member = tarfile.TarInfo(f"{n:04}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


def with_class(n):
    return {"png": png(n), "cls": str(n % 3).encode()}


def opened(path, **options):
    return zoo.open_dataset(str(path), options, report=lambda line: None)


def refused(path):
    with pytest.raises(zoo.ZooError) as caught:
        opened(path)
    assert "\n" not in str(caught.value)
    return f"{caught.value}. {caught.value.hint}"


def numbers_of(images):
    return images[:, 0, 0, 0].tolist()


def test_a_tar_file_of_samples(tmp_path):
    path = write_tar(tmp_path / "shard.tar", range(30), with_class)
    train = opened(path, test_fraction=0).train
    assert numbers_of(train.images) == list(range(30))
    assert train.labels.tolist() == [n % 3 for n in range(30)]
    assert train.names[3] == "0003"


def test_a_second_image_of_a_sample_is_not_its_image(tmp_path):
    def masked(n):
        return {**with_class(n), "mask.png": png(n + 1)}

    path = write_tar(tmp_path / "shard.tar", range(6), masked)
    assert numbers_of(opened(path, test_fraction=0).train.images) == list(range(6))


def test_a_folder_of_tar_files_with_splits_and_json(tmp_path):
    def sample(n):
        return {"JPG": png(n), "json": json.dumps({"colour": NAMES[n % 3], "id": n}).encode()}

    write_tar(tmp_path / "shards" / "train-0.tar", range(10), sample)
    write_tar(tmp_path / "shards" / "train-1.tar", range(10, 20), sample)
    write_tar(tmp_path / "shards" / "val-0.tar", range(20, 30), sample)
    assert "colour, id" in refused(tmp_path / "shards")
    data = opened(tmp_path / "shards", target="colour")
    assert data.classes == ("blue", "green", "red")
    assert numbers_of(data.train.images) == list(range(20))
    assert numbers_of(data.test.images) == list(range(20, 30))
    assert data.test.names[0] == "val-0.tar/0020"


def test_bad_samples_and_bad_tar_files(tmp_path):
    parts = [
        {"png": png(0), "txt": b"cat\n"},
        {"txt": b"cat"},
        {"png": png(2)},
        {"png": png(3), "txt": b"\xff"},
        {"png": png(4), "txt": b"dog"},
    ]
    path = write_tar(tmp_path / "shard.tar", range(5), parts.__getitem__)
    data = opened(path, test_fraction=0)
    assert (data.classes, numbers_of(data.train.images)) == (("cat", "dog"), [0, 4])
    reasons = [reason for _, reason in sorted(data.left_out)]
    assert reasons[:2] == ["shard.tar, 0001: it has no image", "shard.tar, 0002: it has no label"]
    assert reasons[2].startswith("shard.tar, 0003: its .cls, .txt or .json cannot be read: 'utf-8'")
    path.write_bytes(b"not a tar file" * 100)
    assert "cannot be read as a tar file" in refused(path)


def test_a_tar_file_beside_class_folders_is_not_read(tmp_path):
    for n in range(12):
        (tmp_path / "pets" / NAMES[n % 3]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / NAMES[n % 3] / f"{n}.png").write_bytes(png(n))
    write_tar(tmp_path / "pets" / "pets.tar", range(3), with_class)
    assert opened(tmp_path / "pets").classes == ("blue", "green", "red")
