"""One process works on a run, decided by a lock; what a disk refuses is one sentence."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import environment

from zoo_core.io.errors import UsageError, ZooError
from zoo_core.io.locks import is_dead
from zoo_core.runs.run import Run
from zoo_core.train import runner

SETTINGS = {"epochs": 3, "batch_size": 100, "data": {"train_size": 300, "test_size": 60}}


class Stopped(Exception):
    """What ends a training before its end, as a kill would."""


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    """A run that stopped after its first epoch, with a checkpoint."""
    from zoo_core.train.loop import Loop

    real = Loop.run_epoch

    def once(self):
        real(self)
        self._save()
        raise Stopped

    monkeypatch.setattr(Loop, "run_epoch", once)
    with pytest.raises(ZooError):
        runner.train("fcn_numpy", "synthetic", settings=SETTINGS, runs=tmp_path, quiet=True)
    monkeypatch.setattr(Loop, "run_epoch", real)
    (found,) = Run.every(tmp_path)
    return found


def resume(run: Run):
    return runner.resume(str(run.path), quiet=True)


@pytest.mark.parametrize("change", [{"epoch": 11}, {"batch": 1}, {"learner": None}])
def test_a_checkpoint_edited_by_hand_never_leads_to_other_weights(run, tmp_path, change):
    whole = runner.train(
        "fcn_numpy", "synthetic", settings=SETTINGS, runs=tmp_path / "whole", quiet=True
    )
    (path,) = run.checkpoints.glob("*.json")
    record = json.loads(path.read_text())
    for name, value in change.items():
        record["values"].pop(name) if value is None else record["values"].update({name: value})
    path.write_text(json.dumps(record))
    assert resume(run).run.model_file.read_bytes() == whole.run.model_file.read_bytes()


def test_a_resume_removes_checkpoints_that_a_kill_at_the_very_end_left(run):
    shutil.copytree(run.checkpoints, run.path.with_name("kept"))
    resume(run)
    shutil.copytree(run.path.with_name("kept"), run.checkpoints)
    resume(run)
    assert not run.checkpoints.exists()


def test_a_run_that_another_resume_completed_meanwhile_stays_as_it_is(run, monkeypatch):
    # The second resume has begun, and is at its data, when the first one ends.
    shutil.copytree(run.path, run.path.with_name("before"))
    real, seen = runner.open_data, []

    def slow(*given):
        if not seen:
            seen.append(os.fork())
            if not seen[0]:  # another process, which is refused because this one has the lock
                try:
                    resume(run)
                except UsageError:
                    os._exit(7)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(seen[0], 0)[1]) == 7
        return real(*given)

    monkeypatch.setattr(runner, "open_data", slow)
    resume(run)
    assert run.read()["status"] == "complete"
    before = run.settings_file.read_bytes()
    resume(run)
    assert run.settings_file.read_bytes() == before


def test_the_status_is_read_after_the_lock_is_taken(run, monkeypatch):
    resume(run)
    complete = run.settings_file.read_bytes()
    real = Run.locked

    @contextmanager
    def late(self):  # the run ends while this process waits for its turn
        with real(self):
            run.settings_file.write_bytes(complete)
            yield

    run.update(status="interrupted")
    monkeypatch.setattr(Run, "locked", late)
    resume(run)
    assert run.settings_file.read_bytes() == complete


def test_a_lock_is_gone_after_its_process_and_never_splits_those_who_wait(tmp_path):
    # Eight processes add to a number, each many times; the lock file comes and goes meanwhile.
    code = """if True:
        import sys
        from pathlib import Path
        from zoo_core.io.locks import lock_file
        folder = Path(sys.argv[1])
        for _ in range(40):
            with lock_file(folder / ".lock", None):
                number = int((folder / "number").read_text())
                (folder / "number").write_text(str(number + 1))
    """
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", code, str(tmp_path)]
    workers = [subprocess.Popen(command, env=environment()) for _ in range(8)]
    assert [worker.wait(timeout=300) for worker in workers] == [0] * 8
    assert (tmp_path / "number").read_text() == "320"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_what_a_process_holds_is_dead_once_it_is_killed(tmp_path):
    code = """if True:
        import sys, time
        from pathlib import Path
        from zoo_core.io.files import atomic_write, locked, temporary_folder
        path = Path(sys.argv[1]) / "file"
        with locked(path), temporary_folder(path), atomic_write(path):
            print("ready", flush=True)
            time.sleep(600)
    """
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout.readline() == "ready\n"
    paths = sorted(tmp_path.iterdir())
    assert [path.suffix for path in paths if not is_dead(path)] == [p.suffix for p in paths]
    assert sorted(path.suffix for path in paths) == [".lock", ".tmp", ".tmp"]
    process.kill()
    process.communicate()
    assert all(map(is_dead, paths))


@contextmanager
def immutable(path: Path):
    if subprocess.run(["chattr", "+i", path], capture_output=True).returncode:
        pytest.skip("this disk has no immutable folders")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@pytest.mark.skipif(not shutil.which("chattr"), reason="needs chattr")
def test_a_run_that_cannot_be_written_is_one_sentence(run):
    with immutable(run.path), pytest.raises(ZooError, match="could not be written: ") as raised:
        resume(run)
    assert str(run.path) in str(raised.value)
    assert "write there" in raised.value.hint
    resume(run)  # nothing is lost
    with immutable(run.path):  # a complete one needs no right to write
        assert resume(run).path == run.path


@pytest.mark.skipif(not shutil.which("chattr"), reason="needs chattr")
def test_a_checkpoint_that_cannot_be_written_is_one_sentence_with_the_command_to_go_on(run):
    with (
        immutable(run.checkpoints),
        pytest.raises(ZooError, match="could not be written") as raised,
    ):
        resume(run)
    assert f"zoo train --resume {run.path}" in raised.value.hint
    assert run.read()["status"] == "failed"


def zoo(*arguments: object, folder: Path, limit: int = 0, status: int) -> str:
    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    env = environment(ZOO_CACHE=str(folder / "cache"), ZOO_PLUGINS="numpy,tune")
    done = subprocess.run(
        # -B: Python itself would leave half of a .pyc file.
        [sys.executable, "-B", "-m", "zoo", *map(str, arguments)], cwd=folder, env=env,
        capture_output=True, text=True, preexec_fn=limited if limit else None,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    assert not list((folder / "cache" / "errors").glob("*")), done.stderr
    return done.stderr


SMALL = ("--dataset", "synthetic", "--set", "data.train_size=300", "--set", "data.test_size=60")


@pytest.mark.parametrize("command", ["train", "tune", "sweep"])
def test_a_folder_of_runs_that_cannot_be_made_is_one_sentence(tmp_path, command):
    (tmp_path / "file").touch()
    more = {"tune": ["--searcher", "random"], "sweep": ["--grid", "lr=0.1,0.2"]}.get(command, [])
    said = zoo(
        command, "fcn_numpy", *SMALL, *more, "--runs", "file/runs", folder=tmp_path, status=1
    )
    assert "Error: no run can be made in file/runs: Not a directory." in said


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "tune", "sweep"])
@pytest.mark.parametrize("limit", [500, 5_000, 20_000])
def test_a_full_disk_is_one_sentence_whatever_is_written(tmp_path, command, limit):
    more = {"tune": ["--searcher", "random", "--trials", "2"], "sweep": ["--grid", "lr=0.1,0.2"]}
    given = [*SMALL, "--epochs", "2", *more.get(command, ["--no-report"])]
    said = zoo(command, "fcn_numpy", *given, folder=tmp_path, limit=limit, status=1)
    assert "could not be written: File too large." in said
