"""What people keep images in: tables of paths, metadata, NumPy files."""

import csv
import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image

from zoo_core.data import table_files
from zoo_core.data.datasets import open_dataset, reader_of
from zoo_core.io.errors import AmbiguousName, DataError, OptionError, ZooError

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


def table(folder, header, row, name="table.csv", numbers=range(30), **how):
    """A text table with a row for each number."""
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **how)
        writer.writerow(header)
        writer.writerows(row(number) for number in numbers)
    return folder / name


def photo(number):
    return f"photos/{number}.png"


def colour(number):
    return NAMES[number % 3]


def opened(path, **options):
    return open_dataset(str(path), options, report=lambda line: None)


def everything(path, **options):
    """All images of a dataset in their order, none kept for testing."""
    return opened(path, test_fraction=0, **options).train


def refused(path, **options):
    with pytest.raises(ZooError) as caught:
        opened(path, **options)
    assert "\n" not in str(caught.value)
    return f"{caught.value}. {caught.value.hint}"


def numbers_of(images):
    return images[:, 0, 0, 0].tolist()


# ---------------------------------------------------------------- text tables


@pytest.mark.parametrize("kind", ["csv", "semicolon", "tsv", "jsonl", "bom"])
def test_a_table_of_paths_and_one_other_column(photos, kind):
    if kind == "jsonl":
        path = photos / "table.jsonl"
        rows = ({"image": photo(n), "label": colour(n)} for n in range(30))
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        delimiter = {"semicolon": ";", "tsv": "\t"}.get(kind, ",")
        name = "table.tsv" if kind == "tsv" else "table.csv"
        row = lambda n: (photo(n), colour(n))  # noqa: E731
        path = table(photos, ["image", "label"], row, name, delimiter=delimiter)
        if kind == "bom":
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    data = opened(path)
    assert data.name == path.name
    assert data.classes == ("blue", "green", "red")
    assert (len(data.train), len(data.test)) == (24, 6)
    train = everything(path)
    assert numbers_of(train.images) == list(range(30))
    assert train.labels.tolist() == [n % 3 for n in range(30)]
    assert train.names[7] == "photos/7.png"


def test_two_labels_for_an_image(photos):
    shape = lambda n: ("round", "flat")[n % 2]  # noqa: E731
    path = table(photos, ["image", "labels"], lambda n: (photo(n), f"{colour(n)}|{shape(n)}"))
    data = opened(path)
    assert data.targets.kind == "classes"
    assert data.classes == ("blue", "flat", "green", "red", "round")
    train = everything(path)
    assert train.labels[0].tolist() == [1, 0, 0, 0, 1]
    two = table(
        photos, ["f", "colour", "shape"], lambda n: (photo(n), colour(n), shape(n)), "2.csv"
    )
    data = opened(two, target="colour,shape")
    assert data.classes == (
        "colour=blue",
        "colour=green",
        "colour=red",
        "shape=flat",
        "shape=round",
    )


def test_an_empty_cell_among_several_classes_is_an_image_with_none_of_them(photos):
    path = table(photos, ["f", "labels"], lambda n: (photo(n), ["a|b", "a", ""][n % 3]))
    assert everything(path).labels[:3].tolist() == [[1, 1], [1, 0], [0, 0]]


def test_columns_of_zeros_and_ones_are_several_classes_and_other_numbers_are_numbers(photos):
    row = lambda n: (photo(n), n % 2, int(n > 9), n / 4, n)  # noqa: E731
    path = table(photos, ["f", "odd", "large", "width", "count"], row)
    data = opened(path, target="odd,large")
    assert (data.targets.kind, data.classes) == ("classes", ("odd", "large"))
    data = opened(path, target=["width", "count"])
    assert (data.targets.kind, data.targets.names) == ("numbers", ("width", "count"))
    assert everything(path, target="width").labels[3].tolist() == [0.75]


def test_whole_numbers_are_classes_in_their_order_unless_somebody_says_numbers(photos):
    path = table(photos, ["f", "stars"], lambda n: (photo(n), (2, 10, 1)[n % 3]))
    assert opened(path).classes == ("1", "2", "10")
    data = opened(path, labels="numbers")
    assert (data.targets.kind, data.targets.names) == ("numbers", ("stars",))
    codes = table(photos, ["f", "code"], lambda n: (photo(n), f"00{n % 3}"), "codes.csv")
    assert opened(codes).classes == ("000", "001", "002")


