import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import broadcastable_shapes, mutually_broadcastable_shapes
from zoo_numpy import Tensor, no_grad

repeatable = settings(derandomize=True, database=None, deadline=None)

UNARY = {
    "neg": lambda x: -x,
    "exp": lambda x: x.exp(),
    "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(),
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "power zero": lambda x: x**0,
    "sum": lambda x: x.sum(),
    "sum of one axis": lambda x: x.sum(1),
    "sum of two axes": lambda x: x.sum((0, -1)),
    "sum that keeps its axis": lambda x: x.sum(1, keepdim=True),
    "mean": lambda x: x.mean(),
    "mean of one axis": lambda x: x.mean(-1),
    "mean that keeps its axes": lambda x: x.mean((1, 2), keepdim=True),
    "reshape": lambda x: x.reshape(6, -1),
    "reshape to a tuple": lambda x: x.reshape((4, 6)),
    "view": lambda x: x.view(-1),
    "flatten": lambda x: x.flatten(),
    "flatten from 1": lambda x: x.flatten(1),
    "flatten the middle": lambda x: x.flatten(0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(1, 2, 0),
    "row": lambda x: x[1],
    "slice": lambda x: x[:, 1:, ::2],
    "ellipsis": lambda x: x[..., 0],
    "new axis": lambda x: x[:, None],
    "one number": lambda x: x[1, 2, 3],
    "list of rows, one of them twice": lambda x: x[[0, 1, 0]],
    "pairs, one of them twice": lambda x: x[[0, 1, 0], [2, 1, 2]],
    "number from the left": lambda x: 2 - x,
    "number divided": lambda x: 3 / (x * x + 1),
    "everything with numbers": lambda x: (2 * x + 1) / 3 - x * 0.5,
}


@pytest.mark.parametrize("name", UNARY)
def test_operation_agrees_with_torch(name, same, rng):
    same(UNARY[name], UNARY[name], rng.standard_normal((2, 3, 4)))


@pytest.mark.parametrize("exponent", [-1, 0.5, 2.5])
def test_log_and_powers_of_positive_numbers_agree_with_torch(exponent, same, rng):
    x = rng.uniform(0.5, 2, (3, 4))
    same(lambda x: x.log() + x**exponent, lambda x: x.log() + x**exponent, x)


def test_powers_of_zero_have_finite_gradients_as_in_torch(same):
    base, exponent = np.array([0.0, 0.0, 2.0]), np.array([0.0, 2.0, 0.0])
    with np.errstate(all="raise"):
        same(lambda a, b: a**b, lambda a, b: a**b, base, exponent)


@pytest.mark.parametrize("kind", ["mask", "integers"])
def test_index_arrays_agree_with_torch(kind, same, rng):
    index = np.array([True, False, True]) if kind == "mask" else np.array([2, 2, 0])
    same(lambda x: x[index], lambda x: x[torch.tensor(index)], rng.standard_normal((3, 2)))


def test_a_tensor_can_be_an_index():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    x[Tensor([2, 2])].sum().backward()
    assert x.grad.data.tolist() == [0, 0, 2]


@repeatable
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_every_pair_of_broadcastable_shapes_agrees_with_torch(same, shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 2, shape) for shape in shapes.input_shapes)
    for f in (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a**b,
    ):
        same(f, f, a, b)


@repeatable
@given(broadcastable_shapes((2, 3), max_dims=4, max_side=3), st.booleans())
def test_batched_matmul_broadcasts_like_torch(same, batch, swap):
    rng = np.random.default_rng(0)
    sizes = ((*batch, 4, 2), (2, 3, 2, 5)) if swap else ((2, 3, 4, 2), (*batch, 2, 5))
    same(lambda a, b: a @ b, lambda a, b: a @ b, *(rng.standard_normal(size) for size in sizes))


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2))]
)
def test_matmul_of_vectors_agrees_with_torch(shapes, same, rng):
    same(lambda a, b: a @ b, lambda a, b: a @ b, *(rng.standard_normal(s) for s in shapes))


def test_a_tensor_used_twice_gets_both_gradients(same, rng):
    def f(x):
        y = x * x
        return (y + y.transpose(0, 1) + x[0] + x.reshape(9)[:3]) * x

    same(f, f, rng.standard_normal((3, 3)))


