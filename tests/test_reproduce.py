"""Training once more: the same bytes come out, or a true account of what is different."""

import hashlib
import importlib
import json
import platform
import subprocess
import sys

import pytest
from support import environment

import zoo
from zoo_core.io.errors import UsageError
from zoo_core.io.process import ONE_THREAD, SAME_CODE, be_portable
from zoo_core.publish.publish import converted, ship
from zoo_core.runs.run import Run
from zoo_core.train.builder import differences, processor
from zoo_core.weights.manifest import read
from zoo_core.weights.references import of_run
from zoo_core.weights.statements import SUFFIX, rederived, statements
from zoo_core.weights.verify import check

SMALL = {"epochs": 2, "batch_size": 50, "data": {"train_size": 400, "test_size": 200}}
X86 = platform.machine() in ("x86_64", "AMD64")


@pytest.fixture
def run(tmp_path):
    how = {"settings": SMALL, "runs": tmp_path / "runs", "quiet": True, "name": "first"}
    return zoo.train("fcn_numpy", "synthetic", **how).run


def changed(run, **recipe):
    """The run with another recipe on record."""
    document = run.read()
    run.write(document | {"recipe": document["recipe"] | recipe})
    return run


def test_a_run_is_trained_again_to_the_same_bytes(run, json_here, tmp_path):
    kept = tmp_path / "kept.jsonl"
    again = ("reproduce", str(run.path), "--name", "again", "--statement", str(kept))
    said = [json_here(*again) for _ in range(2)]  # complete, it is compared once more
    assert said[0]["verdict"] == "bytes" and said[0] == said[1]
    assert said[0]["found"] == run.read()["result"]["model"]["sha256"] == said[0]["sha256"]
    assert (said[0]["epochs"], said[0]["first_epoch"]) == (2, None)
    assert Run(tmp_path / "runs" / "again").metrics()[1]["state"] == run.metrics()[1]["state"]
    assert len(statements(kept)) == 1, "one run is one statement"
    assert said[0]["different"] == []


def test_other_bytes_are_told_with_the_epoch_and_the_same_images_compared(run, tmp_path):
    lines = run.metrics()
    run.write_metrics([lines[0], lines[1] | {"state": "0" * 64}])
    document = run.read()
    document["result"]["model"]["sha256"] = "1" * 64
    document["environment"]["python"] = "3.0"
    run.write(document)
    said = zoo.reproduce(run.path, runs=tmp_path / "runs", quiet=True)
    assert (said.verdict, said.first_epoch, said.p) == ("interval", 2, 1.0)
    assert said.test == "McNemar, mid-p" and said.interval[0] < 0 < said.interval[1]
    assert [one.partition(" was ")[0] for one in said.different] == ["python"]


def test_another_accuracy_is_a_failure(run, zoo_here):
    changed(run, lr=1e-6)
    said = zoo_here("reproduce", str(run.path / "run.json"), "--name", "worse", status=1)
    assert "another accuracy" in said.stdout and "differ from epoch 1 on" in said.stdout


def test_a_record_alone_is_compared_by_its_figures(run, tmp_path):
    changed(run, seed=1)
    alone = tmp_path / "kept" / "record.json"
    alone.parent.mkdir()
    alone.write_bytes(run.settings_file.read_bytes())
    said = zoo.reproduce(alone, runs=tmp_path / "runs", quiet=True)
    assert (said.test, said.epochs) == ("two independent shares", 0)


def test_nothing_is_trained_for_other_images_or_in_the_run_itself(run, tmp_path):
    runs = tmp_path / "runs"
    with pytest.raises(UsageError, match="is the run on record"):
        zoo.reproduce(run.path, runs=runs, name="first")
    document = run.read()
    run.write(document | {"dataset": document["dataset"] | {"digest": "0" * 64}})
    with pytest.raises(UsageError, match="other images"):
        zoo.reproduce(run.path, runs=runs, name="second")
    assert [path.name for path in runs.iterdir()] == ["first"]


