"""Without a network: what is here loads, what is not says so at once. In processes of their own."""

import json
import socket
import subprocess
import sys

import pytest
from hub.parts import NAME, REFERENCE, files_of
from support import environment

from zoo_core.publish.publish import plan

ONCE = ["socket.getaddrinfo", "socket.connect"]  # and no sleep before another attempt

LOAD = """
import json, sys
import zoo, numpy
tried = []
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "time.sleep"):
        tried.append(event)
sys.addaudithook(watch)
try:
    said = f"loaded {zoo.load(sys.argv[1]).zoo.digest[:12]}"
except zoo.ZooError as error:
    said = f"refused {error}"
print(json.dumps([said, tried]))
"""


@pytest.fixture
def load(tmp_path, numpy_run):
    """Load in a process of its own; what it said, and how it tried the network or waited."""

    def run(reference, **env):
        done = subprocess.run(
            [sys.executable, "-c", LOAD, reference],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(
                ZOO_CACHE=str(tmp_path / "cache"),
                ZOO_MANIFEST=str(tmp_path / "manifest.json"),
                HF_HOME=str(tmp_path / "hf"),
                **env,
            ),
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_offline_what_is_here_loads_and_what_is_not_says_so(hub, numpy_run, load):
    hub.add(NAME, files_of(plan(numpy_run, REFERENCE)))
    said, _ = load(REFERENCE, HF_ENDPOINT=hub.url)
    assert said.startswith("loaded")
    asked = len(hub.log)
    for reference in (REFERENCE, f"{REFERENCE}@{hub.repositories[NAME].commits[-1][0]}"):
        again, _ = load(reference, HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
        assert again == said
    assert len(hub.log) == asked, "offline means that nobody is asked"
    said, tried = load("hf:org/other", HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
    assert said.startswith("refused") and "HF_HUB_OFFLINE is set" in said and tried == []


def test_a_port_where_nobody_listens(load):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    said, tried = load(REFERENCE, HF_ENDPOINT=url)
    assert "cannot be reached" in said and tried == ONCE[: len(tried)]


def test_a_network_that_swallows_everything(load):
    """A listener with a full queue: connecting neither succeeds nor fails."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(silent.getsockname())
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        said, tried = load(REFERENCE, HF_ENDPOINT=url)
        for one in waiting:
            one.close()
    assert "cannot be reached" in said and tried == ONCE[: len(tried)]


def test_a_name_that_cannot_be_looked_up(load):
    said, tried = load(REFERENCE, HF_ENDPOINT="https://no.such.host.invalid")
    assert "cannot be reached" in said and tried == ONCE[: len(tried)]
