"""zoo serve answers as zoo predict does, refuses with a sentence, and ends when it is asked to."""

import base64
import io
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib

import click
import numpy as np
import pytest
from fixtures.serving import MODEL, Client, image_file, said, serving
from PIL import Image
from zoo_web.server.command import serve_command
from zoo_web.server.run import listening

import zoo

SMALL = (
    "--most-bytes", "200000", "--most-pixels", "100000", "--most-images", "4",
    "--most-waiting", "2", "--most-seconds", "2",
)  # fmt: skip
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve")) as found:
        yield found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """With limits that a test reaches."""
    with serving(tmp_path_factory.mktemp("small"), *SMALL) as found:
        yield found


def refused(answer, status, words):
    assert answer.status == status and words in answer.document["error"], answer
    return answer


def same(found, image, top=3):
    """Names and words to the letter, probabilities to the digits that batches leave alone."""
    (one,) = zoo.predict(MODEL, [image], top=top)
    assert found["words"] == list(one.words)
    assert [(c["name"], pytest.approx(c["probability"], abs=1e-6)) for c in found["classes"]] == [
        *one.classes
    ]
    return True


def wait_for(true):
    ended = threading.Event()
    while not true():
        ended.wait(0.01)


def test_json_and_forms_are_answered_as_zoo_predict_answers(server):
    images = [image_file(seed, (20 + seed, 30)) for seed in range(3)]
    asked = server.post_images(*images, top=2)
    assert asked.status == 200 and asked.document["model"] == MODEL
    for number, (found, image) in enumerate(
        zip(asked.document["predictions"], images, strict=True), 1
    ):
        assert found["image"] == f"image {number}" and same(found, image, top=2)
    form = server.post_form(
        ("image", "cat.png", images[0]), ("top", None, b"1"), ("image", "dog.png", images[1])
    )
    told = form.document["predictions"]
    assert [one["image"] for one in told] == ["cat.png", "dog.png"]
    assert all(same(one, image, top=1) for one, image in zip(told, images[:2], strict=True))


def test_an_answer_has_the_image_as_the_network_sees_it_if_asked(server):
    """A grey image of the network's size is seen as it is."""
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    form = server.post_form(("image", "a.png", file.getvalue()), ("seen", None, b"true"))
    coded = base64.b64encode(file.getvalue()).decode()
    for answer in (form, server.post_json({"images": [coded], "seen": True})):
        (found,) = answer.document["predictions"]
        seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(found["seen"]))))
        assert np.array_equal(seen, pixels)
    (found,) = server.post_images(file.getvalue()).document["predictions"]
    assert "seen" not in found


def test_requests_that_wait_together_get_their_own_answers(server):
    images = [image_file(seed) for seed in range(24)]
    found = {}

    def ask(number):
        found[number] = server.post_images(images[number]).document["predictions"][0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(found[number], image) for number, image in enumerate(images))


def test_an_image_that_cannot_be_read_does_not_spoil_the_others(server):
    asked = server.post_images(image_file(), b"not an image", image_file()[:300])
    found = asked.document["predictions"]
    assert "error" not in found[0]
    assert "image 2 cannot be read as an image" in found[1]["error"]
    assert "image 3 cannot be read as an image" in found[2]["error"]
    refused(server.post_images(b"not an image"), 422, "cannot be read as an image")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "JSON cannot be used"),
        (b"[]", "JSON cannot be used"),
        (b'{"images": ["***"]}', "base64"),
        (b'{"images": [], "top": 3}', "no image"),
        (b'{"images": [""], "top": 0}', "top must be at least 1"),
        (b'{"images": [""], "other": 0}', "unknown field"),
        (b'{"images": [{"url": "http://example.org/"}]}', "JSON cannot be used"),
        (b"[" * 100_000, "JSON cannot be used"),
        (b'{"images": ["\xff\xfe"]}', "JSON cannot be used"),
    ],
)
def test_json_that_cannot_be_meant_is_one_sentence(server, body, words):
    refused(server.post_json(body), 400, words)


