"""Sheets of small images to look at, in pages that fit a screen.

A sheet of more images than a page holds goes on in NAME-page2.png, NAME-page3.png and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from zoo_core.io.files import atomic_write

PAGE = 1600  # pixels of a page's longer side, at most
PAPER, INK, EDGE = (255, 255, 255), (60, 60, 67), (225, 225, 230)
GAP, LINE, CAPTION = 10, 22, 20  # pixels: between images, of a line of the title, of a caption
SMALLEST, THUMB = 84, 128  # pixels of an image: small ones are enlarged, others reduced to these
BESIDE, TITLE = 240, 480  # pixels: of a row's name at most, of the narrowest sheet with a title


def pages(path: Path, count: int, each: int) -> list[tuple[Path, slice]]:
    """The files for `count` images of which a page holds `each`, and which of them are on it."""
    starts = range(0, max(count, 1), max(each, 1))
    names = [path, *(path.with_stem(f"{path.stem}-page{n + 2}") for n in range(len(starts) - 1))]
    return [(name, slice(i, i + each)) for name, i in zip(names, starts, strict=True)]


def page_title(title: str, number: int, of: int) -> str:
    return f"{title} (page {number} of {of})" if title and of > 1 else title


def first_page(name: str) -> str:
    """The file that a page continues: samples.png of samples-page2.png."""
    return re.sub(r"-page\d+(?=\.\w+$)", "", name)


def write_sheet(
    path: Path,
    images: np.ndarray,
    captions: Sequence[str] = (),
    *,
    columns: int | None = None,
    title: str = "",
) -> list[Path]:
    """Draw uint8 (n, h, w, c) row by row into a file, or into as many as they need; their paths.

    Captions are below the images, line by line; one that a whole row shares is beside the row.
    columns: as many as make a square where it is None.
    """
    count, height, width = images.shape[:3]
    bold = ImageFont.load_default(17)
    scale = max(1, math.ceil(SMALLEST / width))
    smallest = width * scale if scale > 1 else min(width, THUMB)
    across = min(columns or math.ceil(math.sqrt(count)), count)
    by_row = [captions[start : start + across] for start in range(0, len(captions), across)]
    beside: list[str] = []
    if columns and across > 1 and all(len({*row}) == 1 for row in by_row):
        beside, captions = [_fitted(row[0], BESIDE, bold) for row in by_row], ()
    aside = math.ceil(max((bold.getlength(name) for name in beside), default=-GAP)) + GAP
    room = (PAGE - aside - GAP, PAGE - 4 * LINE - 2 * GAP)
    if columns is None:  # otherwise a row means something, and keeps its length
        across = min(across, max(1, room[0] // (smallest + GAP)))
    under = GAP + CAPTION * max((text.count("\n") + 1 for text in captions), default=0)
    # As large as one page allows; where that is too small there are several.
    on_one = (room[1] // math.ceil(count / across) - under) / height
    factor = min(scale, (room[0] // across - GAP) / width, max(on_one, smallest / width))
    size = (max(1, int(width * factor)), max(1, int(height * factor)))
    step = (size[0] + GAP, size[1] + under)
    whole = aside + GAP + across * step[0]
    if title:
        whole = max(whole, min(TITLE, math.ceil(bold.getlength(title)) + 2 * GAP))
    for longest in (title, page_title(title, 99, 99)):
        lines = len(_wrapped(longest, whole - 2 * GAP, bold))
        top = GAP + (lines * LINE + GAP if title else 0)
        parts = pages(path, count, across * max(1, (PAGE - top) // step[1]))
        if len(parts) == 1:
            break
    for number, (file, part) in enumerate(parts, 1):
        some, below = images[part], captions[part]
        sheet = Image.new("RGB", (whole, top + math.ceil(len(some) / across) * step[1]), PAPER)
        draw = ImageDraw.Draw(sheet)
        told = _wrapped(page_title(title, number, len(parts)), whole - 2 * GAP, bold)
        draw.multiline_text((GAP, GAP), "\n".join(told), INK, font=bold)
        names = beside[part.start // across : part.stop // across]
        for row, name in enumerate(names):
            draw.text((aside, top + row * step[1] + size[1] / 2), name, INK, font=bold, anchor="rm")
        for place, pixels in enumerate(some):
            row, column = divmod(place, across)
            left, upper = aside + GAP + column * step[0], top + row * step[1]
            _paste(sheet, pixels, size, (left, upper))
            draw.rectangle((left - 1, upper - 1, left + size[0], upper + size[1]), outline=EDGE)
            if below:
                _caption(draw, below[place], size[0], (left + size[0] / 2, upper + size[1] + 3))
        with atomic_write(file) as temporary:
            sheet.save(temporary, format=Image.registered_extensions()[file.suffix])
    return [file for file, _ in parts]


def _paste(sheet: Image.Image, pixels: np.ndarray, size: tuple[int, int], at: Any) -> None:
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    larger = size[0] >= image.width  # whole pixels stay whole; fewer of them are their mean
    how = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
    sheet.paste(image.resize(size, how), at)


def _caption(draw: ImageDraw.ImageDraw, text: str, width: int, at: tuple[float, float]) -> None:
    font = ImageFont.load_default(13)
    for line, part in enumerate(text.split("\n")):
        place = (at[0], at[1] + line * CAPTION)
        draw.text(place, _fitted(part, width, font), INK, font=font, anchor="ma")


def _wrapped(text: str, width: float, font: Any) -> list[str]:
    """The text in lines of at most this many pixels."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_fitted(word, width, font))
    return lines


def _fitted(text: str, width: float, font: Any) -> str:
    """The text, or as much of it as there is room for."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "\u2026") > width:
        text = text[:-1]
    return text + "\u2026"
