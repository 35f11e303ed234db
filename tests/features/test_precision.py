"""precision of frozen models: of the pass, of fine-tuning, and `auto`."""

import numpy as np
import pytest
from features.parts import settings
from zoo_frozen.torch import finetune, frozen
from zoo_frozen.torch.extract import Extractor

import zoo
from zoo_core.data.features import kept_features
from zoo_core.torch import trainer
from zoo_core.train import runner as training

FINETUNE = {"task": {"finetune": "last:1"}, "epochs": 1, "lr": 0.01, "validation_fraction": 0.0}


def passes() -> dict[str, set[str]]:
    """The kept features: by precision the splits."""
    keys = [file.progress().key for file in kept_features()]
    return {key["precision"]: {k["split"] for k in keys if k["precision"] == key["precision"]}
            for key in keys}  # fmt: skip


def test_a_pass_in_bfloat16_gives_nearly_the_same_features_kept_apart(train):
    train(precision="bfloat16")
    assert passes() == {"bfloat16": {"train", "test"}}  # to measure the model needs no other pass
    train()
    assert passes() == {"bfloat16": {"train", "test"}, "float32": {"train", "test"}}
    exact, rounded = (
        next(f for f in kept_features() if f.progress().key["precision"] == p
             and f.progress().key["split"] == "train").load().array.astype(np.float32)
        for p in ("float32", "bfloat16")
    )  # fmt: skip
    assert not np.array_equal(exact, rounded)
    assert np.abs(exact - rounded).max() < 0.05 * np.abs(exact).max()


def test_fine_tuning_computes_in_bfloat16_and_goes_on_to_the_same_bytes(train, monkeypatch):
    exact, whole = train(**FINETUNE), train(**FINETUNE, precision="bfloat16")
    assert whole.run.read()["recipe"]["precision"] == "bfloat16"
    assert whole.run.model_file.read_bytes() != exact.run.model_file.read_bytes()
    step = finetune.Finetuner.step

    def stopped(self, batch, place):
        if place.step == 2:
            raise KeyboardInterrupt
        step(self, batch, place)

    monkeypatch.setattr(finetune.Finetuner, "step", stopped)
    with pytest.raises(zoo.Interrupted):
        train(**FINETUNE, precision="bfloat16")
    monkeypatch.setattr(finetune.Finetuner, "step", step)
    known = {exact.path, whole.path}
    (half,) = (path for path in whole.path.parent.iterdir() if path not in known)
    resumed = training.resume(str(half), quiet=True)
    assert resumed.run.model_file.read_bytes() == whole.run.model_file.read_bytes()


def test_auto_is_float32_where_the_processor_has_no_instructions(train, monkeypatch):
    monkeypatch.setattr(trainer, "quick_bfloat16", lambda: False)
    monkeypatch.setattr(frozen.FrozenTrainer, "paces", None)  # nothing is measured
    assert train(precision="auto").run.read()["recipe"]["precision"] == "float32"


@pytest.mark.parametrize("changes", [{}, FINETUNE], ids=["head", "last:1"])
@pytest.mark.parametrize("faster", ["float32", "bfloat16"])
def test_auto_takes_what_is_faster_and_the_run_says_what(train, monkeypatch, faster, changes):
    def paces(self, job):
        measured = list(real(self, job))  # real steps, whatever they took
        assert len(measured) == 3 and min(measured) > 0
        return iter([0.0, *([1.0] * 2 if job.recipe.precision == faster else [2.0] * 2)])

    real = frozen.FrozenTrainer.paces
    monkeypatch.setattr(trainer, "quick_bfloat16", lambda: True)
    monkeypatch.setattr(frozen.FrozenTrainer, "paces", paces)
    result = train(**changes, precision="auto")
    assert result.run.read()["recipe"]["precision"] == faster
    assert set(passes()) == {faster}


@pytest.mark.slow
def test_all_trials_of_a_search_have_the_precision_that_was_measured_once(
    weights, tmp_path, monkeypatch
):
    asked = []

    def choose(self, job):
        asked.append(job)
        return "float32"

    monkeypatch.setattr(frozen.FrozenTrainer, "choose_precision", choose)
    found = zoo.tune(
        "resnet18_features", "synthetic", trials=2, quiet=True, runs=tmp_path / "runs",
        settings=settings(weights, epochs=1, precision="auto"),
    )  # fmt: skip
    assert found.search.plan().recipe.precision == "float32" and len(asked) == 1


def test_fine_tuning_mixes_images(train):
    mixed, plain = train(**FINETUNE, mixup=0.2), train(**FINETUNE)
    assert mixed.run.read()["recipe"]["mixup"] == 0.2
    assert mixed.run.model_file.read_bytes() != plain.run.model_file.read_bytes()


def test_a_pass_is_as_exact_as_it_says():
    """The network sees what autocast makes of the images, only where that was asked for."""
    import torch

    from zoo_core.data.preprocess import Preprocess

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 4))
    look = Preprocess(size=8, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3)
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
    rows = {
        p: np.concatenate(list(Extractor(model, look, torch.device("cpu"), "plain", 4, p)(images)))
        for p in ("float32", "bfloat16")
    }
    assert np.array_equal(rows["bfloat16"], torch.tensor(rows["bfloat16"]).bfloat16().float())
    assert not np.array_equal(rows["float32"], torch.tensor(rows["float32"]).bfloat16().float())
