"""Downloads from a server that does whatever it likes: each ends, in a file or in one sentence."""

import os
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from zoo_core.io import net
from zoo_core.io.errors import SourceUnavailable

OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def serving(answer):
    """A server that lets a function talk to each client; gives its address and what was asked."""
    asked, over = [], threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            if request := self.request.recv(10_000):  # nothing: only whether anybody is there
                asked.append(request)
                with suppress(OSError):  # the client has gone
                    for piece in answer(over):
                        self.request.sendall(piece)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/file", asked
        finally:
            over.set()
            server.shutdown()
            thread.join()


def sent(*pieces):
    return lambda over: pieces


def dripping(start, piece=b"x"):
    """It does not end before the test does."""

    def answer(over):
        yield start
        while not over.wait(0.01):
            yield piece

    return answer


def refused(answer, tmp_path, words, most=1000):
    with serving(answer) as (url, asked):
        with pytest.raises(SourceUnavailable, match=words) as caught:
            net.download(url, tmp_path / "file", most)
        assert len(asked) == 1
        assert (tmp_path / "file").stat().st_size <= most if (tmp_path / "file").exists() else True
        with pytest.raises(SourceUnavailable, match=words):
            net.read_url(url, most)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_drip_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(net, "PACE_SECONDS", 0.2)
    answer = dripping(OK + b"Content-Length: 1000000\r\n\r\n")
    assert "try again later" in refused(answer, tmp_path, "is too slow: .* B in", 10**6).hint


def test_a_drip_of_headers_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(net, "PACE_SECONDS", 0.2)
    refused(dripping(OK + b"X: "), tmp_path, "no answer within 0 seconds")


def test_a_file_may_come_in_any_pieces(tmp_path):
    with serving(sent(OK + b"Content-Length: 6\r\n\r\n", b"a", b"bc", b"def")) as (url, _):
        net.download(url, tmp_path / "file", 6)
        assert (tmp_path / "file").read_bytes() == b"abcdef" == net.read_url(url, 6)
    chunks = b"2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"
    with serving(sent(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)) as (url, _):
        net.download(url, tmp_path / "file", 6)
        assert (tmp_path / "file").read_bytes() == b"abcdef"


@pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b"\xef\xbb\xbf \n<HTML lang=en>"])
def test_a_web_page_is_called_one(tmp_path, start):
    page = start + b"<p>Log in</p>"
    answer = sent(OK + b"Content-Length: %d\r\n\r\n" % len(page), page[:3], page[3:])
    assert "login page" in refused(answer, tmp_path, "/file is a web page").hint


