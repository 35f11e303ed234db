"""The addresses of the server: what each takes and gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import zoo
from zoo import kit
from zoo_web.server import pages
from zoo_web.server.batches import Batches, Rows
from zoo_web.server.guard import Guard, log, refusal
from zoo_web.server.intake import Read, Reader, Receiver
from zoo_web.server.limits import Limits, Refused
from zoo_web.server.openapi import describe

RECEIVE = 0.8  # of the time of a request, for its bytes
THREADS = 2  # that read and decode; the memory of a server is bounded by them


class Service:
    """What all requests share: the model, the threads, and how much is under way."""

    def __init__(
        self, asked: kit.Answering, title: str, batches: Batches, limits: Limits, token: bool
    ) -> None:
        self.asked, self.title, self.batches, self.limits = asked, title, batches, limits
        self.token = token  # whether there is one
        self.receiver, self.reader = Receiver(limits), Reader(asked, limits)
        self.pool = ThreadPoolExecutor(THREADS, "zoo serve decodes")
        self.under_way = self.served = 0
        self.stopping = False
        self.api = describe(title, asked.answers.targets, limits, token)

    async def predict(self, request: Request) -> Response:
        """POST /predict: what the model says of each image."""
        if self.stopping or self.under_way >= self.limits.waiting:
            why = "it is stopping" if self.stopping else f"{self.under_way:,} requests wait"
            raise Refused(503, f"the server takes no request now: {why}", "try again", again=True)
        self.under_way += 1
        begun, seconds = time.monotonic(), self.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                read, top = await self._read(request, begun + seconds)
                request.scope["zoo.images"] = len(read)
                images = [one.stored for one in read if one.stored is not None]
                if not images:
                    raise Refused(422, read[0].reason)
                rows: Rows = await asyncio.wrap_future(self.batches.submit(images))
        except TimeoutError:
            what = f"there was no answer within {seconds:g} seconds"
            raise Refused(503, what, "send fewer or smaller images", again=True) from None
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        finally:
            self.under_way -= 1
        found = self._said(read, rows, top)
        self.served += len(found)
        took = round(1000 * (time.monotonic() - begun), 1)
        return JSONResponse({"model": self.title, "predictions": found, "milliseconds": took})

    async def _read(self, request: Request, until: float) -> tuple[list[Read], int]:
        """The images of a request, and `top`. Whoever sends slowly leaves no time to compute."""
        headers, seconds = request.headers, RECEIVE * self.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                length = headers.get("content-length", "")
                body = await self.receiver.receive(length, request.stream())
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {seconds:g} seconds") from None
        count = len(body)
        try:
            work = partial(self.reader.read, headers.get("content-type", ""), body, until)
            return await asyncio.get_running_loop().run_in_executor(self.pool, work)
        finally:
            self.receiver.forget(count)

    def _said(self, read: Sequence[Read], rows: Rows, top: int) -> list[dict[str, Any]]:
        """The answer for each image, in the words of `zoo predict`."""
        found: list[dict[str, Any]] = []
        left = iter(rows)
        for one in read:
            row = zoo.DataError(one.reason) if one.stored is None else next(left)
            if isinstance(row, zoo.ZooError):
                found.append({"image": one.name, "error": str(row)})
            else:
                answer, words = self.asked.said(row, top)
                seen = {"seen": one.seen} if one.seen else {}
                found.append({"image": one.name, **answer, "words": words, **seen})
        if all("error" in one for one in found):
            raise Refused(500, found[0]["error"])
        return found

    async def health(self, request: Request) -> Response:
        """GET /health: whether it takes requests."""
        found = {
            "status": "stopping" if self.stopping else "ok",
            "model": self.title,
            "under_way": self.under_way,
            "images_served": self.served,
            "batch": self.batches.most,
        }
        return JSONResponse(found, 503 if self.stopping else 200)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.api)

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(pages.docs(self, str(request.base_url).rstrip("/")))

    async def start(self, request: Request) -> Response:
        return HTMLResponse(pages.start(self))


def application(service: Service, names: frozenset[str], token: str) -> ASGIApp:
    """Everything, inside the guard."""
    routes = [
        Route("/", service.start),
        Route("/predict", service.predict, methods=["POST"]),
        Route("/health", service.health),
        Route("/openapi.json", service.openapi),
        Route("/docs", service.docs),
        Route("/static/{name}", pages.static),
    ]
    handlers = {Refused: _refused, HTTPException: _unknown, Exception: _failed}
    inner = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(inner, names, token, service.limits.seconds)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refusal(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "the page /docs lists what there is"
    return JSONResponse({"error": error.detail, "hint": hint}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours, or of a plugin: it is in the log, and the server goes on."""
    log.error("%s: %s", request.url.path, kit.describe(error), exc_info=error)
    return JSONResponse({"error": "the server made a mistake, which is in its log"}, 500)
