"""`zoo plugin new` and `zoo plugin check`: what is written passes, and mistakes are explained."""

import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report.made_runs import make_run
from support import environment
from zoo_author.checks import check_light, check_statistics
from zoo_author.package import (
    check_dependencies,
    check_folder,
    check_imports,
    check_installed,
    check_metadata,
)
from zoo_author.scaffold import write_plugin
from zoo_author.suite import checks_of

from zoo_core.data.dataset import Dataset, Split
from zoo_core.io.errors import Finding, ZooError
from zoo_core.spec.registry import registry


def replace_in(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


@pytest.fixture
def new(zoo_here, tmp_path):
    """Write a plugin as a user would, and give back its folder."""

    def write(name: str, *sort: str) -> Path:
        zoo_here("plugin", "new", name, *sort)
        return tmp_path / f"zoo-{name}"

    return write


def found(folder: Path) -> dict[str, str]:
    """The findings of a check by name: what, why and how to mend it."""
    return {
        outcome.check: f"{outcome.what} | {outcome.why} | {outcome.fix}"
        for outcome in check_folder(folder)
        if outcome.state == "found"
    }


@pytest.mark.parametrize(
    ("sort", "least"),
    [
        pytest.param("--model", 23, marks=pytest.mark.slow),
        ("--dataset", 14),
        ("--trainer", 15),
        ("--command", 12),
    ],
)
def test_what_is_written_passes_at_once(zoo_command, new, sort, least):
    folder = new("two-words", sort)
    done = zoo_command("plugin", "check", "./zoo-two-words", timeout=300)
    assert "0 findings" in done.stdout
    assert done.stdout.count("ok ") >= least
    assert (folder / ".github" / "workflows" / "test.yml").exists()
    # Nothing is left in it that would end up in a repository.
    assert not list(folder.glob("**/*.whl")) and not (folder / "build").exists()


def test_what_is_written_passes_its_own_tests(new, tmp_path):
    folder = new("bars", "--dataset")
    site = tmp_path / "site"
    command = ["-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
               "--python", sys.executable, "--target", site, folder]  # fmt: skip
    subprocess.run([sys.executable, *command], check=True, env=environment())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "tests"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(site), ZOO_CACHE=str(tmp_path / "cache")),
    )
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_nothing_is_overwritten(zoo_here, new):
    folder = new("bars", "--dataset")
    (folder / "README.md").write_text("mine")
    done = zoo_here("plugin", "new", "zoo-bars", status=2)
    assert "exists already; nothing was written" in done.stderr
    assert (folder / "README.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["Upper", "1st", "a/b", "a--b", "", "core", "class", "numpy"])
def test_a_name_that_cannot_be_one_writes_nothing(zoo_here, tmp_path, name):
    assert "cannot name a plugin" in zoo_here("plugin", "new", name, status=2).stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_each_mistake_in_a_network_is_found_and_explained(new):
    """Several mistakes in one package: each has its own finding, unless one depends on another."""
    folder = new("bad")
    package = folder / "zoo_bad"
    replace_in(package / "plugin.py", ("import zoo\n", "import torch\nimport zoo\n"),
               ("38_346", "40_000"), ('"depth": 2}', '"depth": 2, "heads": 4, "style": "a"},'
                ' choices={"style": ("a", "b")}'),
               ("ZOO_API = 1\n", ""))  # fmt: skip
    replace_in(
        package / "bad.py",
        ("depth: int = 2,\n    )", "depth: int = 2,\n        heads: int = 4,\n"
         "        style: str = 'a',\n    )"),
        ("        if image_size < 2",
         "        if style == 'b':\n            raise ValueError('no b')\n"
         "        if image_size < 0"),
        ("stride=2, padding=1)\n",
         "stride=2)\n        self.scale = nn.Parameter(torch.ones(width))\n"
         "        self.again = self.stem\n"),
        ("x.mean((2, 3))", "nn.functional.dropout(x.mean((2, 3)), 0.1)"),
        ("from torch import Tensor, nn", "import torch\nfrom torch import Tensor, nn"),
    )  # fmt: skip
    replace_in(folder / "pyproject.toml", (",<1", ""))
    said = found(folder)
    # What learns and what is read again would differ because evaluation draws at random.
    assert set(said) == {
        "metadata", "version", "light", "parameters", "options_count", "choices", "errors",
        "gradients", "determinism", "ranges",
    }  # fmt: skip
    for check, words in {
        "metadata": "accepts any later zoo-core",
        "version": "ZOO_API = 1",
        "light": "imports torch",
        "parameters": "declares parameters=40,000 and has 38,",
        "ranges": "heads",
        "options_count": "heads=8 gives the same",
        "choices": "declares style=b and cannot be built with it",
        "errors": "image_size=1 ends in RuntimeError",
        "gradients": "no gradient reaches scale",
        "determinism": "gives another answer each time",
    }.items():
        assert words in said[check], said[check]
        _, why, fix = said[check].split(" | ")
        assert min(len(why), len(fix)) > 15


def test_a_wheel_that_is_not_complete_is_the_only_finding(new):
    folder = new("bad")
    (folder / "zoo_bad" / "labels.json").write_text("{}")
    replace_in(folder / "pyproject.toml", ('packages = ["zoo_bad"]',
               'packages = ["zoo_bad"]\nexclude = ["*.json"]'))  # fmt: skip
    replace_in(folder / "zoo_bad" / "plugin.py", ("38_346", "40_000"))
    said = found(folder)
    assert set(said) == {"contents"} and "labels.json" in said["contents"]


@pytest.mark.parametrize(
    ("file", "change", "check", "words"),
    [
        ("zoo_bars/plugin.py", ("def zoo_datasets", "def zoo_dataset"), "loads",
         "no hook 'zoo_dataset'; did you mean zoo_datasets?"),
        ("zoo_bars/plugin.py", ("\n\n@zoo.hookimpl", "\n\ndef zoo_run_endet(run): ...\n\n\n"
         "@zoo.hookimpl"), "hooks", "zoo_run_endet looks like a hook and is never called"),
        ("pyproject.toml", ('"zoo_bars.plugin"', '"zoo_bars.plugn"'), "loads",
         "No module named 'zoo_bars.plugn'"),
        ("pyproject.toml", ("[project.entry-points.zoo]", "[project.entry-points.zoos]"),
         "entry_points", "no entry point in the group 'zoo', only in 'zoos'"),
        ("pyproject.toml", ('packages = ["zoo_bars"]', 'packages = ["zoo_bars", "tests"]'),
         "contents", "a folder 'tests' at the top"),
        ("zoo_bars/plugin.py", ('name="bars"', 'name="mnist"'), "names",
         "zoo-classics has datasets of the same name: mnist"),
        ("zoo_bars/plugin.py", (":bars", ":baars"), "targets", "has no attribute 'baars'"),
        ("zoo_bars/plugin.py", ("train_size=800", "train_size=900"), "arrays", "900"),
        ("zoo_bars/bars.py", ("255", "254"), "arrays", "is not what it should be"),
    ],
)  # fmt: skip
def test_mistakes_of_a_package_are_found_without_torch(new, file, change, check, words):
    folder = new("bars", "--dataset")
    replace_in(folder / file, change)
    said = found(folder)
    assert words in said[check], said


def test_a_package_that_could_not_be_written_whole_is_not_there(tmp_path, monkeypatch):
    write, written = Path.write_text, []

    def full(self, *args, **how):
        written.append(self)
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(self))
        return write(self, *args, **how)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ZooError, match="zoo-mixer could not be written"):
        write_plugin("mixer", "model", tmp_path / "packages")
    assert len(written) == 3 and not list((tmp_path / "packages").iterdir())
    assert write_plugin("mixer", "model", tmp_path / "packages")[0].is_dir()