def test_forms_that_cannot_be_meant_are_one_sentence(server):
    image = image_file()
    refused(server.post_form(("picture", "a.png", image)), 400, "-F image=@")
    refused(server.post_form(("image", None, b"text")), 400, "files called image")
    many = ("image", "a.png", image), ("top", None, b"many")
    refused(server.post_form(*many), 400, "whole number")
    refused(server.post_form(), 400, "the ")
    kind = {"content-type": "multipart/form-data"}  # without a boundary
    refused(server.ask("POST", "/predict", b"--XX", kind), 400, "the form cannot be read")
    refused(server.ask("POST", "/predict", image, {"content-type": "image/png"}), 415, "send app")


def test_limits_have_a_status_and_a_sentence(small):
    image, large = image_file(), image_file(size=(250, 250), kind="JPEG")
    refused(small.post_images(*[image] * 5), 413, "4 images")
    refused(small.post_form(*[("image", "a.png", image)] * 5), 413, "4 images")
    refused(small.post_images(large, large), 413, "100,000 pixels")
    refused(small.post_images(b"x" * 200_000), 413, "200 kB")
    assert small.post_images(image).status == 200


def test_a_body_of_unknown_length_is_counted(small):
    with small.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)
        connection.sendall(4 * piece + b"0\r\n\r\n")
        assert said(connection).startswith(b"HTTP/1.1 413")


def test_a_slow_body_is_given_up_and_makes_room_for_others(small):
    slow = [small.connect() for _ in range(2)]
    for connection in slow:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    wait_for(lambda: small.get("/health").document["under_way"] == 2)
    answer = refused(small.post_images(image_file()), 503, "2 requests wait")
    assert answer.headers["retry-after"] == "1"
    for connection in slow:
        assert said(connection).startswith(b"HTTP/1.1 408")
        connection.close()
    assert small.post_images(image_file()).status == 200


def test_the_time_of_a_request_ends(tmp_path):
    """A millisecond is not enough for any."""
    with serving(tmp_path, "--most-seconds", "0.001") as server:
        answer = server.post_images(image_file(size=(1000, 1000)))
        assert answer.status in (408, 503) and "within 0.00" in answer.document["error"]


def bomb(width, height):
    """A PNG whose header promises many pixels."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * (3 * width + 1))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_the_size_of_an_image_is_checked_before_it_is_decoded(server):
    refused(server.post_images(bomb(8000, 8000)), 413, "32,000,000 pixels")
    refused(server.post_images(bomb(60_000, 60_000)), 422, "far too many pixels")


def test_a_jpeg_of_very_many_scans_is_refused(server):
    whole = image_file(size=(64, 64), kind="JPEG")
    start = whole.index(b"\xff\xda")
    many = whole[:start] + whole[start:-2] * 60 + whole[-2:]
    refused(server.post_images(many), 422, "too many scans")


def test_other_sites_and_other_names_may_not_ask(server):
    ours, image = f"{server.host}:{server.port}", image_file()
    for name in ("evil.example", f"evil.example:{server.port}", "", "127.0.0.1.evil.example"):
        refused(server.post_images(image, host=name), 403, "does not answer to that name")
    for name in (ours, f"localhost:{server.port}", "LOCALHOST", "[::1]:80"):
        assert server.get("/health", host=name).status == 200
    for origin in ("http://evil.example", "null", f"http://localhost:{server.port}"):
        refused(server.post_images(image, origin=origin), 403, "other sites")
    answer = server.post_images(image, origin=f"http://{ours}")
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_another_interface_needs_a_token_that_nothing_prints(tmp_path):
    token, image = "a-long-secret-of-ours", image_file()
    (tmp_path / "token").write_text(f"{token}\n")
    (tmp_path / "token").chmod(0o600)
    right = {"authorization": f"Bearer {token}", "host": "models.example"}
    with serving(tmp_path, "--host", "0.0.0.0", "--token-file", "token") as server:
        server.host = "127.0.0.1"
        refused(server.post_images(image), 401, "needs its token")
        for wrong in ("Bearer x", "Bearer", f"Basic {token}", f"Bearer {token}x", "Bearer \xff"):
            answer = refused(server.post_images(image, authorization=wrong), 401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert server.post_images(image, **right).status == 200
        pages = [server.get(path).body for path in ("/", "/docs", "/openapi.json", "/health")]
        assert server.stop() == 0
    assert token not in "".join(server.said) and not any(token.encode() in page for page in pages)
    with serving(tmp_path, "--allow-host", "models.example", ZOO_SERVE_TOKEN=token) as server:
        refused(server.post_images(image, host="models.example"), 401, "token")
        assert server.post_images(image, **right).status == 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "needs a token"),
        (("--host", "no such name"), "needs a token"),
        (("--host", "no such name", "--token-file", "long"), "not an address of this machine"),
        (("--allow-host", "models.example"), "needs a token"),
        (("--token-file", "missing"), "missing cannot be read"),
        (("--token-file", "short"), "cannot be used"),
        (("--most-bytes", "0"), "0 is not in the range"),
        (("--port", "TAKEN"), "cannot be used: Address already in use"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short")
    (tmp_path / "long").write_text("long-enough-for-anybody")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = [MODEL, *(option.replace("TAKEN", port) for option in options)]
        with pytest.raises((zoo.UsageError, click.UsageError), match=words):
            serve_command.main(given, standalone_mode=False)


def test_answers_are_sent_without_waiting_for_more_to_send():
    """asyncio turns Nagle's algorithm off, which costs 40 ms, only for sockets of TCP."""
    with listening("127.0.0.1", 0) as made:
        assert made.proto == socket.IPPROTO_TCP


