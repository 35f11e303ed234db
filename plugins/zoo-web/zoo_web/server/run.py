"""zoo.serve: a model behind HTTP, from its socket to its graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

import zoo
from zoo import kit
from zoo_web.server.app import Service, application
from zoo_web.server.batches import Batches, best_size
from zoo_web.server.guard import allowed_names, checked, is_loopback
from zoo_web.server.limits import Limits

GRACE = 10  # seconds for what is under way when the server is asked to stop
HEAD = 10.0  # seconds for the head of a request, from the first byte of the connection on
MORE = 64  # connections beyond the requests that may wait: for the sentence that says so


def serve(
    model: Any,
    *,
    port: int = 8000,
    host: str = "127.0.0.1",
    token: str = "",
    allow_hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
    batch: int = 0,
    device: str = "auto",
    runs: Path | None = None,
    wait: bool = True,
) -> Server:
    """Answer about images over HTTP, with a trained model.

        zoo.serve("cnn")                                  # until Ctrl-C
        with zoo.serve("cnn", port=0, wait=False) as server:
            print(server.url)                             # it serves meanwhile

    model: a run, weights, or a model that zoo.load returned. port: 0 chooses a free one. host: any
    address but loopback needs a token, which requests carry as `Authorization: Bearer TOKEN`.
    allow_hosts: names that a proxy in front uses. limits: zoo_web.server.limits.Limits. batch:
    images that are computed together at most; 0 measures how many are best.
    """
    token = checked(token, "token=") if token else ""
    server = Server(model, port, host, token, allow_hosts, limits or Limits(), batch, device, runs)
    if wait:
        server.run()
    else:
        server.start()
    return server


def _title(model: Any, runs: Path | None) -> str:
    """What callers see: of a run its name, even if somebody typed `latest`; "" for an object."""
    if not isinstance(model, str | Path):
        return ""
    located = kit.locate(str(model), runs)
    return located.path.parent.name if located.run else str(model)


class Server:
    """A server of one model; `url` is its address, `stop` ends it. A context manager."""

    def __init__(
        self, model: Any, port: int, host: str, token: str, allow_hosts: tuple[str, ...],
        limits: Limits, batch: int, device: str, runs: Path | None,
    ) -> None:  # fmt: skip
        names = allowed_names(host, allow_hosts, token)
        self._socket = listening(host, port)  # before the model, which takes time to load
        try:
            asked = kit.Answering(kit.loaded(model, runs, device))
            title = _title(model, runs) or asked.model.zoo.entry.name
            preprocess = asked.model.zoo.preprocess
            shape = (preprocess.stored_size, preprocess.stored_size, preprocess.stored_channels)
            batch = batch or best_size(asked.compute, np.zeros(shape, np.uint8), asked.at_once)
            self.service = Service(
                asked, title, Batches(asked.compute, min(batch, asked.at_once)), limits, bool(token)
            )
            config = uvicorn.Config(
                application(self.service, names, token), http=Patient, ws="none", lifespan="off",
                log_config=None, access_log=False, log_level="critical", server_header=False,
                proxy_headers=False, timeout_graceful_shutdown=GRACE, loop="asyncio",
                # Beyond it uvicorn answers by itself; ours has a sentence, and comes first.
                limit_concurrency=limits.waiting + MORE,
            )  # fmt: skip
        except BaseException:
            self._socket.close()
            raise
        where = self._socket.getsockname()
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        self.url = f"http://{shown}:{where[1]}/"
        self._uvicorn = Stoppable(config, self.service)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until `stop`, Ctrl-C or SIGTERM; what is under way by then is finished."""
        try:
            self._uvicorn.run([self._socket])
        finally:
            self.service.batches.stop()
            self.service.pool.shutdown(wait=False, cancel_futures=True)
            self._socket.close()

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self.run, name="zoo serve HTTP", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._uvicorn.leave()
        if self._thread:
            self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections already: they wait until the model is loaded."""
    what = f"{host}:{port} cannot be used"
    hint = "--port 0 chooses a free port, --host another address of this machine"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise zoo.UsageError(f"{host} is not an address of this machine") from error
    # With its protocol: asyncio sets TCP_NODELAY only on a socket that says that it is TCP.
    family, kind, protocol, _, address = found[0]
    if host == "localhost" and not is_loopback(str(address[0])):
        raise zoo.UsageError(f"localhost means {address[0]} here, which others can reach")
    made = socket.socket(family, kind, protocol)
    with kit.os_errors(what, zoo.UsageError, hint), contextlib.ExitStack() as opened:
        opened.callback(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1024)
        opened.pop_all()
    return made


class Stoppable(uvicorn.Server):
    """uvicorn's, which ends as if nothing had happened after a signal: it was asked to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def leave(self) -> None:
        self._service.stopping = self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.signal(n, self.handle_exit) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        again = self.should_exit  # a second signal waits for nobody
        self.leave()
        self.force_exit = self.force_exit or again

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        waiting = self._service.under_way
        logging.getLogger("zoo").info("Stopping; requests under way: %d", waiting)
        await super().shutdown(sockets)


class Patient(H11Protocol):
    """uvicorn's, which lets go of a connection that does not send the head of a request in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self.config.limit_concurrency
        if most and len(self.connections) > 2 * most:
            transport.abort()  # each costs memory, and these say nothing
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late:
            self._late.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._expect()
        super().on_response_complete()

    def _expect(self) -> None:
        if self._late:
            self._late.cancel()
        self._late = self.loop.call_later(HEAD, self._let_go)

    def _let_go(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
