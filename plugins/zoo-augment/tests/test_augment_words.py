import hashlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from zoo_augment.pixels import Pixels
from zoo_augment.torch_pixels import TorchPixels
from zoo_augment.words import CHANGES, USUAL, WIDE, Jitter, Rand, Trivial

import zoo
from zoo import kit
from zoo.testing import checks_of

N = 60
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (N, 12, 12, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (N, 12, 12, 1), dtype=np.uint8)
SMOOTH = np.random.default_rng(3).normal(110, 25, (20, 16, 16, 3)).clip(0, 255).astype(np.uint8)
BACKENDS = ("numpy", "torch")
WORDS = [
    ("jitter:0.4,hue=0.2",),
    ("trivial", "flip"),
    ("flip", "rand:3,20", "erase:0.5"),
    ("jitter:0.8", "trivial", "crop:2"),
]


def loader(*words, images=IMAGES, **options):
    # Images come out as they went in: mean 0 and std 1/255 keep the values 0 to 255.
    shown = zoo.Preprocess(images.shape[1], images.shape[3], (0.0,), (1 / 255,))
    labels = np.arange(len(images)) % 10
    given = {"batch_size": N, "shuffle": False, "preprocess": shown, **options}
    return kit.Loader(zoo.Split(images, labels), augment=words, **given)


def pictures(backend, *words, **options):
    """All images of an epoch in order, changed by the words: (n, h, w, c)."""
    batch = loader(*words, backend=backend, **options).batch(0, 0)
    return np.asarray(batch.images).transpose(0, 2, 3, 1)


def draws(prefix="", n=N):
    return zoo.Draws(0, 0, np.arange(n), prefix)


@pytest.mark.parametrize("check", checks_of("augment"), ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("trival", "no augmentation 'trival'", "did you mean trivial"),
        ("jitter", "does not say its strength", "write it like jitter:0.4"),
        ("jitter:2", "strength of jitter must be from 0 to 1", "write it like jitter:0.4"),
        ("rand:2,31", "magnitude of rand must be from 0 to 30", "write it like rand:2,9"),
        ("rand:2,9,1", "cannot have '1'", "write it like rand:2,9"),
    ],
)
def test_a_word_that_cannot_be_meant_says_what_to_write(word, message, hint):
    with pytest.raises(zoo.UsageError, match=message) as caught:
        loader(word)
    assert hint in caught.value.hint


