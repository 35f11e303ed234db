"""The loop and its learner: what is trained, what stops it, what decides what."""

import errno
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import zoo
from zoo_core.data.dataset import Split
from zoo_core.data.loader import Loader
from zoo_core.io.errors import TrainingError
from zoo_core.torch.task import OPTIMIZERS, Optimizer
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.train import runner as training
from zoo_core.train.checkpoint import Checkpoints


def fit(job):
    return TorchTrainer().fit(job)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_it_learns(make_job, small_cnn):
    job = make_job(small_cnn, epochs=8, lr=3e-3, schedule="one_cycle",
                   data={"train_size": 1000, "test_size": 200})  # fmt: skip
    fit(job)
    lines = job.run.metrics()
    assert [line["epoch"] for line in lines] == list(range(1, 9))
    assert lines[-1]["train_loss"] < lines[0]["train_loss"]
    assert lines[-1]["test_accuracy"] > 0.6
    assert set(lines[0]) == {
        "epoch", "step", "lr", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
        "test_top5", "seconds", "images_per_second", "state",
    }  # fmt: skip


def test_times_are_those_of_all_processes_of_a_run(make_job, small_mlp):
    job = make_job(small_mlp)
    first = fit(job)
    state, _ = Checkpoints(job.run.checkpoints).load()
    assert 0 < state.values["cpu_seconds"] <= first.cpu_seconds
    state.values["cpu_seconds"] += 1000
    Checkpoints(job.run.checkpoints).save(10**6, state)
    assert fit(replace(job, resume_from=job.run)).cpu_seconds > 1000


