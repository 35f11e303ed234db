"""The feature cache: what is counted is on the disk, whatever happens to the process."""

import hashlib
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from zoo_frozen.command import beyond
from zoo_frozen.kept import find_features

from zoo_core.data import features as store
from zoo_core.data.dataset import Split
from zoo_core.data.features import FeatureFile, FeatureKey, digest_of_tensors
from zoo_core.io.blocks import BLOCK, Layout
from zoo_core.io.errors import DataError, UsageError

ROWS, WIDTH = 5 * BLOCK + 44, 8
KEY = FeatureKey(
    backbone="sum 1", structure="s", weights="w", layer="last", pooling="average",
    preprocess={"size": 4}, precision="float32", dtype="float16", dataset="d", split="train",
    view="plain",
)  # fmt: skip
LABELS = np.arange(ROWS, dtype=np.int64) % 10
SPLIT = Split(np.zeros((ROWS, 2, 2, 3), np.uint8), LABELS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def layout(key: FeatureKey = KEY) -> Layout:
    return key.layout(SPLIT, WIDTH, dataset="images", classes=("a", "b"), made_with={"batch": 4})


def rows_of(block: range) -> np.ndarray:
    """What a backbone would say: a function of the rows."""
    rows = np.arange(block.start, block.stop, dtype=np.float64)[:, None]
    return np.sin(rows * np.arange(1, WIDTH + 1)).astype(np.float16)


def fill(place: FeatureFile, most: int = 10**9, key: FeatureKey = KEY) -> list[int]:
    """Compute what is missing, at most so many blocks; the numbers of those."""
    computed: list[int] = []
    with place.writing(layout(key)) as writer:
        for block in writer:
            computed.append(block)
            writer.commit(block, rows_of(writer.rows(block)), 0.5)
            if len(computed) == most:
                break
    return computed


def place_of(key: FeatureKey = KEY) -> FeatureFile:
    return FeatureFile.of(key, "images")


def test_what_is_filled_comes_back_as_an_ordinary_safetensors_file():
    assert fill(place_of()) == [0, 1, 2, 3, 4, 5]
    found = place_of().load()
    assert np.array_equal(found.array, rows_of(range(ROWS)))
    assert np.array_equal(found.labels, LABELS)
    assert not found.array.flags.owndata  # mapped, not read
    assert np.array_equal(safetensors.numpy.load_file(found.path)["features"], found.array)
    assert fill(place_of()) == []


def test_a_pass_goes_on_where_it_was_and_ends_with_the_same_bytes(cache):
    fill(place_of())
    whole = place_of().path.read_bytes()
    place_of().remove()
    assert place_of().load() is None
    assert fill(place_of(), 2) == [0, 1]
    assert place_of().load() is None and place_of().progress().done == 2 * BLOCK
    assert fill(place_of(), 1) == [2]
    assert fill(place_of()) == [3, 4, 5]
    assert place_of().path.read_bytes() == whole
    assert place_of().progress().seconds == 3.0
    assert not list(cache.glob("*.part"))


@pytest.mark.parametrize("name", [spec.name for spec in fields(FeatureKey)])
def test_whatever_decides_the_features_decides_the_key(name):
    """Every field of the key; that the fields are all there is, the test of a real pass shows."""
    other = {"preprocess": {"size": 5}, "format": 2}.get(name, "other")
    changed = replace(KEY, **{name: other})
    assert changed.digest != KEY.digest
    assert place_of(changed).path != place_of().path


def test_the_digest_of_weights_sees_names_shapes_types_and_numbers_and_not_the_order():
    one, two = np.arange(6, dtype=np.float32), np.ones(2, np.float32)
    same = digest_of_tensors({"a": one, "b": two})
    assert digest_of_tensors({"b": two, "a": one}) == same
    different = [
        {"a": one, "c": two},
        {"a": one.reshape(2, 3), "b": two},
        {"a": one.astype(np.float64), "b": two},
        {"a": one + 1, "b": two},
        {"a": np.concatenate([one, two])},
    ]
    assert len({same, *map(digest_of_tensors, different)}) == 1 + len(different)


def test_a_damaged_block_is_the_only_one_that_is_computed_again():
    fill(place_of())
    whole = place_of().path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) - LABELS.nbytes - 2 * (44 + BLOCK) * WIDTH] ^= 1  # in block 4
    place_of().path.write_bytes(damaged)
    with pytest.raises(DataError, match="is damaged"):
        place_of().load()
    with pytest.raises(DataError, match="is damaged"):
        place_of().verify()
    assert place_of().load_sound(lambda line: None) is None
    assert fill(place_of()) == [4]
    assert place_of().path.read_bytes() == whole and place_of().verify() == "ok"


def test_the_file_begins_as_in_version_0_1_whose_unfinished_files_are_completed():
    found = hashlib.sha256(layout().before).hexdigest()
    assert found == "942bd085386f3193a6f716ebc54590e44221a6874f5ad4ec7382abf7b5db1f13"


@pytest.mark.parametrize("left", [0, 100, 3000])
def test_a_file_that_lost_its_end_is_completed(left):
    fill(place_of(), 3)
    os.truncate(place_of().part, left)
    assert fill(place_of())[-3:] == [3, 4, 5]
    assert np.array_equal(place_of().load().array, rows_of(range(ROWS)))


def test_a_settings_file_that_is_rubbish_means_starting_anew():
    fill(place_of(), 3)
    place_of().record.write_text("{")
    assert fill(place_of()) == [0, 1, 2, 3, 4, 5]


def test_what_was_not_used_for_longest_goes_first():
    keys = [replace(KEY, dataset=name) for name in "abc"]
    for age, key in enumerate(keys):
        fill(place_of(key), key=key)
        os.utime(place_of(key).record, (1000 - age, 1000 - age))
    place_of(keys[2]).used()  # the oldest, and now the newest
    size = place_of(keys[0]).bytes
    assert [file.path for file in store.kept_features()] == [
        place_of(keys[n]).path for n in (2, 0, 1)
    ]
    assert [file.path for file in beyond(2 * size + size // 2)] == [place_of(keys[1]).path]
    assert beyond(10 * size) == [] and len(beyond(0)) == 3


def test_features_are_found_by_the_beginning_of_their_id():
    fill(place_of())
    assert find_features(KEY.digest[:6]).path == place_of().path
    assert find_features(place_of().path.name).path == place_of().path
    with pytest.raises(UsageError, match="there are no features 'zz'"):
        find_features("zz")
