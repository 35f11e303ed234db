"""data.corrections: exactly the named images change, and only if they are the right ones."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import zoo
from zoo import kit

COLUMNS = ("image", "action", "label", "sha256")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """12 images of cats and 12 of dogs, each of its own colour."""
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(12):
            colour = (10 * i, 200 * (label == "cat"), i)
            Image.new("RGB", (20, 20), colour).save(tmp_path / "photos" / label / f"{i}.png")
    return tmp_path / "photos"


def write(path, listed, actions, dialect="excel"):
    """A file of corrections: name -> action, or (action, label)."""
    digests = {name: listed.digest(i) for i, name in enumerate(listed.names)}
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file, dialect, delimiter=";" if dialect == "semicolons" else ",")
        table.writerow(COLUMNS)
        for name, action in actions.items():
            action, label = (action, "") if isinstance(action, str) else action
            table.writerow([name, action, label, digests.get(name, "0" * 64)])
    return path


csv.register_dialect("semicolons", csv.excel)


def labels_of(data):
    """Name -> class, of all images."""
    found = {}
    for part, split in (("train", data.train), ("test", data.test)):
        names = split.names or [f"{part} {i}" for i in range(len(split))]
        found |= {n: data.classes[i] for n, i in zip(names, split.labels, strict=True)}
    return found


def changed(before, actions):
    after = dict(before)
    for name, action in actions.items():
        if action == "drop":
            del after[name]
        elif action != "keep":
            after[name] = action[1]
    return after


ACTIONS = {"cat/3.png": "drop", "dog/0.png": ("label", "cat"), "dog/5.png": "keep"}
OF_ARRAYS = {"train 7": "drop", "test 2": ("label", "moon"), "train 0": ("label", "ring")}


@pytest.mark.parametrize("store", ["memory", "packed", "direct"])
def test_a_folder_changes_as_the_file_says_wherever_its_images_are(photos, tmp_path, store):
    plain = zoo.open_dataset(photos, image_size=8)
    file = write(tmp_path / "c.csv", kit.list_images(photos, {}, print), ACTIONS)
    data = zoo.open_dataset(photos, image_size=8, store=store, corrections=file)
    assert labels_of(data) == changed(labels_of(plain), ACTIONS)
    for name, image in zip(data.train.names, data.train.images[:], strict=True):
        assert np.array_equal(image, plain.train.images[plain.train.names.index(name)])
    counts = {name: data.corrections[name] for name in ("file", "dropped", "relabelled")}
    assert counts == {"file": str(file), "dropped": 1, "relabelled": 1}


def test_a_table_changes_as_a_spreadsheet_saves_the_file(photos, tmp_path):
    rows = ["file,kind", *(f"photos/{k}/{i}.png,{k}" for k in ("cat", "dog") for i in range(12))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    actions = {f"photos/{name}": action for name, action in ACTIONS.items()}
    listed = kit.list_images(tmp_path / "t.csv", {}, print)
    file = write(tmp_path / "c.csv", listed, actions, "semicolons")
    plain = labels_of(zoo.open_dataset(tmp_path / "t.csv", image_size=8))
    data = zoo.open_dataset(tmp_path / "t.csv", image_size=8, corrections=file)
    assert labels_of(data) == changed(plain, actions)


@pytest.mark.parametrize("named", [True, False])
def test_named_datasets_and_arrays_change_by_number(tmp_path, named):
    options = {"train_size": 40, "test_size": 10}
    data = zoo.open_dataset("synthetic", options)
    reference = "synthetic"
    if not named:
        train, test, options = data.train, data.test, {}
        reference = {"train_images": train.images, "train_labels": train.labels}
        reference |= {"test_images": test.images, "test_labels": test.labels}
        reference["classes"] = data.classes
    listed = kit.list_images(reference, options, print)
    file = write(tmp_path / "c.csv", listed, OF_ARRAYS)
    corrected = zoo.open_dataset(reference, options, corrections=file)
    assert labels_of(corrected) == changed(labels_of(data), OF_ARRAYS)
    assert len(corrected.train) == 39 and corrected.train.names[7] == "train 8"
    again = kit.list_images(reference, {**options, "corrections": file}, print)
    assert {part: len(rows) for part, rows in again.splits.items()} == {"train": 39, "test": 10}
    assert again.labels[0] == data.classes.index("ring")


def test_the_digest_says_what_was_corrected_and_nothing_else(photos, tmp_path):
    listed, plain = kit.list_images(photos, {}, print), zoo.open_dataset(photos).digest

    def digest(**actions):
        file = write(tmp_path / f"{len(list(tmp_path.iterdir()))}.csv", listed, actions)
        return zoo.open_dataset(photos, corrections=file).digest

    assert digest() == digest(**{"cat/1.png": "keep"}) == plain
    dropped = digest(**{"cat/1.png": "drop"})
    assert dropped == digest(**{"cat/1.png": "drop", "dog/1.png": "keep"})
    others = digest(**{"cat/2.png": "drop"}), digest(**{"cat/1.png": ("label", "dog")})
    assert len({plain, dropped, *others}) == 4


def test_a_run_remembers_its_corrections_and_is_measured_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"train_size": 60, "test_size": 20}
    file = write(
        tmp_path / "c.csv", kit.list_images("synthetic", options, print),
        {"train 3": "drop", "test 1": "drop"},
    )  # fmt: skip
    data = {**options, "corrections": "c.csv"}
    done = zoo.train("fcn_numpy", "synthetic", epochs=1, data=data, quiet=True)
    run = Path(done.path).absolute()
    about = kit.Run(run).read()["dataset"]
    assert (about["train"], about["test"], about["options"]["corrections"]) == (59, 19, str(file))
    assert about["corrections"]["dropped"] == 2
    assert about["digest"] == zoo.open_dataset("synthetic", data).digest
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert zoo.evaluate(run)["images"] == 19
    file.unlink()
    with pytest.raises(zoo.DataError, match=r"c\.csv cannot be read"):
        zoo.evaluate(run)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("cat/1.png,drop,,{other}", "line 2: cat/1.png has the SHA-256"),
        ("cat/99.png,drop,,{own}", "has no image 'cat/99.png'"),
        ("cat/1.png,label,cow,{own}", "there is no class 'cow'"),
        ("cat/1.png,remove,,{own}", "the action of cat/1.png is 'remove'"),
        ("cat/1.png,drop,,{own}\ncat/1.png,label,dog,{own}", "line 3: .* already"),
        ("cat/1.png,drop", "it has 2 cells"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_by_its_line(photos, tmp_path, row, problem):
    listed = kit.list_images(photos, {}, print)
    digests = {
        "own": listed.digest(listed.names.index("cat/1.png")),
        "other": listed.digest(listed.names.index("dog/1.png")),
    }
    file = tmp_path / "c.csv"
    file.write_text(",".join(COLUMNS) + "\n" + row.format(**digests) + "\n")
    for opened in (zoo.open_dataset, lambda *a, **o: kit.list_images(a[0], o, print)):
        with pytest.raises(zoo.DataError, match=problem) as refused:
            opened(photos, corrections=file)
        assert refused.value.hint


@pytest.mark.parametrize("content", [b"image,label\n", b"\xff\xfe\x00", b"file,kind\nx,y\n"])
def test_a_file_that_is_no_table_of_corrections_is_refused(photos, tmp_path, content):
    (tmp_path / "c.csv").write_bytes(content)
    if content == b"image,label\n":  # no rows: nothing to correct
        assert not zoo.open_dataset(photos, corrections=tmp_path / "c.csv").corrections
        return
    with pytest.raises(zoo.DataError):
        zoo.open_dataset(photos, corrections=tmp_path / "c.csv")


def test_an_image_that_was_changed_since_is_refused(photos, tmp_path):
    file = write(tmp_path / "c.csv", kit.list_images(photos, {}, print), ACTIONS)
    Image.new("RGB", (20, 20), "red").save(photos / "cat" / "3.png")
    with pytest.raises(zoo.DataError, match=r"cat/3\.png has the SHA-256"):
        zoo.open_dataset(photos, corrections=file)


def test_labels_that_are_numbers_cannot_be_corrected_but_their_images_dropped(tmp_path):
    options = {"train_size": 20, "test_size": 5, "labels": "numbers"}
    listed = kit.list_images("synthetic", options, print)
    file = write(tmp_path / "c.csv", listed, {"train 1": "drop"})
    assert len(zoo.open_dataset("synthetic", options, corrections=file).train) == 19
    file = write(tmp_path / "c.csv", listed, {"train 1": ("label", "moon")})
    with pytest.raises(zoo.DataError, match="only labels of one class"):
        zoo.open_dataset("synthetic", options, corrections=file)


def test_commands_show_what_was_corrected(photos, tmp_path, zoo_here):
    file = write(tmp_path / "c.csv", kit.list_images(photos, {}, print), {"cat/3.png": "drop"})
    how = ("--set", f"corrections={file}", "--json")
    assert json.loads(zoo_here("data", "check", str(photos), *how).stdout)["images"] == {
        "train": 19, "test": 4,
    }  # fmt: skip
