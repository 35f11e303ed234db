"""The block store: nothing is computed twice, whoever computes it and whatever happens to them."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import environment

from zoo_core.io import blocks
from zoo_core.io.blocks import BlockStore, Layout
from zoo_core.io.errors import DataError, UsageError

BLOCK = 4
LAYOUT = Layout(
    key={"what": "squares", "of": [1, 2]}, rows=4 * BLOCK + 2, row_bytes=8, before=b"<begin>",
    after=b"<end>", about={"made_with": "a test"},
)  # fmt: skip
LARGE = replace(LAYOUT, by_blocks=True)
SHORT = replace(LAYOUT, rows=BLOCK + 2)
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")


@pytest.fixture
def store(tmp_path) -> BlockStore:
    return open_store(tmp_path)


def open_store(folder: Path) -> BlockStore:
    return BlockStore(folder / "squares.bin", BLOCK)


def rows_of(rows: range) -> bytes:
    return b"".join((n * n).to_bytes(8, "little") for n in rows)


WHOLE = b"<begin>" + rows_of(range(LAYOUT.rows)) + b"<end>"


def fill(
    store: BlockStore, most: int = 99, layout: Layout = LAYOUT, log: Path | None = None
) -> list[int]:
    """Compute what is missing, at most so many blocks; the numbers of those."""
    computed: list[int] = []
    with store.writing(layout) as writer:
        for block in writer:
            computed.append(block)
            if log:
                with log.open("a") as file:
                    file.write(f"{block}\n")
            writer.commit(block, rows_of(writer.rows(block)), 1.0)
            if len(computed) == most:
                break
    return computed


def content(store: BlockStore) -> bytes:
    with store.open() as file:
        return file.read()


def leftovers(store: BlockStore) -> list[str]:
    return sorted(p.name for p in store.path.parent.iterdir() if p.name.startswith("."))


def test_a_store_is_filled_in_parts_and_ends_with_the_same_bytes(store):
    assert fill(store, 2) == [0, 1]
    assert store.open() is None and store.verify() == "8 of 18 rows"
    assert store.progress().missing == [2, 3, 4]
    assert fill(store) == [2, 3, 4] and fill(store) == []
    assert content(store) == WHOLE and store.verify() == "ok"
    assert store.progress().seconds == 5.0
    assert store.progress().about == {"made_with": "a test"}
    assert leftovers(store) == []


@pytest.mark.parametrize("most", [3, 99])
def test_another_key_means_starting_anew(store, most):
    fill(store, most)
    other = Layout(key={"what": "cubes"}, rows=LAYOUT.rows, row_bytes=8)
    with store.writing(other) as writer:
        assert writer.progress.done == 0


def test_a_block_of_another_size_is_refused(store):
    with (
        pytest.raises(ValueError, match="24 bytes are not 4 rows of 8"),
        store.writing(LAYOUT) as writer,
    ):
        writer.commit(writer.claim(), bytes(24))


@pytest.mark.parametrize("layout", [LAYOUT, LARGE], ids=["whole", "by blocks"])
@pytest.mark.parametrize("complete", [True, False])
def test_damage_in_one_block_is_computed_again_alone(store, complete, layout):
    fill(store, 99 if complete else 4, layout)
    path = store.path if complete else store.part
    data = bytearray(path.read_bytes())
    data[len(LAYOUT.before) + 2 * BLOCK * 8] ^= 1
    path.write_bytes(data)
    if complete:
        with pytest.raises(DataError, match="is damaged"):
            store.open()
        with pytest.raises(DataError, match="is damaged"):
            store.verify()
    assert fill(store, layout=layout) == ([2] if complete else [2, 4])
    assert content(store) == WHOLE and store.verify() == "ok"


@pytest.mark.parametrize("layout", [LAYOUT, LARGE], ids=["whole", "by blocks"])
@pytest.mark.parametrize("place", [0, -1])
def test_damage_before_and_after_the_rows_costs_nothing(store, place, layout):
    fill(store, layout=layout)
    data = bytearray(WHOLE)
    data[place] ^= 1
    store.path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        store.verify()
    assert fill(store, layout=layout) == [] and content(store) == WHOLE


def test_of_a_trusted_file_only_the_size_counts(store):
    trusted = replace(LARGE, trusted=True)
    fill(store, layout=trusted)
    store.path.write_bytes(bytes(len(WHOLE)))
    assert fill(store, layout=trusted) == []
    with pytest.raises(DataError, match="is damaged"):
        store.verify()
    store.path.write_bytes(WHOLE[:-13])  # without the last row
    assert fill(store, layout=trusted) == [4] and content(store) == WHOLE


def test_blocks_are_committed_behind_the_work_one_at_a_time(store):
    with store.writing(LAYOUT) as writer:
        for block in writer:
            writer.commit_behind(block, rows_of(writer.rows(block)))
            missing = store.progress().missing
            assert [b for b in missing if b < block] == []  # at most this one is under way
    assert content(store) == WHOLE


def test_an_error_behind_the_work_is_raised_and_costs_that_block_alone(store):
    with pytest.raises(ValueError, match="24 bytes are not"), store.writing(LAYOUT) as writer:
        for block in writer:
            given = bytes(24) if block == 2 else rows_of(writer.rows(block))
            writer.commit_behind(block, given)
    assert fill(store)[0] == 2 and content(store) == WHOLE


def test_a_file_is_hashed_once_in_a_process_and_again_when_it_changes(store, monkeypatch):
    fill(store)
    hashed = []
    digest = blocks.digest_of
    monkeypatch.setattr(blocks, "digest_of", lambda file: hashed.append(1) or digest(file))
    for _ in range(5):
        assert content(store) == WHOLE
    assert len(hashed) == 1
    assert store.verify() == "ok" and len(hashed) == 2
    os.utime(store.path, ns=(1, 1))
    assert content(store) == WHOLE and len(hashed) == 3


def test_files_of_version_0_1_are_completed(store):
    """They count blocks from the first one on, and say more about themselves."""
    fill(store, 3)
    document = json.loads(store.record.read_text())
    document["blocks"] = [digest for digest in document["blocks"] if digest]
    assert len(document["blocks"]) == 3
    store.record.write_text(json.dumps(document))
    assert store.progress().done == 12
    assert fill(store) == [3, 4] and content(store) == WHOLE


# ---------------------------------------------------------------- several writers


def test_two_writers_claim_different_blocks_and_leave_what_they_do_not_finish(store):
    with store.writing(LAYOUT) as one:
        with store.writing(LAYOUT) as two:
            assert [one.claim(), two.claim(), one.claim()] == [0, 1, 2]
            two.commit(1, rows_of(two.rows(1)))
            one.commit(0, rows_of(one.rows(0)))
            assert [two.claim(), one.claim(), two.claim()] == [3, 4, None]
        assert store.progress().missing == [2, 3, 4]
        assert one.claim() == 3  # given back by the one that left
    assert fill(store) == [2, 3, 4] and content(store) == WHOLE
    assert leftovers(store) == []


def test_a_store_that_somebody_fills_is_not_removed(store):
    with store.writing(LAYOUT) as writer:
        block = writer.claim()
        with pytest.raises(UsageError, match="is being computed"):
            store.remove()
        writer.commit(block, rows_of(writer.rows(block)))
    assert store.progress().done == BLOCK
    assert store.remove() > 0 and leftovers(store) == []


SHARE = """
import sys, time
from pathlib import Path
from test_blocks import LAYOUT, open_store, rows_of
folder, name, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
store, computed = open_store(folder), []
with store.writing(LAYOUT) as writer:
    for block in writer:
        computed.append(block)
        (folder / f"{name}.began").touch()
        while not (folder / f"{other}.began").exists():  # both are in the middle of a block
            time.sleep(0.01)
        writer.commit(block, rows_of(writer.rows(block)))
