"""The store: whole files or none, whatever the disk, the power or another process does."""

import mmap
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fixtures import kills
from hub.loopback import Fault
from hub.parts import REFERENCE, on_disk
from support import environment

import zoo
from zoo_core.io.errors import WeightsError
from zoo_core.io.files import cache_root
from zoo_core.publish.publish import plan, publish
from zoo_core.use.load import answers
from zoo_core.weights import store
from zoo_core.weights.references import obtain

DRIVER = Path(__file__).with_name("kill_driver.py")
root = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def listed(run, tmp_path):
    """The run, published to a folder and listed as mlp.synthetic; the cache is empty."""
    weights = publish(plan(run, f"file:{tmp_path / 'shared'}")).weights
    shutil.rmtree(cache_root(), ignore_errors=True)
    return weights


def test_a_cache_folder_that_is_a_file(listed, tmp_path):
    cache_root().write_text("a file")
    with pytest.raises(WeightsError, match="weights cannot be kept in") as caught:
        zoo.load("mlp")
    assert "ZOO_CACHE" in caught.value.hint and cache_root().read_text() == "a file"


def test_a_cache_folder_that_is_a_pipe(listed):
    os.mkfifo(cache_root())
    with pytest.raises(WeightsError, match="weights cannot be kept in"):
        zoo.load("mlp")


def test_a_stored_file_that_is_a_pipe_or_a_link_is_replaced(listed, run, said, tmp_path):
    path = store.stored_file(listed)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert answers(zoo.load("mlp")) == answers(zoo.load(run.path))
    assert path.is_file() and said()[0].endswith("; fetching it again")
    path.unlink()
    shutil.copy(run.model_file, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    zoo.load("mlp")
    assert not path.is_symlink()


@pytest.mark.skipif(root, reason="root may write everywhere")
def test_a_read_only_cache(listed):
    cache_root().mkdir()
    cache_root().chmod(0o555)
    with pytest.raises(WeightsError, match="weights cannot be kept in"):
        zoo.load("mlp")


def test_a_disk_that_refuses_to_write(listed, monkeypatch):
    """What a read-only disk answers, also where the tests run as root."""
    import errno

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(WeightsError, match="Read-only file system"):
        zoo.load("mlp")
    assert on_disk(cache_root()) == {}


def test_a_read_only_cache_that_has_the_weights_loads_them(listed, run, monkeypatch):
    zoo.load("mlp")
    monkeypatch.setattr(store, "atomic_write", None)
    assert answers(zoo.load("mlp")) == answers(zoo.load(run.path))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the system")
@pytest.mark.parametrize("reference", ["fcn_numpy.synthetic", REFERENCE])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(numpy_run, hub, tmp_path, reference):
    """A real refusal of the system, in the middle of a file, in a process of its own."""
    from hub.parts import NAME, files_of

    publish(plan(numpy_run, f"file:{tmp_path / 'shared'}"))
    hub.add(NAME, files_of(plan(numpy_run, REFERENCE)))
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "from zoo_core.cli.main import main\n"
        f"main(['pull', {reference!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(
            ZOO_CACHE=str(cache_root()),
            ZOO_MANIFEST=os.environ["ZOO_MANIFEST"],
            HF_ENDPOINT=hub.url,
            HF_HOME=str(tmp_path / "hf"),
        ),
    )
    assert done.returncode == 1 and "weights cannot be kept in" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and on_disk(cache_root()) == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")
@pytest.mark.parametrize("what", ["pull", "publish"])
def test_killed_before_every_write_nothing_is_half_there(what, numpy_run, tmp_path):
    deaths = kills.drive(DRIVER, what, numpy_run.path, tmp_path)
    assert deaths >= 5, "there must have been something to kill"


def test_two_pulls_at_once_fetch_once(online, monkeypatch):
    waits, paths = queue.SimpleQueue(), []
    monkeypatch.setattr(store, "say", waits.put)

    def until_the_others_wait():
        for _ in range(2):
            waits.get(timeout=300)

    online.faults.append(Fault("GET", "/model.safetensors", wait=until_the_others_wait))

    def pull():
        paths.append(obtain(REFERENCE).located.path)

    threads = [threading.Thread(target=pull) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1 and len(paths) == 3
    asked = [1 for method, path, _ in online.log if method == "GET" and "/model.safe" in path]
    assert len(asked) == 1


def test_a_pull_during_a_load_changes_nothing_for_the_load(listed, run):
    model = zoo.load("mlp")
    before = answers(model)
    path = store.stored_file(listed)
    path.write_bytes(b"damaged")  # in place would be worse than a pull; see the next lines
    obtain("mlp")
    assert path.read_bytes() == run.model_file.read_bytes()
    replaced = zoo.load("mlp")
    path.unlink()
    obtain("mlp")
    assert answers(replaced) == before


def test_altered_bytes_are_noticed_whatever_the_times_say(run, tmp_path):
    file = tmp_path / "model.safetensors"
    shutil.copy(run.model_file, file)
    first = obtain(str(file)).sha256
    status = file.stat()
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    with file.open("rb+") as stream:  # the same inode, size and mtime, and other bytes
        stream.write(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert obtain(str(file)).sha256 != first


def test_a_load_remembers_no_digest(listed):
    """Whatever is kept beside the bytes could be forged, or outlive them."""
    zoo.load("mlp")
    zoo.load("mlp")
    here = store.stored_file(listed).parent
    assert [*on_disk(here)] == [store.stored_file(listed).name]


def test_bytes_that_are_altered_through_a_mapping_do_not_load(listed, run, said):
    """Neither size nor times change when a page that was written before is written again."""
    expected = answers(zoo.load("mlp"))
    path = store.stored_file(listed)
    with path.open("rb+") as file, mmap.mmap(file.fileno(), 0) as pages:
        pages[-1] = pages[-1]  # the page is dirty from here on
        assert answers(zoo.load("mlp")) == expected
        pages[-1] ^= 1
        model = zoo.load("mlp")
    (told,) = said()
    assert "is not the file that was published" in told and "fetching it again" in told
    assert answers(model) == expected and path.read_bytes() == run.model_file.read_bytes()


def test_what_happens_to_the_file_of_a_loaded_model_changes_nothing(run, tmp_path):
    file = tmp_path / "model.safetensors"
    shutil.copy(run.model_file, file)
    model = zoo.load(file)
    with file.open("rb+") as stream:
        stream.write(bytes(file.stat().st_size))
    assert answers(model) == answers(zoo.load(run.path))
    os.truncate(file, 0)  # a mapped page that is gone would end the process
    assert answers(model) == answers(zoo.load(run.path))
