"""Image files as arrays of bytes, always the same way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from zoo_core.io.errors import DataError

# Formats by name, because Pillow would also start Ghostscript for a file that claims to be EPS.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (
    ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
MOST_PIXELS = 1 << 26  # 67 million, 200 MB of RGB; more is a mistake or an attack
GREY_MODES = frozenset(("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"))
# How an image that is not square becomes one: cut its middle out, add grey bars, or squeeze it.
FITS = ("crop", "pad", "stretch")
PADDING = 128
ORIENTATION = 0x0112  # in EXIF data
# A JPEG is decoded at 1/2, 1/4 or 1/8 of its size where so many times the stored size is left: this
# is quicker, and changes pixels by about one level of 255 on average.
SPARE = 2


class Form(NamedTuple):
    """What an image file becomes when it is stored: bytes (size, size, channels)."""

    size: int
    channels: int
    fit: str = "crop"


def names_image(name: object) -> bool:
    """Whether this is the name of an image file, by its ending."""
    return isinstance(name, str) and name.lower().endswith(SUFFIXES)


ImageSource = str | os.PathLike[str] | IO[bytes]  # a path, or a file that is open


def open_image(file: ImageSource) -> Image.Image:
    """Open an image file without decoding it yet; the size in its header is checked."""
    try:
        if isinstance(file, str | os.PathLike) and not Path(file).is_file() and Path(file).exists():
            raise OSError(errno.EINVAL, "it is not a regular file")  # a pipe may never say a word
        image = Image.open(file, formats=FORMATS)
        if image.width * image.height <= MOST_PIXELS:
            return image
        image.close()
        what = f"is huge: {image.width} x {image.height} pixels"
    except Image.DecompressionBombError:
        what = "has far too many pixels"
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(file, error) from error
    hint = f"make it smaller: at most {MOST_PIXELS:,} pixels are read"
    raise DataError(f"{_name_of(file)} {what}", hint)


def read_image(file: ImageSource, form: Form, *, quick: bool = True) -> np.ndarray:
    """Open, decode and fit an image file: uint8 (size, size, channels)."""
    with open_image(file) as image, decoding(file):
        return fit_image(image, form, quick=quick)


@contextmanager
def decoding(file: object) -> Iterator[None]:
    """Turn what goes wrong into the sentence that names the file."""
    try:
        yield
    except Exception as error:  # a damaged file can make Pillow raise almost anything
        raise _unreadable(file, error) from error


def fit_image(image: Image.Image, form: Form, *, quick: bool = True) -> np.ndarray:
    """An image as it is stored, resized (bilinear, antialiased): uint8 (size, size, channels).

    The one function that does this: for training, evaluation and a single image alike. quick: of a
    large JPEG, decode no more pixels than are needed; without it, all of them, as programs do that
    use an exported file.
    """
    size = turned_size(image)
    return fitted(decoded(image, form, quick), form, size)


def decoded(image: Image.Image, form: Form, quick: bool = True) -> Image.Image:
    """The pixels of an image that was opened: upright, of 8 bits, grey or RGB."""
    if quick:
        image.draft(None, (SPARE * form.size, SPARE * form.size))
    # Asked first: either step copies an image that does not need it.
    if image.getexif().get(ORIENTATION, 1) != 1:
        image = ImageOps.exif_transpose(image)  # turned as its EXIF data says
    if image.mode != (mode := "L" if form.channels == 1 else "RGB") or "transparency" in image.info:
        image = _flat(image).convert(mode)
    return image


def fitted(image: Image.Image, form: Form, original: tuple[int, int]) -> np.ndarray:
    """A decoded image, cut or padded to a square; original: its size before it was decoded."""
    size, channels, fit = form
    width, height = original
    left, top, right, bottom, inner = 0, 0, width, height, (size, size)
    if fit == "crop":
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        right, bottom = left + side, top + side
    elif fit == "pad":
        longest = max(width, height)
        inner = (max(1, round(size * width / longest)), max(1, round(size * height / longest)))
    # One step from the part of the original: an image of 1 x 1,000,000 pixels must not grow first.
    x, y = image.width / width, image.height / height  # below 1 where it was decoded smaller
    box = (left * x, top * y, right * x, bottom * y)
    if inner != image.size or box != (0, 0, *inner):
        image = image.resize(inner, Image.Resampling.BILINEAR, box)
    if inner != (size, size):
        grey = (PADDING,) * channels if channels > 1 else PADDING
        square = Image.new(image.mode, (size, size), grey)
        square.paste(image, ((size - inner[0]) // 2, (size - inner[1]) // 2))
        image = square
    return np.asarray(image, np.uint8).reshape(size, size, channels)


def viewed(image: ImageSource | Image.Image | np.ndarray, most: int) -> Image.Image:
    """An image as people look at it: upright, in colour, no side longer than so many pixels."""
    if isinstance(image, np.ndarray):
        ours = Image.fromarray(image[:, :, 0] if image.shape[2:] == (1,) else image)
    else:
        ours = image.copy() if isinstance(image, Image.Image) else open_image(image)
    with decoding(image):
        shown = decoded(ours, Form(most, 3))
        shown.thumbnail((most, most))
        shown.load()
    return shown


def turned_size(image: Image.Image) -> tuple[int, int]:
    """Width and height, turned as its EXIF data says."""
    sideways = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    return (image.height, image.width) if sideways else image.size


def _name_of(file: object) -> str:
    if isinstance(file, str | os.PathLike):
        return str(Path(file))
    return str(getattr(file, "name", "what is in memory"))


def _unreadable(file: object, error: BaseException) -> DataError:
    reason, hint = str(error) or type(error).__name__, "repair it, or remove it"
    if "cannot identify" in reason:
        reason, hint = "it is not in a known format", "use a JPEG, a PNG or another known format"
    if isinstance(error, OSError):
        reason = error.strerror or reason
    what = f"{_name_of(file)} cannot be read as an image: {reason}"
    return DataError(what, hint)


def _flat(image: Image.Image) -> Image.Image:
    """An image of 8 bits without palette; transparent parts become white."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image)
        if image.mode == "F":
            values = np.nan_to_num(values) * (255.0 if values.max(initial=0) <= 1 else 1.0)
        else:
            values = values / 257  # 65535 becomes 255
        return Image.fromarray(np.clip(values + 0.5, 0, 255).astype(np.uint8))
    if image.mode in ("P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("LA", "La", "RGBA", "RGBa"):
        image = image.convert("LA" if image.mode in ("LA", "La") else "RGBA").convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image
