"""What tests here share: our operations against torch's, in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from zoo_numpy import Tensor, nn
from zoo_numpy.networks import LeNet

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


class TorchLeNet(torch.nn.Module):
    """LeNet as torch has it, with the same names of tensors."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.bn1 = torch.nn.BatchNorm2d(6) if norm else torch.nn.Identity()
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.bn2 = torch.nn.BatchNorm2d(16) if norm else torch.nn.Identity()
        self.pool = torch.nn.AvgPool2d(2)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    forward = LeNet.forward  # the same code serves both


@pytest.fixture(scope="session")
def torch_lenet() -> type[torch.nn.Module]:
    return TorchLeNet


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """same(ours, theirs, *arrays): the value and the gradient of each array agree to 1e-9."""

    def check(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: np.ndarray) -> None:
        mine = [Tensor(a.copy(), requires_grad=True) for a in arrays]
        reference = [torch.tensor(a, requires_grad=True) for a in arrays]
        out, expected = ours(*mine), theirs(*reference)
        assert out.dtype == np.float64
        assert out.shape == tuple(expected.shape)
        np.testing.assert_allclose(out.data, expected.detach().numpy(), **TOLERANCE)
        gradient = np.random.default_rng(1).standard_normal(out.shape)
        out.backward(gradient)
        expected.backward(torch.tensor(gradient))
        for tensor, leaf in zip(mine, reference, strict=True):
            assert tensor.grad is not None
            assert tensor.grad.dtype == np.float64
            np.testing.assert_allclose(tensor.grad.data, leaf.grad.numpy(), **TOLERANCE)

    return check


@pytest.fixture(scope="session")
def double() -> Callable[[nn.Module], nn.Module]:
    """double(module): the same module with float64 parameters and buffers."""

    def convert(module: nn.Module) -> nn.Module:
        for _, value in module._named(Tensor):
            if value.dtype == np.float32:
                value.data = value.data.astype(np.float64)
        return module

    return convert


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
