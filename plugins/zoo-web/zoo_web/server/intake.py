"""From the bytes of a request to images as the model keeps them, within limits.

Bodies are received while they are small enough, then read and decoded by a few threads. The size in
the header of an image is checked before it is decoded.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import msgspec
import numpy as np
from PIL import Image
from python_multipart import create_form_parser

import zoo
from zoo import kit
from zoo_web.server.limits import TOP, Limits, Refused

JSON, FORM = "application/json", "multipart/form-data"
FIELD, NAME = "image", 300  # of a form; letters of a file name that are told again
STEP = 1 << 20  # bytes of a form that are copied at a time
LARGE = 4_000_000  # pixels; of larger images only one is decoded at a time
MOST_SCANS = 50  # of a JPEG: each goes over all pixels, and costs a sender ten bytes
SCAN = b"\xff\xda"


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """A request as JSON; msgspec makes bytes of base64."""

    images: list[bytes]
    top: int = TOP
    seen: bool = False


@dataclass
class Given:
    """What a request asks: its images, each with a name, how many classes of each, and whether the
    answer shows them as the network sees them."""

    images: list[tuple[str, bytes]]
    top: int = TOP
    seen: bool = False


@dataclass
class Read:
    """An image as the model keeps it, or the reason why it cannot be read."""

    name: str
    stored: np.ndarray | None
    reason: str = ""
    seen: str = ""  # base64 of a PNG


class Receiver:
    """Receives bodies, all of them together within limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    async def receive(self, length: str, stream: AsyncIterator[bytes]) -> bytearray:
        """The body; its bytes count until `forget`. length: what the header says."""
        body, most = bytearray(), self.limits.bytes
        too_large = Refused(413, f"a request may have {kit.size(most)}", "send fewer images")
        try:
            if length.isdigit() and int(length[:20]) > most:
                raise too_large
            async for chunk in stream:
                body += chunk
                self.held += len(chunk)
                if len(body) > most:
                    raise too_large
                if self.held > self.limits.held:
                    raise Refused(503, "too many bytes wait to be read", "try again", again=True)
        except BaseException:
            self.forget(len(body))
            raise
        return body

    def forget(self, count: int) -> None:
        self.held -= count


def parse(kind: str, body: bytes | bytearray, limits: Limits) -> Given:
    """A body of a content type."""
    plain = kind.partition(";")[0].strip().lower()
    if plain not in (JSON, FORM):
        raise Refused(415, f"send {JSON} or {FORM}", "the page /docs has examples")
    given = parse_json(body) if plain == JSON else parse_form(kind, body, limits)
    if not given.images:
        raise Refused(400, "the request has no image", "the page /docs has examples")
    if len(given.images) > limits.images:
        raise Refused(413, f"a request may have {limits.images:,} images", "send several requests")
    if given.top < 1:
        raise Refused(400, f"top must be at least 1, not {given.top}")
    return given


def parse_json(body: bytes | bytearray) -> Given:
    try:
        asked = msgspec.json.decode(body, type=Body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        hint = '{"images": ["BASE64", ...], "top": 3}'
        raise Refused(400, f"the JSON cannot be used: {kit.describe(error)[:200]}", hint) from None
    named = [(f"image {n}", image) for n, image in enumerate(asked.images, 1)]
    return Given(named, asked.top, asked.seen)


def parse_form(kind: str, body: bytes | bytearray, limits: Limits) -> Given:
    given, texts = Given([]), set[bytes]()

    def on_field(field: Any) -> None:
        name = field.field_name
        if name not in (b"top", b"seen") or name in texts:
            raise Refused(400, "a form has files called image, and the fields top and seen, once")
        texts.add(name)
        text = (field.value or b"").decode("ascii", "replace")
        if name == b"seen":
            given.seen = text == "true"
            return
        if not text.isdigit() or len(text) > 9:
            raise Refused(400, "top must be a whole number")
        given.top = int(text)

    def on_file(file: Any) -> None:
        if file.field_name != FIELD.encode():
            raise Refused(400, f"a file of a form must be called {FIELD}: -F {FIELD}=@cat.jpg")
        if len(given.images) == limits.images:
            words = f"a request may have {limits.images:,} images"
            raise Refused(413, words, "send several requests")
        file.file_object.seek(0)
        name = (file.file_name or b"").decode("utf-8", "replace")[:NAME]
        number = len(given.images) + 1
        given.images.append((name or f"image {number}", file.file_object.read()))

    try:
        # All parts stay in memory: the body is there already, and is small enough.
        parser = create_form_parser(
            {"Content-Type": kind.encode("latin-1", "replace")},
            on_field,
            on_file,
            config={"MAX_MEMORY_FILE_SIZE": limits.bytes + 1},
        )
        for start in range(0, len(body), STEP):
            parser.write(bytes(body[start : start + STEP]))
        parser.finalize()
    except Refused:
        raise
    except Exception as error:  # whatever a parser makes of it
        what = f"the form cannot be read: {kit.describe(error)[:200]}"
        raise Refused(400, what, "the page /docs has examples") from None
    return given


class Reader:
    """Decodes images exactly as `zoo predict` does; used by several threads."""

    def __init__(self, asked: kit.Answering, limits: Limits) -> None:
        self._asked, self._limits = asked, limits
        self._large = Lock()

    def read(self, kind: str, body: bytearray, until: float) -> tuple[list[Read], int]:
        """All images of a body, and `top`. until: by time.monotonic()."""
        given, pixels = parse(kind, body, self._limits), 0
        body.clear()  # the images are copies
        found = []
        for place, (name, data) in enumerate(given.images):
            given.images[place] = name, b""
            if time.monotonic() > until:
                raise TimeoutError  # nobody waits any more
            try:
                size = self._size(name, data)
                pixels += size
                if pixels > self._limits.pixels:
                    words = f"the images of a request may have {self._limits.pixels:,} pixels"
                    raise Refused(413, words, "make them smaller, or send several requests")
                with self._large if size > LARGE else nullcontext():
                    stored = self._asked.read(_file(name, data))
                found.append(Read(name, stored, seen=self._seen(stored) if given.seen else ""))
            except zoo.DataError as error:
                found.append(Read(name, None, str(error)))
        return found, given.top

    def _seen(self, stored: np.ndarray) -> str:
        """The image as the network sees it: resized and cut, before it is normalised."""
        preprocess = self._asked.model.zoo.preprocess
        given = preprocess(stored, backend="numpy").transpose(1, 2, 0)
        levels = 255 * (given * np.float32(preprocess.std) + np.float32(preprocess.mean))
        image, file = np.clip(np.round(levels), 0, 255).astype(np.uint8), io.BytesIO()
        Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(file, "PNG")
        return base64.b64encode(file.getvalue()).decode()

    def _size(self, name: str, data: bytes) -> int:
        """Pixels, by the header alone."""
        with kit.open_image(_file(name, data)) as image:
            if image.format == "JPEG" and data.count(SCAN) > MOST_SCANS:
                raise zoo.DataError(f"{name} cannot be read as an image: it has too many scans")
            return image.width * image.height


def _file(name: str, data: bytes) -> io.BytesIO:
    """With the name that messages have."""
    file = io.BytesIO(data)
    file.name = name
    return file
