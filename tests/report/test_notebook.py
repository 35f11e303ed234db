"""What a notebook shows: one or two lines of text, and HTML that is small, whole and safe."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from report.made_runs import make_run

import zoo
from zoo_core.data.preprocess import Preprocess
from zoo_core.report import notebook
from zoo_core.train.runner import Result, train
from zoo_core.use.load import About
from zoo_core.use.predict import Prediction, Predictions

EVIL = "<script>alert('x')</script>\"><img src=x onerror=y>"
PIXELS = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)


def html_of(shown):
    """Its HTML, which needs nothing else, and its text, which is short."""
    assert len(repr(shown)) < 400 and repr(shown).count("\n") < 2
    html = shown._repr_html_()
    assert len(html) < 500_000
    assert "http" not in html and "<script" not in html and "onerror=y>" not in html
    assert html.count("<img") == html.count("src='data:image/png;base64,")
    assert "background:white" not in html and "color:black" not in html  # dark notebooks too
    for tag in ("div", "table", "tr", "td", "span"):
        assert html.count(f"<{tag}") == html.count(f"</{tag}>")
    return html


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    settings = {"epochs": 2, "data": {"train_size": 40, "test_size": 20, "channels": 1}}
    root = tmp_path_factory.mktemp("runs")
    return train("fcn_numpy", "synthetic", settings=settings, quiet=True, runs=root)


@pytest.mark.renders
def test_a_result_and_its_run_show_figures_and_curves(result):
    assert re.fullmatch(
        r"Result\(.*fcn_numpy-synthetic-\w+: loss [\d.]+, accuracy .* s\)", repr(result)
    )
    for shown in (result, result.run):
        html = html_of(shown)
        assert "fcn_numpy on synthetic" in html and "<img" in html
        assert "test accuracy" in html and str(result.path) in html


def test_an_unfinished_run_shows_what_there_is(tmp_path):
    html = html_of(make_run(tmp_path, done=0, status="running"))
    assert "running" in html and "<img" not in html


def test_a_run_whose_files_are_gone_is_shown_as_text(tmp_path):
    run = make_run(tmp_path, done=1)
    run.settings_file.unlink()
    assert run._repr_html_() is None
    assert Result(run, {"accuracy": 0.5, "confusion": [[1]]}, 1.0, None)._repr_html_() is None


def said(image, classes, given=None):
    """A prediction of these classes."""
    answer = {"classes": [{"name": name, "probability": share} for name, share in classes]}
    words = tuple(f"{name} {100 * share:.1f} %" for name, share in classes)
    return Prediction(image, answer, words, given)


def test_without_matplotlib_figures_are_shown_and_no_curves(tmp_path, monkeypatch):
    run = make_run(tmp_path, done=2)
    monkeypatch.setitem(sys.modules, "zoo_core.report.plots", None)
    html = html_of(run)
    assert "test accuracy" in html and "<img" not in html


def test_the_model_of_strangers_is_escaped_and_bounded():
    entry = replace(zoo.info("mlp"), summary=EVIL)
    classes = (EVIL, "x" * 10_000, *map(str, range(1000)))
    how = Preprocess(8, 3, (0.5,), (0.5,))
    about = About(
        entry,
        {"a": EVIL},
        zoo.Targets("class", classes),
        how,
        {"test_accuracy": 0.5},
        "ab" * 32,
        EVIL,
        "data",
    )
    html = html_of(about)
    assert "&lt;script&gt;" in html and "50.00 %" in html and len(html) < 10_000
    assert "1002 classes" in repr(about) and "test accuracy 50.00 %" in repr(about)
    assert "untrained" in repr(zoo.load("fcn_numpy", pretrained=False).zoo)
    assert "&lt;script&gt;" in html_of(entry)


def test_predictions_show_images_and_bars(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "cat.png")
    image, gone = Image.fromarray(PIXELS), tmp_path / "gone.png"
    given = [tmp_path / "cat.png", PIXELS, PIXELS[:, :, :1], PIXELS[:, :, 0], image, gone]
    some = Predictions(said(EVIL, ((EVIL, 0.75), ("dog", 0.25)), one) for one in given)
    html = html_of(some)
    assert html.count("<img") == 5 and html.count("75.0 %") == 6
    assert "&lt;script&gt;" in html and image.size == (40, 30)
    assert html_of(some[0]).count("<img") == 1
    assert html_of(said(str(tmp_path / "cat.png"), (("cat", 1.0),))).count("<img") == 1
    many = Predictions(some * 50)
    assert html_of(many).count("75.0 %") == notebook.SHOWN
    assert "and 288 more" in many._repr_html_() and repr(many).endswith("and 298 more]")
    assert repr(Predictions()) == "[]" and html_of(Predictions())


def test_predict_gives_what_a_notebook_can_show(result):
    found = zoo.predict(result.path, [PIXELS, Image.fromarray(PIXELS)])
    assert found == [said(one.image, one.classes) for one in found]  # a list, as before
    assert html_of(found).count("<img") == 2
    many = zoo.predict(result.path, np.stack([PIXELS] * 20))
    assert [one.given is None for one in many] == [False] * 12 + [True] * 8


def test_other_objects_are_a_line_or_two():
    recipe = zoo.Recipe(lr=0.1, model={"hidden": (4,)})
    assert repr(recipe) == "Recipe(lr=0.1, model={'hidden': (4,)})"
    assert eval(repr(recipe), {"Recipe": zoo.Recipe}) == recipe
    data = replace(
        zoo.open_dataset("synthetic"), targets=zoo.Targets("class", tuple(map(str, range(1000))))
    )
    assert len(repr(data)) < 200 and "1000 classes" in repr(data)
    assert repr(zoo.info("mlp")).startswith("ModelEntry(mlp: Multi-layer perceptron")
