import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo_numpy import Tensor, load, nn, no_grad, save

repeatable = settings(derandomize=True, database=None, deadline=None)

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def convolutions(draw):
    """Kernel, stride, padding and an image that is at least large enough for them."""
    kernel, stride = draw(PAIRS), draw(PAIRS)
    padding = tuple(draw(st.integers(0, 2)) for _ in kernel)
    size = tuple(
        max(1, k - 2 * p) + draw(st.integers(0, 4)) for k, p in zip(kernel, padding, strict=True)
    )
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return kernel, stride, padding, (batch, channels, *size)


@st.composite
def poolings(draw):
    kernel, stride, padding, shape = draw(convolutions())
    padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
    return (
        kernel,
        stride,
        padding,
        (*shape[:2], *(s + k for s, k in zip(shape[2:], kernel, strict=True))),
    )


def layer_with(layer, **parameters):
    for name, value in parameters.items():
        setattr(layer, name, value)
    return layer


@repeatable
@given(convolutions(), st.integers(1, 4), st.booleans())
def test_conv2d_agrees_with_torch(same, case, out_channels, with_bias):
    kernel, stride, padding, shape = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape), rng.standard_normal((out_channels, shape[1], *kernel))]
    if with_bias:
        arrays.append(rng.standard_normal(out_channels))

    def ours(x, weight, bias=None):
        layer = nn.Conv2d(shape[1], out_channels, kernel, stride, padding, bias=with_bias)
        return layer_with(layer, weight=weight, bias=bias)(x)

    same(ours, lambda x, w, b=None: F.conv2d(x, w, b, stride, padding), *arrays)


@pytest.mark.parametrize("kind", ["MaxPool2d", "AvgPool2d"])
@repeatable
@given(case=poolings())
def test_pooling_agrees_with_torch(same, kind, case):
    kernel, stride, padding, shape = case
    x = np.random.default_rng(0).standard_normal(shape)
    ours, theirs = getattr(nn, kind), getattr(torch.nn, kind)
    same(ours(kernel, stride, padding), theirs(kernel, stride, padding), x)


@pytest.mark.parametrize("kind", ["MaxPool2d", "AvgPool2d"])
def test_pooling_by_default_does_not_overlap_and_drops_the_rest(same, kind, rng):
    same(getattr(nn, kind)(2), getattr(torch.nn, kind)(2), rng.standard_normal((2, 3, 7, 5)))


def test_max_pooling_gives_the_gradient_of_equal_maxima_to_the_first_as_torch_does(same, rng):
    x = np.maximum(rng.integers(-2, 2, (2, 2, 6, 6)), 0).astype(float)
    same(nn.MaxPool2d(3, 1, 1), torch.nn.MaxPool2d(3, 1, 1), x)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_agrees_with_torch_in_value_gradient_and_statistics(training, same, double, rng):
    ours, theirs = double(nn.BatchNorm2d(3)), torch.nn.BatchNorm2d(3).double()
    for _ in range(3):  # the statistics of several batches, then the gradients
        x = rng.standard_normal((4, 3, 5, 6)) * 3 + 1
        ours(Tensor(x)), theirs(torch.tensor(x))
    ours.train(training), theirs.train(training)
    theirs_norm = theirs

    def reference(x, weight, bias):
        mean, var = theirs_norm.running_mean, theirs_norm.running_var
        return F.batch_norm(x, mean, var, weight, bias, training, 0.1, 1e-5)

    def mine(x, weight, bias):
        return layer_with(ours, weight=weight, bias=bias)(x)

    arrays = (
        rng.standard_normal((4, 3, 5, 6)) * 2 - 1,
        rng.standard_normal(3),
        rng.standard_normal(3),
    )
    same(mine, reference, *arrays)
    for name in ("running_mean", "running_var"):
        expected = getattr(theirs, name).numpy()
        np.testing.assert_allclose(getattr(ours, name).data, expected, rtol=1e-9, atol=1e-9)
    assert ours.num_batches_tracked.item() == (4 if training else 3)


