"""What killed processes leave is known, shown and removed; what a living one uses is not."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.kills import drive
from report.made_runs import make_run
from support import environment

from zoo_core.runs.leftovers import all_leftovers, find_leftovers

DRIVER = Path(__file__).parent / "leftovers_driver.py"
HOLD = """if True:
    import sys, time
    from contextlib import ExitStack
    from pathlib import Path
    from zoo_core.io.files import atomic_write, locked, temporary_folder
    from zoo_core.runs.run import Run
    cache, run = Path(sys.argv[1]), Run(Path(sys.argv[2]))
    with ExitStack() as stack:
        for one in (locked(cache / "a.bin"), temporary_folder(cache / "b"),
                    atomic_write(cache / "c.json"), temporary_folder(), run.locked()):
            stack.enter_context(one)
        (run.path / "checkpoints").mkdir()
        print("ready", flush=True)
        time.sleep(600)
"""


@contextmanager
def holding(cache: Path, run: Path):
    """A process that uses a file of each kind, and is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(cache), str(run)], stdout=subprocess.PIPE, text=True,
        env=environment(TMPDIR=str(cache.parent.parent / "tmp")),
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in ("tmp", "cache/packs"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def names(found) -> list[str]:
    return sorted(f"{one.what}: {one.path.name.split('.')[1] or one.path.name}" for one in found)


def test_what_a_living_process_uses_is_left_alone_until_it_is_killed(home):
    run = make_run(home / "runs")
    with holding(home / "cache" / "packs", run.path):
        assert all_leftovers(home / "runs") == []
    found = all_leftovers(home / "runs")
    told = sorted((one.what, one.path.suffix or one.path.name) for one in found)
    assert told == [
        ("a lock", ".lock"), ("a lock", ".lock"), ("checkpoints of a complete run", "checkpoints"),
        ("never finished", ".tmp"), ("never finished", ".tmp"), ("never finished", ".tmp"),
    ]  # fmt: skip
    assert all(one.remove() for one in found)
    assert all_leftovers(home / "runs") == []
    assert list((home / "tmp").iterdir()) == list((home / "cache" / "packs").iterdir()) == []


def test_files_of_other_people_and_runs_to_resume_are_not_leftovers(home):
    begun = make_run(home / "runs", done=1, status="interrupted")
    begun.checkpoints.mkdir()
    (begun.checkpoints / "00000001.json").write_text("{}")
    (home / "runs" / "notes").mkdir()
    for name in ("notes.tmp", ".env.tmp", "poetry.lock", "a.claim"):
        (home / "runs" / "notes" / name).write_text("mine")
    assert list(find_leftovers(home / "runs")) == []


def test_a_folder_of_a_run_that_was_killed_before_it_began_is_a_leftover(home):
    never = home / "runs" / "mlp-mnist-20261116T101500Z"
    never.mkdir(parents=True)
    (never / ".run.json.0123abcd.tmp").write_text("{")
    (one,) = find_leftovers(home / "runs")
    assert (one.path, one.what) == (never, "a run that never began")
    assert one.remove()
    assert not never.exists()


def test_the_next_resume_removes_what_a_kill_left_in_its_run(home):
    run = make_run(home / "runs", done=1, status="interrupted")
    run.checkpoints.mkdir()
    for place in (run.path, run.checkpoints, run.path / "pictures"):
        place.mkdir(exist_ok=True)
        (place / ".x.png.0123abcd.tmp").write_text("half")
    with run.locked():
        assert [p.name for p in run.path.rglob(".*")] == [".lock"]
    assert list(run.path.rglob(".*")) == []


def test_leftovers_are_shown_then_removed_when_asked(home, zoo_here, json_here):
    dead = home / "cache" / "packs" / ".squares.json.0123abcd.tmp"
    dead.write_bytes(b"x" * 1500)
    assert json_here("cache")["leftovers"] == [
        {"path": str(dead), "what": "never finished", "bytes": 1500}
    ]
    said = zoo_here("cache").stderr
    assert "1 leftover of processes that were killed, 1.5 kB" in said
    assert dead.exists()
    done = zoo_here("cache", "clear", "--leftovers", "--yes")
    assert done.stdout.splitlines() == [
        f"{dead}  never finished, 1.5 kB", "Deleted 1, 1.5 kB.",
    ]  # fmt: skip
    assert not dead.exists()
    assert json_here("cache", "clear", "--leftovers") == []
    assert "leave out data" in zoo_here("cache", "clear", "data", "--leftovers", status=2).stderr


def test_clearing_a_cache_spares_what_a_process_works_on(home, zoo_here):
    packs = home / "cache" / "packs"
    for name in ("a.bin.part", "a.json", "other.bin"):
        (packs / name).write_bytes(b"x" * 100)
    with holding(packs, make_run(home / "runs").path):
        done = zoo_here("cache", "clear", "packs", "--yes")
        assert {p.name for p in packs.glob("[!.]*")} == {"a.bin.part", "a.json"}
        assert (packs / ".a.lock").exists()
    assert done.stdout == "Deleted 100 B.\n"
    assert done.stderr == "A process works on the other 200 B.\n"


def test_a_run_that_a_process_works_on_is_not_deleted(home, zoo_here):
    run = make_run(home / "runs")
    with holding(home / "cache" / "packs", run.path):
        done = zoo_here("runs", "remove", run.name, "--yes", "--runs", home / "runs", status=2)
    assert "another process is working on" in done.stderr
    assert run.settings_file.exists()


@pytest.mark.slow
@pytest.mark.parametrize("work", ["train", "tune", "pack", "publish", "pull"])
def test_nothing_is_left_of_killed_processes(work, tmp_path):
    answer = drive(DRIVER, work, tmp_path, 6, 1, OMP_NUM_THREADS="1")
    print(json.dumps(answer))
    assert answer["seen"] > 0
    assert answer["kept"] == []
    assert answer["after"] == []
