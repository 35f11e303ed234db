import numpy as np
import pytest
import torch
from zoo_numpy import Tensor, load, nn, optim, save

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3}),
]


def parameters(dtype=np.float64):
    rng = np.random.default_rng(0)
    return [nn.Parameter(rng.standard_normal(s).astype(dtype)) for s in ((3, 4), (4,))]


def train(optimizer, tensors, steps, start=0):
    for step in range(start, start + steps):
        optimizer.zero_grad()
        a, b = tensors
        ((a * a + b * (step + 1)).sum() + (a * b).sum()).backward()
        optimizer.step()


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_several_steps_agree_with_torch(kind, options):
    ours = parameters()
    theirs = [torch.nn.Parameter(torch.tensor(p.data)) for p in ours]
    mine, reference = (
        getattr(optim, kind)(ours, **options),
        getattr(torch.optim, kind)(theirs, **options),
    )
    for steps in (3, 4):
        train(mine, ours, steps)
        train(reference, theirs, steps)
        for optimizer in (mine, reference):
            optimizer.param_groups[0]["lr"] *= 0.5  # as a schedule does
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.data, b.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_a_run_resumed_from_a_file_ends_with_the_same_bytes(kind, options, tmp_path):
    make = getattr(optim, kind)
    whole = parameters(np.float32)
    train(make(whole, **options), whole, 6)

    first = parameters(np.float32)
    optimizer = make(first, **options)
    train(optimizer, first, 3)
    saved, second = optimizer.state_dict(), parameters(np.float32)
    for tensor, other in zip(second, first, strict=True):
        tensor.data[...] = other.data
    train(optimizer, first, 1)  # what was saved must not move with the run
    save(saved, tmp_path / "state")

    resumed = make(second, **options)
    resumed.load_state_dict(load(tmp_path / "state"))
    train(resumed, second, 3, start=3)
    for a, b in zip(whole, second, strict=True):
        assert a.data.tobytes() == b.data.tobytes()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_float32_stays_float32_in_place_and_a_float64_rate_changes_nothing(kind):
    options = {"momentum": 0.9} if kind == "SGD" else {}
    results = []
    for lr in (0.1, np.float64(0.1)):
        tensors = parameters(np.float32)
        arrays = [tensor.data for tensor in tensors]
        optimizer = getattr(optim, kind)(tensors, lr=lr, weight_decay=0.1, **options)
        train(optimizer, tensors, 5)
        assert all(tensor.data is array for tensor, array in zip(tensors, arrays, strict=True))
        for name, value in optimizer.state_dict().items():
            assert value.dtype == (np.int64 if name == "steps" else np.float32)
        results.append([array.tobytes() for array in arrays])
    assert results[0] == results[1]


def test_a_parameter_without_a_gradient_stays():
    used, unused = parameters()
    before = unused.data.copy()
    optimizer = optim.SGD([used, unused], lr=0.1, weight_decay=0.1)
    used.sum().backward()
    optimizer.step()
    assert np.array_equal(unused.data, before)


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="at least one parameter"):
        optim.SGD([])
    with pytest.raises(TypeError, match="nesterov"):
        optim.SGD(parameters(), nesterov=True)
    tensors = parameters()
    optimizer = optim.SGD(tensors, momentum=0.9)
    train(optimizer, tensors, 1)
    with pytest.raises(RuntimeError, match=r"1\.momentum_buffer"):
        optim.SGD(tensors[:1]).load_state_dict(optimizer.state_dict())
    with pytest.raises(RuntimeError, match="0.momentum_buffer"):
        optim.SGD([Tensor([1.0])]).load_state_dict(optimizer.state_dict())
