"""Weights inside a plugin's package: written, listed, smaller where nothing is lost by it."""

import json

import click
import pytest
from hub.loopback import Fault
from msgspec.structs import replace

import zoo
from zoo_core.cli.publish import publish_command
from zoo_core.cli.weights import everything
from zoo_core.io.errors import HubError, UsageError, WeightsError
from zoo_core.io.files import user_manifest
from zoo_core.publish import publish as shipping
from zoo_core.publish.publish import ship
from zoo_core.weights.manifest import is_packaged, of_plugins, read, write
from zoo_core.weights.references import published


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
    listed = read(package / "weights.json")
    assert [weights.name for weights in listed] == ["fcn_numpy.half", "fcn_numpy.whole"]


def test_a_name_that_means_two_files_is_told_and_each_has_a_reference(
    numpy_run, package, tmp_path, monkeypatch, said, zoo_here
):
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "own.json"))
    lists = [("plugin 'numpy'", "carrier", package / "weights.json")]
    monkeypatch.setattr("zoo_core.weights.manifest.of_plugins", lambda: iter(lists))
    monkeypatch.syspath_prepend(tmp_path)
    published_first = shipping.publish(shipping.plan(numpy_run, f"file:{tmp_path / 'shared'}"))
    ship(numpy_run, package)
    assert zoo.load("fcn_numpy.synthetic").zoo.digest == published_first.weights.sha256
    assert not any("other weights" in sentence for sentence in said()), "the same bytes"
    half = ship(numpy_run, package, dtype="float16")
    (told,) = [sentence for sentence in said() if "other weights" in sentence]
    for weights in (published_first.weights, half):
        reference = f"numpy/fcn_numpy.synthetic@{weights.sha256[:12]}"
        assert reference in told and zoo.load(reference).zoo.digest == weights.sha256
        for command in (["info"], ["verify"], ["pull"], ["evaluate"]):
            assert weights.sha256[:12] in zoo_here(*command, reference, "--json").stdout
    rows = json.loads(zoo_here("verify", "--json").stdout)
    assert len(rows) == 2 and all(row["ok"] for row in rows)
    said_so = zoo_here("verify").stderr
    assert "fcn_numpy.synthetic means several weights: write numpy/fcn_numpy.synthetic@" in said_so


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


@pytest.fixture
def carried(numpy_run, package, monkeypatch, tmp_path):
    """A plugin that ships two weights, the only one that ships any."""
    monkeypatch.syspath_prepend(tmp_path)
    ship(numpy_run, package, tag="whole", license="mit")
    ship(numpy_run, package, tag="half", dtype="float16")
    place = "plugin 'carrier'", "carrier", package / "weights.json"
    monkeypatch.setattr("zoo_core.weights.manifest.of_plugins", lambda: iter([place]))
    return package


def publish_all(*arguments):
    publish_command.main(["--all", *arguments], standalone_mode=False)


def test_all_weights_of_plugins_go_to_a_hub_with_one_command(carried, hub, token, capsys):
    publish_all("--to", "hf:org", "--json")
    first = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in first] == ["fcn_numpy.half", "fcn_numpy.whole"]
    assert all(one["new"] for one in first)
    half = zoo.load("hf:org/fcn_numpy-half")
    assert half.zoo.digest == read(carried / "weights.json")[0].sha256
    _, files = hub.repositories["org/fcn_numpy-half"].at("main")
    assert b'zoo.load("hf:org/fcn_numpy-half")' in files["README.md"]
    # Again: no second commit; and the name still means the file in the package.
    publish_all("--to", "hf:org", "--json")
    assert not any(one["new"] for one in json.loads(capsys.readouterr().out))
    assert is_packaged(published("fcn_numpy.half").sources[0])


def test_a_list_that_names_the_package_keeps_it_and_adds_the_hub(carried, hub, token):
    half = published("fcn_numpy.half")
    write(user_manifest(), [replace(half, file="model.safetensors")])
    publish_all("--to", "hf:org")
    listed = {one.name: one.sources for one in read(user_manifest())}
    assert listed["fcn_numpy.half"][0] == half.sources[0] == "package:carrier:" + half.file
    assert [s.partition("@")[0] for s in listed["fcn_numpy.half"][1:]] == ["hf:org/fcn_numpy-half"]


