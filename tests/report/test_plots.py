"""What can be measured of plots: where things stand, what they are called, how large they are."""

import pytest
from report.made_runs import make_dataset, make_run

from zoo_core.report import look, plots, write
from zoo_core.report.write import build_report
from zoo_core.runs.summary import ClassScore


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would have been saved."""
    figures = []
    monkeypatch.setattr(look, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_bars_of_classes_say_of_how_many_images(drawn):
    scores = [ClassScore("rare", 1.0, 2), ClassScore("common", 0.5, 12_345)]
    plots.draw_classes("x.png", scores, "x")
    assert {"100.0 % of 2", "50.0 % of 12,345"} <= set(texts(drawn[0].axes[0]))


def test_a_grid_of_many_images_has_pages_that_the_report_lists(tmp_path, monkeypatch):
    run = make_run(tmp_path, classes=3, count=60, done=1)
    data, sides = make_dataset(classes=3, count=60, size=8), []

    def save(figure, path):
        sides.append(look.DPI * max(figure.get_size_inches()))
        path.parent.mkdir(exist_ok=True)
        path.touch()

    monkeypatch.setattr(look, "save_figure", save)
    monkeypatch.setattr(write, "SHOWN", 60)
    pages = {path.name for path in build_report(run, data).plots}
    assert {"predictions.png", "predictions-page2.png"} <= pages
    assert max(sides) <= 1700
    text = (run.path / "report.md").read_text()
    assert text.count("(pictures/predictions-page2.png)") == 1
    monkeypatch.setattr(write, "SHOWN", 8)
    report = build_report(run, data)
    assert "page2" not in report.path.read_text()
    assert not (run.path / "pictures" / "predictions-page2.png").exists()


def test_many_parameters_of_a_search_stand_in_rows(drawn):
    figure, panels = look.panels_of(7, 5, 4, "x")
    assert len(panels) == len(figure.axes) == 7 and figure.get_figwidth() == 15
