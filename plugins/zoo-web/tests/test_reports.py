"""zoo report --html and zoo compare --html: one file each, with the figures that the zoo prints."""

import json
import re

import pytest
from fixtures.html import TAGS, Page

import zoo
from zoo import kit

MORE = {"style", "img", "progress", "details", "summary"}


@pytest.fixture(scope="module")
def other(made):
    """A run of another model on the same images."""
    how = {"epochs": 2, "batch_size": 8, "lr": 0.01}
    data, runs = str(made.images), made.run.parent
    return zoo.train("fcn_numpy", data, runs=runs, name="other", quiet=True, **how).path


@pytest.fixture(scope="module")
def files(made, other, tmp_path_factory):
    """A report of a run, of a search, and a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    search = zoo.tune(
        "fcn_numpy", str(made.images), trials=3, epochs=2, runs=made.run.parent, quiet=True
    )
    return {
        "report": zoo.report_html(made.run, folder / "report.html"),
        "search": zoo.report_html(search.path, folder / "search.html"),
        "compare": zoo.compare_html(made.run, other, output=folder / "compare.html"),
    }


@pytest.fixture
def pages(files):
    return {name: Page(path) for name, path in files.items()}


def charts(path):
    """What the charts of a page read out: title -> series."""
    found = {}
    for figure in re.findall(r'<figure class="chart" data-chart=.*?</b>', path.read_text("utf-8")):
        data, title = re.fullmatch(r'.*?data-chart="(.*?)".*<b>(.*)</b>', figure).groups()
        found[title] = json.loads(data.replace("&#34;", '"'))["series"]
    return found


def test_a_page_is_one_file_that_asks_for_nothing(files, pages):
    for name, page in pages.items():
        assert page.tags <= TAGS | MORE, page.tags - TAGS - MORE
        for link in page.links:
            inside = link.startswith("#") and link[1:] in page.ids
            assert inside or link.startswith("data:image/"), (name, link)
        assert not [one for one in page.attributes if one == "style" or one.startswith("on")]
        head = files[name].read_text("utf-8").partition("</head>")[0]
        assert "default-src &#39;none&#39;" in head and "connect-src &#39;none&#39;" in head
        assert "unsafe-inline" not in head


def test_a_report_shows_strange_names_as_they_are(made, files, pages):
    for name in made.names:
        assert name in pages["report"].shown
    assert "{{ 49 }}" not in pages["report"].shown
    assert "<img src=x" not in files["report"].read_text("utf-8")


def test_a_report_has_the_figures_of_zoo_evaluate(made, pages):
    found, shown = zoo.evaluate(made.run), pages["report"].shown
    low, high = found["intervals"]["accuracy"]
    told = f"{100 * found['accuracy']:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
    assert told in shown and f"{found['loss']:.4f}" in shown


def test_mistakes_and_predictions_have_the_names_of_their_files(made, pages):
    facts = kit.facts_of(made.run)
    shown = re.findall(r"test/.*?/\d+\.png", pages["report"].shown)
    assert set(shown) <= set(facts.names)
    wrong = [facts.names[place] for place in kit.surest_mistakes(facts)]
    assert wrong and shown[: len(wrong)] == wrong  # the surest stands first


def test_every_epoch_can_be_read_out(other, tmp_path):
    found = charts(zoo.report_html(other, tmp_path / "report.html"))
    rows = list(kit.Run(other).metrics())
    (line,) = (one for one in found["accuracy"] if one["name"] == "test")
    told = [(x, y) for _, _, x, y, _ in line["points"]]
    assert told == [(str(r["epoch"]), f"{100 * r['test_accuracy']:.2f} %") for r in rows]


def test_a_comparison_says_what_zoo_compare_says(made, other, files, pages):
    compared, shown = zoo.compare(made.run, other), pages["compare"].shown
    (group,) = compared.groups
    for sentence in kit.verdicts(group):
        assert sentence in shown
    for row in group.rows:
        assert f"{100 * row.summary.accuracy:.2f} %" in shown
    assert {one["name"] for one in charts(files["compare"])["accuracy"]} == set(group.labels)


def test_a_search_shows_each_trial_and_the_best_recipe(files, pages):
    found = charts(files["search"])
    assert len(found["Loss by lr"][0]["points"]) == 3 and len(found["loss"]) == 3
    assert "zoo train --config" in pages["search"].shown


def test_a_file_that_cannot_be_written_is_one_sentence(made, other, tmp_path):
    with pytest.raises(zoo.UsageError, match=r"report.txt must end in \.html"):
        zoo.report_html(made.run, tmp_path / "report.txt")
    (tmp_path / "file").touch()
    with pytest.raises(zoo.ZooError, match="could not be written"):
        zoo.compare_html(made.run, other, output=tmp_path / "file" / "compare.html")
    assert not (tmp_path / "report.txt").exists()
