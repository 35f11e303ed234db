"""Damaged files of runs and searches: one sentence in every command that reads them."""

from __future__ import annotations

import copy
import json
import random
from contextlib import suppress

import pytest
from report.made_runs import make_run, make_search
from zoo_tune.search import Search

from zoo_core.io.errors import ZooError
from zoo_core.report.write import build_report
from zoo_core.runs.compare import compare, row_of
from zoo_core.runs.run import Run, SearchFolder
from zoo_core.runs.summary import summarize_any, summarize_search
from zoo_core.train.runner import completed
from zoo_core.weights.references import of_run

DEEP = '{"format": 1, "model": ' + "[" * 100_000 + "]" * 100_000 + "}"
NUMBERS = [7, -1, 1e999, float("nan"), True, 2**80]
JUNK = [None, *NUMBERS, "", "x" * 20_000, "\x1b", [], [[]], {}, {"a": {}}]


def changed(change):
    def write(run: Run) -> None:
        document = json.loads(run.settings_file.read_text())
        change(document)
        run.settings_file.write_text(json.dumps(document))

    return write


def line(text: str):
    return lambda run: run.metrics_file.write_text(f"{text}\n" + run.metrics_file.read_text())


DAMAGES = {
    "environment-null": changed(lambda document: document.update(environment=None)),
    "no-model": changed(lambda document: document.pop("model")),
    "status-7": changed(lambda document: document.update(status=7)),
    "no-result": changed(lambda document: document.pop("result")),
    "recipe-list": changed(lambda document: document.update(recipe=[])),
    "confusion": changed(lambda d: d["result"]["test"].update(confusion=[[1], [2, 3]])),
    "bytes": changed(lambda d: d["result"]["model"].update(bytes="many")),
    "deep": lambda run: run.settings_file.write_text(DEEP),
    "large": lambda run: run.settings_file.write_text(" " * 100_000_000 + "{}"),
    "line-list": line("[]"),
    "line-no-epoch": line('{"train_loss": 1}'),
    "line-epoch-nan": line('{"epoch": NaN}'),
    "line-deep": line("[" * 100_000),
    "line-large": lambda run: run.metrics_file.write_text("1" * 100_000_000),
}
IN_METRICS = [name for name in DAMAGES if name.startswith("line")]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_a_sentence_and_the_others_are_listed(name, tmp_path, zoo_here, json_here):
    root = tmp_path / "runs"
    run = make_run(root, model="bad")
    good = make_run(root, model="good", time="20261116T101501Z")
    DAMAGES[name](run)
    rows = {row["run"]: row["status"] for row in json_here("runs")}
    assert rows == {run.name: "damaged", good.name: "complete"}
    zoo_here("runs")
    commands = [("report", run.name), ("info", run.name)]
    if name not in IN_METRICS:  # what a resume of a complete run, or weights, do not look at
        commands += [("train", "--resume", run.name), ("evaluate", run.name)]
        commands += [("publish", run.name, "--to", "file:there", "--license", "mit")]
    for command in commands:
        said = zoo_here(*command, status=1).stderr
        assert "Error: " in said, command
        assert "Traceback" not in said
        assert "Error" not in said.replace("Error: ", "", 1), f"{command}: {said}"
        assert len(said) < 1500
        assert run.name in said
    assert "Skipped: " in zoo_here("compare", run.name, good.name, status=2).stderr
    assert not list((tmp_path / "cache" / "errors").glob("*"))


def test_a_metric_that_is_not_a_number_is_no_damage(tmp_path, json_here):
    run = make_run(tmp_path / "runs", done=1, status="interrupted")
    run.append_metrics({"epoch": 2, "train_loss": float("nan")})
    with run.metrics_file.open("a") as file:
        file.write('{"epoch": 3, "tra')  # where a kill cut it
    assert [found["epoch"] for found in run.metrics()] == [1, 2]
    assert json_here("runs")[0]["epochs"] == 2


SEARCH = {
    "status-7": lambda document: document.update(status=7),
    "no-plan": lambda document: document.pop("plan"),
    "plan-list": lambda document: document.update(plan=[]),
    "trials-text": lambda document: document["plan"].update(trials="three"),
    "environment": lambda document: document.update(environment=7),
}


@pytest.mark.parametrize("name", [*SEARCH, "line-list", "line-deep", "line-loss", "deep"])
def test_a_damaged_search_is_a_sentence_and_the_others_are_listed(
    name, tmp_path, zoo_here, json_here
):
    root = tmp_path / "runs"
    search, good = make_search(root), make_run(root)
    if name in SEARCH:
        changed(SEARCH[name])(search)
    elif name == "deep":
        search.settings_file.write_text(DEEP)
    else:
        text = search.trials_file.read_text()
        bad = {"line-list": "[]", "line-deep": "[" * 100_000, "line-loss": text.partition("\n")[0]}
        bad["line-loss"] = bad["line-loss"].replace('"loss": ', '"loss": "much", "_": ', 1)
        search.trials_file.write_text(f"{bad[name]}\n{text}")
    rows = {row["run"]: row["status"] for row in json_here("runs")}
    assert rows == {search.name: "damaged", good.name: "complete"}
    for command in (("report", search.name), ("tune", "--resume", search.name)):
        said = zoo_here(*command, status=1).stderr
        assert "Error: " in said, command
        assert "Traceback" not in said
    assert not list((tmp_path / "cache" / "errors").glob("*"))


def mutated(document, draw: random.Random):
    """The document with one value, however deep, replaced by junk or removed."""
    document = copy.deepcopy(document)
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.7:
            place = inner
            continue
        if draw.random() < 0.3:
            del place[key]
        else:
            place[key] = draw.choice(JUNK)
        return document


def readers(run: Run):
    yield lambda: summarize_any(run)
    yield lambda: compare([row_of(run), row_of(run)])[0].labels
    yield lambda: build_report(run)
    yield lambda: of_run(run)
    yield lambda: completed(run)


@pytest.mark.parametrize("seed", range(4))
def test_no_value_in_a_run_raises_anything_but_a_sentence(tmp_path, seed, monkeypatch):
    monkeypatch.setattr("zoo_core.report.write.Plotter.draw_all", lambda self: [])  # takes seconds
    draw, run = random.Random(seed), make_run(tmp_path)
    document, lines = json.loads(run.settings_file.read_text()), run.metrics()
    for number in range(100):
        run.settings_file.write_text(json.dumps(mutated(document, draw)))
        if number % 2:
            run.settings_file.write_text(json.dumps(document))
            text = "".join(json.dumps(one) + "\n" for one in mutated(lines, draw))
            run.metrics_file.write_text(text)
        for read in readers(run):
            with suppress(ZooError):
                read()


@pytest.mark.parametrize("seed", range(2))
def test_no_value_in_a_search_raises_anything_but_a_sentence(tmp_path, seed):
    draw, search = random.Random(seed), make_search(tmp_path)
    document, lines = json.loads(search.settings_file.read_text()), search.trial_lines()
    for _ in range(100):
        search.settings_file.write_text(json.dumps(mutated(document, draw)))
        text = "".join(json.dumps(one) + "\n" for one in mutated(lines, draw))
        search.trials_file.write_text(text)
        for read in (SearchFolder(search.path).trial_lines, Search(search.path).trials):
            with suppress(ZooError):
                read()
        with suppress(ZooError):
            summarize_search(search)
        with suppress(ZooError):
            Search(search.path).plan()