def test_a_run_is_complete_though_its_report_was_interrupted(tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    small = {"epochs": 1, "data": {"train_size": 50, "test_size": 10}, "model": {"hidden": (4,)}}
    result = training.train("mlp", "synthetic", settings=small, runs=tmp_path, report=interrupted)
    assert result.run.read()["status"] == "complete" and result.report is None
    assert f"zoo report {result.run.path} writes it" in capsys.readouterr().err


def test_the_seed_decides_everything(make_job, small_cnn):
    settings = {"augment": ("flip", "crop:4"), "mixup": 0.2}
    one, twin, other = (
        fit(make_job(small_cnn, seed=seed, **settings)).tensors for seed in (1, 1, 2)
    )
    assert same(one, twin)
    assert not same(one, other)


def test_the_test_set_decides_nothing(make_job, small_cnn):
    job = make_job(small_cnn, epochs=3, validation_fraction=0.2, patience=1, restore_best=True)
    expected = fit(job).tensors
    test = Split(job.dataset.test.images, job.dataset.test.labels[::-1].copy())
    other = make_job(small_cnn, epochs=3, validation_fraction=0.2, patience=1, restore_best=True)
    changed = replace(other, dataset=replace(job.dataset, test=test))
    assert same(fit(changed).tensors, expected)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_every_optimizer_does_what_torch_does(make_job, small_mlp, optimizer):
    """Fused kernels, our schedule and our seeds, against the plainest loop one could write."""
    settings = {"optimizer": optimizer, "lr": 0.01, "weight_decay": 0.01, "clip_grad": 0.5}
    job = make_job(small_mlp, schedule="cosine", **settings)
    fitted = fit(job).tensors

    torch.manual_seed(0)
    model = TorchTrainer().build(small_mlp, job.config)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    more = {"momentum": 0.9} if optimizer == "sgd" else {}
    plain = kinds[optimizer](model.parameters(), 0.01, weight_decay=0.01, fused=False, **more)
    loader = job.training_loader()
    total = 2 * len(loader)
    for epoch in range(2):
        for number, batch in enumerate(loader.epoch(epoch)):
            step = epoch * len(loader) + number
            plain.param_groups[0]["lr"] = 0.01 * (1 + np.cos(np.pi * step / total)) / 2
            plain.zero_grad()
            torch.nn.functional.cross_entropy(model(batch.images), batch.labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            plain.step()
    for name, tensor in model.state_dict().items():
        assert np.allclose(tensor.numpy(), fitted[name], atol=1e-5), name


def test_accumulated_parts_add_up_to_the_whole_batch(make_job, small_mlp):
    whole = fit(make_job(small_mlp)).tensors
    parts = fit(make_job(small_mlp, accumulate=4)).tensors
    for name in whole:
        assert np.allclose(whole[name], parts[name], atol=1e-5), name


def test_averaged_weights_are_what_is_evaluated_and_kept(make_job, small_mlp):
    plain = fit(make_job(small_mlp, lr=0.01)).tensors
    job = make_job(small_mlp, lr=0.01, ema=0.9)
    averaged = fit(job).tensors
    assert not same(plain, averaged)
    model = TorchTrainer().build(small_mlp, job.config)
    TorchTrainer().load_state(model, averaged)
    loader = job.evaluation_loader(job.dataset.test)
    right = sum(
        int((TorchTrainer().predict_batch(model, b.images).argmax(1) == b.labels.numpy()).sum())
        for b in loader.epoch(0)
    )
    assert right / 100 == pytest.approx(job.run.metrics()[-1]["test_accuracy"])


def test_early_stopping_ends_with_the_best_epoch(make_job, small_mlp):
    job = make_job(
        small_mlp, epochs=30, lr=0.02, validation_fraction=0.3, patience=2, restore_best=True
    )
    fitted = fit(job)
    lines = job.run.metrics()
    losses = [line["validation_loss"] for line in lines]
    assert fitted.stopped_early
    assert fitted.epochs == len(lines) == fitted.best_epoch + 2 < 30
    assert fitted.best_epoch == 1 + int(np.argmin(losses))
    until = fit(make_job(small_mlp, epochs=fitted.best_epoch, lr=0.02, validation_fraction=0.3))
    assert same(fitted.tensors, until.tensors)


def test_two_optimisers_train_two_networks(make_job):
    entry = zoo.ModelEntry(
        name="two-nets", target="fixtures.several_optimizers:TwoNets", summary="For tests",
        kinds=("generation",), num_classes=None, task="fixtures.several_optimizers:Adversarial",
    )  # fmt: skip
    job = make_job(entry, lr=1e-3, epochs=3)
    torch.manual_seed(0)
    before = {k: v.clone() for k, v in TorchTrainer().build(entry, job.config).state_dict().items()}
    after = fit(job).tensors
    assert all(not np.array_equal(before[name], after[name]) for name in before)
    first, *_, line = job.run.metrics()
    assert {"train_loss", "train_loss_generator", "test_loss"} <= set(first)
    judged = [each["train_loss"] - each["train_loss_generator"] for each in (first, line)]
    assert judged[1] < judged[0], "the discriminator did not learn"
    with pytest.raises(zoo.ZooError, match="no option 'smoth'") as caught:
        TorchTrainer().check(make_job(entry, task={"smoth": 1}))
    assert caught.value.hint == "did you mean smooth?"


@pytest.mark.parametrize("make", [torch.optim.RMSprop, torch.optim.Adagrad])  # one has `fused`
def test_an_optimiser_is_added_in_one_place(make_job, small_mlp, monkeypatch, make):
    with pytest.raises(zoo.ZooError, match="cannot be trained with 'other'"):
        TorchTrainer().check(make_job(small_mlp, optimizer="other"))
    monkeypatch.setitem(OPTIMIZERS, "other", Optimizer(make, "lr=log:0.0001:0.1"))
    job = make_job(small_mlp, optimizer="other", lr=0.003, epochs=3)
    TorchTrainer().check(job)
    fit(job)
    first, *_, last = job.run.metrics()
    assert last["train_loss"] < first["train_loss"]
    assert TorchTrainer().optimizers["other"] == "lr=log:0.0001:0.1"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_loss_reaches_the_parameters_of_its_own_optimiser_alone(make_job, accumulate):
    """With the generator's rate at zero, the discriminator learns as if there were no generator."""
    entry = zoo.ModelEntry(
        name="two-nets", target="fixtures.several_optimizers:TwoNets", summary="For tests",
        kinds=("generation",), num_classes=None, task="fixtures.several_optimizers:Adversarial",
    )  # fmt: skip
    from fixtures import several_optimizers
    from fixtures.several_optimizers import Adversarial

    results = []
    for update_generator in (True, False):
        job = make_job(entry, accumulate=accumulate, optimizer="sgd", momentum=0.0)

        class Variant(Adversarial):
            def make_optimizer(self, name, both=update_generator):
                optimizer = super().make_optimizer(name)
                if name == "generator":
                    optimizer.param_groups[0]["lr_scale"] = 0.0
                return optimizer

            def step(self, batch, update, both=update_generator):
                def only(name, loss):
                    if both or name == "discriminator":
                        update(name, loss)

                return super().step(batch, only)

        several_optimizers.Variant = Variant
        fitted = fit(replace(job, entry=replace(entry, task="fixtures.several_optimizers:Variant")))
        results.append(fitted.tensors)
    assert same(*results)


def test_the_scale_of_float16_changes_after_all_optimisers_are_done(make_job, monkeypatch):
    """Scaled by powers of two, and doubled after each step, the weights are the same to the bit."""
    entry = zoo.ModelEntry(
        name="two-nets", target="fixtures.several_optimizers:TwoNets", summary="For tests",
        kinds=("generation",), num_classes=None, task="fixtures.several_optimizers:Adversarial",
    )  # fmt: skip
    settings = {"accumulate": 2, "optimizer": "sgd", "momentum": 0.0, "epochs": 1}
    plain, real = fit(make_job(entry, **settings)).tensors, torch.amp.GradScaler

    def growing(device, enabled):
        return real(device, init_scale=4.0, growth_interval=1)

    monkeypatch.setattr(torch.amp, "GradScaler", growing)
    assert same(plain, fit(make_job(entry, **settings)).tensors)


def test_a_loss_that_is_no_number_stops_the_run(make_job, small_mlp):
    job = make_job(small_mlp, lr=1e30, epochs=5)
    with pytest.raises(TrainingError) as caught:
        fit(job)
    assert "the loss was not a finite number in epoch 1, step " in str(caught.value)
    assert "at lr 1e+30" in str(caught.value)
    assert "no checkpoint was saved before" in caught.value.hint


def test_the_last_good_checkpoint_is_named_when_the_loss_explodes(make_job, small_mlp, monkeypatch):
    from zoo_core.torch.task import Classification

    steps = []
    plain = Classification.step

    def explodes(self, batch, update):
        steps.append(1)
        factor = float("nan") if len(steps) == 15 else 1
        figures = plain(self, batch, lambda name, loss: update(name, loss * factor))
        return {name: figure * factor for name, figure in figures.items()}

    monkeypatch.setattr(Classification, "step", explodes)
    job = replace(make_job(small_mlp, lr=0.01, epochs=4), checkpoint_seconds=0)
    with pytest.raises(TrainingError) as caught:
        fit(job)
    assert "in epoch 3, step 1" in str(caught.value)
    assert "00000014.json" in caught.value.hint
    state, warnings = Checkpoints(job.run.checkpoints).load()
    assert not warnings
    assert all(np.isfinite(array).all() for array in state.tensors.values())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ],
)
def test_too_little_memory_names_the_batch_size(make_job, small_mlp, monkeypatch, error):
    from zoo_core.torch.task import Classification

    def exhausted(self, batch, update):
        raise error

    monkeypatch.setattr(Classification, "step", exhausted)
    with pytest.raises(TrainingError, match="too small for a batch of 64") as caught:
        fit(make_job(small_mlp))
    assert "--set batch_size=32" in caught.value.hint


