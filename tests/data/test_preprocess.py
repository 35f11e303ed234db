import json

import numpy as np
import pytest
import torch
from PIL import Image

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import OptionError

RNG = np.random.default_rng(2)
COLOUR = RNG.integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (9, 16, 16, 1), dtype=np.uint8)
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


def dataset(images=COLOUR, mean=MEAN, std=STD):
    split = Split(images, np.zeros(len(images), np.int64))
    return Dataset("pictures", split, None, ("one",), mean, std, digest="0" * 64)


CASES = {
    "as stored": (COLOUR, {}),
    "larger": (COLOUR, {"size": 40}),
    "smaller, bicubic": (COLOUR, {"size": 9, "interpolation": "bicubic"}),
    "larger, then cut": (COLOUR, {"size": 20, "resize": 25}),
    "grey": (GREY, {}),
    "grey to colour": (GREY, {"channels": 3, "size": 24}),
    "colour to grey": (COLOUR, {"channels": 1}),
}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_one_picture_gives_the_bits_that_evaluation_gave(case, backend, tmp_path):
    images, overrides = CASES[case]
    data = dataset(images, *((MEAN, STD) if images is COLOUR else ((0.13,), (0.31,))))
    preprocess = Preprocess.for_dataset(data, overrides)
    loader = Loader(
        data.train, batch_size=len(images), preprocess=preprocess, shuffle=False, backend=backend
    )
    batch = np.asarray(loader.batch(0, 0).images)
    for stored, expected in zip(images, batch, strict=True):
        picture = Image.fromarray(stored[:, :, 0] if stored.shape[2] == 1 else stored)
        picture.save(tmp_path / "picture.png")
        for given in (stored, picture, tmp_path / "picture.png", str(tmp_path / "picture.png")):
            alone = np.asarray(preprocess(given, backend=backend))
            assert alone.shape == expected.shape and alone.tobytes() == expected.tobytes()
    assert np.asarray(preprocess.batch(list(images), backend=backend)).tobytes() == batch.tobytes()


def test_a_picture_of_another_size_goes_through_the_stored_size():
    from zoo_core.data.images import Form, fit_image

    photo = RNG.integers(0, 256, (50, 80, 3), dtype=np.uint8)
    preprocess = Preprocess.for_dataset(dataset(), {"size": 20})
    small = fit_image(Image.fromarray(photo), Form(16, 3))
    assert torch.equal(preprocess(photo), preprocess(small))
    assert torch.equal(preprocess(Image.fromarray(photo)), preprocess(small))
    assert preprocess(photo).shape == (3, 20, 20)


def test_resize_cuts_the_middle_out_of_the_larger_picture():
    data = dataset()
    whole = Preprocess.for_dataset(data, {"size": 24})(COLOUR[0])
    middle = Preprocess.for_dataset(data, {"size": 16 + 4, "resize": 24})(COLOUR[0])
    assert torch.equal(middle, whole[:, 2:-2, 2:-2])
    assert "resize" not in Preprocess.for_dataset(data).to_dict()  # digests of old weights stay
    record = Preprocess.for_dataset(data, {"size": 20, "resize": 24}).to_dict()
    assert Preprocess.from_dict(record).resize == 24


def test_it_travels_as_json():
    for overrides in ({}, {"size": 224, "interpolation": "bicubic"}, {"channels": 1}):
        preprocess = Preprocess.for_dataset(dataset(), overrides)
        record = json.loads(json.dumps(preprocess.to_dict()))
        assert Preprocess.from_dict(record) == preprocess
    assert Preprocess.for_dataset(dataset()).to_dict() == {
        "size": 16,
        "channels": 3,
        "mean": [0.49, 0.48, 0.45],
        "std": [0.25, 0.24, 0.26],
        "interpolation": "bilinear",
        "stored_size": 16,
        "stored_channels": 3,
    }


