"""zoo list --weights file:FOLDER and hf:ORG: what is published in a place that people share."""

import json

import pytest
from hub.parts import NAME, altered, files_of

import zoo
from zoo_core.io.errors import HubError, UsageError
from zoo_core.publish.publish import plan, publish
from zoo_core.use.load import answers


@pytest.fixture
def shared(run, numpy_run, tmp_path, monkeypatch):
    """A folder that somebody else has published to, two models at different depths."""
    place = tmp_path / "shared"
    publish(plan(run, f"file:{place / 'mlp'}"))
    publish(plan(numpy_run, f"file:{place / 'team' / 'fcn'}"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "somebody-elses.json"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another-cache"))
    return place


def test_a_folder_is_browsed_and_what_it_lists_can_be_loaded(shared, run, zoo_here):
    rows = zoo.list_weights(f"file:{shared}")
    assert [row["name"] for row in rows] == ["mlp.synthetic", "fcn_numpy.synthetic"]
    assert [row["reference"] for row in rows] == [f"file:{shared}/mlp", f"file:{shared}/team/fcn"]
    one = rows[0]
    assert one["model"] == "mlp" and one["dataset"] == "synthetic" and not one["here"]
    assert one["parameters"] == run.read()["parameters"]["total"] and one["bytes"] > 0
    assert one["metrics"]["test_accuracy"] == run.read()["result"]["test"]["accuracy"]
    assert answers(zoo.load(one["reference"])) == answers(zoo.load(run.path))
    shown = zoo_here("list", "--weights", f"file:{shared}").stdout
    for words in ("NAME", "mlp.synthetic", "PARAMETERS", "SCORE", f"file:{shared}/team/fcn"):
        assert words in shown
    listed = zoo_here("list", "--weights", f"file:{shared}", "--plugin", "numpy", "--json").stdout
    assert [row["plugin"] for row in json.loads(listed)] == ["numpy"]
    (itself,) = zoo.list_weights(f"file:{shared}/mlp")
    assert itself["reference"] == f"file:{shared}/mlp"


def test_a_repository_that_cannot_be_read_hides_no_other(shared, said):
    (shared / "mlp" / "main").write_text("not a revision")
    (shared / "program").mkdir()
    (shared / "program" / "main").write_text("int main() {}")
    assert [row["model"] for row in zoo.list_weights(f"file:{shared}")] == ["fcn_numpy"]
    (told,) = said()
    assert "does not name a revision" in told, "and nothing about what is not ours"


def test_a_place_that_is_empty_or_missing_is_one_sentence(tmp_path, hub, zoo_here):
    empty = zoo_here("list", "--weights", f"file:{tmp_path}")
    assert f"There are no weights in file:{tmp_path}; zoo publish RUN --to" in empty.stderr
    assert zoo_here("list", "--weights", "hf:nobody", "--json").stdout.strip() == "[]"
    with pytest.raises(HubError, match="there is no folder .*nowhere"):
        zoo.list_weights(f"file:{tmp_path / 'nowhere'}")
    with pytest.raises(UsageError, match="one revision"):
        zoo.list_weights("hf:org/name@v1")


def test_an_organisation_is_browsed_page_by_page(run, online, zoo_here):
    planned = plan(run, f"hf:{NAME}")
    for name in ("org/a", "org/b", "org/c", "others/d"):
        online.add(name, files_of(planned))
    online.add("org/unrelated", {"config.json": b"{}", "README.md": b'---\ntags: ["x"]\n---\n'})
    online.add("org/hidden", files_of(planned), private=True)
    rows = zoo.list_weights("hf:org")
    assert [row["reference"] for row in rows] == ["hf:org/a", "hf:org/b", "hf:org/c", f"hf:{NAME}"]
    asked = [route for _, route, _ in online.log if route == "/api/models"]
    assert len(asked) == 2, "two pages"
    assert not any("unrelated" in route for _, route, _ in online.log)
    assert answers(zoo.load(rows[0]["reference"])) == answers(zoo.load(run.path))
    assert "hf:org/c" in zoo_here("list", "--weights", "hf:org").stdout
    (one,) = zoo.list_weights("hf:org/b")
    assert one["sha256"] == planned.weights.sha256


def test_a_repository_of_an_organisation_that_contradicts_itself_is_left_out(run, online, said):
    bad = altered(plan(run, f"hf:{NAME}"), run.model_file.read_bytes(), sha256="00" * 32)
    online.add("org/bad", bad)
    assert [row["reference"] for row in zoo.list_weights("hf:org")] == [f"hf:{NAME}"]
    assert any("hf:org/bad is inconsistent" in sentence for sentence in said())
