"""zoo data check: it finds what was put there, and nothing else."""

import io
import json
import re
import shutil

import numpy as np
import pytest
from fixtures import datasets as made
from PIL import Image
from zoo_check.check import ALIKE, alike, check_data

import zoo
from zoo_core.data import packs
from zoo_core.data.images import Form
from zoo_core.data.packs import Pack, facts_of, look


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def scene(seed, size=(60, 60)):
    """An image that looks like no other: blobs of colour."""
    blobs = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(blobs).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def photos(tmp_path):
    """train/ and test/ with 12 and 3 images of cats and dogs, none of them odd."""
    root = tmp_path / "photos"
    for part, count in (("train", 12), ("test", 3)):
        for label, first in (("cat", 0), ("dog", 100)):
            (root / part / label).mkdir(parents=True)
            for i in range(count):
                seed = first + i + 50 * (part == "test")
                scene(seed).save(root / part / label / f"{i}.png")
    return root


def found(root, **options):
    return {one.kind: one for one in zoo.check_data(root, **options).odd}


def test_nothing_is_odd_about_sound_images(photos):
    check = zoo.check_data(photos)
    assert (check.ok, check.odd) == (True, [])
    assert check.images == {"train": 24, "test": 6}
    assert check.facts == {
        "sizes": {name: [60, 60] for name in ("smallest", "median", "largest")},
        "crop_loses": {},
        "formats": {"PNG": 30},
        "grey": 0,
        "labels": {name: {"train": 12, "test": 3} for name in ("cat", "dog")},
    }


def test_images_that_cannot_be_used_are_a_problem_each_with_its_reason(photos):
    folder = photos / "train" / "cat"
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("meow")
    data = io.BytesIO()
    scene(7).save(data, "JPEG")
    (folder / "truncated.jpg").write_bytes(data.getvalue()[:-200])
    broken = found(photos)["broken"]
    assert broken.problem
    assert [tuple(image) for image in broken.images] == [
        ("train/cat/empty.jpg", "train/cat/empty.jpg is empty"),
        ("train/cat/text.jpg", "train/cat/text.jpg cannot be read as an image: it is not in a "
         "known format"),
        ("train/cat/truncated.jpg", broken.images[2].reason),
    ]  # fmt: skip
    assert "truncated" in broken.images[2].reason.partition(":")[2]


def test_a_folder_of_broken_images_alone_is_told_as_well(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "1.png").touch()
    check = zoo.check_data(tmp_path / "x")
    assert (check.ok, check.images, check.facts["sizes"]) == (False, {"train": 0, "test": 0}, {})


@pytest.mark.parametrize(
    ("copy", "kind", "problem"),
    [
        ("train/cat/copy.png", "copies", False),
        ("test/cat/copy.png", "train_and_test", True),
        ("train/dog/copy.png", "labels", True),
        ("test/dog/copy.png", "labels", True),
    ],
)
def test_an_exact_copy_is_found_and_where_it_is_decides(photos, copy, kind, problem):
    shutil.copy(photos / "train" / "cat" / "3.png", photos / copy)
    (only,) = zoo.check_data(photos).odd
    assert (only.kind, only.problem) == (kind, problem)
    assert [sorted(group) for group in only.images] == [sorted(["train/cat/3.png", copy])]


def saved_again(image, folder):
    image.save(folder / "copy.jpg", quality=40)


def smaller(image, folder):
    image.resize((33, 33)).save(folder / "copy.png")


def brighter(image, folder):
    image.point(lambda level: int(level * 0.7) + 20).save(folder / "copy.png")


def grey(image, folder):
    image.convert("L").save(folder / "copy.tif")


def turned_back_by_exif(image, folder):
    exif = Image.Exif()
    exif[0x0112] = 6
    image.rotate(90, expand=True).save(folder / "copy.jpg", exif=exif, quality=95)


@pytest.mark.parametrize("change", [saved_again, smaller, brighter, grey, turned_back_by_exif])
def test_a_changed_copy_looks_alike_and_is_a_remark(photos, change):
    change(scene(303, (60, 45)), photos / "test" / "cat")
    scene(303, (60, 45)).save(photos / "train" / "cat" / "wide.png")
    check = zoo.check_data(photos, fit="pad")
    assert check.ok
    assert [one.kind for one in check.odd] == ["near_train_and_test"]
    assert check.odd[0].images[0][0] == "train/cat/wide.png"


