"""Who may ask: the names that the server answers to, no page of another site, and a token.

A page of a stranger that somebody visits can reach a server on loopback: by its address, or by a
name of the stranger's that suddenly means 127.0.0.1. It sends its own name as Origin or as Host.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import zoo
from zoo import kit
from zoo_web import pages
from zoo_web.server.limits import Refused

POLICY = "; ".join(f"{name} {what}" for name, what in pages.POLICY.items())

TOKEN = "ZOO_SERVE_TOKEN"
LINGER = 1.0  # seconds for the rest of a body that is refused
SLACK = 10.0  # seconds more, for an answer to be read
LEAST = 16  # letters of a token
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ASKED = ("/predict",)  # what needs the token; the other addresses tell names, and compute nothing
HEADERS = {  # of every answer
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": f"{POLICY}; frame-ancestors 'none'".encode(),
    b"cache-control": b"no-store",
}
log = logging.getLogger("zoo.serve")


class Guard:
    """Around the whole application: refuses, adds headers, keeps the time, writes the log."""

    def __init__(self, app: ASGIApp, names: frozenset[str], token: str, seconds: float) -> None:
        self.app, self.names, self.seconds = app, names, seconds
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers, start, status = Headers(scope=scope), time.perf_counter(), 0
        whole = "content-length" not in headers and "transfer-encoding" not in headers

        async def received() -> Message:
            nonlocal whole
            message = await receive()
            whole = not message.get("more_body", False)
            return message

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS.items()]
                # An answer before the end of the body is lost to many clients.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        while not whole:
                            await received()
            await send(message)

        try:
            self._check(scope["path"], headers)
            # Not only of the answer: who reads it too slowly is let go, too.
            async with asyncio.timeout(self.seconds + SLACK):
                await self.app(scope, received, answered)
        except Refused as error:
            await refusal(error)(scope, received, answered)
        except TimeoutError:
            if status:
                raise
            await refusal(Refused(503, "there was no answer in time"))(scope, received, answered)
        finally:
            took, images = 1000 * (time.perf_counter() - start), scope.get("zoo.images")
            told = f", {images} image{'s' * (images != 1)}" if images else ""
            level = logging.INFO if scope["path"] in ASKED or status >= 400 else logging.DEBUG
            # As it was sent: percent signs, and nothing that moves a cursor.
            where = f"{scope['method']} {scope['raw_path'].decode('latin-1')}"[:200]
            log.log(level, "%s: %d%s, %.0f ms", where, status, told, took)

    def _check(self, path: str, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        if self.names and host_name(host) not in self.names:
            hint = "zoo serve --allow-host NAME adds one"
            raise Refused(403, "this server does not answer to that name", hint)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refused(403, "pages of other sites may not use this server")
        if self._token and path in ASKED:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode(), self._token)
            if scheme.lower() != "bearer" or not same:
                raise Refused(401, "this server needs its token", "Authorization: Bearer TOKEN")


def refusal(error: Refused) -> JSONResponse:
    # What is left of the body would be taken for the next request.
    headers = {**error.headers, "connection": "close"}
    return JSONResponse(error.document, error.status, headers)


def host_name(host: str) -> str:
    """`localhost` of `localhost:8000`, and `[::1]` of `[::1]:8000`."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and (port.isdigit() or not port) else host.lower()


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_names(host: str, more: tuple[str, ...], token: str) -> frozenset[str]:
    """The names that a server answers to; none: all. A UsageError where a token is missing."""
    local = is_loopback(host)
    if not token and (not local or more):
        who = "others" if more else f"everybody who reaches {host or 'this machine'}"
        raise zoo.UsageError(
            f"a server for {who} needs a token",
            f"write at least {LEAST} random letters to a file for --token-file, or set {TOKEN}",
        )
    if not local and not more:
        return frozenset()
    own = f"[{host}]" if ":" in host else host
    return frozenset((*(LOOPBACK if local else ()), own.lower(), *map(str.lower, more)))


def read_token(file: Path | None) -> str:
    """The token in a file, or in the environment; "" without either. Nothing ever prints it."""
    if file is None:
        return checked(os.environ.get(TOKEN, ""), TOKEN) if os.environ.get(TOKEN) else ""
    with kit.os_errors(f"{file} cannot be read", zoo.UsageError):
        mode, text = file.stat().st_mode, file.read_bytes()[:10_000]
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        kit.warn(f"Other users of this machine can read {file}: chmod 600 keeps the token secret")
    return checked(text.decode("utf-8", "replace").strip(), str(file))


def checked(token: str, where: str) -> str:
    if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
        need = f"at least {LEAST} letters, digits or signs of ASCII, without spaces"
        raise zoo.UsageError(f"the token in {where} cannot be used: it needs {need}")
    return token
