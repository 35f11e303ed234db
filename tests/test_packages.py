"""What is published works without this repository: wheels, in clean environments, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from support import ROOT, build_wheels, environment
from zoo_author.package import check_folder

PACKAGES = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
# zoo-efficientnet-lite0-weights is a file that zoo-frozen reads, and contributes nothing by itself.
PLUGINS = [path for path in PACKAGES if not path.name.endswith("-weights")]
EXAMPLES = ROOT / "docs" / "examples"
EXAMPLE = EXAMPLES / "zoo-mixer"
ENGINE = EXAMPLES / "zoo-ssh"
TASK = EXAMPLES / "zoo-rotation"
TRAINERS = [EXAMPLES / "zoo-knn", EXAMPLES / "zoo-sklearn"]


def uv(*arguments: object) -> None:
    """A registry that stands still is asked once more."""
    command = [sys.executable, "-m", "uv", *map(str, arguments), "--quiet"]
    how = {"capture_output": True, "text": True, "env": environment()}
    try:
        done = subprocess.run(command, timeout=300, **how)
    except subprocess.TimeoutExpired:
        done = subprocess.run(command, timeout=400, **how)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Every package of this repository, built as it would be for publishing."""
    folder = tmp_path_factory.mktemp("wheels")
    built = build_wheels(folder, (ROOT, *PACKAGES, EXAMPLE, ENGINE, *TRAINERS))
    return {wheel.name.partition("-")[0]: wheel for wheel in built}


class Venv:
    def __init__(self, folder: Path) -> None:
        uv("venv", "--python", sys.executable, folder)
        self.python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def install(self, *what: object) -> None:
        uv("pip", "install", "--python", self.python, *what)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.python, *arguments],
            capture_output=True,
            text=True,
            cwd=self.python.parent,
            env=environment(ZOO_MANIFEST=str(self.python.parent / "own.json")),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str):
        return json.loads(self.run("-m", "zoo", *arguments, "--json"))


@pytest.fixture(scope="module")
def core_venv(wheels, tmp_path_factory) -> Venv:
    """zoo-core and what it depends on; no plugin, no torch."""
    venv = Venv(tmp_path_factory.mktemp("core") / "venv")
    venv.install(wheels["zoo_core"])
    return venv


def test_zoo_core_alone_lists_and_informs_without_torch(core_venv):
    assert core_venv.json("list") == []
    listed = core_venv.json("list", "--weights")
    assert any(one["install"] == "pip install zoo-cnn" for one in listed)
    assert not any(one["here"] for one in listed)
    assert [record["id"] for record in core_venv.json("plugins")] == ["builtin"]
    assert "Commands:" in core_venv.run("-m", "zoo", "--help")
    assert "synthetic" in core_venv.run("-m", "zoo", "info", "synthetic")
    assert core_venv.json("info", "cnn")["distribution"] == "zoo-cnn"
    asked = (
        "import zoo\ntry: zoo.open_dataset('mnist')\n"
        "except zoo.ZooError as error: print(error.hint)"
    )
    assert core_venv.run("-c", asked).startswith("zoo-classics has it: pip install zoo-classics")
    asked = "import zoo\ntry: zoo.export\nexcept AttributeError as error: print(error)"
    assert "zoo-export has it: pip install zoo-export" in core_venv.run("-c", asked)
    asked = "import zoo.testing as t\ntry: t.checks_of\nexcept Exception as e: print(e.hint)"
    assert core_venv.run("-c", asked) == "pip install zoo-author\n"
    packages = core_venv.run("-c", "import importlib.util as u; print(u.find_spec('torch'))")
    assert packages == "None\n"


def test_the_wheel_carries_the_manifest_and_the_type_marker(core_venv):
    code = (
        "import zoo_core, zoo, pathlib; core = pathlib.Path(zoo_core.__file__).parent; "
        "print((core / 'weights_manifest.json').read_text(), end='|'); "
        "print((pathlib.Path(zoo.__file__).parent / 'py.typed').exists())"
    )
    manifest, _, typed = core_venv.run("-c", code).partition("|")
    assert manifest == (ROOT / "weights_manifest.json").read_text()
    assert typed == "True\n"


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_each_plugin_installs_beside_the_core_and_is_found(core_venv, wheels, plugin, tmp_path):
    """Without torch: the wheel is installed into a folder of its own beside the core's venv."""
    name = plugin.name.replace("-", "_")
    site = tmp_path / "site"
    core_venv.install("--no-deps", "--target", site, wheels[name])
    done = subprocess.run(
        [core_venv.python, "-m", "zoo", "plugins", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(site)),
    )
    records = {record["distribution"]: record for record in json.loads(done.stdout)}
    assert records[plugin.name]["state"] == "ok", records[plugin.name]
    assert records[plugin.name]["models"] or records[plugin.name]["hooks"]
    assert not list(site.glob("tests")), "tests belong in the repository, not in the wheel"