def test_a_column_that_cannot_be_classes_is_refused(photos, monkeypatch):
    monkeypatch.setattr("zoo_core.data.tables.MANY", 10)
    path = table(photos, ["f", "caption"], lambda n: (photo(n), f"photo {n}"))
    assert "30 different values in 30 rows, too many for classes" in refused(path)
    assert len(opened(path, labels="class").classes) == 30


def test_a_split_column_is_honoured(photos):
    part = lambda n: "train" if n < 20 else "Test" if n < 25 else "validation"  # noqa: E731
    path = table(photos, ["f", "label", "split"], lambda n: (photo(n), colour(n), part(n)))
    lines = []
    data = open_dataset(str(path), report=lines.append)
    assert numbers_of(data.train.images) == list(range(20))
    assert numbers_of(data.test.images) == list(range(20, 25))
    assert "table.csv: 5 rows for validation are not used" in lines
    part = lambda n: "train" if n < 20 else "val"  # noqa: E731
    path = table(photos, ["f", "label", "split"], lambda n: (photo(n), colour(n), part(n)))
    assert len(opened(path).test) == 10
    path = table(photos, ["f", "label", "split"], lambda n: (photo(n), colour(n), "test"))
    assert "has no rows for training, only for test" in refused(path)


def test_bad_rows_are_left_out_counted_and_named(photos, said):
    rows = [
        ("photos/0.png", "blue", "train"),
        ("photos/none.png", "blue", "train"),
        ("photos/1.png", "", "train"),
        ("", "blue", "train"),
        ("photos/2.png", "red", "later"),
        ("photos/0.png", "red", "train"),
        ("photos/3.png", "red", "train"),
    ]
    path = table(photos, ["f", "label", "split"], rows.__getitem__, numbers=range(7))
    path.write_text(path.read_text() + "photos/4.png,red\n")
    data = opened(path, test_fraction=0)
    assert numbers_of(data.train.images) == [0, 3]
    assert sorted(data.left_out) == [
        ("line 3", "table.csv, line 3: there is no file photos/none.png"),
        ("line 4", "table.csv, line 4: it has no label"),
        ("line 5", "table.csv, line 5: it names no image"),
        ("line 6", "table.csv, line 6: its split is 'later', which is not train, test or val"),
        ("line 7", "table.csv, line 7: photos/0.png is in line 2 already"),
        ("line 9", "table.csv, line 9: it has 2 cells, but the table has 3 columns"),
    ]
    assert any("6 of 8 images are left out" in sentence for sentence in said())
    assert "cannot be used" in refused(path, strict=True)


def test_what_is_wrong_with_a_table_is_one_sentence(photos):
    path = table(photos, ["f", "a", "b"], lambda n: (photo(n), colour(n), n))
    assert "several columns that could be the labels: a, b" in refused(path)
    assert "--set data.target=a" in refused(path)
    assert "no column 'c'" in refused(path, target="c")
    assert "it has: f, a, b" in refused(path, image="c")
    path = table(photos, ["a", "b"], lambda n: (colour(n), n))
    assert "which column has the images" in refused(path)
    path = table(photos, ["f", "g"], lambda n: (photo(n), photo(n)))
    assert "--set data.image=COLUMN; its columns are f, g" in refused(path)
    path = table(photos, ["photos/0.png", "red"], lambda n: (photo(n), colour(n)))
    assert "add a first line such as image,label" in refused(path)
    path = table(photos, ["f", "f"], lambda n: (photo(n), colour(n)))
    assert "must name every column, each once" in refused(path)
    path = table(photos, ["f", "label"], lambda n: (f"no/{n}.png", colour(n)))
    assert "has no row that can be used; table.csv, line 2: there is no file" in refused(path)
    (photos / "table.csv").write_bytes(b"f,label\nphotos/0.png,\xff\xfe\n")
    assert "cannot be read as a table: UnicodeDecodeError" in refused(path)
    assert "there is no file" in refused(photos / "other.csv")
    (photos / "other.xyz").write_text("x")
    assert "ends in .csv" in refused(photos / "other.xyz")


