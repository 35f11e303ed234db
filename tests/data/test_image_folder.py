"""A user's own images: every layout, every sort of file, and every way to get them wrong."""

import io
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import zoo
from zoo_core.data import images, packs
from zoo_core.data.datasets import open_dataset
from zoo_core.data.images import Form, fit_image, read_image
from zoo_core.io.errors import DataError, OptionError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def save(path, colour=(200, 30, 30), size=(20, 16), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes: ten red images and five blue ones."""
    root = tmp_path / "pics"
    for i in range(10):
        save(root / "red" / f"{i}.png", (200, i, 0))
    for i in range(5):
        save(root / "blue" / "deeper" / f"{i}.JPG", (0, i, 200))
    return root


def opened(root, **options):
    lines = []
    return open_dataset(str(root), report=lines.append, **options), lines


def refused(root, **options):
    with pytest.raises(DataError) as caught:
        open_dataset(str(root), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def untrainable(root):
    with pytest.raises(DataError) as caught:
        zoo.train("mlp", str(root), runs=root.parent / "runs", epochs=1, quiet=True)
    assert not (root.parent / "runs").exists()
    return str(caught.value)


# ---------------------------------------------------------------- layouts


def test_class_folders_are_split_in_proportion(folder):
    data, lines = opened(folder)
    assert data.name == "pics"
    assert data.classes == ("blue", "red")
    assert np.bincount(data.train.labels).tolist() == [4, 8]
    assert np.bincount(data.test.labels).tolist() == [1, 2]
    assert (data.image_size, data.channels) == (16, 3)
    red = data.train.images[data.train.labels == 1]
    assert (red[..., 0] == 200).all()
    assert lines == ["pics: decoding 15 images"]
    assert data.train.names[0] == "blue/deeper/1.JPG"
    assert len({*data.train.names, *data.test.names}) == 15


def test_the_split_is_the_same_on_every_machine(folder):
    data, _ = opened(folder)
    # The green channel is the number of the image; PNG keeps it exactly.
    red = data.test.images[data.test.labels == 1][:, 0, 0, 1]
    assert red.tolist() == [3, 8]
    other, _ = opened(folder, seed=1)
    assert other.test.images[other.test.labels == 1][:, 0, 0, 1].tolist() != [3, 8]


def test_the_order_of_the_file_system_does_not_matter(folder, monkeypatch):
    first, _ = opened(folder)
    shutil.rmtree(os.environ["ZOO_CACHE"])
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: Backwards(scan(path)))
    assert opened(folder)[0].digest == first.digest


class Backwards(list):
    """The entries of a folder in another order than the file system's."""

    def __init__(self, entries):
        super().__init__(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_a_flat_folder_has_no_labels(tmp_path):
    for i in range(10):
        save(tmp_path / "flat" / f"{i}.png", (i, 0, 0))
    data, _ = opened(tmp_path / "flat")
    assert data.classes == ()
    assert data.train.labels is None
    assert (len(data.train), len(data.test)) == (8, 2)


@pytest.mark.parametrize("test", ["test", "val", "Validation"])
def test_folders_decide_the_split(folder, test):
    shutil.copytree(folder, folder.parent / "split" / "train")
    save(folder.parent / "split" / test / "red" / "x.png")
    data, _ = opened(folder.parent / "split")
    assert (len(data.train), len(data.test)) == (15, 1)
    assert data.test.labels.tolist() == [1]


def test_beside_test_a_val_folder_is_left_out_and_that_is_said(folder):
    root = folder.parent / "split"
    shutil.copytree(folder, root / "train")
    save(root / "test" / "red" / "x.png")
    save(root / "val" / "red" / "x.png")
    data, lines = opened(root)
    assert (len(data.train), len(data.test)) == (15, 1)
    assert lines[-1] == "split: 1 other files are ignored"


def test_train_alone_is_split_by_the_fraction(folder):
    shutil.copytree(folder, folder.parent / "split" / "train")
    data, _ = opened(folder.parent / "split")
    assert (len(data.train), len(data.test)) == (12, 3)


def test_flat_train_and_test_folders(tmp_path):
    for name in ("train/1.png", "train/2.png", "test/3.png"):
        save(tmp_path / "x" / name)
    data, _ = opened(tmp_path / "x")
    assert (len(data.train), len(data.test), data.classes) == (2, 1, ())


def test_no_test_pictures_where_none_are_wanted(folder):
    data, _ = opened(folder, test_fraction=0)
    assert (len(data.train), data.test) == (15, None)


def test_a_class_of_one_picture_stays_in_training(tmp_path):
    save(tmp_path / "x" / "a" / "1.png")
    save(tmp_path / "x" / "b" / "1.png")
    data, _ = opened(tmp_path / "x")
    assert (len(data.train), data.test) == (2, None)


def test_hidden_and_other_files_are_ignored_and_counted(folder):
    (folder / "red" / "notes.txt").write_text("x")
    (folder / "Thumbs.db").write_text("x")
    (folder / ".hidden").mkdir()
    save(folder / ".hidden" / "x.png")
    save(folder / "red" / "._0.png")
    save(folder / "__MACOSX" / "x.png")
    data, lines = opened(folder)
    assert len(data.train) + len(data.test) == 15
    assert lines[-1] == "pics: 3 other files are ignored"


def test_names_that_look_alike_in_unicode_are_one_class(tmp_path):
    save(tmp_path / "x" / "caf\u00e9" / "1.png")
    save(tmp_path / "x" / "th\u00e9" / "1.png")
    data, _ = opened(tmp_path / "x")
    assert data.classes == ("caf\u00e9", "th\u00e9")


# ---------------------------------------------------------------- options and the cache


def test_the_size_is_the_median_shorter_side_but_no_more_than_64(tmp_path):
    for i, side in enumerate((10, 30, 31)):
        save(tmp_path / "small" / f"{i}.png", size=(side, 90))
    assert opened(tmp_path / "small")[0].image_size == 30
    save(tmp_path / "large" / "x.png", size=(300, 200))
    save(tmp_path / "large" / "y.png", size=(300, 200))
    assert opened(tmp_path / "large")[0].image_size == 64
    assert opened(tmp_path / "large", image_size=100)[0].image_size == 100


def test_grey_pictures_have_one_channel_unless_asked(tmp_path):
    for i, mode in enumerate(("L", "1", "LA")):
        save(tmp_path / "grey" / f"{i}.png", 255 if mode != "LA" else (9, 255), mode=mode)
    assert opened(tmp_path / "grey")[0].channels == 1
    assert opened(tmp_path / "grey", channels=3)[0].channels == 3
    save(tmp_path / "grey" / "colour.png")
    assert opened(tmp_path / "grey")[0].channels == 3
    assert opened(tmp_path / "grey", channels=1)[0].channels == 1


def test_a_second_open_decodes_nothing(folder, monkeypatch):
    first, _ = opened(folder)
    monkeypatch.setattr(packs.Pack, "_decode", None)
    again, lines = opened(folder)
    assert again.digest == first.digest
    assert lines == []


def test_a_new_picture_or_a_new_option_is_noticed(folder):
    first, _ = opened(folder)
    save(folder / "red" / "new.png")
    data, lines = opened(folder)
    assert len(data.train) + len(data.test) == 16
    assert lines == ["pics: decoding 16 images"]
    assert data.digest != first.digest
    assert opened(folder, image_size=8)[0].image_size == 8
    made = sorted((folder.parent / "cache" / "packs").glob("*.safetensors"))
    assert len(made) == 2  # one for each form, none that is stale


def test_a_copy_of_the_folder_is_the_same_data(folder):
    first, _ = opened(folder)
    shutil.copytree(folder, folder.parent / "copy", copy_function=shutil.copyfile)
    assert opened(folder.parent / "copy")[0].digest == first.digest
    assert opened(folder, fit="pad")[0].digest != first.digest


def test_a_relative_path_is_the_same_dataset_from_everywhere(folder, monkeypatch):
    first, _ = opened(folder)
    monkeypatch.chdir(folder / "red")
    data, lines = opened("../../pics")
    assert (data.digest, data.name, lines) == (first.digest, "pics", [])


@pytest.mark.parametrize(
    "options",
    [{"image_size": 2}, {"image_size": "big"}, {"image_size": True}, {"channels": 2}]
    + [{"test_fraction": 2}, {"test_fraction": "x"}, {"seed": -1}, {"seed": 1.5}]
    + [{"fit": "bend"}, {"store": "tape"}, {"strict": "yes"}],
    ids=str,
)
def test_options_that_cannot_work_are_named(folder, options):
    with pytest.raises(OptionError, match=f"dataset 'pics': {next(iter(options))} must be"):
        open_dataset(str(folder), **options)


def test_the_name_alone_asks_for_a_path():
    with pytest.raises(OptionError, match="image_folder needs a path") as caught:
        open_dataset("image_folder")
    assert "./my_images" in caught.value.hint


# ---------------------------------------------------------------- what cannot work


def test_no_such_folder(tmp_path):
    assert refused(tmp_path / "nowhere") == f"there is no folder {tmp_path / 'nowhere'}"


def test_a_file_in_place_of_a_folder(folder):
    assert refused(folder / "red" / "0.png").endswith("0.png is a file that no reader knows")


def test_an_empty_folder(tmp_path):
    (tmp_path / "x").mkdir()
    assert refused(tmp_path / "x") == f"{tmp_path / 'x'} holds no images"


def test_zero_classes(tmp_path):
    (tmp_path / "x" / "a").mkdir(parents=True)
    (tmp_path / "x" / "notes.txt").write_text("x")
    assert refused(tmp_path / "x") == f"{tmp_path / 'x'} holds no images"


def test_an_empty_class_folder_is_a_remark(folder):
    (folder / "green").mkdir()
    data, lines = opened(folder)
    assert data.classes == ("blue", "red")
    assert lines[-1] == "pics: the class folder green holds no images"


def test_one_class_only(folder):
    shutil.rmtree(folder / "blue")
    assert opened(folder)[0].classes == ("red",)  # which can be measured
    assert untrainable(folder) == "pics has one class only, 'red'"


def test_pictures_beside_class_folders(folder):
    save(folder / "stray.png")
    assert "mixes class folders with images of its own, stray.png" in refused(folder)


def test_pictures_beside_train_and_test(folder):
    root = folder.parent / "split"
    shutil.copytree(folder, root / "train")
    shutil.copytree(folder, root / "test")
    save(root / "stray.png")
    assert "has images beside its split folders, stray.png" in refused(root)


def test_two_folders_for_one_split(folder):
    root = folder.parent / "split"
    for name in ("train", "test", "testing"):
        shutil.copytree(folder, root / name)
    assert "two folders for one split: test, testing, train" in refused(root)


def test_a_class_that_only_the_test_folder_has(folder):
    root = folder.parent / "split"
    shutil.copytree(folder, root / "train")
    save(root / "test" / "green" / "x.png")
    assert untrainable(root) == "split has no images to train on of the class green"


def test_a_flat_test_folder_beside_classes(folder):
    root = folder.parent / "split"
    shutil.copytree(folder, root / "train")
    save(root / "test" / "x.png")
    assert "mixes class folders with images of its own, test/x.png" in refused(root)


def test_test_images_alone_can_be_opened_and_not_trained_on(folder):
    root = folder.parent / "split"
    shutil.copytree(folder, root / "test")
    data, _ = opened(root)
    assert (len(data.train), len(data.test)) == (0, 15)
    assert untrainable(root) == "split has no images to train on"


def test_all_images_can_be_for_testing(folder):
    data, _ = opened(folder, test_fraction=1)
    assert (len(data.train), len(data.test)) == (0, 15)


# ---------------------------------------------------------------- images that cannot be used


def damage(folder):
    """Six of the fifteen images, each in a way of its own; gives their names."""
    red = folder / "red"
    (red / "0.png").write_bytes(b"this is not an image")
    (red / "1.png").write_bytes(b"")
    (red / "2.png").write_bytes((red / "2.png").read_bytes()[:50])
    bomb(red / "4.png", 60000, 60000)
    bomb(red / "5.png", 9000, 9000)
    (red / "6.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    return [f"red/{number}.png" for number in (0, 1, 2, 4, 5, 6)]


@pytest.mark.parametrize("options", [{}, {"image_size": 16, "channels": 3}], ids=["scan", "decode"])
def test_bad_images_are_left_out_and_named(folder, recwarn, said, options):
    whole, _ = opened(folder)
    names = damage(folder)
    data, _ = opened(folder, **options)
    assert [name for name, _ in data.left_out] == names
    assert all(reason.startswith(name) for name, reason in data.left_out)
    assert said()[-1].startswith("pics: 6 of 15 images are left out; red/0.png cannot be read")
    for split, before in ((data.train, whole.train), (data.test, whole.test)):
        assert list(split.names) == [name for name in before.names if name not in names]
    assert len(recwarn) == 0


def test_strict_makes_them_an_error(folder):
    damage(folder)
    assert "6 of 15 images cannot be used; red/0.png" in refused(folder, strict=True)


def test_a_folder_of_bad_images_is_an_error(folder):
    for path in folder.rglob("*.*"):
        path.write_bytes(b"x")
    assert "15 of 15 images cannot be used" in refused(folder)


def test_a_repaired_image_comes_back(folder):
    first, _ = opened(folder)
    good = (folder / "red" / "5.png").read_bytes()
    (folder / "red" / "5.png").write_bytes(b"x")
    assert len(opened(folder)[0].left_out) == 1
    (folder / "red" / "5.png").write_bytes(good)
    assert opened(folder)[0].digest == first.digest


def bomb(path, width, height):
    """A PNG that claims a size and has no pixels."""

    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_picture_without_permission_is_named(folder):
    (folder / "red" / "5.png").chmod(0)
    ((name, reason),) = opened(folder)[0].left_out
    assert (name, reason) == ("red/5.png", "red/5.png cannot be read: Permission denied")


# ---------------------------------------------------------------- one image


def ramp(mode="RGB"):
    """24 x 16, red grows to the right, green downwards."""
    x, y = np.meshgrid(np.arange(24) * 10, np.arange(16) * 15)
    return Image.fromarray(np.dstack([x, y, x * 0 + 50]).astype(np.uint8)).convert(mode)


def test_the_centre_is_cut_out():
    exact = fit_image(ramp(), Form(16, 3))
    assert np.array_equal(exact, np.asarray(ramp())[:, 4:20])


def test_it_is_resized_with_antialiasing():
    stripes = Image.fromarray(np.tile(np.array([[0, 255]], np.uint8), (64, 32)))
    small = fit_image(stripes, Form(8, 1))
    assert small.shape == (8, 8, 1)
    assert abs(small.astype(int) - 127).max() < 20  # not a beat of black and white


def test_the_picture_is_turned_as_exif_says(tmp_path):
    image = ramp()
    turned = image.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 270 degrees when shown
    turned.save(tmp_path / "x.png", exif=exif)
    assert np.array_equal(
        read_image(tmp_path / "x.png", Form(16, 3)), fit_image(image, Form(16, 3))
    )


@pytest.mark.parametrize(
    ("mode", "tolerance"),
    [("RGBA", 0), ("P", 60), ("CMYK", 2), ("YCbCr", 4), ("RGBX", 0), ("HSV", 8)],
)
def test_every_colour_mode_looks_the_same(mode, tolerance):
    expected = fit_image(ramp(), Form(16, 3)).astype(int)
    assert abs(fit_image(ramp(mode), Form(16, 3)) - expected).max() <= tolerance


@pytest.mark.parametrize("mode", ["L", "LA", "I", "F", "1"])
def test_every_grey_mode_is_read(mode):
    image = ramp("L").convert(mode)
    assert fit_image(image, Form(16, 1)).shape == (16, 16, 1)
    assert fit_image(image, Form(16, 3)).shape == (16, 16, 3)


def test_sixteen_bits_become_eight(tmp_path):
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(values).save(tmp_path / "x.png")
    assert read_image(tmp_path / "x.png", Form(16, 1)).ravel().tolist() == list(range(256))


def test_transparency_becomes_white(tmp_path):
    image = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    image.putpixel((0, 0), (10, 20, 30, 255))
    fitted = fit_image(image, Form(8, 3))
    assert fitted[0, 0].tolist() == [10, 20, 30]
    assert (fitted[1:] == 255).all()
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([1, 2, 3, 4, 5, 6])
    palette.save(tmp_path / "x.gif", transparency=0)
    assert (read_image(tmp_path / "x.gif", Form(8, 3)) == 255).all()


def test_a_padded_image_is_whole_between_grey_bars():
    image = fit_image(ramp(), Form(24, 3, "pad"))
    assert np.array_equal(image[4:20], np.asarray(ramp()))
    assert (image[:4] == images.PADDING).all() and (image[20:] == images.PADDING).all()
    upright = fit_image(ramp("L").transpose(Image.Transpose.ROTATE_90), Form(24, 1, "pad"))
    assert (upright[:, :4] == images.PADDING).all() and (upright[:, 20:] == images.PADDING).all()


def test_a_stretched_image_is_whole_and_fills_the_square():
    image = fit_image(ramp(), Form(24, 3, "stretch"))
    assert np.array_equal(image, np.asarray(ramp().resize((24, 24), Image.Resampling.BILINEAR)))


def test_a_jpeg_that_is_decoded_smaller_looks_the_same(tmp_path):
    x, y = np.meshgrid(np.linspace(0, 40, 1200), np.linspace(0, 30, 900))
    waves = np.dstack([np.sin(x) + np.cos(y), np.cos(x * 1.7), np.sin(y * 2.3)]) * 60 + 128
    Image.fromarray(waves.clip(0, 255).astype(np.uint8)).save(tmp_path / "x.jpg", quality=92)
    with Image.open(tmp_path / "x.jpg") as whole:
        whole.load()  # too late for a smaller size
        expected = fit_image(whole, Form(64, 3))
    quick = read_image(tmp_path / "x.jpg", Form(64, 3))
    assert abs(quick.astype(int) - expected).mean() < 1


def test_an_extreme_shape_does_not_grow():
    assert fit_image(Image.new("RGB", (1, 60000)), Form(64, 3, "pad")).shape == (64, 64, 3)
    assert fit_image(Image.new("RGB", (1, 60000)), Form(64, 3)).shape == (64, 64, 3)


def test_one_picture_alone_is_what_training_saw(folder):
    data, _ = opened(folder, test_fraction=0)
    alone = read_image(folder / "blue" / "deeper" / "0.JPG", Form(16, 3))
    assert np.array_equal(data.train.images[0], alone)


def test_programs_that_pretend_to_be_pictures_are_not_started(tmp_path):
    (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image"):
        read_image(tmp_path / "x.png", Form(8, 3))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_anywhere_give_a_picture_or_a_sentence(tmp_path, seed):
    random = np.random.default_rng(seed)
    kind = ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP")[seed % 6]
    buffer = io.BytesIO()
    ramp().save(buffer, format=kind)
    data = bytearray(buffer.getvalue())
    for position in random.integers(0, len(data), 8):
        data[position] = random.integers(0, 256)
    (tmp_path / "x.png").write_bytes(data)
    try:
        assert read_image(tmp_path / "x.png", Form(8, 3)).shape == (8, 8, 3)
    except DataError as error:
        assert str(tmp_path / "x.png") in str(error)


def test_every_suffix_has_a_decoder():
    Image.init()
    for suffix in images.SUFFIXES:
        assert Image.EXTENSION[suffix] in images.FORMATS