def test_a_model_that_answers_nothing_is_one_sentence():
    with pytest.raises(zoo.UsageError, match="answers nothing about an image"):
        zoo.serve(zoo.load("dcgan", pretrained=False), port=0)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_what_has_begun_is_finished_when_it_is_asked_to_stop(tmp_path, by):
    with serving(tmp_path) as server, server.connect() as connection:
        body = json.dumps({"images": []}).encode()
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        connection.sendall(HEAD + length + body[:5])
        wait_for(lambda: server.get("/health").document["under_way"] == 1)
        server.process.send_signal(by)
        wait_for(lambda: any("Stopping" in line for line in server.said))
        connection.sendall(body[5:])
        assert b"the request has no image" in said(connection)
        assert server.process.wait(60) == 0
    assert any("requests under way: 1" in line for line in server.said)
    assert not any("Traceback" in line or "Error" in line for line in server.said)


def test_the_log_shows_requests_as_they_were_sent(server):
    server.get("/x%0a%1b[31mforged")
    wait_for(lambda: any("forged" in line for line in server.said))
    (line,) = [line for line in server.said if "forged" in line]
    assert line.startswith("GET /x%0a%1b[31mforged: 404")


def test_its_document_describes_what_it_does(server):
    api = server.get("/openapi.json").document
    assert api["openapi"].startswith("3.1") and set(api["paths"]) == {"/predict", "/health"}
    answer = api["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]
    found = server.post_images(image_file()).document
    assert set(found) == set(answer["schema"]["properties"])
    one = answer["schema"]["properties"]["predictions"]["items"]["properties"]
    assert set(found["predictions"][0]) <= set(one)
    names = one["classes"]["items"]["properties"]["name"]["enum"]
    assert {c["name"] for c in found["predictions"][0]["classes"]} <= set(names)


def test_the_pages_ask_nobody_else(server):
    for path in ("/", "/docs"):
        answer = server.get(path)
        assert answer.status == 200 and b"https://" not in answer.body
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert server.get("/static/box.js").headers["content-type"].startswith("text/javascript")
    for path in ("/static/pages.py", "/static/..%2fpages.py", "/static/", "/nothing"):
        assert server.get(path).status == 404
    assert server.get("/predict").status == 405


def test_connections_that_say_nothing_are_let_go(monkeypatch):
    from zoo_web.server import run

    monkeypatch.setattr(run, "HEAD", 0.2)
    with zoo.serve(MODEL, port=0, wait=False) as server:
        for start in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
            with Client(server.url).connect() as connection:
                connection.sendall(start)
                assert said(connection) == b""


def test_python_serves_too_and_takes_a_model():
    model = zoo.load(MODEL)
    with zoo.serve(model, port=0, wait=False, batch=2) as server:
        client = Client(server.url)
        assert client.get("/health").document["batch"] == 2
        asked = client.post_images(*(image_file(seed) for seed in range(3)))
        found = asked.document["predictions"]
        assert all(same(one, image_file(seed)) for seed, one in enumerate(found))
    with pytest.raises(OSError):
        client.get("/health")
    with pytest.raises(zoo.UsageError, match="needs a token"):
        zoo.serve(model, host="0.0.0.0")


def test_its_help_imports_neither_the_server_nor_torch():
    code = "import zoo_web.server.command, sys; print({'uvicorn', 'torch'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