@pytest.mark.parametrize("outputs", [3, 12])
def test_a_model_that_ignores_the_number_of_classes_is_told_so(make_job, small_mlp, outputs):
    target = f"{__name__}:{stubborn_mlp.__name__}"
    stubborn = replace(small_mlp, target=target, config={"outputs": outputs}, ranges={})
    with pytest.raises(
        TrainingError, match=rf"gives \(64, {outputs}\) .* not \(64, 10\)"
    ) as caught:
        fit(make_job(stubborn))
    assert "num_classes" in caught.value.hint


def stubborn_mlp(num_classes=10, in_channels=3, image_size=32, outputs=3):
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(in_channels * image_size**2, outputs)
    )


def test_a_full_disk_ends_the_run_with_what_was_saved(tmp_path, monkeypatch, capsys):
    saves = []
    original = Checkpoints.save

    def save(self, step, state):
        saves.append(step)
        if len(saves) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", save)
    settings = {"epochs": 3, "data": {"train_size": 300, "test_size": 50}}
    with pytest.raises(zoo.ZooError, match="could not be written: No space left") as caught:
        training.train("mlp", "synthetic", settings=settings, runs=tmp_path / "runs", quiet=True,
                       checkpoint_seconds=0)  # fmt: skip
    (run,) = (tmp_path / "runs").iterdir()
    assert f"zoo train --resume {run}" in caught.value.hint
    assert f"{saves[2]:08d}.json" in caught.value.hint
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    monkeypatch.undo()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    result = training.resume(str(run), quiet=True)
    assert result.run.read()["status"] == "complete"


