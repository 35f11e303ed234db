"""What all tests share: a real `zoo` in a process of its own, and fixture plugins to find there."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from fixtures import plugins as fixture_plugins
from support import environment

# A shell that starts the tests in the background has them ignore Ctrl-C, and their children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

Zoo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def plugin_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all fixture plugins installed; made once, however many processes test."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    site = shared / "plugin-site"
    with FileLock(shared / "plugin-site.lock"):
        if not (shared / "plugin-site.done").exists():
            build = shared / "plugin-build"
            build.mkdir()
            fixture_plugins.install(site, build)
            (shared / "plugin-site.done").touch()
    return site


@pytest.fixture
def zoo_command(tmp_path: Path) -> Zoo:
    """Run `zoo ARGUMENTS` for real, with a cache of its own, and give back what it printed."""

    def run(
        *arguments: str, status: int = 0, timeout: float = 300, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        own = {"ZOO_CACHE": str(tmp_path / "cache"), "ZOO_MANIFEST": str(tmp_path / "own.json")}
        own |= {"ZOO_CONFIG": str(tmp_path / "config")}
        done = subprocess.run(
            [sys.executable, "-m", "zoo", *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd or tmp_path,
            env=environment(**(own | env)),
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def zoo_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Zoo:
    """As zoo_command, in this process, where torch is imported already: a tenth of the time."""
    from zoo_core.cli.main import main

    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "own.json"))
    monkeypatch.delenv("ZOO_RUNS", raising=False)

    def run(
        *arguments: str, status: int = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd or tmp_path)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        assert ended.value.code == status, printed
        return subprocess.CompletedProcess(arguments, status, printed.out, printed.err)

    return run


@pytest.fixture
def json_here(zoo_here: Zoo) -> Callable[..., Any]:
    """As zoo_here with --json, decoded."""
    return lambda *arguments: json.loads(zoo_here(*arguments, "--json").stdout)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The sentences that the library said since the last call."""
    caplog.set_level("INFO", "zoo")

    def take() -> list[str]:
        sentences = [record.getMessage() for record in caplog.records if record.name == "zoo"]
        caplog.clear()
        return sentences

    return take


@pytest.fixture
def zoo_json(zoo_command: Zoo) -> Callable[..., Any]:
    """As zoo_command with --json, decoded."""

    def run(*arguments: str, **env: str) -> Any:
        return json.loads(zoo_command(*arguments, "--json", **env).stdout)

    return run


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A real HTTP server on loopback for the folder that it gives."""
    folder = tmp_path / "server"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *args: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args: Any) -> None:  # a client that only knocks is no error
            pass

    with Server(("127.0.0.1", 0), Handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{http_server.server_port}/"
        http_server.shutdown()
        thread.join()
