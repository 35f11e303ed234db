"""zoo publish: one commit, pulled again, checked, and only then listed."""

import hashlib
import json
import shutil

import msgspec
import numpy as np
import pytest
from hub.loopback import Fault
from hub.parts import NAME, REFERENCE, entry, files_of, join_file, small_run, split_file

import zoo
from zoo_core.cli.weights import everything
from zoo_core.io.errors import HubError, ManifestError, UsageError, WeightsError
from zoo_core.io.files import user_manifest
from zoo_core.publish.card import card, training_of
from zoo_core.publish.publish import plan, publish
from zoo_core.runs.run import Run
from zoo_core.use.load import answers
from zoo_core.weights.manifest import read, write


def test_a_place_that_holds_another_model_is_left_alone(run, hub, token, tmp_path):
    other = small_run(tmp_path / "other", "fcn_numpy", hidden=(8,))
    shared = f"file:{tmp_path / 'shared'}"
    for place, hint in ((shared, f"{shared}/fcn_numpy-synthetic"), (REFERENCE, "fcn_numpy")):
        before = publish(plan(run, place)).revision
        with pytest.raises(
            HubError, match="and fcn_numpy.synthetic is of another model"
        ) as refused:
            publish(plan(other, place))
        assert hint in refused.value.hint
        assert publish(plan(run, place)).revision == before  # it still holds what it held
    publish(plan(other, f"{shared}/fcn_numpy-synthetic"))


def test_a_folder_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(HubError, match="there is no folder"):
        zoo.load(f"file:{tmp_path / 'shared'}")
    (tmp_path / "shared").mkdir()
    with pytest.raises(HubError, match="there are no weights in"):
        zoo.load(f"file:{tmp_path / 'shared'}")


def test_published_weights_come_back_bit_equal_from_an_empty_cache(
    run, hub, token, tmp_path, monkeypatch
):
    done = publish(plan(run, REFERENCE))
    (_, first), (oid, files) = hub.repositories[NAME].commits
    assert done.new and done.revision == oid
    assert set(files) - set(first) == {"config.json", "model.safetensors", "README.md"}
    assert files["model.safetensors"] == run.model_file.read_bytes()
    (listed,) = read(user_manifest())
    assert listed.name == "mlp.synthetic" and listed.sources == (f"{REFERENCE}@{oid}",)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("HF_TOKEN")
    for reference in (REFERENCE, f"{REFERENCE}@{oid}", f"{REFERENCE}@main", "mlp.synthetic"):
        assert answers(zoo.load(reference)) == answers(zoo.load(run.path)), reference


def test_the_same_bytes_make_no_second_commit(run, hub, token, tmp_path):
    first, second = publish(plan(run, REFERENCE)), publish(plan(run, REFERENCE))
    assert second.revision == first.revision and not second.new
    assert len(hub.repositories[NAME].commits) == 2
    other = publish(plan(run, REFERENCE, license="mit"))
    assert other.new and len(hub.repositories[NAME].commits) == 3
    folder = f"file:{tmp_path / 'shared'}"
    first, second = publish(plan(run, folder)), publish(plan(run, folder))
    assert second.revision == first.revision and first.new and not second.new


def test_a_name_that_means_something_else_from_now_on_is_said(run, tmp_path):
    one, two = (plan(run, f"file:{tmp_path / name}") for name in ("one", "two"))
    assert publish(one).replaced == "" and publish(one).replaced == ""
    assert publish(two).replaced.startswith(f"file:{tmp_path / 'one'}@")


def test_a_private_repository_needs_the_token_again(run, hub, token, monkeypatch):
    publish(plan(run, REFERENCE), private=True, message="Ours")
    assert hub.repositories[NAME].private
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match="there is no repository hf:org/shapes, or it is private"):
        zoo.load(REFERENCE)


def test_the_card_is_one_that_the_hub_understands(run):
    from huggingface_hub import ModelCard

    text = plan(run, REFERENCE, license="mit").card
    data = ModelCard(text).data
    figures = run.read()["result"]["test"]
    (accuracy,) = [one for one in data.eval_results if one.metric_type == "accuracy"]
    assert accuracy.metric_value == figures["accuracy"] and accuracy.dataset_name == "synthetic"
    assert data.license == "mit" and data.model_name == "mlp.synthetic"
    for words in (f'zoo.load("{REFERENCE}")', "pip install zoo-mlp", "One run with seed 0",
                  f"{run.read()['parameters']['total']:,}", "| lr | 0.001 |",
                  "| augment | flip |"):  # fmt: skip
        assert words in text, words
    assert text == plan(run, REFERENCE, license="mit").card


