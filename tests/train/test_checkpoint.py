"""Checkpoints are whole or not there, and a damaged one is passed over."""

import errno
import json

import msgspec
import numpy as np
import pytest

from zoo_core.train.checkpoint import Checkpoints, State


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def state(number):
    arrays = {"a": np.full((3, 2), number, np.float32), "b": np.arange(4)[::2], "c": np.array(1.5)}
    return State(arrays, {"number": number, "pi": 3.141592653589793, "none": None})


def test_what_was_saved_comes_back_exactly(checkpoints):
    checkpoints.save(7, state(1))
    loaded, warnings = checkpoints.load()
    assert warnings == []
    assert loaded.values == state(1).values
    for name, array in state(1).tensors.items():
        assert loaded.tensors[name].dtype == array.dtype
        assert np.array_equal(loaded.tensors[name], array)


def test_the_newest_two_are_kept(checkpoints):
    for step in (1, 2, 30, 4000):
        checkpoints.save(step, state(step))
    names = sorted(path.name for path in checkpoints.folder.iterdir())
    assert names == [f"{n:08d}.{end}" for n in (30, 4000) for end in ("json", "safetensors")]
    assert checkpoints.load()[0].values["number"] == 4000


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "not-json", "empty-json"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(checkpoints, damage):
    checkpoints.save(1, state(1))
    path = checkpoints.save(2, state(2))
    data = path.with_suffix(".safetensors")
    if damage == "truncated":
        data.write_bytes(data.read_bytes()[:-3])
    elif damage == "changed":
        content = bytearray(data.read_bytes())
        content[-1] ^= 1
        data.write_bytes(bytes(content))
    elif damage == "missing":
        data.unlink()
    else:
        path.write_text("{" if damage == "not-json" else json.dumps({}))
    loaded, warnings = checkpoints.load()
    assert loaded.values["number"] == 1
    assert len(warnings) == 1
    assert "checkpoint 00000002 is damaged" in warnings[0]


def test_without_a_whole_checkpoint_there_is_none(checkpoints):
    assert checkpoints.load() == (None, [])
    checkpoints.save(1, state(1)).write_text("")
    loaded, warnings = checkpoints.load()
    assert loaded is None
    assert len(warnings) == 1


def test_a_full_disk_loses_nothing_that_was_saved(checkpoints, monkeypatch):
    checkpoints.save(1, state(1))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(2, state(2))
    monkeypatch.undo()
    assert checkpoints.load()[0].values["number"] == 1
    assert not list(checkpoints.folder.glob(".*"))


def edited(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["values"].update(number=11),
        lambda record: record["values"].pop("number"),
        lambda record: record.update(step=3),
        lambda record: record.pop("digest"),
        lambda record: record.pop("values"),
        lambda record: record.update(values=[]),
        lambda record: record.update(format=3),
        lambda record: record.update(step=-1),
    ],
    ids=["value", "no-key", "step", "no-digest", "no-values", "list", "format", "negative"],
)
def test_a_checkpoint_that_somebody_edited_is_passed_over(checkpoints, change):
    checkpoints.save(1, state(1))
    edited(checkpoints.save(2, state(2)), change)
    loaded, warnings = checkpoints.load()
    assert loaded.values["number"] == 1
    assert len(warnings) == 1
    assert warnings[0].endswith("; trying the one before")


def test_a_checkpoint_that_lacks_what_the_reader_needs_is_passed_over(checkpoints):
    class Needed(msgspec.Struct):
        number: int
        more: int

    checkpoints.save(1, State({}, {"number": 1, "more": 2}))
    checkpoints.save(2, state(2))
    loaded, warnings = checkpoints.load(Needed)
    assert loaded.values == {"number": 1, "more": 2}
    assert "`more`" in warnings[0]


def test_a_checkpoint_of_version_0_1_has_no_digest_and_is_taken(checkpoints):
    def old(record):
        del record["digest"], record["format"]

    edited(checkpoints.save(1, state(1)), old)
    loaded, warnings = checkpoints.load()
    assert warnings == []
    assert loaded.values == state(1).values


def test_keys_that_are_no_texts_do_not_look_like_damage(checkpoints):
    checkpoints.save(1, State({}, {"by_number": {10: "a", 9: "b"}, "pair": (1, 2.5)}))
    loaded, warnings = checkpoints.load()
    assert warnings == []
    assert loaded.values == {"by_number": {"10": "a", "9": "b"}, "pair": [1, 2.5]}