def test_a_new_logger_notes_what_happens_to_a_run(tmp_path):
    folder, _ = write_plugin("notes", "logger", tmp_path)
    logger = runpy.run_path(str(folder / "zoo_notes" / "plugin.py"))
    run = make_run(tmp_path / "runs")
    logger["zoo_run_started"](run)
    for metrics in run.metrics()[:1]:
        logger["zoo_epoch_ended"](run, metrics)
    logger["zoo_run_failed"](run, ValueError("no"))
    lines = [json.loads(line) for line in (run.path / "notes.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["started", "epoch", "failed"]
    assert lines[1]["epoch"] == 1 and lines[1]["train_loss"] > 0


def test_a_package_that_asks_for_another_zoo_core_is_a_finding():
    check_metadata(["numpy", "zoo_core[torch]>=0.1,<1"])
    with pytest.raises(Finding, match="asks for a later zoo-core"):
        check_metadata(["zoo-core>=3,<4"])


def test_imports_behind_the_public_pages_are_found_with_file_and_line(tmp_path):
    package = tmp_path / "zoo_bars"
    package.mkdir()
    (package / "plugin.py").write_text("import zoo\nfrom zoo import kit\n")
    check_imports([package])
    (package / "bars.py").write_text("import zoo\n\ndef f():\n    from zoo_core.io import files\n")
    with pytest.raises(Finding, match="zoo_bars/bars.py, line 4 imports zoo_core.io") as caught:
        check_imports([package])
    assert "zoo.kit" in caught.value.fix


IMPORTS = [  # code, requirements, and what no one of them brings
    ("import sklearn.svm", ["zoo-core>=0.1"], "scikit-learn"),
    ("import matplotlib.figure", ["zoo-core[report]>=0.1"], ""),
    ("import sklearn.svm", ["zoo-core", "Scikit_Learn>=1"], ""),
    ("def f():\n    import torch", ["zoo-core>=0.1"], "torch"),
    ("def f():\n    import torch", ["zoo-core[torch]>=0.1"], ""),
    ("import numpy, json, bars\nfrom . import x", ["zoo-core"], ""),
    ("try:\n    import torch\nexcept ImportError: pass", ["zoo-core"], ""),
    ("import typing\nif typing.TYPE_CHECKING:\n    import torch", ["zoo-core"], ""),
    ("import not_here", ["zoo-core"], ""),
    ("not Python", ["zoo-core"], ""),
]


def test_a_dependency_that_only_the_author_has_is_found(tmp_path, monkeypatch):
    installed = importlib.metadata.packages_distributions()  # once: it takes a while
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: installed)
    file = tmp_path / "bars.py"
    for code, requirements, missing in IMPORTS:
        file.write_text(code)
        if missing:
            with pytest.raises(Finding, match=rf"bars.py, line \d imports .* brings {missing}"):
                check_dependencies([file], requirements)
        else:
            check_dependencies([file], requirements)


def test_an_import_that_computes_is_a_finding_and_a_busy_machine_is_not(tmp_path, monkeypatch):
    computing = "import time\nwhile time.process_time() < 1: pass\n"
    (tmp_path / "computes.py").write_text(computing)
    (tmp_path / "waits.py").write_text("import time; time.sleep(0.3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check_light(SimpleNamespace(value="waits", entries=lambda kind: ()))
    with pytest.raises(Finding, match="importing computes takes"):
        check_light(SimpleNamespace(value="computes", entries=lambda kind: ()))


def test_an_installed_package_with_a_misspelt_group_is_a_finding(tmp_path, monkeypatch):
    metadata = tmp_path / "zoo_lost-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: zoo-lost\nVersion: 1.0\n\n")
    (metadata / "entry_points.txt").write_text("[zoos]\nlost = zoo_lost.plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    (outcome,) = check_installed("zoo-lost")
    assert outcome.state == "found"
    assert "no entry point in the group 'zoo', only in 'zoos'" in outcome.what


@pytest.mark.parametrize(
    ("mean", "std", "fine"),
    [
        ((0.5,), (0.5,), True),  # what an entry has that declares nothing
        ((0.44, 0.36, 0.35), (0.2, 0.15, 0.15), True),
        ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), True),
        ((0.95, 0.9, 0.9), (0.2, 0.2, 0.2), False),
        ((0.44, 0.36, 0.35), (0.01, 0.15, 0.15), False),
        ((0.0039,), (0.0039,), False),
    ],
)
def test_mean_and_std_that_are_far_from_the_images_are_a_finding(mean, std, fine, tmp_path):
    entry = replace(registry().datasets.get("synthetic"), mean=mean, std=std)
    images = np.random.default_rng(0).normal((112, 92, 89), (51, 41, 39), (300, 8, 8, 3))
    split = Split(images.clip(0, 255).astype(np.uint8), None)
    data = Dataset("made", split, None, (), mean * (3 // len(mean)), std * (3 // len(std)), "")
    with nullcontext() if fine else pytest.raises(Finding, match="its images have mean=") as caught:
        check_statistics(entry, data)
    assert fine or "(0.43" in caught.value.what


def test_a_dataset_without_digests_is_told_what_they_are(new):
    folder = new("bars", "--dataset")
    plugin = folder / "zoo_bars" / "plugin.py"
    before = plugin.read_text()
    plugin.write_text(re.sub(r"digests=\{.*?\},", "", before, flags=re.DOTALL))
    said = found(folder)["arrays"]
    for digest in re.findall(r"[0-9a-f]{64}", before):
        assert digest in said


def test_weights_that_the_wheel_lacks_are_found(new):
    folder = new("bars", "--dataset")
    replace_in(folder / "zoo_bars" / "plugin.py", ("ZOO_API = 1\n",
               'ZOO_API = 1\n\n\n@zoo.hookimpl\ndef zoo_manifests():\n'
               '    return ["zoo_bars:weights.json"]\n'))  # fmt: skip
    assert "weights.json cannot be read" in found(folder)["weights"]


def test_weights_that_no_hook_names_are_found(new):
    folder = new("bars", "--dataset")
    (folder / "zoo_bars" / "weights.json").write_text('{"version": 1, "weights": []}')
    assert "ships weights.json, and no hook names it" in found(folder)["weights"]


def test_json_has_every_outcome_and_the_exit_code_tells(zoo_command, new, tmp_path):
    folder = new("bars", "--dataset")
    replace_in(folder / "zoo_bars" / "plugin.py", ("ZOO_API = 1\n", ""))
    done = zoo_command("plugin", "check", str(folder), "--json", status=1)
    outcomes = json.loads(done.stdout)
    assert [o["check"] for o in outcomes if o["state"] == "found"] == ["version"]
    assert all(o["why"] and o["fix"] for o in outcomes if o["state"] == "found")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("zoo-cmm", "no plugin 'zoo-cmm' is installed"),
        ("./nowhere", "there is no folder"),
        (".", "has no pyproject.toml"),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(zoo_command, what, words):
    done = zoo_command("plugin", "check", what, status=2)
    assert words in done.stderr and "Hint:" in done.stderr


def test_a_model_that_ends_the_process_is_a_finding(new):
    folder = new("gone")
    replace_in(
        folder / "zoo_gone" / "gone.py",
        ("from torch import", "import os\n\nos._exit(3)\nfrom torch import"),
    )
    assert "ended with 3" in found(folder)["process"]


def test_the_checks_are_ordinary_functions_for_pytest():
    checks = {str(check): check for check in checks_of("mlp", hidden=(8,))}
    assert "mlp-parameters" in checks and "mlp-training" in checks
    checks["mlp-shapes"]()
    with pytest.raises(Finding, match="no installed package has an entry point 'nobody'"):
        checks_of("nobody")[0]()


def check_that_a_stranger_wrote(name, **options):
    assert name == "numpy/fcn_numpy", "the name with the plugin's in front"


CHECKS = (check_that_a_stranger_wrote,)


def test_a_framework_brings_checks_of_its_own(monkeypatch):
    from zoo_numpy.trainer import NumpyTrainer

    before = [str(check) for check in checks_of("numpy")]
    monkeypatch.setattr(NumpyTrainer, "checks", f"{__name__}:CHECKS")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    added = [check for check in checks_of("numpy") if str(check) not in before]
    assert [check.name for check in added] == ["that_a_stranger_wrote"] * 2  # one for each model
    added[0]()


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_model_made_for_one_number_or_three_classes_can_be_checked(outputs):
    from zoo_author.torch import check_gradients, check_learning

    for check in (check_gradients, check_learning):
        check("mlp", num_classes=outputs, image_size=8, hidden=(32,))
