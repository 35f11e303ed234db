"""A sheet of small pictures with a line of text under each, drawn with Pillow alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

PAPER, INK, EMPTY = (255, 255, 255), (60, 60, 67), (225, 225, 230)
GAP = 10
SMALLEST = 84  # pixels that a picture has on the sheet, at least


def picture_grid(
    images: np.ndarray,
    captions: Sequence[str] | None = None,
    *,
    columns: int | None = None,
    title: str = "",
) -> Image:
    """Draw uint8 (n, height, width, channels) row by row; small pictures become large pixels.

    Captions are below the pictures; where all of a row have the same one, it is beside the row.
    """
    from PIL import Image, ImageDraw, ImageFont

    count, height, width, channels = images.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    scale = max(1, math.ceil(SMALLEST / width))
    size = (width * scale, height * scale)
    font, bold = ImageFont.load_default(13), ImageFont.load_default(17)
    rows = row_names(captions, columns)
    captions = None if rows else captions
    line = 20 if captions else 0
    top = GAP + (30 if title else 0)
    aside = math.ceil(max((bold.getlength(name) for name in rows), default=-GAP)) + GAP
    step = (size[0] + GAP, size[1] + line + GAP)
    sheet = Image.new(
        "RGB", (aside + GAP + columns * step[0], top + math.ceil(count / columns) * step[1]), PAPER
    )
    draw = ImageDraw.Draw(sheet)
    if title:
        draw.text((GAP, GAP), fitted(title, sheet.width - 2 * GAP, bold), INK, font=bold)
    for number, name in enumerate(rows):
        place = (aside, top + number * step[1] + size[1] / 2)
        draw.text(place, name, INK, font=bold, anchor="rm")
    for number, pixels in enumerate(images):
        row, column = divmod(number, columns)
        left, upper = aside + GAP + column * step[0], top + row * step[1]
        picture = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
        sheet.paste(picture.resize(size, Image.Resampling.NEAREST), (left, upper))
        draw.rectangle((left - 1, upper - 1, left + size[0], upper + size[1]), outline=EMPTY)
        if captions:
            text = fitted(captions[number], size[0], font)
            middle = left + size[0] / 2
            draw.text((middle, upper + size[1] + 3), text, INK, font=font, anchor="ma")
    return sheet


def row_names(captions: Sequence[str] | None, columns: int) -> list[str]:
    """The caption of each row, where each has only one; otherwise none."""
    if not captions or columns < 2:
        return []
    rows = [captions[start : start + columns] for start in range(0, len(captions), columns)]
    return [row[0] for row in rows] if all(len(set(row)) == 1 for row in rows) else []


def fitted(text: str, width: float, font: Any) -> str:
    """The text, or as much of it as there is room for."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "\u2026") > width:
        text = text[:-1]
    return text + "\u2026"
