import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from PIL import Image
from testing.mistakes import SOUND, importable, install

from zoo_core.cli.catalog import list_command
from zoo_core.data.augment import (
    Affine,
    Crop,
    CutMix,
    Cutout,
    Erase,
    Flip,
    ResizedCrop,
    parse_augment,
)
from zoo_core.data.dataset import Split
from zoo_core.data.draws import Draws
from zoo_core.data.loader import Loader
from zoo_core.data.ops import MovePlan, open_ops
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import OptionError, PluginError, UsageError
from zoo_core.spec.registry import plugin_of, registry
from zoo_core.torch.ops import TorchOps

N = 60
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (N, 12, 12, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (N, 12, 12, 1), dtype=np.uint8)
LABELS = np.arange(N) % 10
# Images come out as they went in: mean 0 and std 1/255 keep the values 0 to 255.
PLAIN = Preprocess(12, 3, (0.0,), (1 / 255,))
BACKENDS = ("numpy", "torch")


def pictures(backend, *words, size=12, images=IMAGES, **options):
    """All images of an epoch in order, changed by the words: (n, h, w, c)."""
    preprocess = Preprocess(size, images.shape[3], (0.0,), (1 / 255,))
    loader = Loader(
        Split(images, LABELS),
        batch_size=N,
        preprocess=preprocess,
        augment=words,
        shuffle=False,
        backend=backend,
        **options,
    )
    return np.asarray(loader.batch(0, 0).images).transpose(0, 2, 3, 1)


def draws(epoch=0, n=N):
    return Draws(0, epoch, np.arange(n))


