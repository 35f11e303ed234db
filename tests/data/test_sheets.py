"""Sheets of images: pages of a bounded size that show every image once, with a title."""

import numpy as np
import pytest
from PIL import Image

from zoo_core.data import sheets
from zoo_core.data.sheets import PAGE, first_page, write_sheet


def coloured(count, size):
    """Images of one colour each, without blue, which ink and paper have."""
    colours = np.stack([np.arange(count) % 200, np.arange(count) // 200, np.zeros(count)], 1)
    return np.broadcast_to(colours.astype(np.uint8)[:, None, None], (count, size, size, 3))


def shown_on(pages):
    """The numbers of the images on these pages, from top to bottom."""
    found = []
    for page in pages:
        with Image.open(page) as sheet:
            assert max(sheet.size) <= PAGE
            red, green, blue = np.moveaxis(np.asarray(sheet, int)[::7, ::7], 2, 0)
        found += dict.fromkeys((red + 200 * green)[blue == 0].tolist())
    return found


@pytest.mark.parametrize(
    ("count", "size", "columns", "captions", "most"),
    [
        (500, 32, None, False, 3), (300, 32, 10, True, 3), (130, 150, None, True, 2),
        (80, 150, 8, True, 1), (1, 2000, None, False, 1), (3, 1, 12, False, 1),
    ],
)  # fmt: skip
def test_every_image_is_on_one_page_and_no_page_is_a_strip(
    tmp_path, count, size, columns, captions, most
):
    names = [f"class {i // (columns or 7)}" for i in range(count)] if captions else []
    images = coloured(count, size)
    pages = write_sheet(tmp_path / "x.png", images, names, columns=columns, title="x")
    assert [page.name for page in pages] == ["x.png", "x-page2.png", "x-page3.png"][:most]
    assert {first_page(page.name) for page in pages} == {"x.png"}
    assert sorted(shown_on(pages)) == list(range(count))


def test_images_keep_their_order_over_the_pages(tmp_path):
    pages = write_sheet(tmp_path / "x.png", coloured(100, 32), columns=1)
    assert len(pages) == 7
    assert shown_on(pages) == list(range(100))


def test_only_names_of_pages_name_another_page():
    assert first_page("samples-page12.png") == "samples.png"
    for name in ("samples-002.png", "page2.png", "samples.png", "x-page2-y.png"):
        assert first_page(name) == name


def test_a_title_is_whole_even_above_one_small_image(tmp_path, monkeypatch):
    drawn = []
    write = sheets.ImageDraw.ImageDraw.multiline_text

    def look(self, place, text, *more, **how):
        drawn.append(text)
        assert self.multiline_textbbox(place, text, font=how["font"])[2] <= self.im.size[0]
        return write(self, place, text, *more, **how)

    monkeypatch.setattr(sheets.ImageDraw.ImageDraw, "multiline_text", look)
    title = "acgan trained on cifar10: automobile, seed 1234567"
    write_sheet(tmp_path / "x.png", coloured(1, 8), title=title)
    write_sheet(tmp_path / "x.png", coloured(300, 32), title=title)
    assert drawn[0].replace("\n", " ") == title
    assert drawn[1] == f"{title} (page 1 of 2)"