def test_weights_in_a_package_count_the_statements_beside_them(run, tmp_path, monkeypatch):
    package = tmp_path / "carried_weights"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    ship(run, package, dtype="float16")
    (weights,) = read(package / "weights.json", "carried_weights")
    told = json.loads((package / "weights" / f"{weights.name}.json").read_text())
    assert told["states"] == [line["state"] for line in run.metrics()]
    beside = package / "weights" / f"{weights.name}{SUFFIX}"
    assert rederived(weights) == 0
    monkeypatch.setattr("zoo_core.weights.records.published", lambda name: weights)
    for name in ("one", "two"):
        how = {"name": name, "runs": tmp_path / "runs", "quiet": True, "statement": beside}
        said = zoo.reproduce(weights.name, **how)
        assert (said.verdict, said.dtype, said.found) == ("bytes", "float16", weights.sha256)
        assert said.trained == run.read()["result"]["model"]["sha256"]
    assert rederived(weights) == 2
    beside.write_text(beside.read_text().replace(weights.sha256, "0" * 64, 1))
    assert rederived(weights) == 1, "a statement about other weights does not count"
    beside.write_text("[]")
    assert rederived(weights) == 0


def test_portable_takes_effect_before_numpy_and_a_resume_keeps_it(tmp_path, zoo_command):
    small = [f"--set=data.{name}=100" for name in ("train_size", "test_size")]
    train = ("train", "fcn_numpy", "--portable", "--dataset", "synthetic", *small, "--epochs", "1")
    zoo_command(*train, "--name", "x", "--no-report", ZOO_PLUGINS="numpy")
    document = Run(tmp_path / "runs" / "x").read()
    assert document["recipe"]["portable"] and document["environment"]["threads"] == 1
    zoo_command("train", "--resume", "x", "--no-report", ZOO_PLUGINS="numpy")


@pytest.mark.skipif(not X86, reason="the instructions are those of x86-64")
def test_portable_takes_the_newer_instructions_from_numpy():
    code = (
        "from zoo_core.io.process import be_portable; be_portable()\n"
        "from numpy._core._multiarray_umath import __cpu_features__ as has\n"
        "print([has[name] for name in ('X86_V4', 'AVX512_ICL', 'AVX512_SPR')])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True,
        env={k: v for k, v in environment().items() if k not in {**ONE_THREAD, **SAME_CODE}},
    )  # fmt: skip
    assert done.stdout.strip() == "[False, False, False]"


def test_portable_comes_too_late_once_numpy_is_there(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with pytest.raises(UsageError, match="comes too late") as raised:
        be_portable()
    assert "OMP_NUM_THREADS=1" in raised.value.hint


@pytest.mark.parametrize("wrong", [{"precision": "bfloat16"}, {"compile": True}], ids=str)
def test_portable_needs_arithmetic_that_others_have(wrong):
    with pytest.raises(zoo.ZooError, match="portable needs precision float32"):
        zoo.Recipe(portable=True, **wrong)


def test_a_processor_is_named_and_only_flags_that_differ_are_told():
    told = processor()
    assert told["processor"] and {"processor_model", "processor_flags"} < told.keys()
    if platform.system() == "Linux" and X86:
        assert "family" in told["processor_model"] and "sse2" in told["processor_flags"]
    then = {"threads": 1, "processor_flags": ["avx", "avx2", "fma"], "gone": 3}
    now = {"threads": 1, "processor_flags": ["avx", "avx2", "avx512f"], "new": 4}
    assert differences(then, now) == ["processor_flags was fma and is now avx512f"]


def test_an_option_that_the_model_has_had_only_since_then_changes_no_bytes(run, tmp_path):
    document = run.read()
    verified = check(of_run(run), exact=True)
    about = json.loads(verified.header.metadata["zoo"])
    for config in (about["config"], document["model"]["config"]):
        assert config.pop("hidden") == [128, 64]  # as if it had come later
    old = converted(verified, "", json.dumps(about, sort_keys=True))
    document["result"]["model"]["sha256"] = hashlib.sha256(old).hexdigest()
    run.write(document)
    said = zoo.reproduce(run.path, runs=tmp_path / "runs", quiet=True)
    assert said.verdict == "bytes" and said.found == said.sha256 != said.trained
