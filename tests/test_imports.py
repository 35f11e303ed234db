"""Nobody waits for torch to see a list."""

import json
import subprocess
import sys

import pytest
from support import ROOT, environment

HEAVY = [
    "torch", "torchvision", "timm", "numpy", "huggingface_hub", "hyperopt", "matplotlib", "PIL",
    "scipy", "sklearn", "safetensors", "importlib.metadata",
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--json"], ["list", "--datasets"], ["info", "cnn"], ["--help"], ["plugins"]]
    + [["--version"], ["train", "--help"], ["cache"], ["info", "cifar10"], ["list", "--weights"]]
    + [["list", "--augmentations"], ["info", "trivial"]]
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


def test_the_public_pages_import_nothing_until_a_name_is_used():
    code = (
        "import sys, zoo, zoo.kit, zoo.testing\n"
        "print({'torch', 'numpy', 'click', 'pluggy', 'zoo_core.io', 'unittest'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "set()\n"


def test_heavy_imports_at_module_level_are_refused_by_the_linter():
    """The rule is only worth something if it really fires where it should."""
    heavy = "import torch\n\nprint(torch)\n"
    for path in ("zoo_core/bad.py", "zoo/bad.py", "plugins/zoo-x/zoo_x/plugin.py"):
        assert "TID253" in _lint(path, heavy), path
    assert "TID253" not in _lint("plugins/zoo-x/zoo_x/model.py", heavy)
    assert "TID253" not in _lint("plugins/zoo-x/zoo_x/patches.py", heavy)


@pytest.mark.parametrize(
    "line", ["import zoo_core", "from zoo_core.io import files", "import zoo_core.io.files as f"]
)
def test_a_plugin_that_imports_the_working_parts_is_refused_by_the_linter(line):
    code = f"def function():\n    {line}\n"
    for path in ("plugins/zoo-x/zoo_x/model.py", "plugins/zoo-x/tests/test_x.py"):
        assert "TID251" in _lint(path, code), path
    assert "TID251" in _lint("docs/examples/zoo-x/tests/test_x.py", code)
    for path in ("zoo/x.py", "zoo_core/io/x.py", "tests/io/test_x.py", "benchmarks/x.py"):
        assert "TID251" not in _lint(path, code), path


@pytest.mark.parametrize("folder", ["plugins", "docs/examples"])
def test_plugins_examples_and_templates_name_public_modules_only(folder):
    """In strings too: a target, the code of a child process, a page."""
    kinds = (".py", ".txt", ".md", ".toml")
    texts = {path: path.read_text("utf-8") for path in (ROOT / folder).rglob("*.*")
             if path.suffix in kinds}  # fmt: skip
    assert len(texts) > 4
    naming = [path for path, text in texts.items() if "zoo_core" in text]
    assert [p for p in naming if p.parts[-2:] != ("zoo_author", "package.py")] == []  # refuses it


def _lint(path, code):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", path, "-"],
        input=code,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return done.stdout