def test_a_table_reaches_files_outside_its_folder_only_if_that_is_allowed(photos):
    inside = photos / "tables"
    inside.mkdir()
    away = table(inside, ["f", "label"], lambda n: (f"../photos/{n}.png", colour(n)))
    said = refused(away)
    assert f"line 2 names ../photos/0.png, which is outside of {inside}" in said
    assert "--set data.root=/" in said
    assert len(everything(away, root="..")) == 30
    absolute = table(inside, ["f", "label"], lambda n: (photos / photo(n), colour(n)), "b.csv")
    assert "is outside of" in refused(absolute)
    assert len(everything(absolute, root="/")) == 30


# ---------------------------------------------------------------- metadata


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_metadata_beside_images_says_what_they_are(photos, ending):
    for part, numbers in (("train", range(20)), ("test", range(20, 30))):
        (photos / "hub" / part).mkdir(parents=True)
        lines = ["file_name,colour"] if ending == "csv" else []
        for n in numbers:
            (photos / "hub" / part / f"{n}.png").write_bytes(png(n))
            row = {"file_name": f"{n}.png", "colour": colour(n)}
            lines.append(",".join(row.values()) if ending == "csv" else json.dumps(row))
        (photos / "hub" / part / f"metadata.{ending}").write_text("\n".join(lines))
    data = opened(photos / "hub")
    assert data.classes == ("blue", "green", "red")
    assert numbers_of(data.train.images) == list(range(20))
    assert numbers_of(data.test.images) == list(range(20, 30))


def test_metadata_at_the_root_of_split_folders(photos):
    for n in range(30):
        part = "train" if n < 20 else "test"
        (photos / part).mkdir(exist_ok=True)
        (photos / "photos" / f"{n}.png").rename(photos / part / f"{n}.png")
    row = lambda n: (f"{'train' if n < 20 else 'test'}/{n}.png", colour(n))  # noqa: E731
    table(photos, ["file_name", "label"], row, "metadata.csv")
    data = opened(photos)
    assert (len(data.train), numbers_of(data.test.images)) == (20, list(range(20, 30)))


# ---------------------------------------------------------------- NumPy files


def arrays():
    images = np.stack([np.asarray(Image.open(io.BytesIO(png(n)))) for n in range(30)])
    return images, np.arange(30) % 3


def test_arrays_with_their_splits_and_class_names(tmp_path):
    images, labels = arrays()
    np.savez(
        tmp_path / "a.npz", train_images=images[:20], train_labels=labels[:20, None],
        val_images=images[20:], val_labels=labels[20:, None], classes=np.array(NAMES),
    )  # fmt: skip
    data = opened(tmp_path / "a.npz")
    assert data.classes == tuple(NAMES)
    assert numbers_of(data.test.images) == list(range(20, 30))


def test_images_and_labels_are_divided(tmp_path):
    images, labels = arrays()
    np.savez(tmp_path / "a.npz", images=images, labels=np.array(NAMES)[labels])
    data = opened(tmp_path / "a.npz")
    assert (data.classes, len(data.train), len(data.test)) == (tuple(NAMES), 24, 6)
    assert numbers_of(opened(tmp_path / "a.npz", test_fraction=0).train.images) == list(range(30))
    np.save(tmp_path / "b.npy", images)
    assert opened(tmp_path / "b.npy").train.labels is None