def test_backward_twice_adds_to_the_gradient():
    x = Tensor([3.0], requires_grad=True)
    for _ in range(2):
        (x * x).backward()
    assert x.grad.item() == 12
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 24


def test_gradients_of_two_leaves_never_share_memory():
    a, b = Tensor([1.0], requires_grad=True), Tensor([2.0], requires_grad=True)
    (a + b).backward()
    a.grad.data += 1
    assert b.grad.item() == 1


def test_backward_through_a_freed_graph_is_an_error_that_says_so():
    y = Tensor([1.0], requires_grad=True).exp()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_backward_frees_the_graph_even_while_the_result_lives():
    x = Tensor([1.0], requires_grad=True)
    middle = x * 2
    out = middle * 3
    gone = weakref.ref(middle)
    gc.disable()
    try:
        out.backward()
        del middle
        assert gone() is None
    finally:
        gc.enable()
    assert out.item() == 6


def test_graphs_deeper_than_the_recursion_limit_work():
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    for _ in range(20_000):
        y = x + y
    del y  # a graph that backward never freed


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Tensor([1.0]), "requires_grad"),
        (Tensor([1.0, 2.0], requires_grad=True) * 2, "needs a gradient"),
    ],
)
def test_backward_explains_why_it_cannot(tensor, message):
    with pytest.raises(RuntimeError, match=message):
        tensor.backward()


def test_integers_cannot_require_gradients():
    with pytest.raises(TypeError, match="int64"):
        Tensor([1, 2], requires_grad=True)


def test_no_grad_records_nothing_and_ends_with_its_block():
    x = Tensor([1.0], requires_grad=True)
    with no_grad():
        assert not (x * 2).requires_grad
        inside: list[bool] = []
        thread = threading.Thread(target=lambda: inside.append((x * 2).requires_grad))
        thread.start()
        thread.join()
        assert inside == [True]  # another thread is not concerned
    assert (x * 2).requires_grad
    assert not no_grad()(lambda: x * 2)().requires_grad


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * np.float64(2),
        lambda x: np.float64(2) * x,
        lambda x: x + 1,
        lambda x: x / 3,
        lambda x: 1 - x,
        lambda x: x**2,
        lambda x: x * Tensor([1, 2]),
        lambda x: Tensor([1, 2]) * x,
        lambda x: x * np.array([True, False]),
        lambda x: x.mean(),
        lambda x: x.sigmoid(),
    ],
)
def test_float32_stays_float32(f):
    x = Tensor([1.0, 2.0], requires_grad=True)
    out = f(x)
    assert out.dtype == np.float32
    out.sum().backward()
    assert x.grad.dtype == np.float32


def test_arrays_keep_their_type_and_python_floats_become_float32():
    assert Tensor(np.zeros(2)).dtype == np.float64
    assert Tensor([0.0]).dtype == np.float32
    assert Tensor([1]).dtype == np.int64
    assert Tensor(np.zeros(2), dtype=np.float32).dtype == np.float32


def test_an_array_on_the_left_gives_a_tensor():
    x = Tensor([1.0, 2.0], requires_grad=True)
    out = np.array([3.0, 4.0], dtype=np.float32) * x
    assert isinstance(out, Tensor)
    assert (np.array([3, 5]) - x).data.tolist() == [2, 3]
    out.sum().backward()
    assert x.grad.data.tolist() == [3, 4]


def test_the_usual_accuracy_line_works():
    logits, labels = Tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), Tensor([1, 0, 0])
    assert (logits.argmax(1) == labels).sum().item() == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(logits.argmax(1) == labels)


def test_large_numbers_do_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        x = Tensor([-1000.0, 0.0, 1000.0])
        assert x.sigmoid().data.tolist() == [0, 0.5, 1]


def test_the_small_accessors():
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    assert (x.shape, x.ndim) == ((1, 2), 2)
    assert x.T.shape == (2, 1)
    assert np.asarray(x) is x.data
    assert repr(x) == "Tensor([[1., 2.]], requires_grad=True)"
    assert len({x, x}) == 1