def test_a_pointer_of_git_lfs_is_called_one(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"
    refused(sent(OK + b"\r\n" + pointer), tmp_path, "is a pointer of Git LFS")


@pytest.mark.parametrize(
    "answer",
    [
        sent(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000),
        dripping(OK + b"\r\n", b"x" * 65_536),  # without a length, without an end
        dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"x" * 1024 + b"\r\n"),
    ],
)
def test_more_than_was_asked_for_is_not_read(tmp_path, answer):
    refused(answer, tmp_path, "/file is too large: at most 1.0 kB are read")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (sent(OK + b"Content-Length: 10\r\n\r\nhalf"), "6 bytes are missing"),
        (sent(OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"), "IncompleteRead"),
        (sent(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhalf"), "could not be downloaded"),
        (sent(b"no HTTP at all\r\n\r\n"), "BadStatusLine"),
        (sent(OK + b"X: " + b"a" * 70_000 + b"\r\n\r\n"), "LineTooLong"),
        (sent(OK + b"X: y\r\n" * 200 + b"\r\n"), "HTTPException: got more than 100 headers"),
        (sent(b"HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\n\r\n"), "HTTPError"),
        (sent(b"HTTP/1.1 302 F\r\nLocation: http://a:b/\r\n\r\n"), "could not be downloaded"),
    ],
)
def test_answers_that_are_none(tmp_path, answer, words):
    refused(answer, tmp_path, words)


def test_a_redirect_to_itself_ends(tmp_path):
    with serving(sent(b"HTTP/1.1 302 F\r\nLocation: /file\r\nContent-Length: 0\r\n\r\n")) as at:
        with pytest.raises(SourceUnavailable, match="redirect error that would lead to an infini"):
            net.download(at[0], tmp_path / "file")
        assert len(at[1]) < 20


@pytest.mark.parametrize("host", ["http://a..b/x", "http://h:99999/x", "http://[::1/x"])
def test_an_address_that_is_none_is_a_sentence(tmp_path, host):
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        net.download(host, tmp_path / "file")


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_server_that_says_404_is_skipped(server, monkeypatch):
    _, url = server
    with pytest.raises(SourceUnavailable, match="missing.gz could not be downloaded: .*404"):
        net.download(url + "missing.gz", server[0] / "missing.gz")


def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(net, "STALL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(SourceUnavailable, match="timed out"):
            net.download(url, tmp_path / "file")


def test_a_connection_that_breaks_off_is_no_whole_file(tmp_path):
    def answer(server):
        connection, _ = server.accept()
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/file"
        # The first connection only asks whether anybody is there.
        thread = threading.Thread(target=lambda: (server.accept()[0].close(), answer(server)))
        thread.start()
        with pytest.raises(SourceUnavailable, match="6 bytes are missing"):
            net.download(url, tmp_path / "file")
        thread.join()


def test_downloads_need_neither_torch_nor_torchvision(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from zoo_core.io import net\n"
        f"try: net.download('http://127.0.0.1:{closed_port()}/x',"
        " pathlib.Path('.'))\n"
        "except net.SourceUnavailable as error: print(error)\n"
        "assert not {'torch', 'torchvision'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "127.0.0.1 cannot be reached (Connection refused)\n"


def test_a_name_lookup_that_hangs_is_given_up(monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(net, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [] if end.wait(60) else 1)
    with pytest.raises(SourceUnavailable, match="data.example cannot be reached \\(no answer"):
        net.check_reachable("https://data.example/file")
    end.set()


def test_behind_a_proxy_the_proxy_is_what_must_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        net.check_reachable("http://host-that-does-not-exist.invalid/file")


# ---------------------------------------------------------------- clients of package registries


def fake(tmp_path, monkeypatch, program, script):
    """A real program of that name, first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def pack(folder, size=0):
    return net.run_client(["npm", "pack", "x@1"], folder, label="x@1", size=size, leaves=".tgz")


def test_a_client_that_fails_is_quoted(tmp_path, work, monkeypatch):
    script = "echo chatter; echo 'npm error code ENOTFOUND' >&2; exit 1"
    fake(tmp_path, monkeypatch, "npm", script)
    with pytest.raises(SourceUnavailable, match="npm failed: npm error code ENOTFOUND"):
        pack(work)


def test_a_client_that_is_not_installed_is_named(work, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceUnavailable, match="npm is not installed"):
        pack(work)


def test_a_client_that_leaves_nothing_is_noticed(tmp_path, work, monkeypatch):
    fake(tmp_path, monkeypatch, "npm", "exit 0")
    with pytest.raises(SourceUnavailable, match="wrote no .tgz file"):
        pack(work)


def test_a_client_that_stands_still_is_stopped(tmp_path, work, monkeypatch):
    monkeypatch.setattr(net, "PACE_SECONDS", 0.5)
    fake(tmp_path, monkeypatch, "npm", "echo $$ > pid; exec sleep 60")
    with pytest.raises(SourceUnavailable, match="npm is too slow: . B in"):
        pack(work)
    with pytest.raises(ProcessLookupError):
        os.kill(int((work / "pid").read_text()), 0)


def test_a_client_without_room_on_the_disk_is_not_the_sources_fault(tmp_path, work, monkeypatch):
    fake(tmp_path, monkeypatch, "npm", "echo 'npm error ENOSPC: no space left'; exit 1")
    with pytest.raises(OSError, match="No space left on device"):
        pack(work)


@pytest.mark.skipif(os.name != "posix", reason="a shell script")
@pytest.mark.parametrize(
    ("script", "size", "words"),
    [
        ("while :; do printf x >> part; sleep 0.01; done", 0, "npm is too slow"),
        ("head -c 200000 /dev/zero > part; sleep 60", 1000, "npm brings far more than x@1 should"),
    ],
)
def test_a_client_that_drips_or_does_not_end_is_stopped(
    tmp_path, work, monkeypatch, script, size, words
):
    monkeypatch.setattr(net, "PACE_SECONDS", 0.5 if not size else 60)
    fake(tmp_path, monkeypatch, "npm", script)
    with pytest.raises(SourceUnavailable, match=words):
        pack(work, size)