def test_a_strangers_one_file_package_appears_after_pip_install(core_venv, tmp_path):
    (tmp_path / "stranger_net.py").write_text(
        "import zoo\n\n"
        "@zoo.hookimpl\n"
        "def zoo_models():\n"
        "    return [zoo.ModelEntry(name='stranger', target='stranger_net:Net', summary='Hello')]\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "stranger-net"\nversion = "2.5"\n'
        '[project.entry-points.zoo]\nstranger = "stranger_net"\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["stranger_net.py"]\n'
    )
    core_venv.install(tmp_path)
    try:
        assert [model["name"] for model in core_venv.json("list")] == ["stranger"]
        record = next(r for r in core_venv.json("plugins") if r["id"] == "stranger")
        assert (record["distribution"], record["version"]) == ("stranger-net", "2.5")
    finally:
        uv("pip", "uninstall", "--python", core_venv.python, "stranger-net")


@pytest.mark.slow
def test_the_example_of_a_task_keeps_its_promises():
    found = [(one.of, one.check, one.what) for one in check_folder(TASK) if one.state != "ok"]
    assert not found


@pytest.mark.slow
def test_the_example_of_the_tutorial_keeps_its_promises_in_a_clean_environment(wheels, tmp_path):
    """Built, installed with what it asks for and nothing else, and checked there."""
    venv = Venv(tmp_path / "venv")
    ours = [wheels[name] for name in ("zoo_core", "zoo_author", "zoo_classics", "zoo_mixer")]
    venv.install("--constraint", ROOT / "constraints.txt", *ours, "torch")
    outcomes = venv.json("plugin", "check", "zoo-mixer")
    assert {outcome["state"] for outcome in outcomes} == {"ok"}
    assert {"light", "parameters", "learning", "training"} <= {o["check"] for o in outcomes}
    said = venv.run("-m", "zoo", "plugins", "--requirements").split()
    assert sorted(said) == sorted(
        f"zoo-{name}==0.1.0" for name in ("core", "author", "classics", "mixer")
    )


@pytest.fixture(scope="module")
def trainers_venv(wheels, tmp_path_factory) -> Venv:
    """The examples of trainers with what they ask for: no torch."""
    venv = Venv(tmp_path_factory.mktemp("trainers") / "venv")
    named = ("zoo_author", "zoo_classics", "zoo_knn", "zoo_sklearn", "zoo_tune")
    ours = [wheels[name] for name in named]
    venv.install("--constraint", ROOT / "constraints.txt", wheels["zoo_core"], *ours, "pytest")
    return venv


@pytest.mark.parametrize(
    "package",
    [TRAINERS[0], pytest.param(TRAINERS[1], marks=pytest.mark.slow)],
    ids=lambda p: p.name,
)
def test_each_example_of_a_trainer_keeps_its_promises_without_torch(trainers_venv, package):
    """All that `zoo plugin check` checks is among its own tests."""
    said = trainers_venv.run("-m", "pytest", "-v", "-p", "no:cacheprovider", str(package / "tests"))
    assert "-recipes] PASSED" in said and "-training] PASSED" in said
    assert "skipped" not in said and "warning" not in said


@pytest.mark.slow
def test_the_example_of_an_engine_keeps_its_promises(wheels, tmp_path):
    """Beside this environment, which has models to search: pieces, hosts and a whole search."""
    site = tmp_path / "site"
    uv("pip", "install", "--python", sys.executable, "--no-deps", "--target", site,
       wheels["zoo_ssh"])  # fmt: skip
    how = {"capture_output": True, "text": True, "env": environment(PYTHONPATH=str(site))}
    check = [sys.executable, "-m", "zoo", "plugin", "check", "zoo-ssh"]
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", ENGINE / "tests"]
    for command in (check, tests):
        done = subprocess.run(command, cwd=tmp_path, **how)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "self.patches = nn.Conv2d(in_channels, width, patch_size, stride=patch_size)",
        "x = self.patches(images).flatten(2).transpose(1, 2)",
        'target="zoo_mixer.mixer:Mixer"',
        "parameters=306_826",
    ],
)
def test_the_tutorial_shows_the_code_of_the_example(line):
    package = EXAMPLE / "zoo_mixer"
    assert line in (ROOT / "docs" / "plugins.md").read_text()
    assert line in (package / "mixer.py").read_text() + (package / "plugin.py").read_text()


