"""Nobody waits for torch to see a list."""

import json
import subprocess
import sys

import pytest
from support import environment

HEAVY = [
    "torch", "torchvision", "timm", "numpy", "huggingface_hub", "hyperopt", "matplotlib", "PIL",
    "scipy", "sklearn", "safetensors", "importlib.metadata",
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--json"], ["list", "--datasets"], ["info", "cnn"], ["--help"], ["plugins"]]
    + [["--version"], ["train", "--help"], ["cache"], ["info", "cifar10"], ["list", "--weights"]]
    + [["tune", "--help"], ["sweep", "--help"]],
    ids=" ".join,
)
def test_light_commands_import_nothing_heavy(arguments, tmp_path):
    code = (
        "import sys, json\n"
        "from zoo_core.cli.main import main\n"
        f"try: main({arguments!r})\n"
        f"except SystemExit: print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(ZOO_CACHE=str(tmp_path)),
        check=True,
    )
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_heavy_imports_at_module_level_are_refused_by_the_linter(tmp_path):
    """The rule is only worth something if it really fires where it should."""
    from support import ROOT

    for path in ("zoo_core/bad.py", "zoo/bad.py", "plugins/zoo-x/zoo_x/plugin.py"):
        assert "TID253" in _lint(ROOT, path), path
    assert "TID253" not in _lint(ROOT, "plugins/zoo-x/zoo_x/model.py")
    assert "TID253" not in _lint(ROOT, "plugins/zoo-x/zoo_x/patches.py")


def _lint(root, path):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", path, "-"],
        input="import torch\n\nprint(torch)\n",
        capture_output=True,
        text=True,
        cwd=root,
    )
    return done.stdout
