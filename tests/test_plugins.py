"""A plugin that is wrong says so in `zoo plugins` and changes nothing for anybody else."""

import json
import os
import signal
import subprocess
import sys

import pytest
from fixtures import plugins as fixture_plugins
from support import environment

FAILED = fixture_plugins.FAILED
INCOMPATIBLE = fixture_plugins.INCOMPATIBLE


@pytest.fixture
def records(zoo_json, plugin_site):
    return {
        r["distribution"]: r
        for r in zoo_json("plugins", "--traceback", PYTHONPATH=str(plugin_site))
    }


@pytest.fixture
def here(plugin_site):
    return {"PYTHONPATH": str(plugin_site)}


def test_each_broken_plugin_is_failed_for_its_own_reason(records):
    for name, (_, reason) in FAILED.items():
        record = records[f"fixture-{name}"]
        assert record["state"] == "failed", name
        assert reason in record["reason"], name
        assert "Traceback" in record["traceback"], name
        assert record["models"] == [], name
        assert "\n" not in record["reason"], name
    assert records["fixture-nowhere"]["state"] == "failed"
    assert "No module named 'fixture_lost'" in records["fixture-nowhere"]["reason"]


def test_a_plugin_for_a_newer_api_is_incompatible(records):
    for name, (_, reason) in INCOMPATIBLE.items():
        assert records[f"fixture-{name}"]["state"] == "incompatible"
        assert reason in records[f"fixture-{name}"]["reason"]


def test_two_distributions_with_one_plugin_id_are_both_in_conflict(records):
    one, two = (records[f"fixture-{name}"] for name in fixture_plugins.CONFLICT)
    assert one["state"] == two["state"] == "conflict"
    assert "fixture-conflict-two 1.2.3" in one["reason"]
    assert "fixture-conflict-one 1.2.3" in two["reason"]


def test_good_plugins_are_ok_beside_all_the_broken_ones(records, zoo_json, here):
    for name in fixture_plugins.GOOD:
        assert records[f"fixture-{name}"]["state"] == "ok", records[f"fixture-{name}"]
    assert records["zoo-cnn"]["state"] == records["zoo-core"]["state"] == "ok"
    alone = {model["name"] for model in zoo_json("list")}
    together = {model["name"] for model in zoo_json("list", **here)}
    added = {"good_net", "printed_net", "slow_net", "rival-a/rival_net", "rival-b/rival_net"}
    assert together == alone | added


def test_records_and_entries_know_their_distribution_and_version(records, zoo_json, here):
    good = records["fixture-good"]
    assert (good["id"], good["version"], good["entry_point"]) == ("good", "1.2.3", "fixture_good")
    assert good["hooks"] == ["zoo_models"]
    provider = zoo_json("info", "good_net", **here)["provider"]
    assert provider == {"plugin": "good", "distribution": "fixture-good", "version": "1.2.3"}


def test_what_a_plugin_prints_does_not_spoil_json(zoo_command, here):
    done = zoo_command("list", "--json", **here)
    json.loads(done.stdout)
    assert "hello from the plugin" in done.stderr


def test_the_time_of_a_slow_plugin_is_recorded(records):
    assert records["fixture-slow"]["seconds"] >= 0.3  # what it sleeps while it is imported


def test_zoo_list_mentions_plugins_that_could_not_be_loaded(zoo_command, here):
    assert "could not be loaded" in zoo_command("list", **here).stderr
    assert zoo_command("list").stderr == ""


def test_strict_mode_turns_a_broken_plugin_into_an_error(zoo_command, here):
    done = zoo_command("list", ZOO_STRICT="1", status=1, **here)
    assert "Error: plugin 'bad-entry' (fixture-bad-entry 1.2.3) is failed" in done.stderr
    assert "Traceback" not in done.stderr
    zoo_command("list", ZOO_STRICT="1")


