"""Parquet files as `--dataset`: images as bytes or paths, labels, splits, and damage."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet
from zoo_parquet.table import parquet_files

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


@pytest.fixture
def photos(tmp_path):
    """A folder with photos/0.png ... photos/29.png."""
    folder = tmp_path / "mine"
    (folder / "photos").mkdir(parents=True)
    for number in range(30):
        (folder / "photos" / f"{number}.png").write_bytes(png(number))
    return folder


def photo(number):
    return f"photos/{number}.png"


def colour(number):
    return NAMES[number % 3]


def opened(path, **options):
    return zoo.open_dataset(str(path), options, report=lambda line: None)


def everything(path, **options):
    """All images of a dataset in their order, none kept for testing."""
    return opened(path, test_fraction=0, **options).train


def refused(path, **options):
    with pytest.raises(zoo.ZooError) as caught:
        opened(path, **options)
    assert "\n" not in str(caught.value)
    return f"{caught.value}. {caught.value.hint}"


def numbers_of(images):
    return images[:, 0, 0, 0].tolist()


def write_parquet(path, numbers, cell, label="label", rows=4, **columns):
    given = {"image": [cell(n) for n in numbers], **columns}
    if label:
        given[label] = [colour(n) for n in numbers]
    parquet.write_table(pyarrow.table(given), path, row_group_size=rows)
    return path


CELLS = {
    "bytes": png,
    "struct": lambda n: {"bytes": png(n), "path": "image.png"},
    "paths": photo,
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_parquet_file_of_bytes_or_paths(photos, kind):
    path = write_parquet(photos / "photos.parquet", range(30), CELLS[kind])
    data = opened(path)
    assert data.classes == ("blue", "green", "red")
    train = everything(path)
    assert numbers_of(train.images) == list(range(30))
    assert train.labels.tolist() == [n % 3 for n in range(30)]
    direct = everything(path, store="direct").images[[29, 0, 5]]
    assert direct.tobytes() == train.images[[29, 0, 5]].tobytes()


def test_parquet_files_keep_two_row_groups_in_memory_whoever_asks(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "photos.parquet", range(30), png)
    read, groups = parquet.ParquetFile.read_row_group, []

    def counted(self, number, **how):
        groups.append(number)
        return read(self, number, **how)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", counted)
    file = parquet_files(path=str(path), image=None, target=None, labels="auto", root=None)
    assert groups == []  # nothing is read before somebody asks
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(file.read, range(30))) == [png(n) for n in range(30)]
    assert sorted(set(groups)) == list(range(8))
    for number in (24, 28):  # whatever the threads have left, these two are kept now
        file.read(number)
    groups.clear()
    for number in (0, 4, 0, 4, 8, 4):
        file.read(number)
    assert groups == [0, 1, 2]


def test_lists_numbers_and_class_names_in_parquet_files(tmp_path):
    lists = [[colour(n), "all"] for n in range(6)]
    path = write_parquet(tmp_path / "a.parquet", range(6), png, "", tags=lists)
    assert opened(path).classes == ("all", "blue", "green", "red")
    path = write_parquet(tmp_path / "b.parquet", range(6), png, "", age=[n / 2 for n in range(6)])
    assert opened(path).targets.kind == "numbers"
    given = pyarrow.table({"image": [png(n) for n in range(6)], "label": [0, 1, -1, 0, 1, 2]})
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    parquet.write_table(given.replace_schema_metadata(about), tmp_path / "c.parquet")
    data = opened(tmp_path / "c.parquet", test_fraction=0)
    assert (data.classes, data.train.labels.tolist()) == (("cat", "dog"), [0, 1, 0, 1])
    assert [reason for _, reason in data.left_out] == [
        "c.parquet, row 3: there is no class -1",
        "c.parquet, row 6: there is no class 2",
    ]


def test_a_folder_of_parquet_files_has_the_splits_of_their_names(tmp_path):
    folder = tmp_path / "hub"
    folder.mkdir()
    write_parquet(folder / "train-00000-of-00002.parquet", range(0, 10), png)
    write_parquet(folder / "train-00001-of-00002.parquet", range(10, 20), png)
    write_parquet(folder / "test-00000-of-00001.parquet", range(20, 30), png)
    data = opened(folder)
    assert numbers_of(data.train.images) == list(range(20))
    assert numbers_of(data.test.images) == list(range(20, 30))
    write_parquet(folder / "test-b.parquet", range(3), png, "other")
    assert "has other columns than" in refused(folder)


def test_damaged_and_empty_cells_of_parquet_files(tmp_path):
    cells = [png(0), None, b"not an image", png(3)]
    path = tmp_path / "photos.parquet"
    write_parquet(path, range(4), cells.__getitem__)
    data = opened(path, test_fraction=0)
    assert numbers_of(data.train.images) == [0, 3]
    assert [reason for _, reason in data.left_out] == [
        "row 2 of photos.parquet has no image",
        "row 3 cannot be read as an image: it is not in a known format",
    ]
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read as a table" in refused(path)


def test_paths_reach_files_outside_the_folder_only_if_that_is_allowed(photos):
    (photos / "tables").mkdir()
    file = photos / "tables" / "c.parquet"
    write_parquet(file, range(4), lambda n: f"../photos/{n}.png")
    assert "is outside of" in refused(file)
    assert len(everything(file, root="..")) == 4


def test_a_parquet_file_trains_with_one_call(photos, tmp_path):
    path = write_parquet(photos / "photos.parquet", range(30), png)
    result = zoo.train("fcn_numpy", path, epochs=1, runs=tmp_path / "runs", quiet=True)
    assert json.loads((result.path / "run.json").read_text())["dataset"]["reference"] == str(path)