def test_the_walk_through_of_a_task_shows_the_code_of_the_example():
    code = "".join((TASK / "zoo_rotation" / f).read_text() for f in ("plugin.py", "task.py"))
    text = (ROOT / "docs" / "training.md").read_text()
    walk = text[text.index("## Write a task") : text.index("## Write a trainer")]
    shown = [line for block in walk.split("```")[1::2] for line in block.splitlines()[1:]]
    assert len(shown) > 45
    assert not [line for line in shown if line not in code]


def test_the_walk_through_shows_the_code_of_the_example():
    package = EXAMPLES / "zoo-sklearn" / "zoo_sklearn"
    code = (package / "models.py").read_text() + (package / "trainer.py").read_text()
    text = (ROOT / "docs" / "training.md").read_text()
    start = text.index("## Write a trainer")
    walk = text[start : text.index("### 5.", start)]
    shown = [line for block in walk.split("```")[1::2] for line in block.splitlines()[1:]]
    assert len(shown) > 15
    assert not [line for line in shown if line.strip() not in ("", "...") and line not in code]


def test_the_walk_through_of_an_engine_shows_the_code_of_the_example():
    code = "".join((ENGINE / "zoo_ssh" / name).read_text() for name in ("plugin.py", "engine.py"))
    text = (ROOT / "docs" / "engines.md").read_text()
    walk = text[text.index("## The code") : text.index("## What a worker does")]
    shown = [line for block in walk.split("```")[1::2] for line in block.splitlines()[1:]]
    assert len(shown) > 40
    assert not [line for line in shown if line not in code]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_each_plugin_alone_trains_a_model_and_loads_it_back(wheels, plugin, tmp_path):
    """In an environment of its own, with what the wheel itself asks for and nothing else."""
    venv = Venv(tmp_path / "venv")
    venv.install(
        "--constraint", ROOT / "constraints.txt", "--find-links", wheels["zoo_core"].parent,
        wheels["zoo_core"], wheels[plugin.name.replace("-", "_")],
    )  # fmt: skip
    models = [m for m in venv.json("list") if m["parameters"] and "pretrained" not in m["tags"]]
    if not models:
        pytest.skip("it brings no model that can be trained without weights from elsewhere")
    smallest = min(models, key=lambda model: model["parameters"])
    side = venv.json("info", smallest["name"])["image_size"]
    small = ("--epochs", "1", "--set", "data.train_size=200", "--set", "data.test_size=50",
             "--set", f"data.image_size={side}")  # fmt: skip
    runs = ("--runs", str(tmp_path / "runs"))
    trained = venv.json(
        "train", smallest["name"], "--dataset", "synthetic", *small, *runs, "--no-report"
    )
    again = venv.json("evaluate", "latest", *runs)
    assert again["loss"] == pytest.approx(trained["result"]["test"]["loss"], rel=1e-6)


# No way out: whatever wants the network fails at once.
ALONE = """
import socket, sys
def refused(*_): raise OSError("there is no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
import zoo
model = zoo.load(sys.argv[1])
(found,) = zoo.predict(model, sys.argv[2])
assert found.classes[0][0] in model.zoo.classes, found
print(sys.argv[1], found.classes[0])
"""


@pytest.mark.slow
def test_shipped_weights_load_and_predict_in_a_clean_environment_without_a_network(
    wheels, tmp_path
):
    venv = Venv(tmp_path / "venv")
    venv.install(
        "--constraint", ROOT / "constraints.txt", "--find-links", wheels["zoo_core"].parent,
        *(wheels[name] for name in ("zoo_core", *(p.name.replace("-", "_") for p in PLUGINS))),
    )  # fmt: skip
    picture = tmp_path / "picture.png"
    Image.effect_noise((40, 30), 60).convert("RGB").save(picture)
    listed = venv.json("list", "--weights")
    assert len(listed) >= 5 and all(weights["here"] for weights in listed)
    for name in {name for weights in listed for name in (weights["name"], weights["model"])}:
        assert name in venv.run("-c", ALONE, name, str(picture))
