"""One picture file of any common sort as an array of bytes, always the same way.

Training reads folders and prediction reads single pictures through the same two functions.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from zoo_core.errors import DataError

# Formats by name, because Pillow would also start Ghostscript for a file that claims to be EPS.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (
    ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
MOST_PIXELS = 1 << 26  # 67 million, 200 MB of RGB; more is a mistake or an attack
GREY_MODES = frozenset(("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"))


def open_picture(path: str | os.PathLike[str]) -> Image.Image:
    """Open a picture file without decoding it yet; the size in its header is checked."""
    try:
        image = Image.open(path, formats=FORMATS)
    except Image.DecompressionBombError:
        raise DataError(f"{Path(path)} has far too many pixels", _SMALLER) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise unreadable(path, error) from error
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise DataError(f"{Path(path)} is huge: {image.width} x {image.height} pixels", _SMALLER)
    return image


def read_picture(path: str | os.PathLike[str], size: int, channels: int) -> np.ndarray:
    """Open, decode and fit a picture file: uint8 (size, size, channels)."""
    with open_picture(path) as image:
        try:
            return fit_picture(image, size, channels)
        except Exception as error:  # a damaged file can make Pillow raise almost anything
            raise unreadable(path, error) from error


def fit_picture(image: Image.Image, size: int, channels: int) -> np.ndarray:
    """The largest centred square of a picture, resized (bilinear, antialiased): uint8 (h, w, c).

    The picture is turned as its EXIF data says. Transparent parts become white, 16 bits become 8.
    """
    image = ImageOps.exif_transpose(image)
    image = _flat(image).convert("L" if channels == 1 else "RGB")
    # The square is cut first: a picture of 1 x 1,000,000 pixels must not grow before it is cut.
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    if (side, side) != image.size:
        image = image.crop((left, top, left + side, top + side))
    if side != size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(size, size, channels)


def unreadable(path: str | os.PathLike[str], error: BaseException) -> DataError:
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    elif "cannot identify" in str(error):
        reason = "it is no picture that we know"
    else:
        reason = str(error) or type(error).__name__
    return DataError(
        f"{Path(path)} cannot be read as a picture: {reason}", "repair it, or take it out"
    )


_SMALLER = f"make it smaller: at most {MOST_PIXELS:,} pixels are read"


def _flat(image: Image.Image) -> Image.Image:
    """A picture of 8 bits without transparency or palette."""
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