@pytest.mark.parametrize(
    ("subset", "kept", "told"),
    [
        (1, 0, ["It was trained on the whole training set; the weights are the last epoch's."]),
        (0.04, 0, ["Only 4 % of the training set was used; the weights are the last epoch's."]),
        (0.04, 10, ["10 images of the training set were kept out to choose by.",
                    "Only 4 % of the training set was used, those images included."]),
    ],
)  # fmt: skip
def test_the_card_says_one_thing_about_the_images_that_were_used(run, subset, kept, told):
    planned = plan(run, REFERENCE)
    training = training_of(planned.verified.located.run)
    training["recipe"]["subset"], training["dataset"]["validation"] = subset, kept
    text = card(planned.weights, training, REFERENCE)
    assert [line for line in text.splitlines() if "training set" in line] == told


def test_doubles_in_a_run_of_a_model_in_float32_are_not_published(numpy_run, tmp_path):
    header, body = split_file(numpy_run.model_file.read_bytes())
    names = [name for name in header if name != "__metadata__"]
    assert {header[name]["dtype"] for name in names} == {"F32"}
    for name in names:
        offsets = header[name]["data_offsets"]
        header[name] |= {"dtype": "F64", "data_offsets": [2 * offset for offset in offsets]}
    data = join_file(header, np.frombuffer(body, "<f4").astype("<f8").tobytes())
    copy = Run(shutil.copytree(numpy_run.path, tmp_path / "run"))
    copy.model_file.write_bytes(data)
    document = copy.read()
    document["result"]["model"] |= {
        "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data),
    }  # fmt: skip
    copy.write(document)
    with pytest.raises(WeightsError, match=r"layers\.\S+ is float64 instead of float32"):
        plan(copy, REFERENCE)
    assert zoo.load(copy.path).zoo.digest, "what an older version kept still loads"


def test_nothing_of_this_machine_is_published(run, tmp_path):
    planned = plan(run, REFERENCE)
    for data in (planned.config, planned.card.encode()):
        assert str(run.path.parent).encode() not in data


