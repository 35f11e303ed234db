"""Several processes train together: as one would, to the same bytes whoever of them is killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.numpy import load_file
from support import environment
from torch import nn

from zoo_core.data.dataset import Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import Interrupted, OptionError, UsageError
from zoo_core.io.process import Interruption
from zoo_core.torch.processes import Reduction, joined, shared
from zoo_core.train import runner
from zoo_core.train.display import open_display

DRIVER = Path(__file__).with_name("ranks_driver.py")
DATA = {"train_size": 109, "test_size": 61}
PLAIN = {"optimizer": "sgd", "lr": 0.01, "schedule": "constant", "warmup": 0.0, "augment": (),
         "mixup": 0.0, "ema": 0.0, "label_smoothing": 0.0, "batch_size": 12, "data": DATA,
         "clip_grad": 0.0, "accumulate": 1}  # fmt: skip
# Everything at once: the last batch of 1 image leaves processes without any.
ALL = {"epochs": 2, "optimizer": "adamw", "weight_decay": 0.01, "decay": "matrices", "ema": 0.9,
       "clip_grad": 1.0, "accumulate": 2, "augment": ("flip",), "mixup": 0.2, "patience": 3,
       "restore_best": True, "validation_fraction": 0.2, "batch_size": 20,
       "data": {"train_size": 101, "test_size": 30}}  # fmt: skip

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="gloo is not tested there")


def train(folder, *jobs):
    done = subprocess.run(
        [sys.executable, DRIVER, folder, json.dumps(jobs)],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment(ZOO_CACHE=str(folder / "cache"), OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(jobs), done.stderr
    for job, one in zip(jobs, found, strict=True):
        if not job.keys() & {"kill", "fails"}:
            assert set(one["ends"]) == {0}, done.stderr
    return found


@pytest.fixture
def group(tmp_path):
    """A group of this process alone."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_gradients_are_those_of_backward_and_zeros_where_a_loss_does_not_reach(group):
    net, unused = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), nn.Linear(3, 3)
    parameters = [*net.parameters(), *unused.parameters()]
    reduction = Reduction(parameters, said=2)
    images = torch.randn(6, 4)
    expected = torch.autograd.grad(net(images).square().sum(), net.parameters())
    for step in range(3):
        reduction.said = torch.tensor([0.0, float(step)])
        reduction.backward(net(images).square().sum())
        found = [p.grad for p in parameters]
        for gradient, wanted in zip(found, expected, strict=False):
            assert torch.equal(gradient, wanted)
        assert all(not gradient.any() for gradient in found[len(expected) :])
        assert reduction.heard.tolist() == [0.0, step]
        for p in parameters:
            p.grad = None


def test_a_process_without_images_takes_part_with_gradients_of_zeros(group):
    net = nn.Linear(4, 2)
    reduction = Reduction(list(net.parameters()), said=1)
    reduction.backward(reduction.nothing)
    assert all(p.grad is not None and not p.grad.any() for p in net.parameters())