def test_a_recipe_overrides_what_the_dataset_says():
    preprocess = Preprocess.for_dataset(dataset(), {"mean": [0.5], "std": (0.2, 0.3, 0.4)})
    assert preprocess.mean == (0.5, 0.5, 0.5) and preprocess.std == (0.2, 0.3, 0.4)
    grey = Preprocess.for_dataset(dataset(), {"channels": 1})
    assert len(grey.mean) == len(grey.std) == 1 and 0.47 < grey.mean[0] < 0.49
    colour = Preprocess.for_dataset(dataset(GREY, (0.13,), (0.31,)), {"channels": 3})
    assert colour.mean == (0.13,) * 3


@pytest.mark.parametrize(
    ("overrides", "reason", "hint"),
    [
        ({"siez": 32}, "no option 'siez'", "did you mean size"),
        ({"stored_size": 32}, "no option 'stored_size'", "size"),
        ({"size": 0}, "size must be a whole number, 1 to 4096, not 0", ""),
        ({"size": "32"}, "size must be a whole number, 1 to 4096, not '32'", ""),
        ({"size": 10**9}, "size must be a whole number, 1 to 4096, not 1000000000", ""),
        ({"channels": 10**9}, "channels must be a whole number, 1 to 64, not 1000000000", ""),
        ({"resize": 10**9}, "resize must be a whole number, 0 to 4096, not 1000000000", ""),
        ({"channels": 2}, "3 channels cannot become 2", ""),
        ({"mean": (0.1, 0.2)}, "mean has 2 numbers for 3 channels", ""),
        ({"mean": "0.5"}, "mean must be one number for each channel", ""),
        ({"std": (0.0,)}, "std must be one number for each channel, 1e-05 to 1000", ""),
        ({"std": (1e-300,)}, "std must be one number for each channel, 1e-05 to 1000", ""),
        ({"std": (10**400,)}, "std must be one number for each channel, 1e-05 to 1000", ""),
        ({"mean": (1e300,)}, "mean must be one number for each channel, -1000 to 1000", ""),
        ({"size": 3000}, "images have 27,000,000 numbers; at most 16,777,216 are allowed", ""),
        ({"resize": 3000}, "images have 27,000,000 numbers; at most 16,777,216 are allowed", ""),
        ({"mean": (float("nan"),)}, "mean must be one number for each channel", ""),
        ({"size": 32, "resize": 31}, "resize must be at least the size, 32", ""),
        ({"resize": 40.0}, "resize must be a whole number", ""),
        ({"interpolation": "cubic"}, "one of bilinear, bicubic, not 'cubic'", ""),
    ],
)
def test_settings_that_cannot_work_say_why(overrides, reason, hint):
    with pytest.raises(OptionError, match=reason) as caught:
        Preprocess.for_dataset(dataset(), overrides)
    assert hint in caught.value.hint


def test_a_record_must_be_complete_and_known():
    with pytest.raises(OptionError, match="mean and std must be given"):
        Preprocess.from_dict({"size": 32, "channels": 3})
    with pytest.raises(OptionError, match="no option 'crop'"):
        Preprocess.from_dict({"size": 32, "channels": 3, "mean": [0], "std": [1], "crop": 1})


def test_few_large_images_are_measured_together():
    plain = {"mean": [0.5], "std": [0.5]}
    record = {"size": 2364, "channels": 3, **plain}
    assert Preprocess.from_dict(record).at_once == 1
    assert Preprocess.from_dict({**record, "size": 224}).at_once == 111
    stored = {"size": 32, "channels": 1, "stored_size": 4096, "stored_channels": 3, **plain}
    assert Preprocess.from_dict(stored).at_once == 1
    with pytest.raises(OptionError, match="stored images have .* numbers"):
        Preprocess.from_dict({**stored, "stored_channels": 64, "channels": 64})


def test_an_array_that_is_no_picture_is_refused():
    with pytest.raises(OptionError, match="uint8"):
        Preprocess.for_dataset(dataset())(np.zeros((16, 16, 3), np.float32))
