"""zoo list --timm: names of timm's networks, from timm once and then from the cache."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from zoo.testing import main

LISTS = """
import sys
from zoo.testing import main
try:
    main(["list", "--timm", "vit*", "--json"])
except SystemExit:
    sys.stderr.write(" ".join(sys.modules))
"""


@pytest.fixture
def listed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))

    def run(*arguments, status="0"):
        with pytest.raises(SystemExit, match=status):
            main(["list", "--timm", *arguments])
        return capsys.readouterr()

    return run


def test_the_second_list_imports_neither_timm_nor_torch(listed):
    timm = pytest.importorskip("timm")
    rows = json.loads(listed("vit*", "--json").out)
    assert [row["name"] for row in rows] == timm.list_pretrained("vit*")
    config = timm.get_pretrained_cfg(rows[0]["name"])
    assert rows[0]["pixels"] == config.input_size[1] and rows[0]["license"] == config.license
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == rows
    assert not {"timm", "torch", "numpy"} & {*done.stderr.split()}


def test_a_damaged_list_is_made_again(listed, tmp_path):
    pytest.importorskip("timm")
    whole = listed("--json").out
    (kept,) = (tmp_path / "cache" / "plugins" / "frozen").iterdir()
    kept.write_text("{")
    assert listed("--json").out == whole and kept.read_text() != "{"


def test_without_timm_one_sentence_says_how_to_get_it(listed, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    said = listed(status="1").err
    assert said == "Error: timm is not installed.\nHint: pip install 'zoo-frozen[timm]'\n"


def test_filters_of_models_are_refused(listed):
    assert "--timm has no filter but TEXT" in listed("--tag", "frozen", status="2").err
