"""Datasets that are objects of a program: arrays, a DataFrame, a torch Dataset."""

import io

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

import zoo
from zoo_core.data.objects import as_file

NAMES = ("dark", "light")


def pixels(number, size=8):
    """A grey image of a class, with its number in the first pixel."""
    image = np.full((size, size, 3), 200 if number % 2 else 50, np.uint8)
    image[0, 0] = number
    return image


IMAGES = np.stack([pixels(number) for number in range(20)])
LABELS = np.arange(20) % 2


def numbers_of(split):
    return split.images[:, 0, 0, 0].tolist()


class Map(torch.utils.data.Dataset):
    """Items (image, label) in the form that a function gives them."""

    classes = NAMES

    def __init__(self, form, label=int):
        self.form, self.label = form, label

    def __len__(self):
        return 20

    def __getitem__(self, number):
        return self.form(pixels(number)), self.label(number % 2)


FORMS = {
    "pil": Image.fromarray,
    "array": lambda image: image,
    "tensor": lambda image: torch.from_numpy(image.copy()).permute(2, 0, 1),
    "floats": lambda image: torch.from_numpy(image / np.float32(255)).permute(2, 0, 1),
}


@pytest.mark.parametrize("labels", [LABELS, LABELS.tolist(), np.array(NAMES)[LABELS]])
def test_images_and_labels(labels):
    data = zoo.open_dataset((IMAGES, labels))
    assert (data.name, len(data.train), len(data.test)) == ("arrays", 16, 4)
    assert data.classes in (NAMES, ("0", "1"))
    assert sorted(numbers_of(data.train) + numbers_of(data.test)) == list(range(20))
    assert all(
        n % 2 == label for n, label in zip(numbers_of(data.test), data.test.labels, strict=True)
    )
    assert zoo.open_dataset((IMAGES, labels), test_fraction=0).test is None


def test_arrays_by_name_and_images_without_labels():
    data = zoo.open_dataset({"train_images": IMAGES, "train_labels": LABELS, "classes": NAMES})
    assert (data.classes, data.test) == (NAMES, None)
    assert zoo.open_dataset(IMAGES).train.labels is None


@pytest.mark.parametrize("form", FORMS)
def test_a_torch_dataset(form):
    data = zoo.open_dataset(Map(FORMS[form]), test_fraction=0)
    assert (data.name, data.classes) == ("map", NAMES)
    assert numbers_of(data.train) == list(range(20))
    assert data.train.labels.tolist() == LABELS.tolist()
    assert data.train.images.tobytes() == IMAGES.tobytes()


def test_images_of_several_sizes_are_brought_to_one():
    images = [Image.fromarray(pixels(number, 8 + number)) for number in range(20)]
    data = zoo.open_dataset((images, LABELS), image_size=6)
    assert data.train.images.shape == (16, 6, 6, 3)


@pytest.mark.parametrize("label", [lambda n: float(n), lambda n: torch.tensor([n, 1])])
def test_numbers_and_several_classes_of_a_torch_dataset(label):
    data = zoo.open_dataset(Map(Image.fromarray, label))
    assert data.targets.kind in ("numbers", "classes")


def test_a_data_frame_of_paths_bytes_or_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = []
    for number in range(20):
        Image.fromarray(pixels(number)).save(f"{number}.png")
        paths.append(f"{number}.png")
    names = [NAMES[number % 2] for number in range(20)]
    cells = {
        "paths": paths,
        "objects": [tmp_path / path for path in paths],
        "absolute": [str(tmp_path / path) for path in paths],
        "bytes": [as_file(image) for image in IMAGES],
        "images": [Image.fromarray(image) for image in IMAGES],
    }
    for given in cells.values():
        frame = pandas.DataFrame({"photo": given, "label": names})
        data = zoo.open_dataset(frame, test_fraction=0)
        assert (data.name, data.classes) == ("dataframe", NAMES)
        assert numbers_of(data.train) == list(range(20))
    frame = pandas.DataFrame({"photo": paths, "width": np.arange(20) / 2, "height": range(20)})
    assert zoo.open_dataset(frame, target=["width", "height"]).targets.kind == "numbers"
    frame.loc[3, "width"] = None
    data = zoo.open_dataset(frame, target="width")
    assert list(data.left_out) == [("row 3", "the DataFrame, row 3: it has no label")]
    frame["stars"] = pandas.array([None, *[number % 2 for number in range(1, 20)]], "Int64")
    data = zoo.open_dataset(frame, target="stars")
    assert (data.classes, data.left_out[0].name) == (("0", "1"), "row 0")


def test_what_cannot_be_a_dataset_is_one_sentence():
    for given, words in (
        (3, "int cannot be used as a dataset"),
        ((IMAGES.astype(float), LABELS), "float64 of shape (8, 8, 3), from 0.0 to 50.0"),
        ((IMAGES, LABELS[:3]), "there are 3 labels for 20 images"),
        ((list(IMAGES), LABELS[:3]), "there are 3 labels for 20 images"),
        (Map(lambda image: torch.zeros(3, 8, 8) - 1), "before they are normalised"),
    ):
        with pytest.raises(zoo.ZooError) as caught:
            zoo.open_dataset(given)
        assert words in f"{caught.value} {caught.value.hint}"


def test_png_keeps_every_pixel():
    for shape in ((5, 7), (5, 7, 1), (5, 7, 3)):
        image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        back = np.asarray(Image.open(io.BytesIO(as_file(image))))
        assert back.tobytes() == image.tobytes()


def test_a_run_on_an_object_says_what_it_was_and_needs_it_again(tmp_path):
    how = {"epochs": 1, "quiet": True, "runs": tmp_path, "device": "cpu"}
    frame = (IMAGES, LABELS)
    result = zoo.train("fcn_numpy", frame, **how)
    recorded = result.run.read()["dataset"]["reference"]
    assert recorded == "memory:arrays: images (20, 8, 8, 3), labels (20,)"
    with pytest.raises(
        zoo.UsageError, match=r"images \(20, 8, 8, 3\).* was an object of"
    ) as caught:
        zoo.evaluate(result.path)
    assert "dataset=" in caught.value.hint
    assert zoo.evaluate(result.path, frame)["accuracy"] == result.accuracy
    result.run.update(status="interrupted")
    with pytest.raises(zoo.UsageError, match="was an object"):
        zoo.resume(result.path)
    with pytest.raises(zoo.ZooError, match="no longer the one"):
        zoo.resume(result.path, dataset=(IMAGES[::-1], LABELS))
    again = zoo.resume(result.path, dataset=frame, quiet=True)
    assert again.accuracy == result.accuracy


def test_a_search_needs_a_dataset_that_other_processes_can_open(tmp_path):
    with pytest.raises(zoo.UsageError, match="tuple is an object of this program"):
        zoo.tune("mlp", (IMAGES, LABELS), runs=tmp_path)