# sha256 of what these words made when they were part of zoo-core.
OLD = {
    ("jitter:0.4,hue=0.2",): "00436eefc05efbb5",
    ("trivial", "flip"): "08d6e3411de990cf",
    ("flip", "rand:3,20", "erase:0.5"): "43d9b3afdeed52b4",
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("words", OLD, ids="+".join)
def test_old_recipes_make_the_same_pictures(words, backend):
    made = np.rint(pictures(backend, *words)).astype(np.uint8)
    assert hashlib.sha256(made.tobytes()).hexdigest()[:16] == OLD[words]


@pytest.mark.parametrize("words", [*WORDS, ("affine:rotate=25", "jitter:0.4")], ids="+".join)
@pytest.mark.parametrize("images", [IMAGES, GREY], ids=["colour", "grey"])
@pytest.mark.parametrize("mixup", [0.0, 0.3])
def test_both_backends_make_the_same_pictures(words, images, mixup):
    numpy, torch_ = (pictures(b, *words, images=images, mixup=mixup) for b in BACKENDS)
    assert np.allclose(numpy, torch_, atol=2e-2)  # of 255
    assert "affine:rotate=25" in words or np.array_equal(numpy, torch_)


@pytest.mark.parametrize("word", [Jitter(0.4, hue=0.2), Trivial(), Rand(3, 20)], ids=repr)
@pytest.mark.parametrize("images", [IMAGES, GREY], ids=["colour", "grey"])
def test_the_code_for_other_devices_makes_the_same_pictures(word, images):
    expected = word.change(Pixels(), images.copy(), draws())
    tensors = torch.from_numpy(images.copy())
    made = word.change(TorchPixels(torch.from_numpy), tensors, draws())
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("words", WORDS, ids="+".join)
def test_everything_is_made_on_the_device_of_the_model(words, monkeypatch):
    """The meta device computes shapes only, and refuses to meet tensors of the CPU."""
    # What a word asks about the values of images comes to the CPU, and has to be made up here.
    made_up = {"means": lambda pixels, images: np.ones((len(images), 3))}
    made_up["histogram"] = lambda pixels, images: np.ones((len(images), 3, 256), np.int64)
    for method, answer in made_up.items():
        monkeypatch.setattr(TorchPixels, method, answer)
    there, here = (loader(*words, device=device).batch(0, 0).images for device in ("meta", "cpu"))
    assert there.device.type == "meta"
    assert (there.shape, there.dtype) == (here.shape, here.dtype)


@pytest.mark.parametrize("words", WORDS, ids="+".join)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_is_the_same_alone_after_others_and_in_shards(words, backend):
    options = {"backend": backend, "batch_size": 25, "seed": 5, "shuffle": True}
    whole = loader(*words, **options)
    epoch = [np.asarray(batch.images) for batch in whole.epoch(1)]
    for number, expected in enumerate(epoch):
        alone = loader(*words, **options).batch(1, number)
        assert np.array_equal(alone.images, expected)
        shards = (loader(*words, **options, shard=(rank, 3)) for rank in range(3))
        parts = [np.asarray(shard.batch(1, number).images) for shard in shards]
        assert np.array_equal(np.concatenate(parts), expected)


def test_shards_agree_at_sizes_where_torch_uses_several_threads():
    images = np.random.default_rng(3).integers(0, 256, (96, 32, 32, 3), dtype=np.uint8)
    words, options = ("jitter:0.4,hue=0.1", "trivial", "flip"), {"images": images, "batch_size": 96}
    whole = loader(*words, **options).batch(0, 0).images
    for world in (2, 5):
        shards = (loader(*words, **options, shard=(rank, world)) for rank in range(world))
        assert torch.equal(torch.cat([shard.batch(0, 0).images for shard in shards]), whole)


@pytest.mark.parametrize("words", WORDS, ids="+".join)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_stored_pictures_are_never_changed(words, backend):
    before = IMAGES.copy()
    pictures(backend, *words)
    assert np.array_equal(IMAGES, before)


def changed(pixels, name, reach, images=SMOOTH):
    """The images after one change, from weak to strong, every second one in the other direction."""
    level, minus = np.linspace(0, 1, len(images)), np.arange(len(images)) % 2 == 1
    given = pixels.put(images.copy())
    made = reach.apply(pixels, given, np.full(len(images), CHANGES.index(name)), level, minus)
    return np.asarray(made), level, np.where(minus, -level, level)


PILLOW = {
    "identity": lambda image, reach, level, signed: image,
    "rotate": lambda image, reach, level, signed: image.rotate(-reach.rotate * signed),
    "posterize": lambda image, reach, level, signed: ImageOps.posterize(
        image, 8 - round(reach.bits * level)
    ),
    "solarize": lambda image, reach, level, signed: ImageOps.solarize(image, 255 * (1 - level)),
    "autocontrast": lambda image, reach, level, signed: ImageOps.autocontrast(image),
    "equalize": lambda image, reach, level, signed: ImageOps.equalize(image),
} | {
    name: lambda image, reach, level, signed, enhance=enhance: enhance(image).enhance(
        1 + reach.factor * signed
    )
    for name, enhance in (
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
        ("sharpness", ImageEnhance.Sharpness),
    )
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("reach", [WIDE, USUAL], ids=["wide", "usual"])
def test_a_change_is_that_of_pillow_and_the_same_in_both_frameworks(name, reach):
    made, level, signed = changed(Pixels(), name, reach)
    assert made.dtype == np.uint8
    for images in (SMOOTH, GREY):
        numpy, _, _ = changed(Pixels(), name, reach, images)
        assert np.array_equal(changed(TorchPixels(torch.from_numpy), name, reach, images)[0], numpy)
    for i, image in enumerate(SMOOTH if name in PILLOW else ()):
        wanted = PILLOW[name](Image.fromarray(image), reach, level[i], signed[i])
        differ = np.abs(np.asarray(wanted, int) - made[i])
        # Pillow cuts fractions off; where a pixel lies between two it may take the other one.
        assert (differ > 1).mean() < 0.06 if name == "rotate" else differ.max() <= 1


@pytest.mark.parametrize("reach", [WIDE, USUAL], ids=["wide", "usual"])
def test_translations_are_by_whole_pixels_and_shears_keep_the_centre(reach):
    moved, _, signed = changed(Pixels(), "translate_x", reach)
    most = min(reach.move if reach.move > 1 else reach.move * 16, 40)
    for image, new, share in zip(SMOOTH, moved, signed, strict=True):
        shift = int(np.trunc(most * share))
        padded = np.pad(image, ((0, 0), (40, 40), (0, 0)))
        assert np.array_equal(new, padded[:, 40 - shift : 56 - shift])
    odd = np.random.default_rng(4).integers(1, 256, (20, 15, 15, 3), dtype=np.uint8)
    for name, row in (("shear_x", np.s_[:, 7]), ("shear_y", np.s_[:, :, 7])):
        sheared, *_ = changed(Pixels(), name, reach, odd)
        assert np.array_equal(sheared[row], odd[row])
        assert (sheared[-1] == 0).any()  # black comes in


@pytest.mark.parametrize("backend", BACKENDS)
def test_jitter_changes_brightness_contrast_saturation_and_hue_as_drawn(backend):
    own = draws("jitter.")
    bright, contrast, colour = (
        own.uniform(name, 0.6, 1.4)[:, None, None, None]
        for name in ("brightness", "contrast", "saturation")
    )
    soft = IMAGES // 4 + 90  # nothing is cut off
    luma = np.array([0.299, 0.587, 0.114])
    x = soft * bright
    x = contrast * x + (1 - contrast) * (x @ luma).mean((1, 2))[:, None, None, None]
    x = colour * x + (1 - colour) * (x @ luma)[..., None]
    made = pictures(backend, "jitter:0.4", images=soft)
    assert np.abs(made - x.clip(0, 255)).max() < 0.51
    pixels = Pixels() if backend == "numpy" else TorchPixels(torch.from_numpy)
    third = np.array([[[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]]] * N, np.float32)
    assert np.array_equal(pixels.colour(pixels.put(IMAGES), third), IMAGES[..., [2, 0, 1]])
    grey = pictures(backend, "jitter:0,hue=0.5", images=np.repeat(GREY, 3, axis=3))
    assert np.abs(grey - GREY).max() <= 1  # grey has no hue


def test_policies_draw_every_change_and_level():
    many = draws("trivial.", n=5000)
    assert np.bincount(many.integers("change", 0, 13)).min() > 250
    assert set(many.integers("level", 0, 30)) == set(range(31))
    assert not np.array_equal(pictures("numpy", "trivial"), pictures("numpy", "rand:1"))
    assert np.array_equal(pictures("numpy", "rand"), pictures("numpy", "rand:2,9"))
