"""Images inside a page: small, as data: addresses."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

import zoo
from zoo import kit

SMALL, THUMB, WIDEST = 64, 160, 1200  # pixels


def embedded(pixels: np.ndarray) -> str:
    """An image of a dataset, uint8 (h, w, c): small ones as they are, others as thumbnails."""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    if max(image.size) <= SMALL:
        return _address(image, "PNG", optimize=True)
    image.thumbnail((THUMB, THUMB))
    return _address(image, "WEBP", quality=80)


def picture(path: Path) -> str:
    """A plot that training or a plugin drew, in 256 colours; "" where it cannot be read."""
    try:
        with kit.open_image(path) as image:
            image.load()
            made = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, zoo.ZooError) as error:
        kit.warn(f"{path.name} is left out: {kit.describe(error)}")
        return ""
    made.thumbnail((WIDEST, 4 * WIDEST))
    return _address(made.quantize(256), "PNG", optimize=True)


def _address(image: Image.Image, kind: str, **how: int) -> str:
    file = io.BytesIO()
    image.save(file, kind, **how)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
