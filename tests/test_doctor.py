"""zoo doctor on a machine that is well, and on one where something is wrong."""

import json

import pytest
from hub.loopback import Hub

import zoo
from zoo_core import doctor
from zoo_core.spec.plugins import load_plugins


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Tests that want a hub start one. One plugin is enough to try."""
    load_plugins()  # all of them, for the tests that come later in this process
    monkeypatch.setenv("ZOO_PLUGINS", "cnn")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def examined(zoo_here):
    """The findings by what they are about, and that the exit status fits them."""

    def examine(*arguments, problem=False):
        told = json.loads(zoo_here("doctor", "--json", *arguments, status=int(problem)).stdout)
        assert told["ok"] is not problem
        found = {}
        for one in told["findings"]:
            found.setdefault(one["about"], []).append(one)
        return found

    return examine


def test_a_machine_that_is_well(examined, tmp_path):
    found = examined()
    assert found["zoo"][0]["state"] == "ok" and found["plugins"][0]["state"] == "ok"
    assert "torch" in found["torch"][0]["words"]
    assert found["cache"][0]["words"].startswith(str(tmp_path / "cache"))
    assert "empty" in found["cache"][0]["words"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_table_says_the_same(zoo_here):
    lines = zoo_here("doctor", "--offline").stdout.splitlines()
    assert lines[0].split() == ["ABOUT", "STATE", "WHAT"]
    assert any(line.startswith("weights") and " ok " in line for line in lines)
    assert not any(line.startswith("hub") for line in lines)


def test_a_hub_that_cannot_be_reached_is_no_problem(examined):
    (hub,) = examined()["hub"]
    assert hub["state"] == "note" and "cannot be reached" in hub["words"]


def test_a_hub_with_and_without_a_token(examined, monkeypatch):
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert "without a token" in examined()["hub"][0]["words"]
        monkeypatch.setenv("HF_TOKEN", hub.token)
        assert "signed in as" in examined()["hub"][0]["words"]
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        (refused,) = examined(problem=True)["hub"]
        assert refused["state"] == "problem" and "hf auth login" in refused["hint"]
        hub.log.clear()
        examined("--offline")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert examined()["hub"][0]["state"] == "note"
        assert not hub.log


def test_a_cache_that_cannot_be_written(examined, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    (cache,) = examined(problem=True)["cache"]
    assert cache["state"] == "problem" and "ZOO_CACHE" in cache["hint"]


def test_a_disk_that_is_nearly_full(examined, monkeypatch):
    monkeypatch.setattr(doctor, "LITTLE", 1 << 62)
    assert examined()["cache"][0]["state"] == "note"


def test_a_torch_that_says_nothing_of_bfloat16(monkeypatch):
    import torch

    from zoo_core.torch import learner

    assert learner.quick_bfloat16() in (True, False)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert learner.quick_bfloat16() is False


def test_a_manifest_that_cannot_be_read(examined, tmp_path):
    (tmp_path / "own.json").write_text("{")
    listed = examined(problem=True)["weights"]
    assert [one["state"] for one in listed] == ["ok", "problem"]
    assert str(tmp_path / "own.json") in listed[1]["words"]


def test_plugins_that_failed_are_named_and_how_to_disable_them(zoo_command, plugin_site):
    env = {"PYTHONPATH": str(plugin_site), "ZOO_PLUGINS": "cnn,exits,clash,too-new"}
    done = zoo_command("doctor", "--json", "--offline", status=1, **env)
    told = [f for f in json.loads(done.stdout)["findings"] if f["about"] == "plugins"]
    assert told[0]["state"] == "ok" and len(told) == 5  # clash is the id of two
    assert all(one["state"] == "problem" for one in told[1:])
    assert all("zoo plugins disable " in one["hint"] for one in told[1:])


def test_a_plugin_that_a_person_disabled_is_a_note(examined, monkeypatch, tmp_path):
    monkeypatch.delenv("ZOO_PLUGINS")
    others = {record.id for record in load_plugins().records} - {"builtin", "cnn"}
    monkeypatch.setenv("ZOO_DISABLE_PLUGINS", ",".join(others))
    zoo.disable_plugin("cnn")
    _, note = examined("--offline")["plugins"]
    assert note["state"] == "note" and "zoo plugins enable cnn" in note["words"]


def test_a_torch_that_cannot_be_imported(zoo_command, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libgomp is missing')")
    env = {"PYTHONPATH": str(tmp_path), "ZOO_PLUGINS": "cnn"}
    done = zoo_command("doctor", "--json", "--offline", status=1, **env)
    (torch,) = [f for f in json.loads(done.stdout)["findings"] if f["about"] == "torch"]
    assert "libgomp is missing" in torch["words"]


def test_how_idle_threads_wait_is_shown_and_a_persons_own_choice_stays(zoo_command):
    def told(**env):
        done = zoo_command("doctor", "--json", "--offline", ZOO_PLUGINS="cnn", **env)
        found = json.loads(done.stdout)["findings"]
        return next(one["words"] for one in found if one["about"] == "threads")

    ours = told()
    assert ours.startswith("GOMP_SPINCOUNT=") and "set by the zoo" in ours
    assert told(OMP_WAIT_POLICY="active") == "OMP_WAIT_POLICY=active"
