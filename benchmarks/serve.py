"""`zoo serve`: many requests at a time against batches of one image, then hostile requests.

    python benchmarks/serve.py [--model cnn] [--requests 1000] [--together 32] [--hostile 200]

Two servers, one with batches and one without, take turns. Clients in this process keep their
connections, and each image gets the answer that it had before, or the benchmark fails. Then the
first server gets requests that nobody sends by mistake: it must answer afterwards, and its RssAnon,
the memory that the system cannot take back, must stay below a bound. CIFAR-10's test images, or
random ones where they are not in the cache.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import io
import json
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

IMAGES = 100  # different ones
SAME = 1e-3
AT_ONCE = 8  # hostile requests
MOST = 700  # MB that hostile requests may add
PATIENCE = 60.0  # seconds for an answer
SECONDS = 5.0  # --most-seconds while hostile requests come: some send nothing and wait


class Server:
    """`zoo serve` in a process of its own."""

    def __init__(self, model: str, *options: str) -> None:
        command = [sys.executable, "-m", "zoo", "serve", model, "--port", "0", "--quiet", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        said = self.process.stdout.readline()
        if not said.startswith("Serving"):
            raise SystemExit(self.process.wait())
        parts = urlsplit(said.split(" at ")[1].strip())
        self.place = parts.hostname or "", parts.port or 0
        self.most = 0.0  # MB of memory that was seen

    def memory(self) -> float:
        """RssAnon in MB; 0 where the system does not tell."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) / 1000
        return 0.0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the memory all the time."""
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.02):
                self.most = max(self.most, self.memory())

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


@contextlib.contextmanager
def serving(model: str, *options: str) -> Iterator[Server]:
    server = Server(model, *options)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


def files(count: int) -> list[bytes]:
    """Images as PNG."""
    import zoo

    try:
        images = zoo.open_dataset("cifar10", fetch=False).test.images
    except zoo.ZooError:
        images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), np.uint8)
    return [encoded(np.asarray(images[row])) for row in range(count)]


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def body(*images: bytes) -> bytes:
    return json.dumps({"images": [base64.b64encode(one).decode() for one in images]}).encode()


class Client:
    """One connection after the other, and how long each answer took."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.connection = http.client.HTTPConnection(*place, timeout=PATIENCE)
        self.seconds: list[float] = []

    def ask(self, content: bytes) -> dict[str, float]:
        """The probabilities of an image."""
        started = time.perf_counter()
        self.connection.request("POST", "/predict", content, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        read = answer.read()
        self.seconds.append(time.perf_counter() - started)
        assert answer.status == 200, f"{answer.status}: {read[:200]!r}"
        return {c["name"]: c["probability"] for c in json.loads(read)["predictions"][0]["classes"]}


def load(
    server: Server, bodies: Sequence[bytes], known: dict[int, dict[str, float]], requests: int,
    together: int,
) -> tuple[float, list[float]]:  # fmt: skip
    """Requests a second, and the seconds of each; known: the answers so far."""
    clients = [Client(server.place) for _ in range(together)]

    def work(client: Client, first: int) -> None:
        for number in range(first, requests, together):
            place = number % len(bodies)
            found = client.ask(bodies[place])
            before = known.setdefault(place, found)
            worst = max(abs(found[name] - before.get(name, found[name])) for name in found)
            assert worst < SAME, f"image {place} has another answer"

    started = time.perf_counter()
    with ThreadPoolExecutor(together) as pool:
        for done in [pool.submit(work, one, first) for first, one in enumerate(clients)]:
            done.result()
    took = time.perf_counter() - started
    return requests / took, [second for client in clients for second in client.seconds]


def measure(options: argparse.Namespace) -> None:
    bodies, known = [body(one) for one in files(IMAGES)], dict[int, dict[str, float]]()
    with serving(options.model) as many, serving(options.model, "--batch", "1") as one:
        servers = {"batches": many, "one by one": one}
        for server in servers.values():
            load(server, bodies, known, len(bodies), 1)
        print(f"| {options.model} | requests at a time | requests a second | median | p99 |")
        print("|---|---:|---:|---:|---:|")
        for together, requests in ((options.together, options.requests), (1, options.requests)):
            rates: dict[str, list[float]] = {name: [] for name in servers}
            times: dict[str, list[float]] = {name: [] for name in servers}
            for number in range(options.rounds):  # neither is always the first
                for name, server in list(servers.items())[:: -1 if number % 2 else 1]:
                    rate, seconds = load(server, bodies, known, requests, together)
                    rates[name].append(rate)
                    times[name] += seconds
            for name in servers:
                p99 = 1000 * float(np.percentile(times[name], 99))
                median = 1000 * statistics.median(times[name])
                rate = statistics.median(rates[name])
                print(f"| {name} | {together} | {rate:.0f} | {median:.1f} ms | {p99:.1f} ms |")
        asked = 2 * options.rounds * options.requests + len(bodies)
        print(f"{asked:,} requests to each server, all answered")
    with serving(options.model, "--most-seconds", str(SECONDS)) as server:
        attack(server, options.hostile, bodies[0], known[0])


# Hostile requests, as bytes.


def head(content: bytes, *more: str, kind: str = "application/json") -> bytes:
    lines = ["POST /predict HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", *more]
    if not any(line.lower().startswith(("content-length", "transfer")) for line in more):
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def asked(*images: bytes) -> bytes:
    content = body(*images)
    return head(content) + content


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG that is small and black, with chunks in front of its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    parts = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    parts += b"".join(chunk(*one) for one in chunks)
    black = zlib.compressobj(9)
    line = b"\0" * (3 * width + 1)
    data = b"".join(black.compress(line) for _ in range(min(height, 6000))) + black.flush()
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def form(count: int, name: str) -> bytes:
    part = f'--XX\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n\r\nx\r\n'
    content = part.encode() * count + b"--XX--\r\n"
    return head(content, kind="multipart/form-data; boundary=XX") + content


def scans() -> bytes:
    whole = encoded(np.zeros((2000, 2000, 3), np.uint8), "JPEG")
    start = whole.index(b"\xff\xda")
    return whole[:start] + whole[start:-2] * 2000 + whole[-2:]


def hostile() -> list[bytes]:
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    text = b"x\0\0" + zlib.compress(b"\0" * 100_000_000)
    chunks = (b"100000\r\n" + bytes(1 << 20) + b"\r\n") * 40
    large = png(5600, 5600)
    made = [
        asked(png(60_000, 60_000)),
        asked(png(8_000, 8_000)),
        asked(large),  # allowed: it is decoded
        asked(*[large] * 64),
        asked(png(32, 32, (b"zTXt", text))),
        asked(png(32, 32, (b"iCCP", text))),
        asked(encoded(noise)[:50_000]),
        asked(encoded(noise, "JPEG")[:9_000]),
        asked(noise.tobytes()),
        asked(scans()),
        asked(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n"),
        asked(b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "&c;&c;">]><svg>&b;</svg>'),
        asked(b""),
        head(b"x" * 31_000_000) + b"x" * 31_000_000,
        head(b"[" * 1_000_000) + b"[" * 1_000_000,
        head(b'{"images": [], "top": 1e400}') + b'{"images": [], "top": 1e400}',
        head(b"", "Content-Length: 9999999999999999999999"),
        head(b"", "Content-Length: -1"),
        head(b"", "Content-Length: 1000") + b'{"images"',  # and nothing more
        head(b"", "Content-Length: 5", "Transfer-Encoding: chunked") + b"zzz\r\n",
        head(b"", "Transfer-Encoding: chunked") + b"ffffffffffffffff\r\nx",
        head(b"", "Transfer-Encoding: chunked") + chunks,
        head(b"", "X: " + "x" * 1_000_000),
        head(b"", *[f"X-{n}: {n}" for n in range(20_000)]),
        form(200_000, "a"),
        form(3, "../" * 10_000),
        head(b"--", kind="multipart/form-data") + b"--",
        b"GET /static/..%2f..%2fpages.py HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500,
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),  # TLS
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",  # and nothing more
        b"",
    ]
    return made


def attack(server: Server, count: int, content: bytes, known: dict[str, float]) -> None:
    kinds = hostile()
    Client(server.place).ask(content)
    before, server.most = server.memory(), server.memory()
    with server.watched(), ThreadPoolExecutor(AT_ONCE) as pool:
        statuses = list(pool.map(lambda n: said(server.place, kinds[n % len(kinds)]), range(count)))
    assert server.process.poll() is None, "the server ended"
    found = Client(server.place).ask(content)
    assert all(abs(found[name] - known[name]) < SAME for name in found), "another answer"
    told = ", ".join(f"{statuses.count(one)} x {one}" for one in sorted(set(statuses)))
    grown = server.most - before
    print(f"{count} hostile requests, {AT_ONCE} at a time: {told}; the server answers as before")
    print(f"RssAnon {before:.0f} MB before, at most {server.most:.0f}, {server.memory():.0f} after")
    assert grown < MOST, f"its memory grew by {grown:.0f} MB"


def said(place: tuple[str, int], request: bytes) -> str:
    """The status of the answer, or "closed"."""
    data = b""
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(place, timeout=PATIENCE) as connection,
    ):
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        while piece := connection.recv(65536):
            data = data or piece
    return data[9:12].decode("latin-1") or "closed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--together", type=int, default=32, help="requests at a time")
    parser.add_argument("--rounds", type=int, default=3, help="of each server")
    parser.add_argument("--hostile", type=int, default=200)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
