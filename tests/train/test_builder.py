"""One builder for jobs: what is decided, counted and measured happens once, also after a resume."""

import json
from importlib import metadata

import pytest
import safetensors.numpy

import zoo
from zoo_core.runs.run import Run
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.train import builder, runner

SMALL = {
    "epochs": 1,
    "batch_size": 50,
    "data": {"train_size": 100, "test_size": 50},
    "model": {"hidden": (8,)},
}


def train(tmp_path, **changes):
    how = {"runs": tmp_path / "runs", "quiet": True, "device": "cpu"}
    return runner.train("mlp", "synthetic", settings={**SMALL, **changes}, **how)


def tensors_of(run):
    return safetensors.numpy.load_file(run.model_file)


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_from_init(tmp_path, monkeypatch):
    first = train(tmp_path)
    whole = train(tmp_path, init=str(first.path), seed=1)

    def stop(self, job):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(zoo.Interrupted):
        patched.setattr(TorchTrainer, "fit", stop)
        train(tmp_path, init=str(first.path), seed=1)
    (stopped,) = [
        Run(path.parent)
        for path in (tmp_path / "runs").glob("*/run.json")
        if json.loads(path.read_text())["status"] == "interrupted"
    ]
    runner.resume(str(stopped.path), quiet=True, device="cpu")
    expected, found = tensors_of(whole.run), tensors_of(stopped)
    assert all((expected[name] == found[name]).all() for name in expected)


@pytest.mark.parametrize(
    "changes, evaluations",
    [
        ({}, 1),
        ({"precision": "bfloat16"}, 2),  # what a finished model scores is measured in float32
        ({"validation_fraction": 0.5, "restore_best": True, "epochs": 3, "lr": 0.5}, None),
    ],
)
def test_the_test_set_is_measured_once_where_the_weights_are_those_of_the_last_epoch(
    tmp_path, monkeypatch, changes, evaluations
):
    seen = []
    predict = TorchTrainer.predict_batch

    def counted(self, model, images):
        seen.append(len(images))
        return predict(self, model, images)

    monkeypatch.setattr(TorchTrainer, "predict_batch", counted)
    big = {"data": {"train_size": 100, "test_size": 600}}
    result = train(tmp_path, **changes, **big)
    last = result.run.metrics()[-1]
    again = zoo.evaluate(result.path)
    assert again["accuracy"] == result.accuracy
    images = sum(seen) - 600  # without what zoo.evaluate did
    if evaluations == 1:  # one batch, to tell the time that an image takes
        assert images == 256 and last["test_accuracy"] == result.accuracy
    else:
        held_out = round(100 * changes.get("validation_fraction", 0))  # they choose a temperature
        assert images == 600 + held_out


def test_a_model_is_built_twice_and_sketched_twice(tmp_path, monkeypatch):
    from zoo_mlp.mlp import MLP

    built = []
    original = MLP.__init__

    def counted(self, *args, **options):
        built.append(options)
        original(self, *args, **options)

    monkeypatch.setattr(MLP, "__init__", counted)
    train(tmp_path)
    # Described before the run exists, trained, compared with what was kept, assembled from it.
    assert len(built) == 4


def test_a_run_knows_the_versions_of_what_its_plugins_require(monkeypatch):
    asked = {"zoo-resnet": ["torchvision>=0.2", "safetensors[torch]", "nothing-like-it", "click>=8",
                            "zoo-core[torch]>=0.1,<1", "rich ; extra == 'look'"]}  # fmt: skip
    monkeypatch.setattr(metadata, "requires", asked.get)
    known = builder.environment(zoo.info("resnet18_finetune"), "cpu")
    names = ("zoo-resnet", "safetensors", "click")
    assert {name: known.get(name) for name in names} == {n: metadata.version(n) for n in names}
    assert known["zoo-core"] == zoo.__version__ and not {"nothing-like-it", "rich"} & known.keys()
    assert {"python", "numpy", "torch", "device", "threads", "platform"} <= known.keys()


def test_a_run_of_a_version_that_recorded_less_resumes_without_a_warning(tmp_path, capsys):
    run = train(tmp_path).run
    document = run.read()
    known = {k: v for k, v in document["environment"].items() if k != "zoo-mlp"}
    run.write({**document, "status": "interrupted", "environment": known})
    runner.resume(str(run.path), device="cpu")
    assert "Warning" not in capsys.readouterr().err