def test_plain_images_do_not_look_alike(photos):
    for level in range(3):
        Image.new("RGB", (50, 50), (level, level, level)).save(photos / f"train/cat/p{level}.png")
    assert not found(photos)


def test_pairs_are_those_of_a_comparison_of_all_with_all():
    draw = np.random.default_rng(0)
    looks = draw.integers(0, 256, (700, 64)).astype(np.uint8)
    for near in range(0, 300, 3):  # some changed a little, more or less
        noise = draw.normal(0, 1 + near / 20, 64)
        looks[near + 1] = np.clip(looks[near] + noise, 0, 255)
    together = np.corrcoef(looks.astype(np.float64))
    expected = {(a, b) for a, b in np.argwhere(together >= ALIKE).tolist() if a < b}
    assert 20 < len(expected) < 90
    assert {(min(p), max(p)) for p in alike(looks, step=64).T.tolist()} == expected


def test_small_classes_small_images_and_what_crop_cuts_away_are_remarks(photos):
    (photos / "train" / "fox").mkdir()
    scene(900, (60, 200)).save(photos / "train" / "fox" / "tall.png")
    scene(901, (12, 14)).save(photos / "train" / "fox" / "tiny.png")
    check = zoo.check_data(photos)
    odd = {one.kind: list(one.images) for one in check.odd}
    assert check.ok
    assert odd == {
        "few_train": ["fox: 2"],
        "few_test": ["fox: 0"],
        "cropped": ["train/fox/tall.png"],
        "small": ["train/fox/tiny.png"],
    }
    assert check.facts["crop_loses"]["most"] == pytest.approx(0.7)
    assert "cropped" not in found(photos, fit="pad")


def noise():
    images = np.random.default_rng(0).integers(0, 256, (44, 8, 8, 3), np.uint8)
    images[41], images[42] = images[6], images[2]
    labels = np.arange(44) % 2
    return {
        **{"train_images": images[:40], "train_labels": labels[:40]},
        **{"test_images": images[40:], "test_labels": labels[40:]},
    }


def test_arrays_are_checked_as_files_are(monkeypatch, tmp_path):
    entry = zoo.DatasetEntry(
        name="noise", target="fixture:noise", summary="For tests", classes=("a", "b")
    )
    known = made.registry_of(entry)
    monkeypatch.setattr("zoo_core.data.datasets.registry", lambda: known)
    monkeypatch.setattr("zoo_core.io.targets.import_target", lambda target: noise)
    check = check_data("noise", sheets=tmp_path / "sheets")
    assert [(one.kind, one.problem, one.images) for one in check.odd] == [
        ("labels", True, [["train 6", "test 1"]]),
        ("train_and_test", True, [["train 2", "test 2"]]),
    ]
    assert check.facts["labels"]["a"] == {"train": 20, "test": 2}
    assert check.facts["formats"] == {"array": 44}
    assert [path.name for path in check.sheets] == ["labels.png", "train_and_test.png"]


def test_images_without_labels_or_a_test_set_are_checked(tmp_path):
    for i in range(4):
        scene(i).save(tmp_path / f"{i}.png")
    shutil.copy(tmp_path / "1.png", tmp_path / "copy.png")
    check = zoo.check_data(tmp_path, test_fraction=0)
    assert check.images == {"train": 5, "test": 0}
    assert check.facts["labels"] == {}
    assert [(one.kind, one.images) for one in check.odd] == [("copies", [["1.png", "copy.png"]])]


def test_nothing_is_decoded_again_where_a_pack_has_the_facts(photos, monkeypatch):
    zoo.open_dataset(photos, image_size=16)
    before = sorted((photos.parent / "cache" / "packs").glob("*.safetensors"))

    def refuse(*arguments):
        raise AssertionError("an image is decoded")

    monkeypatch.setattr(packs.Pack, "_decode", refuse)
    assert zoo.check_data(photos).ok
    assert sorted((photos.parent / "cache" / "packs").glob("*.safetensors")) == before


def test_the_look_of_an_image_does_not_depend_on_the_form_of_its_pack(photos):
    from zoo_core.data.image_folder import image_folder

    scene(5, (90, 30)).save(photos / "train" / "cat" / "wide.jpg")
    listed = image_folder(path=str(photos))
    forms = (Form(8, 3, "crop"), Form(64, 3, "pad"), Form(20, 3, "stretch"))
    looks = [Pack("x", listed, form).content(print).looks.astype(int) for form in forms]
    assert max(abs(look - looks[0]).max() for look in looks) <= 1
    assert len(facts_of(Pack("x", listed, Form(9, 1)), print).facts) == len(listed)