def test_a_relative_folder_is_listed_as_what_it_is_from_everywhere(run, tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    done = publish(plan(run, "file:../shared"))
    assert done.weights.sources == (f"file:{tmp_path.resolve() / 'shared'}@{done.revision}",)


def test_what_cannot_be_published(run, tmp_path):
    for to, words in (
        ("org/name", "is not a repository"),
        ("hf:name", "is not a repository"),
        ("hf:../name", "is not a repository"),
        ("hf:org/name@main", "leave out @main"),
        ("file:", "is not a repository"),
    ):
        with pytest.raises(UsageError, match=words):
            plan(run, to)
    with pytest.raises(UsageError, match="cannot be a tag"):
        plan(run, REFERENCE, tag="No Tag")


def test_without_a_token_nothing_is_published(run, hub):
    with pytest.raises(HubError, match="the hub needs a token for publishing") as caught:
        publish(plan(run, REFERENCE))
    assert "hf auth login" in caught.value.hint
    assert not hub.repositories and not user_manifest().exists()


def test_a_wrong_token_is_named_as_what_is_wrong(run, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(HubError, match="does not accept your token for publishing") as caught:
        publish(plan(run, REFERENCE))
    assert "may write" in caught.value.hint and "unset" not in caught.value.hint


@pytest.mark.parametrize(
    "files",
    [{"config.json": b'{"architectures": ["BertModel"]}', "model.safetensors": b"theirs"},
     {"notes.txt": b"theirs"}],
)  # fmt: skip
def test_a_repository_that_holds_something_else_is_left_alone(run, hub, token, files):
    hub.add(NAME, files)
    with pytest.raises(HubError, match="holds something that zoo publish did not put there"):
        publish(plan(run, REFERENCE))
    assert hub.repositories[NAME].commits[-1][1] == files


def test_a_hub_that_fails_is_not_taken_for_a_repository_of_others(run, hub, token, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    publish(plan(run, REFERENCE))
    hub.faults.append(Fault("GET", "/resolve/", status=500))
    with pytest.raises(HubError) as caught:
        publish(plan(run, REFERENCE, license="mit"))
    assert "did not put there" not in str(caught.value)


def test_a_repository_with_a_card_alone_is_used_and_that_is_said(run, hub, token, said):
    hub.add(NAME, {".gitattributes": b"", "README.md": b"made on the web page"})
    publish(plan(run, REFERENCE))
    assert any("its README.md is replaced" in sentence for sentence in said())


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "you may not write to it"), (409, "conflict"), (412, "somebody else published"),
     (429, "too many requests"), (500, "hub failed")],
)  # fmt: skip
def test_a_hub_that_refuses_a_commit_says_why(run, hub, token, status, words, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.faults.append(Fault("POST", "/commit/", status=status))
    with pytest.raises(HubError, match=words):
        publish(plan(run, REFERENCE))
    assert not user_manifest().exists()


def test_somebody_who_publishes_meanwhile_is_not_overwritten(run, hub, token, monkeypatch):
    publish(plan(run, REFERENCE))
    from zoo_core.weights.repository import HuggingFace

    same = HuggingFace._same

    def meanwhile(self, info, files, sha256):
        hub.add(NAME, {"config.json": b"somebody else's"})
        return same(self, info, files, sha256)

    monkeypatch.setattr(HuggingFace, "_same", meanwhile)
    with pytest.raises(HubError, match="somebody else published to it meanwhile"):
        publish(plan(run, REFERENCE, license="mit"))
    assert hub.repositories[NAME].commits[-1][1]["config.json"] == b"somebody else's"


def test_what_the_hub_gives_back_wrong_is_not_listed(run, hub, token):
    hub.faults.append(Fault("GET", "/resolve/", change=lambda data: data[:-1] + b"!"))
    with pytest.raises((WeightsError, ManifestError)):
        publish(plan(run, REFERENCE))
    assert not user_manifest().exists()


def test_a_name_that_others_use_is_never_taken(run, hub, token, monkeypatch, said):
    from zoo_core.weights import manifest

    core = user_manifest().with_name("core.json")
    write(core, [entry(name="mlp.synthetic")])
    monkeypatch.setattr(manifest, "core_manifest", lambda: core)
    with pytest.raises(UsageError, match="zoo-core lists other weights called mlp.synthetic"):
        plan(run, REFERENCE, tag="synthetic")  # which is all that a dry run does
    assert not hub.repositories
    free = f"mlp.synthetic-{run.read()['result']['model']['sha256'][:8]}"
    assert plan(run, REFERENCE).weights.name == free, "without --tag a run can be published"
    assert any(free in sentence and "--tag" in sentence for sentence in said())
    assert publish(plan(run, REFERENCE)).weights.name == free and zoo.load(free).zoo.classes
    assert publish(plan(run, REFERENCE, tag="mine")).weights.name == "mlp.mine"


def test_a_manifest_that_cannot_be_read_is_not_overwritten(run, tmp_path):
    user_manifest().write_text("{ not JSON")
    with pytest.raises(ManifestError):
        publish(plan(run, f"file:{tmp_path / 'shared'}"))
    assert user_manifest().read_text() == "{ not JSON"
    assert not (tmp_path / "shared").exists(), "found out before anything is published"


def test_a_folder_is_a_hub_with_the_same_layout(run, tmp_path):
    done = publish(plan(run, f"file:{tmp_path / 'shared'}"))
    files = {p.name: p.read_bytes() for p in (tmp_path / "shared" / done.revision).iterdir()}
    assert files == files_of(plan(run, f"file:{tmp_path / 'shared'}"))
    assert (tmp_path / "shared" / "main").read_text().strip() == done.revision


@pytest.mark.parametrize("file", ["config.json", "README.md"])
def test_a_revision_of_a_folder_that_was_edited_is_refused(run, tmp_path, file):
    done = publish(plan(run, f"file:{tmp_path / 'shared'}"))
    path = tmp_path / "shared" / done.revision / file
    path.write_text(path.read_text().replace("circle", "CIRCLE").replace("# ", "# My "))
    for reference in (f"file:{tmp_path / 'shared'}", f"file:{tmp_path / 'shared'}@{done.revision}"):
        with pytest.raises(WeightsError, match="was changed after it was published"):
            zoo.load(reference)


def test_verify_knows_the_digest_of_a_pulled_file_that_no_manifest_lists(
    run, tmp_path, monkeypatch
):
    publish(plan(run, f"file:{tmp_path / 'shared'}"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "somebody-elses.json"))
    zoo.load(f"file:{tmp_path / 'shared'}")
    (row,) = everything()
    assert row["ok"] and row["state"].startswith("ok")
    (stored,) = (tmp_path / "cache" / "weights").glob("*.safetensors")
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    stored.write_bytes(data)
    (row,) = everything()
    assert not row["ok"] and "is not the file that was published" in row["state"]


def test_the_life_of_weights_on_the_command_line(
    numpy_run, tmp_path, zoo_command, zoo_here, json_here
):
    """With a model that needs no torch; all weights are verified where no others are installed."""
    to = f"file:{tmp_path / 'shared'}"
    shown = zoo_here("publish", str(numpy_run.path), "--to", to, "--dry-run")
    assert "## How it was trained" in shown.stdout and not (tmp_path / "shared").exists()
    done = json_here("publish", str(numpy_run.path), "--to", to, "--license", "mit")
    assert done["name"] == "fcn_numpy.synthetic" and done["new"]
    (row,) = json_here("list", "--weights", "fcn_numpy*")
    assert not row["here"] and row["install"] == "" and row["metrics"]["test_accuracy"] >= 0
    assert "cache" in zoo_here("pull", "fcn_numpy").stdout
    (row,) = json_here("list", "--weights", "fcn_numpy*")
    assert row["here"]
    assert "ok, fits numpy/fcn_numpy" in zoo_command("verify", ZOO_PLUGINS="numpy").stdout
    (file,) = (tmp_path / "cache" / "weights").glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert (
        "not the file that was published"
        in zoo_command("verify", status=1, ZOO_PLUGINS="numpy").stdout
    )
    assert json_here("evaluate", "fcn_numpy")["images"] == 32
    assert "ok" in zoo_here("verify", "fcn_numpy").stdout
    assert "deleted" in zoo_here("remove", "fcn_numpy").stdout
    assert "not on this machine" in zoo_here("verify", "fcn_numpy", status=1).stdout
    same = zoo_here("compare", str(numpy_run.path), "fcn_numpy", status=2).stderr
    assert "has the same weights as" in same and "two different runs" in same
    zoo_here("remove", "--forget", "fcn_numpy.synthetic")
    assert json_here("list", "--weights", "fcn_numpy*") == []
    assert json.loads((tmp_path / "own.json").read_text())["weights"] == []


def test_a_plugin_brings_a_manifest_and_weights_along(numpy_run, tmp_path, zoo_command, zoo_json):
    """`zoo_manifests` names a file in the plugin's package; `package:` sources are inside it."""
    weights = plan(numpy_run, "file:x", tag="carried").weights
    package = tmp_path / "site" / "carrier"
    (package / "files").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import zoo\n\n@zoo.hookimpl\ndef zoo_manifests(): return ['carrier:weights.json']\n"
    )
    (package / "files" / "fcn.safetensors").write_bytes(numpy_run.model_file.read_bytes())
    source = ("package:files/fcn.safetensors",)
    write(package / "weights.json", [msgspec.structs.replace(weights, sources=source)])
    metadata = tmp_path / "site" / "carrier-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: carrier\nVersion: 1.0\n\n")
    (metadata / "entry_points.txt").write_text("[zoo]\ncarrier = carrier\n")
    env = {"PYTHONPATH": str(tmp_path / "site"), "ZOO_MANIFEST": str(tmp_path / "own.json")}
    (row,) = zoo_json("list", "--weights", "fcn_numpy*", **env)
    assert row["name"] == "fcn_numpy.carried" and row["here"]
    assert row["manifest"] == "plugin 'carrier'"
    assert "ok, fits" in zoo_command("verify", "fcn_numpy", **env).stdout
    assert zoo_json("evaluate", "fcn_numpy.carried", **env)["images"] == 32
    with (package / "files" / "fcn.safetensors").open("ab") as file:
        file.write(b"more")
    wrong = zoo_command("evaluate", "fcn_numpy.carried", status=1, **env).stderr
    assert "bytes instead of" in wrong