print(computed)
"""


def test_two_processes_share_the_work(store, tmp_path):
    here = environment(PYTHONPATH=str(Path(__file__).parent))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SHARE, str(tmp_path), *names],
            stdout=subprocess.PIPE, text=True, env=here,
        )
        for names in (("a", "b"), ("b", "a"))
    ]  # fmt: skip
    printed = [json.loads(process.communicate(timeout=60)[0]) for process in started]
    assert all(printed) and sorted([*printed[0], *printed[1]]) == [0, 1, 2, 3, 4]
    assert content(store) == WHOLE


# ---------------------------------------------------------------- killed, and a full disk


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def at_event(number: int, act) -> list[str]:
    """Act before the n-th file operation of this process; the list grows with each of them."""
    events: list[str] = []

    def count(event):
        events.append(event)
        if len(events) == number:
            act()

    def wrap(owner, name):
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            count(name)
            return original(*args, **kwargs)

        setattr(owner, name, counted)

    wrap(os, "fsync")
    wrap(Path, "replace")
    if act is die:  # a full disk can still be read
        wrap(Path, "open")
        wrap(Path, "unlink")
    return events


def run_until(number: int, folder: Path, act) -> tuple[int, int]:
    """Fill a store in a child that acts at the n-th event; its status, and how many there were."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        events, status = at_event(number, act), 1
        try:
            fill(open_store(folder), 99, SHORT, folder / "log")
            status = 0
        except OSError as error:
            status = 2 if error.errno == errno.ENOSPC else 1
        finally:
            os.write(write, str(len(events)).encode())
            os._exit(status)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return status, int(pipe.read() or 0)


@FORKS
@pytest.mark.parametrize("act", [die, full])
def test_whatever_operation_fails_what_was_counted_is_not_computed_again(tmp_path, act):
    """Before each of its file operations in turn the process is killed, or the disk is full."""
    (tmp_path / "whole").mkdir()
    status, events = run_until(0, tmp_path / "whole", act)
    assert status == 0 and events > 10
    failed = 0
    for number in range(1, events + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        status, _ = run_until(number, folder, act)
        failed += status == signal.SIGKILL if act is die else os.WEXITSTATUS(status) == 2
        store, log = open_store(folder), folder / "log"
        computed = log.read_text().split() if log.exists() else []
        before = store.progress()
        counted = [] if before is None else [n for n in (0, 1) if n not in before.missing]
        again = fill(store, layout=SHORT)
        assert not set(again) & set(counted)
        assert len(computed) - len(counted) in (0, 1)  # only the block in work is lost
        assert content(store) == b"<begin>" + rows_of(range(SHORT.rows)) + b"<end>"
        assert leftovers(store) == []
    assert failed == events


@FORKS
def test_a_block_whose_writer_died_is_claimed_by_another(store):
    with store.writing(LAYOUT) as writer:
        pid = os.fork()
        if not pid:
            with store.writing(LAYOUT) as other:
                other.claim()
                die()
        os.waitpid(pid, 0)
        assert writer.claim() == 0
