"""The feature cache: what is counted is on the disk, whatever happens to the process."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from support import environment

from zoo_core.data import features as store
from zoo_core.data.dataset import Split
from zoo_core.data.features import BLOCK, FeatureFile, FeatureKey, Progress, digest_of_tensors
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


def fresh(key: FeatureKey = KEY) -> Progress:
    return Progress(key.to_dict(), ROWS, WIDTH, "pictures", ("a", "b"), {"batch": 4})


def rows_of(block: range) -> np.ndarray:
    """What a backbone would say: a function of the rows."""
    rows = np.arange(block.start, block.stop, dtype=np.float64)[:, None]
    return np.sin(rows * np.arange(1, WIDTH + 1)).astype(np.float16)


def fill(place: FeatureFile, most: int = 10**9) -> list[int]:
    """Compute what is missing, at most so many blocks; the numbers of those."""
    computed: list[int] = []
    with place.writing(fresh(), SPLIT, lambda: None) as writer:
        if writer is not None:
            for block in writer.missing()[:most]:
                computed.append(block)
                writer.commit(block, rows_of(writer.rows(block)), 0.5)
            if not writer.missing():
                writer.finish()
    return computed


def place_of(key: FeatureKey = KEY) -> FeatureFile:
    return FeatureFile.of(key, "pictures")


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


@pytest.mark.parametrize("left", [0, 100, 3000])
def test_a_file_that_lost_its_end_is_mended(left):
    fill(place_of(), 3)
    os.truncate(place_of().part, left)
    assert fill(place_of())[-3:] == [3, 4, 5]
    assert np.array_equal(place_of().load().array, rows_of(range(ROWS)))


def test_a_settings_file_that_is_rubbish_means_starting_anew():
    fill(place_of(), 3)
    place_of().settings.write_text("{")
    assert fill(place_of()) == [0, 1, 2, 3, 4, 5]


def test_there_is_one_writer_and_the_other_waits_and_finds_the_work_done(tmp_path):
    """Two processes that begin together compute each block once."""
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from test_store import fill, place_of\n"
        "print(fill(place_of()))\n"
    )
    here = Path(__file__).parent
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(here), str(here.parent)],
            stdout=subprocess.PIPE, text=True, env=environment(ZOO_CACHE=os.environ["ZOO_CACHE"]),
        )
        for _ in range(2)
    ]  # fmt: skip
    printed = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    assert printed == ["[0, 1, 2, 3, 4, 5]", "[]"]


KILLED = """
import sys, time; sys.path[:0] = sys.argv[1:3]
import test_store as t
log = open(sys.argv[3], "a", buffering=1)
with t.place_of().writing(t.fresh(), t.SPLIT, lambda: None) as writer:
    print("begun", flush=True)
    for block in writer.missing():
        log.write(f"{block}\\n")
        time.sleep(0.02)  # the backbone thinks
        writer.commit(block, t.rows_of(writer.rows(block)), 0.0)
    writer.finish()
"""


def test_kill_9_in_the_middle_costs_the_block_in_work_and_nothing_else(tmp_path):
    """Killed at other moments each time: in the thought, in the write, between data and count."""
    fill(place_of())
    whole = place_of().path.read_bytes()
    place_of().remove()
    here, log = Path(__file__).parent, tmp_path / "log"
    command = [sys.executable, "-c", KILLED, str(here), str(here.parent), str(log)]
    kills = 0
    for delay in (0.0, 0.021, 0.024, 0.03, 0.05, None):
        before = place_of().progress()
        seen = len(log.read_text().split()) if log.exists() else 0
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True,
            env=environment(ZOO_CACHE=os.environ["ZOO_CACHE"]),
        )  # fmt: skip
        assert process.stdout.readline() == "begun\n"
        if delay is None:
            assert process.wait(60) == 0
        else:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            kills += process.wait(60) == -signal.SIGKILL
        process.stdout.close()
        computed = [int(line) for line in log.read_text().split()[seen:]]
        assert all(block * BLOCK >= before.done for block in computed if before)
        if place_of().load() is not None:
            break
    assert kills >= 2
    assert place_of().path.read_bytes() == whole


def test_what_was_not_used_for_longest_goes_first():
    keys = [replace(KEY, dataset=name) for name in "abc"]
    for age, key in enumerate(keys):
        with place_of(key).writing(fresh(key), SPLIT, lambda: None) as writer:
            for block in writer.missing():
                writer.commit(block, rows_of(writer.rows(block)), 0.0)
            writer.finish()
        os.utime(place_of(key).settings, (1000 - age, 1000 - age))
    place_of(keys[2]).used()  # the oldest, and now the newest
    size = place_of(keys[0]).bytes
    assert [file.path for file in store.kept()] == [place_of(keys[n]).path for n in (2, 0, 1)]
    assert [file.path for file in store.beyond(2 * size + size // 2)] == [place_of(keys[1]).path]
    assert store.beyond(10 * size) == [] and len(store.beyond(0)) == 3


def test_features_are_found_by_the_beginning_of_their_id():
    fill(place_of())
    assert store.find_features(KEY.digest[:6]).path == place_of().path
    assert store.find_features(place_of().path.name).path == place_of().path
    with pytest.raises(UsageError, match="there are no features 'zz'"):
        store.find_features("zz")


def test_features_that_are_being_computed_are_not_removed():
    with (
        place_of().writing(fresh(), SPLIT, lambda: None) as writer,
        pytest.raises(UsageError, match="is being computed"),
    ):
        writer.commit(0, rows_of(writer.rows(0)), 0.0)
        place_of().remove()
    assert place_of().part.exists() and json.loads(place_of().settings.read_text())["blocks"]
