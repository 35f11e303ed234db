"""zoo.kit is a public page: documented name by name, and enough for a package with a command."""

import inspect
import json
import re

import click
import pytest
from click.testing import CliRunner
from support import ROOT

from zoo import kit

PAGE = (ROOT / "docs" / "kit.md").read_text("utf-8")


class Plain(str):
    """Text that stands in a signature as it is, without quotes."""

    __repr__ = str.__str__


def signature(value):
    """As the source has it; what a class gives is itself."""
    found = inspect.signature(value)
    parameters = [
        parameter.replace(
            annotation=Plain(parameter.annotation),
            default=Plain(parameter.default.__name__)
            if parameter.default is not parameter.empty and isinstance(parameter.default, type)
            else parameter.default,
        )
        for parameter in found.parameters.values()
    ]
    returned = found.empty if isinstance(value, type) else Plain(found.return_annotation)
    return str(found.replace(parameters=parameters, return_annotation=returned))


def line(name):
    """How the page introduces a name."""
    value = getattr(kit, name)
    if isinstance(value, click.ParamType | int | float | str | list | tuple | dict):
        return f"- `{name}`:"
    if value.__module__ == "click.decorators":  # an option or an argument
        (parameter,) = value(lambda: None).__click_params__
        option = isinstance(parameter, click.Option)
        shown = parameter.opts[0] if option else parameter.human_readable_name
        return f"- `{name}`: `{shown}`, given as `{parameter.name}`"
    return f"- `{name}{signature(value)}`:"


@pytest.mark.parametrize("name", kit.__all__)
def test_every_name_is_documented_with_its_exact_signature(name):
    assert PAGE.count(f"\n{line(name)}") == 1, line(name)


def test_the_page_lists_nothing_else():
    assert set(re.findall(r"^- `(\w+)", PAGE, re.MULTILINE)) == set(kit.__all__)


@pytest.mark.parametrize("name", kit.__all__)
def test_every_function_and_class_has_a_docstring(name):
    value = getattr(kit, name)
    if inspect.isclass(value) or getattr(value, "__module__", "").startswith("zoo_core"):
        assert len(inspect.getdoc(value).split()) >= 4


def test_the_example_is_a_command(tmp_path, monkeypatch):
    plugin, command = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    given, made = {}, {}
    exec(plugin, given)
    exec(command, made)
    (entry,) = given["zoo_commands"]()
    sizes = made[entry.target.partition(":")[2]]
    run = tmp_path / "cnn-cifar10-20260101T000000Z"
    run.mkdir()
    (run / "run.json").write_bytes(b"x" * 1500)
    (run / "metrics.jsonl").write_bytes(b"x" * 500)

    def answer(*arguments):
        return CliRunner().invoke(sizes, arguments, catch_exceptions=False).output

    assert json.loads(answer("--runs", str(tmp_path), "--json")) == [
        {"run": run.name, "bytes": 2000}
    ]
    assert answer("--runs", str(tmp_path)).split() == ["RUN", "BYTES", run.name, "2,000"]
    assert "no runs yet" in answer("--runs", str(tmp_path / "none"))
    assert answer("--help").rstrip().endswith("zoo sizes --runs ~/experiments")


def test_the_cache_of_a_plugin_is_shown_and_cleared(zoo_command, zoo_json, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder = kit.cache_dir("sizes")
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * 1500)
    (folder.parent / ".DS_Store").mkdir()  # whatever else is there
    caches = {cache["cache"]: cache for cache in zoo_json("cache")["caches"]}
    assert list(caches) == ["data", "packs", "weights", "features", "sizes"]
    assert caches["sizes"] | {"path": ""} == {
        "cache": "sizes", "holds": "files of the plugin sizes", "files": 1, "bytes": 1500,
        "path": "",
    }  # fmt: skip
    assert "did you mean sizes?" in zoo_command("cache", "clear", "size", status=2).stderr
    assert zoo_command("cache", "clear", "sizes", "--yes").stdout == "Deleted 1.5 kB.\n"
    assert not folder.exists()
    kit.cache_dir("sizes").mkdir(parents=True)
    zoo_command("cache", "clear", "--yes")


@pytest.mark.parametrize("kind", ["", "..", "a/b", "a b", "C:"])
def test_a_cache_is_a_plain_folder(kind):
    with pytest.raises(ValueError, match="the id of its plugin"):
        kit.cache_dir(kind)