@pytest.mark.parametrize("shape", [(1600, 1200), (700, 500), (300, 900)])
def test_a_large_image_looks_as_its_small_copy_does(shape):
    noise = np.random.default_rng(0).normal(0, 25, (shape[1], shape[0], 3))
    large = Image.fromarray((scene(7, shape) + noise).clip(0, 255).astype(np.uint8))
    small = large.resize((96, 64), Image.Resampling.BOX)
    assert np.corrcoef(look(large), look(small))[0, 1] > ALIKE


def test_a_photograph_of_two_frames_is_a_jpeg(photos):
    scene(901).save(photos / "train/cat/mpo.jpg", "MPO", save_all=True, append_images=[scene(902)])
    check = zoo.check_data(photos)
    assert (check.odd, check.facts["formats"]) == ([], {"PNG": 30, "JPEG": 1})


def test_the_command_lists_some_names_and_json_has_them_all(photos, zoo_here):
    for i in range(12):
        shutil.copy(photos / f"train/cat/{i}.png", photos / f"train/dog/copy{i}.png")
    done = zoo_here("data", "check", str(photos), "-o", "odd", status=1)
    assert "Problem: 12 groups of identical images with different labels (24 in all)" in done.stdout
    assert "... and 7 more" in done.stdout
    assert "images   36 train, 6 test" in done.stdout
    sheet = photos.parent / "odd" / "labels.png"
    assert done.stderr.endswith("Wrote odd/labels.png\n")
    assert Image.open(sheet).width > 800
    document = json.loads(zoo_here("data", "check", str(photos), "--json", status=1).stdout)
    assert (document["ok"], document["name"]) == (False, "photos")
    assert len(document["odd"][0]["images"]) == 12


def test_the_command_ends_well_where_there_are_remarks_only(photos, zoo_here):
    shutil.copy(photos / "train/cat/1.png", photos / "train/cat/copy.png")
    assert "Remark: 1 group" in zoo_here("data", "check", str(photos)).stdout


@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_labels_of_other_kinds_are_summed_up(labels, zoo_here):
    how = ("--set", f"labels={labels}", "--set", "train_size=60", "--set", "test_size=20")
    shown = zoo_here("data", "check", "synthetic", *how).stdout
    document = json.loads(zoo_here("data", "check", "synthetic", *how, "--json").stdout)
    data = zoo.open_dataset("synthetic", labels=labels, train_size=60, test_size=20)
    for place, (name, told) in enumerate(document["facts"]["labels"].items()):
        column = data.train.labels[:, place]
        assert name == data.targets.names[place]
        assert name in shown
        if labels == "classes":
            assert told["train"] == column.sum()
        else:
            assert told["train"] == pytest.approx([column.min(), np.median(column), column.max()])


def test_sheets_say_which_files_they_show(photos, tmp_path, monkeypatch):
    captions = []
    monkeypatch.setattr(
        "zoo.kit.write_sheet",
        lambda path, tiles, given, **how: captions.extend(given) or [path],
    )
    shutil.copy(photos / "train" / "cat" / "3.png", photos / "test" / "cat" / "copy.png")
    zoo.check_data(photos, sheets=tmp_path / "sheets")
    assert {text.split("\n")[1] for text in captions} == {"3.png", "copy.png"}


def test_labels_are_judged_by_a_model_that_has_not_seen_them(tmp_path, zoo_here):
    how = ("data", "check", "synthetic", "--labels", "--model", "fcn_numpy")
    how += ("--set", "train_size=120", "--set", "test_size=20")
    done = zoo_here(*how, "-o", "odd")
    assert re.search(r"fcn_numpy +\d\d\.\d% +1\.00", done.stdout)
    assert "of 140 labels are probably wrong" in done.stdout
    applied = "zoo train MODEL --dataset synthetic --set data.corrections=odd/corrections.csv"
    assert applied in done.stderr
    judged = json.loads(zoo_here(*how, "--json").stdout)["label_check"]
    assert judged["images"] == 140
    assert 0.15 < judged["members"][0]["accuracy"] < 1  # by chance 0.1
    assert [
        path.name for path in (tmp_path / "cache" / "plugins" / "check" / "runs").iterdir()
    ] == []