def test_a_damaged_file_of_a_package_is_replaced_by_a_published_one(carried, hub, token, said):
    file = carried / "weights" / "fcn_numpy.half.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"!")
    with pytest.raises(WeightsError, match="is not the file that was published") as caught:
        zoo.load("fcn_numpy.half")
    assert "pip install --force-reinstall zoo-numpy" in caught.value.hint
    file.write_bytes(whole)
    publish_all("--to", "hf:org")
    assert published("fcn_numpy.half").sources[0].startswith("package:")
    assert published("fcn_numpy.half").sources[1].startswith("hf:org/")
    file.write_bytes(whole[:-1] + b"!")
    said()
    assert zoo.load("fcn_numpy.half").zoo.classes
    assert said()[0].endswith("; taking another copy")
    file.unlink()
    assert zoo.load("fcn_numpy.half").zoo.classes


def test_an_interrupted_publication_says_how_far_it_came(carried, hub, token, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo_core.publish.publish.publish", interrupted)
    with pytest.raises((KeyboardInterrupt, click.Abort)):
        publish_all("--to", "hf:org")
    assert "0 of 2 are published; run the command again for the rest" in capsys.readouterr().err


@pytest.mark.slow
def test_all_that_our_plugins_ship_goes_to_a_hub_and_comes_back(hub, token, capsys, monkeypatch):
    monkeypatch.setattr("zoo_core.weights.manifest.of_plugins", of_plugins)
    ours = {weights.name: weights for weights in shipping.shipped()}
    assert {"patch_lstm.cifar10", "lenet_numpy.mnist", "acgan.cifar10"} <= ours.keys()
    publish_all("--to", "hf:org", "--json")
    done = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert done.keys() == ours.keys() and all(one["new"] for one in done.values())
    manifest = {one.name: one for one in read(user_manifest())}
    for name, weights in ours.items():
        repository = f"hf:org/{name.replace('.', '-')}"
        assert manifest[name].sources == (f"{repository}@{done[name]['revision']}",)
        loaded = zoo.load(repository)
        assert loaded.zoo.digest == weights.sha256
        assert loaded.zoo.metrics == weights.metrics


def test_zoo_verify_reads_what_plugins_bring_along_too(carried, capsys):
    rows = everything()
    assert [(row["name"], row["ok"]) for row in rows] == [
        ("fcn_numpy.half", True), ("fcn_numpy.whole", True),
    ]  # fmt: skip
    with (carried / "weights" / "fcn_numpy.half.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    assert [row["ok"] for row in everything()] == [False, True]


def test_a_hub_that_fails_in_between_leaves_what_was_published(carried, hub, token):
    hub.faults.append(Fault("POST", "fcn_numpy-whole/commit", status=500))
    with pytest.raises(HubError) as failed:
        publish_all("--to", "hf:org")
    assert "1 of 2 are published; run the command again for the rest" in failed.value.hint
    assert zoo.load("hf:org/fcn_numpy-half").zoo.classes
    hub.faults.clear()
    publish_all("--to", "hf:org")
    assert zoo.load("hf:org/fcn_numpy-whole").zoo.classes


def test_a_dry_run_of_all_sends_nothing(carried, hub, token, capsys):
    publish_all("--to", "hf:org", "--dry-run")
    assert "hf:org/fcn_numpy-whole" in capsys.readouterr().out
    assert not hub.log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "hf:org", "--plugin", "other"], "none of the plugins other ships"),
        (["--to", "package:x"], "as they are"),
        (["--to", "hf:org", "--tag", "x"], "as they are"),
        (["latest", "--to", "hf:org"], "name one run, or --all"),
        (["--to", "hf:org/name"], "is not a place for several"),
        (["--to", "org"], "is not a place for several"),
    ],
)
def test_what_all_cannot_mean(carried, arguments, words):
    with pytest.raises((click.UsageError, zoo.ZooError), match=words):
        publish_all(*arguments)


def test_weights_without_the_story_of_their_training_are_not_published(carried):
    (carried / "weights" / "fcn_numpy.half.json").unlink()
    with pytest.raises(WeightsError, match="does not say how fcn_numpy.half was trained"):
        publish_all("--to", "file:/nowhere", "--dry-run")
