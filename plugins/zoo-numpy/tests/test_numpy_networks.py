import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from zoo_numpy import Tensor, load, nn, optim
from zoo_numpy.networks import FCN, LeNet


def count(model):
    return sum(parameter.data.size for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (FCN(), 109_386),
        (FCN(hidden=()), 7_850),
        (LeNet(), 61_750),
        (LeNet(batch_norm=False), 61_706),
        (LeNet(image_size=32, in_channels=3, num_classes=7), 82_915),
    ],
)
def test_parameter_counts(model, parameters):
    assert count(model) == parameters


@pytest.mark.parametrize("size", [12, 28, 29, (14, 31)])
@pytest.mark.parametrize("network", [FCN, LeNet])
def test_options_decide_the_shapes(network, size):
    height, width = (size, size) if isinstance(size, int) else size
    model = network(in_channels=3, image_size=size, num_classes=4)
    assert model(Tensor(np.zeros((2, 3, height, width), dtype=np.float32))).shape == (2, 4)


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (LeNet, {"image_size": 11}, "12x12"),
        (LeNet, {"num_classes": 0}, "0 classes"),
        (FCN, {"hidden": (5, 0)}, "at least 1"),
        (FCN, {"image_size": 0}, "at least 1"),
    ],
)
def test_impossible_options_are_refused(network, options, message):
    with pytest.raises(ValueError, match=message):
        network(**options)


@pytest.mark.parametrize("network", [FCN, LeNet])
def test_one_seed_gives_one_network(network):
    first, second, third = (
        network(generator=np.random.default_rng(s)).state_dict() for s in (0, 0, 1)
    )
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first[next(iter(first))], third[next(iter(third))])


@pytest.mark.parametrize("norm", [True, False])
def test_training_lenet_gives_torchs_weights_and_statistics(norm, double, rng, torch_lenet):
    ours, theirs = double(LeNet(batch_norm=norm)), torch_lenet(norm).double()
    ours.load_state_dict(theirs.state_dict())
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
    mine, reference = (
        o.SGD(m.parameters(), **options) for o, m in ((optim, ours), (torch.optim, theirs))
    )
    for _ in range(3):
        x, y = rng.standard_normal((8, 1, 28, 28)), rng.integers(0, 10, 8)
        mine.zero_grad()
        nn.CrossEntropyLoss()(ours(Tensor(x)), y).backward()
        mine.step()
        reference.zero_grad()
        torch.nn.CrossEntropyLoss()(theirs(torch.tensor(x)), torch.tensor(y)).backward()
        reference.step()
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name], value.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("network", [FCN, LeNet])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MSELoss()])
def test_one_batch_is_learned_by_heart_in_float32(network, loss, rng):
    x = Tensor(rng.standard_normal((20, 1, 28, 28), dtype=np.float32))
    labels = rng.integers(0, 10, 20)
    target = (
        labels if isinstance(loss, nn.CrossEntropyLoss) else np.eye(10, dtype=np.float32)[labels]
    )
    model = network(generator=rng)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(model(x), target)
        value.backward()
        optimizer.step()
    assert value.dtype == np.float32
    assert {parameter.grad.dtype for parameter in model.parameters()} == {np.dtype(np.float32)}
    assert (model(x).argmax(1) == labels).sum().item() == 20


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_training_never_imports_torch():
    code = """
import sys
import numpy as np
from zoo_numpy import Tensor, load, nn, no_grad, optim, save
from zoo_numpy.networks import FCN, LeNet
for network in (FCN, LeNet):
    model = network()
    optimizer = optim.Adam(model.parameters())
    x = Tensor(np.ones((4, 1, 28, 28), dtype=np.float32))
    nn.CrossEntropyLoss()(model(x), np.arange(4)).backward()
    optimizer.step()
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "scipy", "zoo"}))
"""
    assert run(code).strip() == "[]"


def test_importing_the_package_imports_no_numpy():
    code = "import sys, zoo_numpy; print('numpy' in sys.modules, zoo_numpy.nn.Linear.__name__)"
    assert run(code).split() == ["False", "Linear"]


def test_the_example_in_the_readme_learns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert float(capsys.readouterr().out) < 2.2
    assert set(load("model.safetensors")) == {"1.weight", "1.bias", "3.weight", "3.bias"}
