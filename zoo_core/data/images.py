"""Image files as arrays of bytes, always the same way, and sheets of small images to look at."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from zoo_core.io.errors import DataError
from zoo_core.io.files import atomic_write

# Formats by name, because Pillow would also start Ghostscript for a file that claims to be EPS.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (
    ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
MOST_PIXELS = 1 << 26  # 67 million, 200 MB of RGB; more is a mistake or an attack
GREY_MODES = frozenset(("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"))
PAPER, INK, EDGE = (255, 255, 255), (60, 60, 67), (225, 225, 230)  # of a sheet
GAP = 10
SMALLEST = 84  # pixels that an image has on the sheet, at least


ImageSource = str | os.PathLike[str] | IO[bytes]  # a path, or a file that is open


def open_image(file: ImageSource) -> Image.Image:
    """Open an image file without decoding it yet; the size in its header is checked."""
    try:
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


def read_image(file: ImageSource, size: int, channels: int) -> np.ndarray:
    """Open, decode and fit an image file: uint8 (size, size, channels)."""
    with open_image(file) as image:
        try:
            return fit_image(image, size, channels)
        except Exception as error:  # a damaged file can make Pillow raise almost anything
            raise _unreadable(file, error) from error


def fit_image(image: Image.Image, size: int, channels: int) -> np.ndarray:
    """The largest centred square of an image, resized (bilinear, antialiased): uint8 (h, w, c)."""
    image = ImageOps.exif_transpose(image)  # turned as its EXIF data says
    image = _flat(image).convert("L" if channels == 1 else "RGB")
    # The square is cut first: an image of 1 x 1,000,000 pixels must not grow before it is cut.
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    if (side, side) != image.size:
        image = image.crop((left, top, left + side, top + side))
    if side != size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(size, size, channels)


def _name_of(file: ImageSource) -> str:
    if isinstance(file, str | os.PathLike):
        return str(Path(file))
    return str(getattr(file, "name", "what is in memory"))


def _unreadable(file: ImageSource, error: BaseException) -> DataError:
    reason = str(error) or type(error).__name__
    if "cannot identify" in reason:
        reason = "it is not in a known format"
    if isinstance(error, OSError):
        reason = error.strerror or reason
    what = f"{_name_of(file)} cannot be read as an image: {reason}"
    return DataError(what, "repair it, or remove it")


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


def write_sheet(
    path: Path,
    images: np.ndarray,
    captions: Sequence[str] = (),
    *,
    columns: int | None = None,
    title: str = "",
) -> tuple[int, int]:
    """Draw uint8 (n, h, w, c) row by row into a file; the sheet's size.

    Captions are below the images; one that a whole row shares is beside the row.
    """
    count, height, width, channels = images.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    scale = max(1, math.ceil(SMALLEST / width))
    size = (width * scale, height * scale)
    font, bold = ImageFont.load_default(13), ImageFont.load_default(17)
    below = captions
    by_row = [below[start : start + columns] for start in range(0, len(below), columns)]
    rows: list[str] = []
    if columns > 1 and all(len({*row}) == 1 for row in by_row):
        rows, below = [row[0] for row in by_row], ()
    top = GAP + (30 if title else 0)
    aside = math.ceil(max((bold.getlength(name) for name in rows), default=-GAP)) + GAP
    step = (size[0] + GAP, size[1] + (20 if below else 0) + GAP)
    whole = (aside + GAP + columns * step[0], top + math.ceil(count / columns) * step[1])
    sheet = Image.new("RGB", whole, PAPER)
    draw = ImageDraw.Draw(sheet)
    if title:
        draw.text((GAP, GAP), _fitted(title, sheet.width - 2 * GAP, bold), INK, font=bold)
    for number, name in enumerate(rows):
        draw.text((aside, top + number * step[1] + size[1] / 2), name, INK, font=bold, anchor="rm")
    for number, pixels in enumerate(images):
        row, column = divmod(number, columns)
        left, upper = aside + GAP + column * step[0], top + row * step[1]
        image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
        sheet.paste(image.resize(size, Image.Resampling.NEAREST), (left, upper))
        draw.rectangle((left - 1, upper - 1, left + size[0], upper + size[1]), outline=EDGE)
        if below:
            place = (left + size[0] / 2, upper + size[1] + 3)
            draw.text(place, _fitted(below[number], size[0], font), INK, font=font, anchor="ma")
    with atomic_write(path) as temporary:
        sheet.save(temporary, format=Image.registered_extensions()[path.suffix])
    return sheet.size


def _fitted(text: str, width: float, font: Any) -> str:
    """The text, or as much of it as there is room for."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "\u2026") > width:
        text = text[:-1]
    return text + "\u2026"