def test_batch_norm_statistics_are_buffers_and_never_trained():
    layer = nn.BatchNorm2d(2)
    assert layer.parameters() == [layer.weight, layer.bias]
    assert {"running_mean", "running_var", "num_batches_tracked"} < set(layer.state_dict())
    assert not layer.running_mean.requires_grad


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 4)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear_agrees_with_torch(shape, with_bias, same, rng):
    arrays = [rng.standard_normal(shape), rng.standard_normal((3, 4))]
    if with_bias:
        arrays.append(rng.standard_normal(3))

    def ours(x, weight, bias=None):
        return layer_with(nn.Linear(4, 3, with_bias), weight=weight, bias=bias)(x)

    same(ours, F.linear, *arrays)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nn.ReLU(), torch.nn.ReLU()),
        (nn.LeakyReLU(), torch.nn.LeakyReLU()),
        (nn.LeakyReLU(0.2), torch.nn.LeakyReLU(0.2)),
        (nn.Sigmoid(), torch.nn.Sigmoid()),
        (nn.Flatten(), torch.nn.Flatten()),
        (nn.Flatten(2), torch.nn.Flatten(2)),
        (nn.Sequential(), torch.nn.Identity()),
        (
            nn.Sequential(nn.Flatten(), nn.ReLU()),
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU()),
        ),
    ],
)
def test_layer_without_weights_agrees_with_torch(ours, theirs, same, rng):
    same(ours, theirs, rng.standard_normal((2, 3, 4)))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("targets", ["classes", "probabilities", "weights"])
def test_cross_entropy_agrees_with_torch(label_smoothing, targets, same, rng):
    target = rng.integers(0, 5, 7) if targets == "classes" else rng.dirichlet(np.ones(5), 7)
    target = target * 3 if targets == "weights" else target  # torch does not ask for a sum of 1
    ours = nn.CrossEntropyLoss(label_smoothing=label_smoothing)
    theirs = torch.nn.CrossEntropyLoss(label_smoothing=label_smoothing)
    logits = rng.standard_normal((7, 5)) * 5
    same(lambda x: ours(x, target), lambda x: theirs(x, torch.tensor(target)), logits)


def test_cross_entropy_of_extreme_logits_is_finite():
    logits = Tensor(np.array([[1e4, -1e4], [-1e4, 1e4]], dtype=np.float32), requires_grad=True)
    with np.errstate(all="raise", under="ignore"):
        loss = nn.CrossEntropyLoss()(logits, np.array([1, 1]))
        loss.backward()
    assert loss.dtype == np.float32
    assert loss.item() == 1e4
    assert logits.grad.data.tolist() == [[0.5, -0.5], [0, 0]]


