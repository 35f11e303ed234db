"""by_width: the learning rate for the default width holds for others, and nothing else changes."""

import json

import pytest
import torch
from torch import nn

import zoo
from zoo_core.torch.task import OPTIMIZERS, parameter_groups
from zoo_core.torch.width import follow_width


def follows(name: str, scale: float, optimizer: str, **options):
    torch.manual_seed(0)
    model = zoo.create(name, scale=scale, **options)
    with torch.device("meta"):
        narrow = zoo.create(name, **options)
    follow_width(model, narrow, optimizer)
    return model


def rates(model: nn.Module) -> dict[str, float]:
    names = {p: name for name, p in model.named_parameters()}
    groups = parameter_groups(model, list(model.parameters()), "all")
    return {names[p]: group["lr_scale"] for group in groups for p in group["params"]}


@pytest.mark.parametrize("name", ["mlp", "cnn", "nano_vit_p4"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_default_width_stays_as_it_is(name, optimizer):
    torch.manual_seed(0)
    plain = zoo.create(name).state_dict()
    model = follows(name, 1.0, optimizer)
    assert not model.lr_scales
    assert all(torch.equal(plain[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name, first, inner, last", [
    ("mlp", "layers.1.weight", "layers.3.weight", "layers.5.weight"),
    ("cnn", "features.0.0.weight", "features.1.0.weight", "head.4.weight"),
    ("nano_vit_p4", "positions", "blocks.1.attention.out.weight", "head.weight"),
])  # fmt: skip
def test_rates_of_layers_follow_their_width(name, first, inner, last):
    """Table 3 of arXiv 2203.03466, for twice the width."""
    adam, sgd = (rates(follows(name, 2.0, optimizer)) for optimizer in ("adamw", "sgd"))
    assert [adam[layer] for layer in (first, inner, last)] == [1.0, 0.5, 0.5]
    assert [sgd[layer] for layer in (first, inner, last)] == [2.0, 1.0, 0.5]
    assert sgd[inner.replace("weight", "bias")] == 2.0
    assert sgd[last.replace("weight", "bias")] == 1.0  # as many classes at any width


def moved(scale: float, by_width: bool) -> float:
    """How far four steps at one rate move what the layer before the last says."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 8, 8, generator=draw)
    labels = torch.randint(10, (64,), generator=draw)
    torch.manual_seed(0)
    options = {"image_size": 8, "hidden": (64, 64)}
    model = zoo.create("mlp", scale=scale, **options)
    if by_width:
        model = follows("mlp", scale, "adam", **options)
    groups = parameter_groups(model, list(model.parameters()), "all")
    groups = [g if isinstance(g, dict) else {"params": [g]} for g in groups]
    optimizer = OPTIMIZERS["adam"].make(groups)
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * group.get("lr_scale", 1.0)
    inner = model.layers[:4]
    with torch.no_grad():
        before = inner(images)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    with torch.no_grad():
        return float((inner(images) - before).square().mean().sqrt())


def test_a_wide_network_moves_as_far_as_a_narrow_one():
    """What makes one rate right for all widths; without it, wide networks move much further."""
    assert moved(16.0, by_width=False) > 4 * moved(1.0, by_width=False)
    assert moved(16.0, by_width=True) == pytest.approx(moved(1.0, by_width=True), rel=0.5)


def test_a_model_without_such_an_option_says_which_have_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(zoo.OptionError, match="resnet8' has no option for the width") as caught:
        zoo.train("resnet8", "synthetic", by_width=True, epochs=1)
    assert "mlp" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_trials_are_narrow_and_the_training_after_them_is_wide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = zoo.tune(
        "mlp", "synthetic", space={"lr": [1e-3, 1e-2]}, at={"model": {"scale": 0.25}}, epochs=1,
        by_width=True, model={"scale": 2}, train=True, quiet=True,
    )  # fmt: skip
    trial = json.loads((found.path / "trials" / "001" / "run.json").read_text("utf-8"))
    assert trial["model"]["config"]["scale"] == 0.25
    trained = found.trained.run.read()
    assert trained["model"]["config"]["scale"] == 2
    assert trained["recipe"]["by_width"] is True
    assert trained["recipe"]["lr"] == found.best.parameters["lr"]
    assert "model.scale=0.25" in (found.path / "report.md").read_text("utf-8")


@pytest.mark.parametrize("at, said", [
    ("subset=0.5", "--at subset cannot hold"), ("lr=1e-3", "--at lr contradicts the search"),
    ("data.size=9", "--at data cannot hold"), ("model.scal=2", "did you mean scale?"),
    ("scale", "not of the form name=value"),
])  # fmt: skip
def test_what_cannot_hold_for_the_trials_alone_is_refused(at, said, zoo_here, tmp_path):
    told = zoo_here("tune", "mlp", "--dataset", "synthetic", "--at", at, status=2).stderr
    assert said in told
    assert not (tmp_path / "runs").exists()
