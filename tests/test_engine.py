"""Engines: pieces are pulled when a worker is free, report, and fail alone."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from itertools import count

import numpy as np
import pytest
from support import environment

from zoo_core.io.engine import Local, Piece, Resources, WorkerDied, machine
from zoo_core.io.errors import OptionError, ZooError

HERE = "test_engine"  # how a worker imports this file: tests/ is on its path
DEADLINE = 120  # seconds, so that a test that hangs fails


@pytest.fixture(autouse=True)
def workers_find_this_file(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *sys.path]))  # noqa: PTH120


def double(given, arrays, report):
    report(given)
    return 2 * given + int(arrays["numbers"].sum())


def fail(given, arrays, report):
    raise ValueError(given)


def die(given, arrays, report):
    os._exit(3)


def die_at_first(given, arrays, report):
    with open(given, "a+") as seen:  # noqa: PTH123
        seen.write(".")
        seen.flush()
        if seen.tell() < 3:
            os._exit(3)
    return "went on"


def hold(given, arrays, report):
    """Until it is told to end."""
    report("started")
    time.sleep(600)


def unsendable(given, arrays, report):
    return lambda: None


def where(given, arrays, report):
    array = arrays["numbers"]
    return os.getpid(), isinstance(array, np.memmap), os.environ.get("OMP_NUM_THREADS")


def pieces(*made, **resources):
    """A function for `pull` that gives these pieces: (function, given)."""
    numbers = count(1)
    waiting = [
        Piece(next(numbers), f"{HERE}:{function.__name__}", given, Resources(**resources))
        for function, given in made
    ]
    return lambda: waiting.pop(0) if waiting else None


ARRAYS = {"numbers": np.arange(4)}  # 6 together
BOTH = pytest.mark.parametrize("workers", [1, 2])


@BOTH
def test_pieces_see_the_arrays_report_and_return(workers):
    told = []
    work = pieces((double, 1), (double, 2), (double, 3))
    ended = list(Local(workers).run(work, ARRAYS, lambda piece, value: told.append(value)))
    assert {o.piece.key: (o.state, o.value) for o in ended} == {
        1: ("done", 8), 2: ("done", 10), 3: ("done", 12),
    }  # fmt: skip
    assert sorted(told) == [1, 2, 3]


def test_one_worker_is_this_process_and_several_map_one_copy_of_the_arrays():
    (here,) = Local(1).run(pieces((where, 0)), ARRAYS)
    assert here.value[:2] == (os.getpid(), False)
    there = [o.value for o in Local(2).run(pieces((where, 0), (where, 0)), ARRAYS)]
    assert os.getpid() not in {pid for pid, *_ in there}
    assert all(mapped for _, mapped, _ in there)


def test_workers_share_the_cores_unless_a_person_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (outcome, _) = Local(2).run(pieces((where, 0), (where, 0)), ARRAYS)
    assert outcome.value[2] == str(max(1, os.cpu_count() // 2))
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    (outcome, _) = Local(2).run(pieces((where, 0), (where, 0)), ARRAYS)
    assert outcome.value[2] == "7"


@BOTH
def test_the_next_piece_is_decided_when_a_worker_is_free(workers):
    """After so many ends it may depend on all of them."""
    seen, asked = [], []

    def pull():
        asked.append(len(seen))
        return Piece(len(asked), f"{HERE}:double", 1) if len(asked) <= 6 else None

    for outcome in Local(workers).run(pull, ARRAYS):
        seen.append(outcome.piece.key)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    assert all(ended >= number - workers for number, ended in enumerate(asked[:6]))


def test_none_means_not_yet_while_something_runs():
    ended, waiting = [], ["first", "second"]

    def pull():
        if waiting == ["second"] and not ended:
            return None  # it depends on the first
        return Piece(waiting.pop(0), f"{HERE}:double", 1) if waiting else None

    for outcome in Local(2).run(pull, ARRAYS):
        ended.append(outcome.piece.key)
    assert ended == ["first", "second"]


@BOTH
def test_a_piece_that_fails_disturbs_no_other(workers):
    ended = list(Local(workers).run(pieces((fail, "why"), (double, 1)), ARRAYS))
    states = {o.piece.key: o for o in ended}
    assert states[1].state == "failed" and isinstance(states[1].value, ValueError)
    assert states[2].value == 8


def test_a_worker_that_dies_is_the_failure_of_its_piece_and_is_replaced():
    ended = {
        o.piece.key: o for o in Local(2).run(pieces((die, 0), (double, 1), (double, 2)), ARRAYS)
    }
    assert ended[1].state == "failed" and isinstance(ended[1].value, WorkerDied)
    assert (ended[2].value, ended[3].value) == (8, 10)


@pytest.mark.parametrize(("retries", "ended"), [(2, "done"), (1, "failed")])
def test_a_piece_whose_worker_died_goes_on_in_another_as_often_as_it_may(tmp_path, retries, ended):
    given = str(tmp_path / "seen")
    waiting = [Piece(1, f"{HERE}:die_at_first", given, retries=retries)]
    (outcome,) = Local(2).run(lambda: waiting.pop() if waiting else None)
    assert outcome.state == ended
    assert outcome.value == "went on" or isinstance(outcome.value, WorkerDied)


def test_a_worker_that_died_while_it_was_idle_fails_one_piece_and_no_more():
    ended, waiting = [], [1, 2]

    def pull():
        if len(waiting) + len(ended) < 2 or not waiting:
            return None  # the second when the first has ended: it gets the same worker
        return Piece(waiting.pop(0), f"{HERE}:where", 0)

    engine = Local(2)
    for outcome in engine.run(pull, ARRAYS):
        ended.append(outcome)
        if len(ended) == 1:
            (worker,) = engine._workers
            worker.process.kill()
            worker.process.join()
    assert [outcome.state for outcome in ended] == ["done", "failed"]
    assert isinstance(ended[1].value, WorkerDied)


def test_what_cannot_be_sent_is_a_failure_in_a_sentence():
    ended = {o.piece.key: o for o in Local(2).run(pieces((unsendable, 0), (double, 1)), ARRAYS)}
    assert isinstance(ended[1].value, ZooError) and "cannot be sent" in str(ended[1].value)
    assert ended[2].value == 8


def test_a_piece_starts_only_where_its_resources_are_free(monkeypatch):
    """Two that want all cores never run at once, though there are two workers."""
    busy, most = set(), []

    def told(piece, value):
        busy.add(piece.key)
        most.append(len(busy))

    work = pieces((double, 1), (double, 2), (double, 3), cpus=machine()["cpus"])
    for outcome in Local(2).run(work, ARRAYS, told):
        busy.discard(outcome.piece.key)
    assert most == [1, 1, 1]


def test_a_piece_that_asks_for_what_there_is_not_fails_and_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (outcome,) = Local(2).run(pieces((double, 1), gpus=1), ARRAYS)
    assert outcome.state == "failed"
    assert str(outcome.value) == "it asks for 1 gpus, and this machine has 0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert machine()["gpus"] == 2
    with pytest.raises(OptionError, match="cpus must be a number of at least 0, not -1"):
        Resources(cpus=-1)


def test_nothing_is_left_running_when_the_caller_stops_listening():
    engine = Local(2)
    started = []
    run = engine.run(pieces((double, 1), (hold, 0)), ARRAYS, lambda p, v: started.append(v))
    next(run)
    run.close()
    assert not multiprocessing.active_children()


DRIVER = """
import signal
from zoo_core.io.engine import Local, Piece

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
    waiting = [Piece(n, "test_engine:hold", n) for n in (1, 2)]
    def told(piece, value):
        print(piece.key, value, flush=True)
    for outcome in Local(2).run(lambda: waiting.pop() if waiting else None, {}, told):
        print(outcome.state)
"""


@pytest.mark.skipif(os.name != "posix", reason="reads who runs from ps")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(number, tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(PYTHONPATH=os.environ["PYTHONPATH"]),
    )
    with process:
        seen = set()
        while len(seen) < 2:  # both workers are at it
            line = process.stdout.readline()
            assert line, "the driver ended"
            seen.add(line.split()[0])
        process.send_signal(number)
        process.stdout.read()  # ends when no process holds the pipe any more: the workers do too
        process.wait(DEADLINE)
    assert process.returncode != 0
