"""Hooks are a public API: their signatures are pinned, documented, and each one is called."""

import inspect
import re

import pytest
from support import ROOT

import zoo
from zoo_core.spec import hooks as hookspecs

SIGNATURES = {
    "zoo_models": (),
    "zoo_datasets": (),
    "zoo_readers": (),
    "zoo_trainers": (),
    "zoo_augmentations": (),
    "zoo_manifests": (),
    "zoo_commands": (),
    "zoo_engines": (),
    "zoo_run_started": ("run",),
    "zoo_epoch_ended": ("run", "epoch", "metrics"),
    "zoo_run_ended": ("run", "result"),
    "zoo_run_failed": ("run", "error"),
}
SPECS = {name: spec for name, spec in vars(hookspecs).items() if name.startswith("zoo_")}


def test_hook_signatures_are_pinned():
    found = {name: tuple(inspect.signature(spec).parameters) for name, spec in SPECS.items()}
    assert found == SIGNATURES, "a changed hook breaks plugins: raise hookspecs.API, update docs"
    assert hookspecs.API == 1


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_is_documented_with_its_exact_signature(name):
    page = (ROOT / "docs" / "hooks.md").read_text()
    assert f"### `{name}({', '.join(SIGNATURES[name])})`" in page


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_has_a_test(name):
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    assert any(re.search(rf"def {name}\(", source) for source in sources), "no test implements it"


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_has_a_docstring_that_says_more_than_its_name(name):
    assert len(inspect.getdoc(SPECS[name]).split()) > 15


class Everything:
    """A plugin that implements every contribution hook."""

    @zoo.hookimpl
    def zoo_models(self):
        return (zoo.ModelEntry(name="m", target="a:b", summary="s"),)

    @zoo.hookimpl
    def zoo_datasets(self):
        yield zoo.DatasetEntry(name="d", target="a:b", summary="s")

    @zoo.hookimpl
    def zoo_readers(self):
        return [zoo.ReaderEntry(name="r", target="a:b", summary="s", suffixes=(".r",))]

    @zoo.hookimpl
    def zoo_trainers(self):
        return [zoo.TrainerEntry(name="t", target="a:b", summary="s")]

    @zoo.hookimpl
    def zoo_augmentations(self):
        return [zoo.AugmentationEntry(name="a", target="a:b", summary="s", example="a:1")]

    @zoo.hookimpl
    def zoo_manifests(self):
        return {"package:weights.json"}

    @zoo.hookimpl
    def zoo_commands(self):
        return [zoo.CommandEntry(name="c", target="a:b", help="h")]

    @zoo.hookimpl
    def zoo_engines(self):
        return [zoo.EngineEntry(name="e", target="a:b", summary="s")]


def test_contributions_of_all_sorts_arrive_with_their_provider():
    from zoo_core.spec.entries import PluginRecord
    from zoo_core.spec.plugins import _new_manager, _validate

    record = PluginRecord(id="p", value="a", distribution="d", version="1", state="ok")
    given = _validate(record, Everything(), _new_manager())["contributed"]
    sorts = ("models", "datasets", "readers", "trainers", "augmentations", "commands", "engines")
    assert [given[sort][0].name for sort in sorts] == ["m", "d", "r", "t", "a", "c", "e"]
    assert given["models"][0].provider == record.provider
    assert given["manifests"] == ("package:weights.json",)


def test_listeners_are_called_apart_from_each_other(plugin_site):
    import subprocess
    import sys

    from support import environment

    code = (
        "from zoo_core.spec.plugins import load_plugins\n"
        "listeners = load_plugins().listeners()\n"
        "assert sorted(listeners) == ['logger', 'raising-logger'], list(listeners)\n"
        "hooks = listeners['logger']\n"
        "hooks.zoo_run_started(run='R')\n"
        "hooks.zoo_epoch_ended(run='R', epoch=1, metrics={'loss': 2})\n"
        "hooks.zoo_run_ended(run='R', result=None)\n"
        "hooks.zoo_run_failed(run='R', error='E')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=str(plugin_site), ZOO_DISABLE_PLUGINS="prints,tensorboard"),
    )
    assert done.stderr == "started R\nepoch 1 ['loss']\nended\nfailed E\n"
