"""The comparison that most tests here make: our operation against torch's, in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from zoo_numpy import Tensor, nn

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


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
        for _, value in [*module.named_parameters(), *module.named_buffers()]:
            if value.dtype == np.float32:
                value.data = value.data.astype(np.float64)
        return module

    return convert


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