def test_bfloat16_trains_and_keeps_float32_weights(make_job, small_cnn):
    tensors = fit(make_job(small_cnn, precision="bfloat16")).tensors
    assert {str(array.dtype) for array in tensors.values()} == {"float32", "int64"}


@pytest.mark.slow
def test_a_compiled_model_trains_to_the_same_result(make_job, small_mlp):
    plain = fit(make_job(small_mlp)).tensors
    compiled = fit(make_job(small_mlp, compile=True)).tensors
    for name in plain:
        assert np.allclose(plain[name], compiled[name], atol=1e-4), name


def test_labels_are_needed_to_train_a_classifier(make_job, small_mlp):
    job = make_job(small_mlp)
    bare = replace(job.dataset, targets=zoo.Targets(), train=Split(job.dataset.train.images, None))
    with pytest.raises(zoo.ZooError, match="has no labels"):
        TorchTrainer().check(replace(job, dataset=bare))


def test_an_unknown_device_is_refused_with_those_that_are_here(make_job, small_mlp):
    with pytest.raises(zoo.ZooError, match="no device 'tpu'") as caught:
        fit(replace(make_job(small_mlp), device="tpu"))
    assert "cpu" in caught.value.hint


@pytest.mark.parametrize(("settings", "device"), [({}, "abacus"), ({"task": {"beta": 1.0}}, "cpu")])
def test_what_the_trainer_cannot_do_is_refused_before_there_is_a_run(settings, device, tmp_path):
    settings = {**settings, "data": {"train_size": 40, "test_size": 10}}
    with pytest.raises(zoo.ZooError, match="abacus|beta"):
        training.train("mlp", "synthetic", settings=settings, device=device, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_another_task_is_measured_on_the_device_of_the_model(monkeypatch):
    class Seen:
        def __init__(self, *given):
            pass

        def evaluate(self, model, batches, sum_over):
            return [one.device.type for batch in batches for one in (batch.images, batch.labels)]

    monkeypatch.setattr("zoo_core.torch.trainer.find_task", lambda *_: Seen)
    data = zoo.open_dataset("synthetic", train_size=4, test_size=4)
    preprocess = zoo.Preprocess.for_dataset(data)
    loader = Loader(data.test, batch_size=2, preprocess=preprocess, shuffle=False, backend="torch")
    for device in ("cpu", "meta"):
        given = zoo.info("vae"), torch.nn.Linear(1, 1, device=device), zoo.Recipe(), loader, ()
        assert TorchTrainer().measure(*given) == [device] * 4
