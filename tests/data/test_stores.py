"""Where images are kept: memory, a pack or the originals. All three give the same bytes."""

import errno
import os
import pickle
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from fixtures import kills
from PIL import Image
from torch import nn
from zoo_frozen.torch.backbones import FrozenModel
from zoo_frozen.torch.extract import Pass
from zoo_tune.trials import with_arrays, without_arrays

from zoo_core.data import loader as loaders
from zoo_core.data.datasets import open_dataset
from zoo_core.data.loader import Loader
from zoo_core.data.packs import FACTS, LOOK, kept_packs, mapped
from zoo_core.data.preprocess import Preprocess
from zoo_core.io import blocks
from zoo_core.io.blocks import BLOCK
from zoo_core.io.console import size
from zoo_core.io.errors import DataError
from zoo_core.train.display import Display

HERE = Path(__file__).parent
STORES = ("memory", "packed", "direct")
ROOM = size(30 * (FACTS.itemsize + LOOK**2 + 32 * 32 * 3))  # that a pack of the photos takes


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Thirty JPEG files of two classes, wider than high."""
    rng = np.random.default_rng(0)
    for number in range(30):
        small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small.resize((64, 48), Image.Resampling.BICUBIC).save(path)
    return tmp_path / "photos"


def opened(path, store="auto", **options):
    lines = []
    options = {"image_size": 32, **options}
    return open_dataset(str(path), {**options, "store": store}, report=lines.append), lines


def batches(data, **how):
    preprocess = Preprocess.for_dataset(data, {"size": 24})
    how = {"batch_size": 7, "preprocess": preprocess, "seed": 3, **how}
    made = Loader(data.train, **how).epoch(1)
    return [(np.asarray(batch.images), batch.indices, np.asarray(batch.labels)) for batch in made]


def same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_all_stores_have_the_same_images_and_digest(photos):
    memory, packed, direct = (opened(photos, store)[0] for store in STORES)
    assert [data.train.store for data in (memory, packed, direct)] == list(STORES)
    assert isinstance(memory.train.images, np.ndarray)
    for data in (packed, direct):
        assert data.digest == memory.digest
        for ours, theirs in ((data.train, memory.train), (data.test, memory.test)):
            assert ours.images.shape == theirs.images.shape
            assert np.array_equal(ours.images[:], theirs.images)
            assert np.array_equal(ours.images[[3, 1, 3]], theirs.images[[3, 1, 3]])
            assert np.array_equal(ours.images[2], theirs.images[2])
            assert np.array_equal(ours.part(np.array([4, 2])).images[1:], theirs.images[[2]])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(
    "words", [(), ("flip", "crop:2"), ("resized_crop:24", "flip"), ("affine:rotate=9", "cutmix:1")]
)
def test_batches_are_the_same_from_all_stores(photos, backend, words):
    memory, *others = (opened(photos, store)[0] for store in STORES)
    expected = batches(memory, augment=words, backend=backend)
    for data in others:
        same(batches(data, augment=words, backend=backend), expected)
        part = np.array([5, 3, 8, 11])
        few = [batches(one, indices=part, batch_size=3, backend=backend) for one in (data, memory)]
        same(*few)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("store", STORES)
def test_threads_that_work_ahead_change_nothing(photos, monkeypatch, store, threads):
    data, _ = opened(photos, store)
    words = ("resized_crop:24", "flip", "affine:rotate=9")
    expected = batches(data, augment=words)
    monkeypatch.setattr(loaders, "LARGE", 0)
    monkeypatch.setattr(loaders, "THREADS", threads)
    same(batches(data, augment=words), expected)
    loader = Loader(data.train, batch_size=7, preprocess=Preprocess.for_dataset(data), seed=3)
    later = [batch.indices.tolist() for batch in loader.epoch(1, start=2)]
    assert later == [batch[1].tolist() for batch in expected[2:]]


def test_nothing_runs_on_after_a_broken_off_epoch_or_an_error(photos, monkeypatch):
    monkeypatch.setattr(loaders, "LARGE", 0)
    data, _ = opened(photos, "direct")
    before = threading.active_count()
    loader = Loader(data.train, batch_size=5, preprocess=Preprocess.for_dataset(data))
    for _ in loader.epoch(0):
        break
    assert threading.active_count() == before
    for path in photos.rglob("*.jpg"):
        path.unlink()
    with pytest.raises(DataError, match=r"\.jpg cannot be read"):
        list(loader.epoch(0))
    assert threading.active_count() == before


def test_few_batches_are_made_ahead(photos, monkeypatch):
    """However many there are: they must not fill the memory."""
    monkeypatch.setattr(loaders, "LARGE", 0)
    monkeypatch.setattr(loaders, "THREADS", 3)
    data, _ = opened(photos, "memory")
    made, batch = [], Loader.batch
    monkeypatch.setattr(Loader, "batch", lambda *a: made.append(a[2]) or batch(*a))
    loader = Loader(data.train, batch_size=1, preprocess=Preprocess.for_dataset(data))
    with_rest = loader.epoch(0)
    next(with_rest)
    assert len(made) <= 4
    with_rest.close()
    assert len(made) <= 4 < len(loader)
    monkeypatch.setattr(loaders, "AHEAD", 4 * 32 * 32 * 3)
    assert Loader(data.train, batch_size=1, preprocess=Preprocess.for_dataset(data))._threads == 1


@pytest.mark.parametrize("store", ["packed", "direct"])
def test_a_store_can_be_sent_to_another_process(photos, store):
    data, _ = opened(photos, store)
    again = pickle.loads(pickle.dumps(data.train.images))
    assert np.array_equal(again[:], data.train.images[:])
    # A pack is sent as its path, not as its pixels.
    assert len(pickle.dumps(data.train.images)) < data.train.images[:].nbytes


def test_what_does_not_fit_the_memory_is_packed_and_that_is_said(photos, monkeypatch):
    assert opened(photos)[0].train.store == "memory"
    monkeypatch.setattr("zoo_core.data.stores.total_memory", lambda: 30 * 32 * 32 * 3)
    data, lines = opened(photos)
    assert data.train.store == "packed"
    assert lines == [
        f"photos: {ROOM} of images are not kept in memory, but read from {kept_packs()[0].path}"
    ]


def test_what_does_not_fit_the_disk_is_decoded_at_every_use_and_that_is_said(photos, monkeypatch):
    monkeypatch.setattr("zoo_core.data.stores.SPARE_DISK", 1 << 60)
    data, lines = opened(photos)
    assert data.train.store == "direct"
    assert lines[-1] == f"photos: {ROOM} of images are not kept in memory, but decoded at every use"
    assert kept_packs()[0].bytes < 30 * 32 * 32 * 3  # the facts alone


def test_a_pack_is_decoded_once_and_again_when_the_decoding_changes(photos, monkeypatch):
    opened(photos, "packed")
    monkeypatch.setattr("zoo_core.data.packs.Pack._decode", None)  # nobody calls it
    opened(photos, "packed")
    opened(photos, "memory")
    monkeypatch.setattr("zoo_core.data.packs.VERSION", 99)
    with pytest.raises(TypeError):
        opened(photos, "packed")


def test_damage_in_a_pack_is_repaired_when_it_is_read_into_memory(photos):
    """A mapped one is not hashed at every start; `zoo data verify` does that."""
    expected = opened(photos, "memory")[0].train.images
    (pack,) = kept_packs()
    with pack.path.open("r+b") as file:
        file.seek(-5, 2)
        file.write(b"12345")
    assert opened(photos, "packed")[0].train.store == "packed"
    with pytest.raises(DataError, match="is damaged"):
        pack.verify()
    assert np.array_equal(opened(photos, "memory")[0].train.images, expected)
    assert pack.verify() == "ok"


def test_facts_stand_together_so_that_a_start_reads_no_pixels(tmp_path):
    folder = tmp_path / "many" / "one"
    folder.mkdir(parents=True)
    for number in range(BLOCK + 3):
        Image.new("L", (4, 4), number % BLOCK).save(folder / f"{number:03d}.png")
    opened(folder.parent, "packed")
    pixels, facts, looks = mapped(kept_packs()[0].path)
    assert not pixels.flags.writeable  # or a pack larger than the memory could not be mapped
    assert len(pixels) == len(facts) == len(looks) == BLOCK + 3
    assert facts.flags.c_contiguous and facts.nbytes == len(facts) * FACTS.itemsize
    assert (pixels == np.arange(BLOCK + 3)[:, None] % BLOCK).all()
    assert (facts["width"] == 4).all() and (looks == pixels[:, :1]).all()


def test_a_truncated_pack_is_never_mapped(photos):
    expected = opened(photos, "packed")[0].train.images[:]
    (pack,) = kept_packs()
    with pack.path.open("r+b") as file:
        file.truncate(2000)
    assert np.array_equal(opened(photos, "packed")[0].train.images[:], expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize(
    ("store", "count"),
    [("packed", 3), *(pytest.param(s, 50, marks=pytest.mark.slow) for s in ("packed", "direct"))],
)
def test_killed_while_packing_or_training_it_ends_with_the_same_bytes(
    photos, tmp_path, store, count
):
    for number in range(30, 30 + 2 * count):  # so that there is enough to do
        shutil.copy(photos / "a" / "0.jpg", photos / "ab"[number % 2] / f"{number}.jpg")
    done = kills.drive(HERE / "kill_driver.py", tmp_path, photos, store, count, 0)
    assert done["killed"] == done["whole"]
    assert len(done["children"]) == count + 1
    for child in done["children"]:
        assert not set(child["decoded"]) & set(child["before"])


@pytest.mark.parametrize("store", STORES)
def test_workers_of_a_search_read_the_same_images(photos, store):
    data, _ = opened(photos, store)
    sent, arrays = without_arrays(data)
    assert ("train_images" in arrays) == (store == "memory")
    again = with_arrays(pickle.loads(pickle.dumps(sent)), arrays)
    for ours, theirs in ((again.train, data.train), (again.test, data.test)):
        assert ours.store == store
        assert np.array_equal(ours.images[:], theirs.images[:])
        assert np.array_equal(ours.labels, theirs.labels)


def test_features_are_the_same_from_all_stores(photos):
    layers = nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    model, found = FrozenModel(nn.Sequential(*layers), 4, name="small", layer="last"), {}
    for store in STORES:
        data, _ = opened(photos, store)
        one = Pass(model, "0" * 64, Preprocess.for_dataset(data), data, "train")
        kept = one.features(lambda: model.backbone, Display(quiet=True))
        found[store] = kept.array.tobytes()
        one.file.remove()  # or the next one would find it
    assert len(set(found.values())) == 1


def unwritable(tmp_path, monkeypatch):
    """A cache that refuses every file, also where the tests run as root."""
    (tmp_path / "taken").touch()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "taken"))


@pytest.mark.parametrize("store", ["auto", *STORES])
def test_a_cache_that_cannot_be_written_to_is_a_sentence_and_a_hint_that_helps(
    photos, tmp_path, monkeypatch, store
):
    """`direct` keeps facts there too: it is no way out."""
    unwritable(tmp_path, monkeypatch)
    with pytest.raises(DataError, match=r"images cannot be kept in .*taken.packs: ") as caught:
        opened(photos, store)
    assert "direct" not in caught.value.hint
    variable, _, folder = caught.value.hint.rpartition(" ")[2].partition("=")
    assert (variable, folder) == ("ZOO_CACHE", "/tmp/zoo")
    monkeypatch.setenv(variable, str(tmp_path / "other"))
    assert len(opened(photos, store)[0].train) == 24


def test_a_full_disk_names_the_store_that_needs_no_room(photos, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(blocks.Writer, "_write", refuse)
        with pytest.raises(DataError, match="images cannot be kept") as caught:
            opened(photos, "packed")
    assert caught.value.hint.endswith("--set data.store=direct")
    assert opened(photos, "direct")[0].train.store == "direct"


@pytest.mark.parametrize("store", STORES)
def test_a_complete_pack_is_read_from_a_cache_that_others_share(photos, monkeypatch, store):
    expected = opened(photos, store)[0].train.images[:]

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for owner, name in ((blocks, "locked"), (blocks, "atomic_write"), (os, "fsync")):
        monkeypatch.setattr(owner, name, refuse)
    assert np.array_equal(opened(photos, store)[0].train.images[:], expected)