@pytest.mark.parametrize(
    ("error", "open_after"),
    [(None, False), (Interrupted("stopped"), False), (SystemExit(0), False), (ValueError(), True)],
)
def test_a_process_closes_its_group_unless_others_may_wait_for_it(
    error, open_after, tmp_path, monkeypatch
):
    """A process that ends with an open group aborts now and then."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    real = dist.init_process_group
    monkeypatch.setattr(
        dist, "init_process_group", lambda: real("gloo", store=store, rank=0, world_size=1)
    )
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(type(error)) if error else nullcontext(), joined():
        assert dist.is_initialized()
        if error:
            raise error
    assert dist.is_initialized() is open_after
    if open_after:
        dist.destroy_process_group()


def test_processes_that_nothing_connects_are_one_sentence(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UsageError, match="do not say where the processes meet") as caught:
        runner.train("mlp", "synthetic", quiet=True)
    assert "torchrun" in caught.value.hint


def test_what_the_first_process_makes_reaches_all_and_its_error_is_its_own(group):
    assert shared(lambda: b"state") == b"state"
    assert shared(lambda: b"") == b""
    with pytest.raises(ValueError, match="broken"):
        shared(lambda: int("broken"))


def test_lines_and_warnings_come_from_the_first_process_alone(monkeypatch, capsys):
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        display = open_display(quiet=False)
        display.say(f"line of {rank}")
        display.warn(f"warning of {rank}")
    assert capsys.readouterr().err == "line of 0\nWarning: warning of 0\n"


def test_the_signal_that_torchrun_sends_after_another_one_does_not_end_the_saving(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is not interruption._note


def test_a_batch_smaller_than_the_number_of_processes_is_refused(make_job, small_mlp, monkeypatch):
    job = make_job(small_mlp, batch_size=3)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(OptionError, match="a batch of 3 images is too small for 4 processes"):
        job.trainer.check(job)


def test_a_split_with_fewer_images_than_processes_is_measured_whole_by_each():
    split = Split(np.zeros((3, 4, 4, 3), np.uint8), None)
    how = {"preprocess": Preprocess(4, 3, (0.5,), (0.5,)), "shuffle": False, "batch_size": 256}
    assert len(Loader(split, **how, shard=(1, 4)).batch(0, 0)) == 3
    assert len(Loader(split, **how, shard=(1, 3)).batch(0, 0)) == 1


@pytest.mark.parametrize(("model", "lr"), [("mlp", 0.01), ("nano_vit_p4", 0.001)])
@pytest.mark.slow
def test_any_number_of_processes_does_what_one_does(model, lr, tmp_path):
    """After 50 steps; the last batch of an epoch has one image, and evaluation counts all once.

    At 0.01 nano_vit_p4 does not learn: its loss rises, and in some step rounding puts one ReLU on
    the other side of 0, on some processors. The weights then differ by 1e-3 (with GELU by 2e-7).
    """
    settings = {**PLAIN, "lr": lr, "epochs": 5, "model": {"dropout": 0.0}}
    job = {"model": model, "settings": settings}
    one, *others = train(tmp_path, *({**job, "runs": f"{n}", "processes": n} for n in (1, 2, 4)))
    weights = load_file(one["model"])
    for other in others:
        found = load_file(other["model"])
        assert max(np.abs(found[name] - array).max() for name, array in weights.items()) < 1e-5
        for alone, together in zip(one["lines"], other["lines"], strict=True):
            for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy"):
                assert alone[name] == pytest.approx(together[name], abs=1e-4), name


CNN = {**ALL, "model": {"channels": (8, 16), "hidden": 32, "dropout": 0.5}}
GAN = {"epochs": 2, "batch_size": 20, "model": {"width": 8, "noise": 8}, "ema": 0.9,
       "data": {"train_size": 101, "test_size": 30}}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("model", "settings"), [("cnn", CNN), ("dcgan", GAN)])
def test_whichever_process_is_killed_the_same_command_ends_with_the_same_bytes(
    model, settings, tmp_path
):
    """Three processes: with two, sums round the same in any order. The GAN has two optimisers and
    batch norm, whose statistics each process has for itself; only the first process has a disk."""
    job = {"model": model, "settings": settings, "processes": 3}
    killed = {**job, "runs": "killed"}
    kills = [{**killed, "kill": kill} for kill in ([0, 0], [2, 3], [0, 1], [1, 4])]
    kills[1]["resume"] = True  # the others are the same command again
    drawn = np.random.default_rng(0).integers(3, size=(6, 2)).tolist()
    kills += [{**killed, "kill": kill} for kill in drawn]
    done = {**job, "runs": "whole"}
    other = {**done, "settings": {**settings, "epochs": 3}, "fails": True}
    *_, last, whole, again, refused = train(tmp_path, *kills, killed, done, done, other)
    assert again == whole, "it is complete, and stays as it is"
    assert refused["ends"][0] == 1, "other settings are refused by the first process,"
    assert not {*refused["ends"][1:]} - {0, -9}, "and the others end"
    assert last["digest"] == whole["digest"]
    for line in (*last["lines"], *whole["lines"]):
        del line["seconds"], line["images_per_second"]
    assert last["lines"] == whole["lines"]
    assert not list(tmp_path.glob("process-*"))