def test_the_environment_chooses_plugins(zoo_json, zoo_command, here):
    def states(**env):
        return {r["id"]: r["state"] for r in zoo_json("plugins", **here, **env)}

    chosen = states(ZOO_PLUGINS="good, mlp")
    assert {name for name, state in chosen.items() if state == "ok"} == {"builtin", "good", "mlp"}
    assert set(chosen.values()) == {"ok", "disabled"}
    excluded = states(ZOO_DISABLE_PLUGINS="good,not-installed")
    assert excluded["good"] == "disabled"
    assert excluded["cnn"] == "ok"
    # Disabling one of two that clash is how a user resolves it without uninstalling; it is by id.
    assert states(ZOO_DISABLE_PLUGINS="clash")["clash"] == "disabled"
    done = zoo_command("list", ZOO_PLUGINS="goood", status=2, **here)
    assert "ZOO_PLUGINS names goood, which is not installed" in done.stderr


def test_a_disabled_plugin_is_never_imported(zoo_command, here):
    done = zoo_command("list", "--json", ZOO_DISABLE_PLUGINS="prints", **here)
    assert "hello" not in done.stderr


def test_ctrl_c_during_a_slow_import_stops_the_zoo(tmp_path):
    plugin = tmp_path / "fixture_hangs.py"
    plugin.write_text("import sys, time\nprint('importing', flush=True)\ntime.sleep(60)")
    metadata = tmp_path / "fixture_hangs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: fixture-hangs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[zoo]\nhangs = fixture_hangs\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "list"],
        stderr=subprocess.PIPE,
        env=environment(PYTHONPATH=str(tmp_path), PYTHONUNBUFFERED="1"),
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "importing\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=300) == 130
    said = process.stderr.read()
    assert "interrupted while plugin 'hangs' (fixture-hangs 1.0) was loading" in said
    assert "Traceback" not in said


def test_metadata_that_cannot_be_read_is_one_failed_plugin(tmp_path, zoo_json):
    metadata = tmp_path / "spoilt-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_bytes(b"[zoo]\n\xff\xfe = x\n")
    states = {r["id"]: r for r in zoo_json("plugins", PYTHONPATH=str(tmp_path))}
    assert states["spoilt"]["state"] == "failed"
    assert "cannot be read" in states["spoilt"]["reason"]
    assert states["cnn"]["state"] == "ok"


def test_the_quick_search_finds_what_importlib_metadata_finds():
    import importlib.metadata

    from zoo_core.spec.discovery import declared_in

    for group in ("zoo", "console_scripts", "pytest11"):
        slow = sorted((p.name, p.value) for p in importlib.metadata.entry_points(group=group))
        quick = sorted((found.id, found.value) for found in declared_in(group))
        assert quick == slow, group
        assert quick


def test_plugins_in_a_zip_file_on_the_path_are_found(tmp_path, zoo_json):
    import zipfile

    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("fixture_zipped.py", fixture_plugins.one_model("zip_net", "a.b"))
        archive.writestr("fixture_zipped-3.0.dist-info/METADATA", "Name: zipped\nVersion: 3.0\n")
        archive.writestr(
            "fixture_zipped-3.0.dist-info/entry_points.txt", "[zoo]\nzipped = fixture_zipped\n"
        )
    records = {r["id"]: r for r in zoo_json("plugins", PYTHONPATH=str(tmp_path / "zipped.zip"))}
    assert records["zipped"]["state"] == "ok", records["zipped"]
    assert records["zipped"]["version"] == "3.0"
    assert records["cnn"]["state"] == "ok"


def test_slow_plugins_are_named_and_the_set_can_be_had_elsewhere(zoo_command, plugin_site):
    env = {"PYTHONPATH": str(plugin_site)}
    assert "\nslow adds " in zoo_command("plugins", **env).stderr
    wanted = zoo_command("plugins", "--requirements", **env).stdout.split()
    assert {"zoo-core==0.1.0", "zoo-cnn==0.1.0"} <= set(wanted) and wanted == sorted(set(wanted))
