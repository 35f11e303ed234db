"""Weights inside a plugin's package: written, listed, smaller where nothing is lost by it."""

import json

import pytest

from zoo_core.errors import UsageError, WeightsError
from zoo_core.hub import ship as shipping
from zoo_core.hub.ship import ship
from zoo_core.manifest import read


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "carrier"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import zoo\n\n@zoo.hookimpl\ndef zoo_manifests(): return ['carrier:weights.json']\n"
    )
    metadata = tmp_path / "carrier-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: carrier\nVersion: 1.0\n\n")
    (metadata / "entry_points.txt").write_text("[zoo]\ncarrier = carrier\n")
    return folder


def test_a_package_that_carries_the_weights_of_a_run(numpy_run, package, tmp_path, zoo_json):
    run, to = str(numpy_run.path), f"package:{package}"
    done = zoo_json("publish", run, "--to", to, "--license", "mit", "--tag", "carried")
    file = package / done["file"]
    assert file.read_bytes() == numpy_run.model_file.read_bytes()
    found = {path.name for path in package.iterdir()} - {"__pycache__"}
    assert found == {"__init__.py", "weights", "weights.json"}, "no lock, nothing temporary"
    env = {"PYTHONPATH": str(tmp_path), "ZOO_CACHE": str(tmp_path / "nothing")}
    measured = zoo_json("evaluate", "fcn_numpy.carried", **env)
    assert measured["accuracy"] == done["metrics"]["test_accuracy"]


def test_half_the_bytes_with_figures_that_were_measured_again(numpy_run, package):
    whole = ship(numpy_run, package, tag="whole")
    half = ship(numpy_run, package, tag="half", dtype="float16")
    assert half.bytes < 0.55 * whole.bytes and half.dtype == "float16"
    assert half.metrics["test_loss"] != whole.metrics["test_loss"]
    assert half.metrics["test_accuracy"] == pytest.approx(whole.metrics["test_accuracy"], abs=0.001)
    listed = read(package / "weights.json").weights
    assert [weights.name for weights in listed] == ["fcn_numpy.half", "fcn_numpy.whole"]


def test_a_dtype_that_costs_accuracy_is_refused_and_nothing_is_kept(
    numpy_run, package, monkeypatch
):
    monkeypatch.setattr(shipping, "TOLERANCE", -1.0)
    with pytest.raises(WeightsError, match="in float16 the accuracy is"):
        ship(numpy_run, package, dtype="float16")
    assert not list(package.glob("weights/*")) and not (package / "weights.json").exists()


def test_a_folder_that_is_no_package_is_refused(numpy_run, tmp_path):
    with pytest.raises(UsageError, match="has no __init__.py"):
        ship(numpy_run, tmp_path)


def test_publishing_again_replaces_the_entry(numpy_run, package):
    ship(numpy_run, package)
    ship(numpy_run, package, license="mit")
    (entry,) = json.loads((package / "weights.json").read_text())["weights"]
    assert entry["license"] == "mit" and entry["sources"] == [f"package:{entry['file']}"]