def test_words_are_parsed():
    words = (
        "flip",
        "crop:4",
        "cutout:8",
        "affine:rotate=10,shift=3,scale=0.1",
        "resized_crop:224,scale=0.3-1",
        "cutmix:1.0",
        "erase:0.25",
    )
    assert tuple(word.does for word in parse_augment(words)) == (
        Flip(),
        Crop(4),
        Cutout(8),
        Affine(rotate=10, shift=3, scale=0.1),
        ResizedCrop(224, (0.3, 1.0)),
        CutMix(1.0),
        Erase(0.25),
    )


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("flop", "no augmentation 'flop'", "did you mean flip"),
        ("Crop:4", "no augmentation 'Crop'", "did you mean crop"),
        ("blur", "no augmentation 'blur'", "zoo list --augmentations shows what there is"),
        ("erase:1.5", "probability of erase must be from 0 to 1", "write it like erase:0.25"),
        ("crop", "does not say its pixels", "write it like crop:4"),
        ("crop:", "does not say its pixels", "write it like crop:4"),
        ("crop:four", "'four' is not valid for pixels", "write it like crop:4"),
        ("crop:4.5", "'4.5' is not valid for pixels", "write it like crop:4"),
        ("crop:0", "pixels of crop must be from 1", "write it like crop:4"),
        ("crop:4,4", "cannot have '4'", "write it like crop:4"),
        ("crop:4,pixels=4", "cannot have 'pixels=4'", "write it like crop:4"),
        ("flip:1", "cannot have '1'", "write it like flip"),
        ("affine:rotate=nan", "rotate of affine must be from 0", "write it like affine"),
        ("affine:shear=2", "cannot have 'shear=2'", "write it like affine"),
        ("resized_crop:8,scale=1-0.1", "scale of resized_crop", "write it like resized_crop"),
        ("resized_crop:8,scale=0.5", "is not valid for scale", "write it like resized_crop"),
        ("cutmix:0", "alpha of cutmix", "write it like cutmix"),
    ],
)
def test_a_word_that_cannot_be_meant_says_what_to_write(word, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        parse_augment((word,))
    assert hint in caught.value.hint


def test_a_word_may_stand_once():
    with pytest.raises(OptionError, match="'crop' twice"):
        parse_augment(("crop:2", "flip", "crop:3"))
    with pytest.raises(OptionError, match="'crop' twice"):
        parse_augment(("crop:2", "builtin/crop:2"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_changes_without_words(backend):
    assert np.array_equal(pictures(backend), IMAGES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_flip_mirrors_about_half_of_the_pictures(backend):
    flipped = draws().coins("flip")
    assert 0.25 < flipped.mean() < 0.75
    expected = np.where(flipped[:, None, None, None], IMAGES[:, :, ::-1], IMAGES)
    assert np.array_equal(pictures(backend, "flip"), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("images", [IMAGES, GREY])
@pytest.mark.parametrize(("word", "mode"), [("crop", "constant"), ("shift", "reflect")])
def test_crop_and_shift_cut_a_window_out_of_the_padded_picture(backend, images, word, mode):
    y = draws().integers(f"{word}.y", 0, 8)
    x = draws().integers(f"{word}.x", 0, 8)
    assert set(y) == set(x) == set(range(9))
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode=mode)
    expected = [padded[i, y[i] : y[i] + 12, x[i] : x[i] + 12] for i in range(N)]
    assert np.array_equal(pictures(backend, f"{word}:4", images=images), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_flip_and_crop_are_done_in_one_pass_in_either_order(backend):
    flipped = np.where(draws().coins("flip")[:, None, None, None], IMAGES[:, :, ::-1], IMAGES)
    assert np.array_equal(
        pictures(backend, "flip", "crop:3"), pictures(backend, "crop:3", images=flipped)
    )
    assert np.array_equal(pictures(backend, "flip", "crop:3"), pictures(backend, "crop:3", "flip"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_words_run_in_the_order_written(backend):
    first = pictures(backend, "affine:rotate=20", "flip")
    turned = pictures(backend, "affine:rotate=20")
    flip = draws().coins("flip")[:, None, None, None]
    assert np.array_equal(first, np.where(flip, turned[:, :, ::-1], turned))


@pytest.mark.parametrize("backend", BACKENDS)
def test_too_wide_a_crop_is_refused(backend):
    with pytest.raises(OptionError, match="12 pixels to move by are too many for 12 x 12"):
        pictures(backend, "crop:12")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_affine_map_without_parameters_changes_nothing(backend):
    assert np.allclose(pictures(backend, "affine"), IMAGES, atol=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_warp_by_a_quarter_turn_and_by_whole_pixels(backend):
    ops = open_ops(backend)
    images, _ = ops.place(IMAGES[:1], np.arange(1))
    turn = np.array([[[0, 1, 0], [-1, 0, 11]]], np.float32)
    turned = np.asarray(ops.warp(images, turn))
    assert np.allclose(turned[0], np.rot90(IMAGES[0], -1), atol=0.01)
    right = np.array([[[1, 0, -2], [0, 1, 0]]], np.float32)
    moved = np.asarray(ops.warp(images, right))[0]
    assert np.allclose(moved[:, 2:], IMAGES[0][:, :-2], atol=0.01)
    assert np.allclose(moved[:, :2], 0, atol=0.01)


def test_affine_maps_rotate_about_the_centre_within_their_limits():
    matrices = Affine(rotate=30, shift=2, scale=0.2).matrices(draws(n=2000), 12, 12)
    linear = matrices[:, :, :2].astype(float)
    factor = 1 / np.sqrt(np.linalg.det(linear))
    assert 0.8 <= factor.min() < 0.82 and 1.18 < factor.max() <= 1.2
    degrees = np.degrees(np.arctan2(linear[:, 0, 1], linear[:, 0, 0]))
    assert -30 <= degrees.min() < -29 and 29 < degrees.max() <= 30
    # Where the centre of the image went: the shift, up to two pixels each way.
    centre = np.linalg.solve(linear, (5.5 - matrices[:, :, 2])[..., None])[..., 0] - 5.5
    assert 1.9 < np.abs(centre).max() <= 2.0001


def test_resized_crops_lie_inside_the_picture_and_have_the_stated_area():
    boxes = ResizedCrop(8, (0.2, 0.5)).boxes(draws(n=5000), 1200, 1200)
    left, top, w, h = boxes.T
    assert left.min() == top.min() == 0
    assert (left + w).max() == (top + h).max() == 1200
    area, ratio = w * h / 1200**2, w / h
    assert 0.199 <= area.min() < 0.21 and 0.49 < area.max() <= 0.501
    assert 0.748 <= ratio.min() < 0.76 and 1.32 < ratio.max() <= 1.336
    assert (ResizedCrop(8, (0.001, 1)).boxes(draws(n=500), 3, 3)[:, 2:].min(0) == 1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_resized_crop_of_everything_at_the_old_size_changes_nothing(backend):
    ops = open_ops(backend)
    images, _ = ops.place(IMAGES, np.arange(N))
    whole = np.tile(np.array([0, 0, 12, 12]), (N, 1))
    assert np.array_equal(ops.zoom(images, whole, np.zeros(N, bool), 12), IMAGES)
    constant = np.full_like(IMAGES, 200)
    cut = pictures(backend, "resized_crop:20", size=20, images=constant)
    assert cut.shape == (N, 20, 20, 3)
    assert np.allclose(cut, 200, atol=0.01)  # no black edge comes in


@pytest.mark.parametrize(("side", "size"), [(64, 14), (40, 40), (30, 64)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_part_is_what_pillow_makes_of_it_and_the_same_in_all_frameworks(side, size, channels):
    rng = np.random.default_rng(side)
    images = rng.integers(0, 256, (30, side, side, channels), np.uint8)
    low, high = np.sort(rng.integers(0, side, (2, 30, 2)), axis=0)
    boxes, flips = np.concatenate((low, high - low + 1), axis=1), rng.random(30) < 0.5
    made = [
        np.asarray(ops.zoom(ops.place(images, np.arange(30))[0], boxes, flips, size))
        for ops in (open_ops("numpy"), open_ops("torch"), TorchOps("cpu"))
    ]
    assert np.array_equal(made[0], made[1]) and np.array_equal(made[0], made[2])
    for image, (left, top, w, h), flip, found in zip(images, boxes, flips, made[0], strict=True):
        part = Image.fromarray(
            np.squeeze(image[top : top + h, left : left + w], (2,)[channels - 1 :])
        )
        expected = np.asarray(part.resize((size, size), Image.Resampling.BILINEAR))
        found = found[:, ::-1] if flip else found
        assert np.abs(found.reshape(expected.shape) - expected.astype(int)).max() <= 1


def test_a_flip_beside_a_resized_crop_is_made_with_it():
    kept = {}
    for words in (("flip", "resized_crop:9"), ("resized_crop:9", "flip")):
        kept[words] = pictures("numpy", *words, size=9)
    first, second = kept.values()
    assert np.array_equal(first, second)
    plain = pictures("numpy", "resized_crop:9", size=9)
    coins = draws().coins("flip")[:, None, None, None]
    assert np.array_equal(first, np.where(coins, plain[:, :, ::-1], plain))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_resized_crop_without_a_size_keeps_that_of_the_picture(backend):
    own, given = (
        pictures(backend, word) for word in ("resized_crop:scale=0.2-1", "resized_crop:12,0.2-1")
    )
    assert np.array_equal(own, given) and not np.array_equal(own, pictures(backend))


@pytest.mark.parametrize("size", [5, 12, 30])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resize_agrees_with_pillow_and_between_the_backends(size, interpolation):
    soft = IMAGES // 4 + 96  # Pillow clips between rows and columns, where bicubic overshoots
    results = []
    for backend in BACKENDS:
        ops = open_ops(backend)
        images, _ = ops.place(soft, np.arange(N))
        results.append(np.asarray(ops.resize(images, (size, size), interpolation)))
    assert np.allclose(*results, atol=1e-3)
    method = getattr(Image.Resampling, interpolation.upper())
    for image, resized in zip(soft, results[0], strict=True):
        expected = np.asarray(Image.fromarray(image).resize((size, size), method), float)
        assert np.abs(expected - resized).max() < 1.6  # Pillow rounds twice


@pytest.mark.parametrize("backend", BACKENDS)
def test_cutout_covers_one_square_with_the_mean(backend):
    preprocess = Preprocess(12, 3, (0.4, 0.5, 0.6), (0.2,))
    bright = Split(np.full((N, 12, 12, 3), 255, np.uint8), LABELS)
    loader = Loader(
        bright, batch_size=N, preprocess=preprocess, augment=("cutout:4",), backend=backend
    )
    covered = np.asarray(loader.batch(0, 0).images) == 0  # 0 is the mean, after normalisation
    assert np.array_equal(covered.any(axis=1), covered.all(axis=1))
    for picture in covered[:, 0]:
        rows, columns = np.flatnonzero(picture.any(axis=1)), np.flatnonzero(picture.any(axis=0))
        assert picture.sum() == len(rows) * len(columns)
        assert np.all(np.diff(rows) == 1) and np.all(np.diff(columns) == 1)
        for side in (rows, columns):
            assert len(side) == 4 or side[0] == 0 or side[-1] == 11
            assert 2 <= len(side) <= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixup_blends_each_picture_with_the_next_by_its_weight(backend):
    split = Split(IMAGES, LABELS)
    loader = Loader(split, batch_size=25, preprocess=PLAIN, mixup=0.4, backend=backend)
    plain = Loader(split, batch_size=N, preprocess=PLAIN, backend=backend).batch(0, 0)
    order = np.append(plain.indices, plain.indices[0])  # the last is mixed with the first
    seen = 0
    for batch in loader.epoch(0):
        following = order[seen + 1 : seen + 1 + len(batch)]
        weight = np.asarray(batch.weight)
        assert weight.dtype == np.float32 and weight.min() >= 0 and weight.max() <= 1
        share = weight[:, None, None, None]
        expected = IMAGES[batch.indices] * share + IMAGES[following] * (1 - share)
        assert np.allclose(np.asarray(batch.images).transpose(0, 2, 3, 1), expected, atol=0.01)
        assert np.array_equal(batch.labels, LABELS[batch.indices])
        assert np.array_equal(batch.mixed_labels, LABELS[following])
        assert np.array_equal(batch.mixed_indices, following)
        seen += len(batch)
    assert seen == N


@pytest.mark.parametrize("backend", BACKENDS)
def test_cutmix_pastes_a_box_and_weighs_labels_by_its_area(backend):
    images = np.tile(np.arange(N, dtype=np.uint8)[:, None, None, None], (1, 12, 12, 3))
    loader = Loader(
        Split(images, LABELS),
        batch_size=N,
        preprocess=PLAIN,
        augment=("cutmix:1",),
        shuffle=False,
        backend=backend,
    )
    batch = loader.batch(0, 0)
    values = np.asarray(batch.images)
    for i in range(N):
        own, other = np.isclose(values[i, 0], i), np.isclose(values[i, 0], (i + 1) % N)
        assert np.all(own | other)
        assert np.isclose(own.mean(), batch.weight[i])
        rows, columns = other.any(axis=1), other.any(axis=0)
        assert other.sum() == rows.sum() * columns.sum()
    assert 0.3 < np.asarray(batch.weight).mean() < 0.8


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixup_and_cutmix_together_take_turns(backend):
    images = np.tile(np.arange(N, dtype=np.uint8)[:, None, None, None], (1, 12, 12, 3))
    loader = Loader(
        Split(images, LABELS),
        batch_size=N,
        preprocess=PLAIN,
        augment=("cutmix:1",),
        mixup=1.0,
        shuffle=False,
        backend=backend,
    )
    batch = loader.batch(0, 0)
    values, weight = np.asarray(batch.images)[:, 0], np.asarray(batch.weight)
    blended = np.ptp(values, axis=(1, 2)) < 1e-3
    assert 0.2 < blended.mean() < 0.8
    following = (np.arange(N) + 1) % N
    # Either way the mean of an image is its own value and the next one's, by weight.
    assert np.allclose(
        values.mean(axis=(1, 2)), np.arange(N) * weight + following * (1 - weight), atol=0.01
    )


AGREE = [
    (),
    ("flip",),
    ("flip", "crop:3"),
    ("shift:3",),
    ("crop:2", "cutout:5"),
    ("affine:rotate=25,shift=2,scale=0.2", "flip"),
    ("flip", "resized_crop:12,scale=0.1-1"),
    ("resize:9", "crop:2", "resized_crop:12"),
    ("crop:2", "cutmix:1"),
    ("flip", "erase:0.5"),
]


@pytest.mark.parametrize("words", AGREE, ids="+".join)
@pytest.mark.parametrize("images", [IMAGES, GREY])
@pytest.mark.parametrize("mixup", [0.0, 0.3])
def test_both_backends_make_the_same_pictures(words, images, mixup):
    numpy, torch_ = (pictures(b, *words, images=images, mixup=mixup) for b in BACKENDS)
    assert numpy.dtype == torch_.dtype == np.float32
    assert np.allclose(numpy, torch_, atol=2e-2)  # of 255
    interpolated = any(word.startswith(("affine", "resize")) for word in words)
    assert interpolated or np.array_equal(numpy, torch_)


@pytest.mark.parametrize("words", AGREE, ids="+".join)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("mixup", [0.0, 0.3])
def test_the_code_for_other_devices_makes_the_same_pictures(
    words, channels_last, mixup, monkeypatch
):
    options = {"mixup": mixup, "channels_last": channels_last}
    expected = pictures("torch", *words, **options)
    monkeypatch.setattr(
        "zoo_core.data.loader.open_ops", lambda backend, device, last: TorchOps(device, last)
    )
    assert np.array_equal(pictures("torch", *words, **options), expected)


def test_a_plan_of_nothing_takes_the_pictures_asked_for():
    for backend in BACKENDS:
        ops = open_ops(backend)
        images, rows = ops.place(IMAGES, np.array([5, 3]))
        assert np.array_equal(ops.move(images, MovePlan(rows)), IMAGES[[5, 3]])


def test_the_antialiased_resize_is_that_of_torch():
    planes = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float()
    expected = F.interpolate(planes, (7, 7), mode="bilinear", antialias=True).permute(0, 2, 3, 1)
    assert np.allclose(open_ops("numpy").resize(IMAGES, (7, 7), "bilinear"), expected, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_erase_covers_boxes_of_the_stated_area_in_as_many_images_as_it_says(backend):
    many = Draws(0, 0, np.arange(4000))
    top, bottom, left, right = Erase(0.25, (0.1, 0.4)).boxes(many, 32, 32).T
    area = (bottom - top) * (right - left)
    assert 0.23 < (area > 0).mean() < 0.27
    assert min(top.min(), left.min()) == 0 and max(bottom.max(), right.max()) == 32
    shares = area[area > 0] / 32**2
    assert 0.08 < shares.min() < 0.12 and 0.36 < shares.max() < 0.44
    covered = pictures(backend, "erase:1", images=np.full_like(IMAGES, 9)) == 0
    boxes = Erase(1).boxes(replace(draws(), prefix="erase."), 12, 12)
    for image, (top, bottom, left, right) in zip(covered, boxes, strict=True):
        assert image[top:bottom, left:right].all()
        assert image.sum() == 3 * (bottom - top) * (right - left) > 0


# sha256 of what these words made before others joined them, by NumPy.
OLD = {
    ("flip", "crop:3"): "84f8a5008ec7c752",
    ("shift:3", "cutout:5"): "9767ad0760d0496d",
    ("affine:rotate=25,shift=2,scale=0.2",): "d7a99541a8c4dd2d",
    ("resize:12", "cutmix:1"): "ec8c373bd3f01b59",
}


@pytest.mark.parametrize("words", OLD, ids="+".join)
def test_words_of_the_first_version_draw_what_they_drew_then(words):
    made = np.rint(pictures("numpy", *words)).astype(np.uint8)
    assert hashlib.sha256(made.tobytes()).hexdigest()[:16] == OLD[words]


@pytest.fixture
def dots(tmp_path):
    """An installed plugin with a word of its own, `dim`."""
    install(SOUND / "zoo-dots", tmp_path / "site")
    with importable(tmp_path / "site"):
        yield tmp_path / "site"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plugin_brings_a_word(dots, backend):
    factor = replace(draws(), prefix="dots/dim.").uniform("factor", 0.2, 1).astype(np.float32)
    dark = IMAGES * factor[:, None, None, None]
    assert np.array_equal(pictures(backend, "dim:0.8"), dark)
    assert np.array_equal(pictures(backend, "dots/dim:0.8"), dark)
    turned = pictures(backend, "dim", "flip")
    assert np.array_equal(turned, pictures(backend, "flip", "dim"))
    with pytest.raises(OptionError, match="most of dim must be from 0 to 1"):
        parse_augment(("dim:2",))


def test_words_are_listed_with_their_plugin_and_an_example(dots):
    done = CliRunner().invoke(list_command, ["--augmentations", "--json"])
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert {"flip", "erase", "cutmix", "dim"} <= set(rows)
    assert (rows["dim"]["plugin"], rows["dim"]["example"]) == ("dots", "dim:0.5")
    assert rows["erase"]["plugin"] == "builtin"


def test_a_plugin_with_one_of_our_words_takes_nothing_from_recipes_that_have_it(dots):
    plugin = dots / "zoo_dots" / "plugin.py"
    plugin.write_text(plugin.read_text().replace("dim", "flip"))
    plain, theirs = parse_augment(("flip", "dots/flip:0.1"))
    assert (plain.does, plain.prefix, theirs.prefix) == (Flip(), "flip.", "dots/flip.")
    assert parse_augment(("builtin/flip",)) == (plain,)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("images[:, :6]", r"gave a .* with the dtype uint8 and the shape \(60, 6, 12, 3\)"),
        ("images * ops.put(np.ones(1))", "with the dtype float64 and the shape"),
        ("images.tolist()", r"gave a builtins.list with the dtype of no array and the shape \(\)"),
        ("IMAGES", r"gave a .* with the dtype int8 and the shape \(1,\)"),
    ],
)
def test_a_mistake_of_a_plugin_is_one_sentence_that_names_it_and_its_word(
    dots, backend, body, sentence
):
    code = dots / "zoo_dots" / "words.py"
    text = code.read_text().replace("return images *", f"return {body}\n        images *")
    code.write_text(f"{text}\n\nIMAGES = np.zeros(1, np.int8)\n")
    with pytest.raises(PluginError, match=sentence) as caught:
        pictures(backend, "dim")
    assert str(caught.value).startswith("augmentation 'dim' of plugin 'dots' (zoo-dots 0.1.0) ")
    assert caught.value.hint


def test_every_word_of_the_zoo_keeps_what_plugins_must_promise():
    from zoo_author.checks import check_augmentation

    page = (Path(__file__).parents[2] / "docs" / "loader.md").read_text()
    for entry in registry().augmentations:
        check_augmentation(plugin_of(entry), entry.example)
        assert f"| `{entry.name}" in page
