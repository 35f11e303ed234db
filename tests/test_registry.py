"""Names find entries; names that do not say what would."""

import pytest

import zoo
from zoo_core.io.errors import AmbiguousName, UnknownName
from zoo_core.spec.entries import PluginRecord, with_provider
from zoo_core.spec.plugins import Plugins
from zoo_core.spec.registry import Catalog, Registry, find_models


def plugin(name, *models, state="ok"):
    record = PluginRecord(
        id=name, value="a", distribution=f"zoo-{name}", version="1.0", state=state
    )
    entries = [
        zoo.ModelEntry(name=model, target="a:b", summary=f"The {model}", **options)
        for model, options in models
    ]
    return PluginRecord(
        **{**vars(record), "contributed": {"models": with_provider(entries, record.provider)}},
    )


@pytest.fixture
def models():
    records = (
        plugin("red", ("fox", {}), ("same", {"tags": ("small",)})),
        plugin("blue", ("whale", {"kinds": ("generation",), "dataset": "mnist"}), ("same", {})),
    )
    return Registry(Plugins(records, {})).models


def test_a_name_or_a_qualified_name_finds_the_entry(models):
    assert models.get("fox") is models.get("red/fox")
    assert models.get("blue/same").provider.plugin == "blue"
    assert "fox" in models
    assert "blue/fox" not in models


def test_a_name_of_two_plugins_is_an_error_that_names_both(models):
    with pytest.raises(AmbiguousName) as caught:
        models.get("same")
    assert "plugin 'red' (zoo-red 1.0)" in str(caught.value)
    assert "plugin 'blue' (zoo-blue 1.0)" in str(caught.value)
    assert caught.value.hint == "choose one: red/same or blue/same"
    assert models.labels() == ["fox", "blue/same", "red/same", "whale"]


def test_an_unknown_name_suggests_a_similar_one(models):
    with pytest.raises(UnknownName, match="there is no model 'fax'") as caught:
        models.get("fax")
    assert caught.value.hint == "did you mean fox?"
    with pytest.raises(UnknownName) as caught:
        models.get("blue/fox")
    assert "red/fox" in caught.value.hint or "fox" in caught.value.hint
    with pytest.raises(UnknownName) as caught:
        models.get("zzzzzz")
    assert caught.value.hint == "zoo list shows what there is"


def test_an_unknown_name_mentions_a_failed_plugin_that_may_provide_it():
    records = (plugin("red", ("fox", {})), plugin("green", state="failed"))
    with pytest.raises(UnknownName) as caught:
        Registry(Plugins(records, {})).models.get("frog")
    assert "a plugin that could not be loaded may provide it (green)" in caught.value.hint
    with pytest.raises(UnknownName) as caught:
        Registry(Plugins((plugin("green", state="disabled"),), {})).models.get("frog")
    assert caught.value.hint == "a plugin that is disabled may provide it (green): zoo plugins"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["fox", "same", "same", "whale"]),
        ({"text": "f*"}, ["fox"]),
        ({"text": "blue/*"}, ["same", "whale"]),
        ({"text": "WHALE"}, ["whale"]),
        ({"text": "the fo"}, ["fox"]),
        ({"text": "small"}, ["same"]),
        ({"kind": "generation"}, ["whale"]),
        ({"tag": "small"}, ["same"]),
        ({"dataset": "mnist"}, ["whale"]),
        ({"plugin": "red"}, ["fox", "same"]),
        ({"plugin": "red", "tag": "small", "text": "sa?e"}, ["same"]),
        ({"text": "nothing"}, []),
    ],
)
def test_filters(models, filters, names):
    assert [entry.name for entry in find_models(models, **filters)] == names


@pytest.mark.parametrize(
    ("sort", "name", "package"),
    [
        ("augmentation", "trivial", "zoo-augment"),
        ("command", "features", "zoo-frozen"),
        ("command", "generate", "zoo-generate"),
        ("command", "data check", "zoo-check"),
    ],
)
def test_a_name_of_a_package_that_is_not_installed_says_which_package_has_it(sort, name, package):
    with pytest.raises(UnknownName, match=f"no {sort} '{name}'") as caught:
        Catalog(sort, (), Plugins((), {})).get(name)
    assert f"pip install {package}" in caught.value.hint