def test_numpy_files_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.array([{"a": 1}], object))
    assert "cannot be read as NumPy arrays" in refused(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 cut off")
    assert "cannot be read as NumPy arrays" in refused(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", pictures=arrays()[0])
    assert "unknown array 'pictures'" in refused(tmp_path / "c.npz")


# ---------------------------------------------------------------- who reads what


def test_two_readers_of_one_suffix_are_both_named(tmp_path, monkeypatch):
    from dataclasses import replace

    from zoo_core.spec.entries import Provider
    from zoo_core.spec.plugins import Plugins
    from zoo_core.spec.registry import Catalog, registry

    ours = list(registry().readers)
    table = next(entry for entry in ours if entry.name == "table")
    other = replace(
        table, name="sheet", provider=Provider(plugin="p", distribution="zoo-p", version="1")
    )
    monkeypatch.setattr(registry(), "readers", Catalog("reader", [*ours, other], Plugins((), {})))
    (tmp_path / "a.csv").write_text("f,label\n")
    with pytest.raises(AmbiguousName) as caught:
        reader_of(str(tmp_path / "a.csv"))
    assert "plugin 'builtin' (zoo-core" in str(caught.value)
    assert "plugin 'p' (zoo-p 1)" in str(caught.value)


@pytest.fixture
def only_ours(monkeypatch):
    """As if no plugin had brought a reader."""
    from zoo_core.spec.plugins import Plugins
    from zoo_core.spec.registry import Catalog, plugin_of, registry

    ours = [entry for entry in registry().readers if plugin_of(entry) == "builtin"]
    monkeypatch.setattr(registry(), "readers", Catalog("reader", ours, Plugins((), {})))


def test_a_prefix_that_nothing_reads(only_ours):
    assert "pip install zoo-hf-datasets" in refused("hf:org/name")
    assert "there is no dataset 'other:name'. zoo list --datasets" in refused("other:name")


def test_tar_files_that_nothing_reads(only_ours, tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "0.TAR").write_bytes(b"x")
    assert "0.TAR is a file that no reader knows" in refused(tmp_path / "shards" / "0.TAR")
    assert "pip install zoo-webdataset" in refused(tmp_path / "shards" / "0.TAR")
    assert "shards holds no images. zoo-webdataset has it" in refused(tmp_path / "shards")


def test_parquet_files_that_nothing_reads(only_ours, tmp_path):
    (tmp_path / "photos.parquet").write_bytes(b"x")
    assert "photos.parquet is a file that no reader knows" in refused(tmp_path / "photos.parquet")
    assert "pip install zoo-parquet" in refused(tmp_path / "photos.parquet")
    assert "holds no images. zoo-parquet has it" in refused(tmp_path)


def test_a_table_trains_with_one_command_and_is_found_again_from_another_folder(
    photos, zoo_here, tmp_path
):
    table(photos, ["f", "labels"], lambda n: (photo(n), f"{colour(n)}|{'ab'[n % 2]}"))
    quick = ["--epochs", "1", "--no-report", "--runs", str(tmp_path / "runs")]
    zoo_here("train", "mlp", "--dataset", "./table.csv", "--set", "model.hidden=8", *quick,
             cwd=photos)  # fmt: skip
    (run,) = (tmp_path / "runs").iterdir()
    recorded = json.loads((run / "run.json").read_text())["dataset"]
    assert recorded["reference"] == str(photos / "table.csv")
    assert recorded["targets"]["kind"] == "classes"
    away = tmp_path / "away"
    away.mkdir()
    assert "table.csv, 6 images of test" in zoo_here("evaluate", str(run), cwd=away).stdout


def test_what_can_be_read_is_listed(zoo_here):
    rows = {row["name"]: row for row in json.loads(zoo_here("list", "--readers", "--json").stdout)}
    assert ".csv" in rows["table"]["reads"]
    assert (rows["parquet"]["reads"], rows["parquet"]["plugin"]) == ([".parquet"], "parquet")
    assert rows["image_folder"]["reads"] == ["folders"]
    assert rows["webdataset"]["plugin"] == "webdataset"


def test_options_are_checked(photos):
    path = table(photos, ["f", "label"], lambda n: (photo(n), colour(n)))
    with pytest.raises(OptionError, match="has no option 'targets'"):
        opened(path, targets="label")
    with pytest.raises(OptionError, match="labels=many"):
        opened(path, labels="many")
    with pytest.raises(DataError):
        opened(path, target="label", labels="numbers")


def test_other_processes_can_read_the_images_of_a_table_of_paths(photos):
    path = table(photos, ["f", "label"], lambda n: (photo(n), colour(n)))
    asked = {"image": None, "target": None, "labels": "auto", "root": None}
    listed = table_files.table_file(path=str(path), **asked)
    assert pickle.loads(pickle.dumps(listed.read))(7).read_bytes() == png(7)