def test_mse_agrees_with_torch(same, rng):
    arrays = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    same(nn.MSELoss(), torch.nn.MSELoss(), *arrays)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3)(Tensor(np.zeros((1, 1, 8, 8)))), "3 channels"),
        (lambda: nn.Conv2d(1, 4, 9)(Tensor(np.zeros((1, 1, 8, 8)))), "9x9 kernel"),
        (lambda: nn.Conv2d(1, 4, 3)(Tensor(np.zeros((8, 8)))), "B, C, H, W"),
        (lambda: nn.MaxPool2d(2, padding=2), "more than half"),
        (lambda: nn.BatchNorm2d(3)(Tensor(np.zeros((2, 4, 2, 2)))), "3 channels"),
        (lambda: nn.BatchNorm2d(3)(Tensor(np.zeros((1, 3, 1, 1)))), "3 channels"),
        (lambda: nn.Dropout(1.5), "probability"),
        (lambda: nn.MSELoss()(Tensor([[1.0]]), np.zeros(1)), "shape"),
        (lambda: nn.CrossEntropyLoss()(Tensor([[1.0, 2.0]]), np.array([2])), "0 to 1"),
        (lambda: nn.CrossEntropyLoss()(Tensor([[1.0, 2.0]]), np.array([-1])), "0 to 1"),
        (lambda: nn.CrossEntropyLoss()(Tensor([[1.0, 2.0]]), np.array([0.5])), "integers"),
    ],
)
def test_misuse_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_dropout_keeps_the_mean_and_masks_the_gradient(rng):
    layer = nn.Dropout(0.25, generator=rng)
    x = Tensor(np.ones((100, 100), dtype=np.float32), requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert out.dtype == np.float32
    assert set(np.unique(out.data)) == {0, np.float32(1 / 0.75)}
    assert abs(out.data.mean() - 1) < 0.02
    assert np.array_equal(x.grad.data, out.data)
    assert layer.eval()(x) is x


def test_nothing_touches_the_global_generator():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    nn.Sequential(nn.Linear(2, 2), nn.Dropout())(Tensor(np.ones((2, 2), dtype=np.float32)))
    assert np.array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("layer", [nn.Linear, lambda a, b, **kw: nn.Conv2d(a, b, 5, **kw)])
def test_initialisation_is_torchs_and_comes_from_the_generator(layer):
    def make(seed):
        return layer(40, 300, generator=np.random.default_rng(seed))

    reference = torch.nn.Linear(40, 300) if layer is nn.Linear else torch.nn.Conv2d(40, 300, 5)
    for name, value in make(0)._named(nn.Parameter):
        expected = getattr(reference, name).detach().numpy()
        assert value.dtype == np.float32
        assert value.shape == expected.shape
        bound = 1 / np.sqrt(np.prod(reference.weight.shape[1:]))  # of a uniform distribution
        for numbers in (value.data, expected):
            assert 0.9 * bound < abs(numbers).max() <= bound
            assert numbers.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
        assert np.array_equal(value.data, make(0).state_dict()[name])
        assert not np.array_equal(value.data, make(1).state_dict()[name])


def small_networks():
    ours = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    t = torch.nn
    return ours, t.Sequential(
        t.Conv2d(1, 2, 3), t.BatchNorm2d(2), t.ReLU(), t.Flatten(), t.Linear(8, 3)
    )


def test_state_dict_has_torchs_keys_shapes_and_types():
    ours, theirs = small_networks()
    mine = {name: (value.shape, str(value.dtype)) for name, value in ours.state_dict().items()}
    assert list(mine) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert mine[name] == (tuple(value.shape), str(value.dtype).removeprefix("torch."))


def test_a_torch_state_dict_loads_and_computes_the_same(rng):
    ours, theirs = small_networks()
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((4, 1, 4, 4), dtype=np.float32)
    with no_grad():
        out = ours.eval()(Tensor(x)).data
    np.testing.assert_allclose(out, theirs.eval()(torch.tensor(x)).detach().numpy(), atol=1e-6)


def test_a_state_dict_is_a_snapshot_and_loading_writes_in_place():
    layer = nn.Linear(2, 2)
    array, snapshot = layer.weight.data, layer.state_dict()
    array += 1
    assert not np.array_equal(snapshot["weight"], array)
    layer.load_state_dict(snapshot)
    assert layer.weight.data is array
    assert np.array_equal(snapshot["weight"], array)


def test_a_state_dict_that_does_not_fit_says_why_and_changes_nothing():
    layer = nn.BatchNorm2d(2)
    before = layer.state_dict()
    bad = {**before, "weight": np.zeros(3, dtype=np.float32), "scale": np.zeros(1)}
    bad["num_batches_tracked"] = np.zeros((), dtype=np.float32)
    bad["running_mean"] = bad["running_mean"] + 1
    del bad["bias"]
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict(bad)
    for part in (
        "bias is missing",
        "scale is not",
        "weight is float32 (2,), not float32 (3,)",
        "num_batches_tracked is int64 (), not float32 ()",
    ):
        assert part in str(error.value)
    assert all(np.array_equal(before[name], value) for name, value in layer.state_dict().items())
    layer.load_state_dict({"bias": np.ones(2), "scale": np.zeros(1)}, strict=False)
    assert layer.bias.data.tolist() == [1, 1]


def test_files_hold_the_same_arrays_and_the_same_bytes_each_time(tmp_path):
    state = small_networks()[0].state_dict()
    state["transposed"] = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save(state, tmp_path / "a.safetensors")
    found = load(tmp_path / "a.safetensors")
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert np.array_equal(found[name], value)
    save(dict(reversed(state.items())), tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_modes_and_gradients_reach_every_layer():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))
    model.eval()
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.train().modules())
    model(Tensor(np.ones((1, 2), dtype=np.float32))).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_shared_parameter_is_one_parameter_with_two_names_in_the_state():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    first, second = model
    second.weight = first.weight
    assert model.parameters() == [first.weight]
    assert list(model.state_dict()) == ["0.weight", "1.weight"]


def test_a_module_prints_its_tensors_and_misses_forward_loudly():
    assert repr(nn.Linear(3, 2)) == "Linear(\n  weight (2, 3)\n  bias (2,))"
    with pytest.raises(NotImplementedError, match="Module"):
        nn.Module()(1)
