"""Checks that a classifier in torch keeps what its entry promises; each raises AssertionError.

    import pytest
    from zoo_core.testing.models import CHECKS

    @pytest.mark.parametrize("check", CHECKS)
    @pytest.mark.parametrize("name", ["my_model"])
    def test_it_keeps_its_promises(name, check):
        check(name)

Every check takes options of the model too, to make a large one small: `check("my_vit", depth=2)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo_core.models import check_options, trainer_of
from zoo_core.registry import registry
from zoo_core.tensors import to_bytes
from zoo_core.types import ModelEntry


def check_parameters(name: str, **options: Any) -> None:
    """The declared numbers of parameters are the real ones. Built without memory, so in full."""
    entry = registry().models.get(name)
    with torch.device("meta"):
        model = _build(entry, {})
    parameters = list(model.parameters())
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    total = sum(p.numel() for p in parameters)
    assert entry.parameters in (None, trainable), (
        f"{name} declares {entry.parameters:,} parameters, and has {trainable:,} to train"
    )
    assert entry.total_parameters in (None, total), (
        f"{name} declares {entry.total_parameters:,} parameters in all, and has {total:,}"
    )
    on_meta = [key for key, tensor in model.state_dict().items() if not tensor.is_meta]
    assert not on_meta, f"{name} makes real tensors on the meta device: {', '.join(on_meta)}"


def check_shapes(name: str, **options: Any) -> None:
    """The number of classes, channels and pixels are what was asked for."""
    entry = registry().models.get(name)
    size = options.get("image_size", entry.image_size)
    for asked in (
        {"num_classes": 3},
        {"in_channels": 4 - entry.in_channels},  # 3 for 1, and 1 for 3
        {"image_size": 2 * size},
    ):
        model = _build(entry, {**options, **asked}).eval()
        images = _images(entry, 2, {**options, **asked})
        with torch.inference_mode():
            found = tuple(model(images).shape)
        wanted = (2, asked.get("num_classes", entry.num_classes))
        assert found == wanted, f"{name} with {asked} gives {found}, not {wanted}"


def check_gradients(name: str, **options: Any) -> None:
    """Every trainable parameter takes part in the loss."""
    entry = registry().models.get(name)
    torch.manual_seed(0)
    model = _build(entry, options).train()
    logits = model(_images(entry, 4, options))
    loss = F.cross_entropy(logits, torch.arange(4) % logits.shape[1])
    torch.autograd.backward(loss)
    idle = [
        key
        for key, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    ]
    assert not idle, f"no gradient reaches {', '.join(idle)} of {name}"


def check_learning(name: str, **options: Any) -> None:
    """One batch can be learned by heart, without dropout: the loss goes to nothing."""
    entry = registry().models.get(name)
    torch.manual_seed(0)
    model = _build(entry, options).train()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        elif isinstance(layer, nn.RNNBase):
            layer.dropout = 0.0
    images, labels = _images(entry, 8, options), torch.arange(8) % 4
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss = torch.tensor(float("inf"))
    for _ in range(150):
        loss = F.cross_entropy(model(images), labels)
        if loss < 0.02:
            return
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    raise AssertionError(f"{name} cannot learn 8 pictures by heart: the loss is {loss:.3f}")


def check_round_trip(name: str, **options: Any) -> None:
    """Weights written to a file and read again give the same outputs, bit for bit."""
    import safetensors.numpy

    entry = registry().models.get(name)
    trainer = trainer_of(entry)
    config = check_options(entry, options)
    torch.manual_seed(0)
    model = trainer.build(entry, config).eval()
    state = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    tensors = safetensors.numpy.load(to_bytes(state))
    assert {k: (a.shape, str(a.dtype)) for k, a in tensors.items()} == dict(
        trainer.tensor_spec(entry, config)
    ), f"the tensors of {name} are not those of its tensor_spec"
    again = trainer.build(entry, config).eval()
    trainer.load_state(again, tensors)
    images = _images(entry, 2, options)
    with torch.inference_mode():
        assert torch.equal(model(images), again(images)), f"{name} is another after loading"


def check_export(name: str, **options: Any) -> None:
    """torch.export takes the model, and what it made gives the same outputs. Takes seconds."""
    entry = registry().models.get(name)
    torch.manual_seed(0)
    model = _build(entry, options).eval()
    images = _images(entry, 2, options)
    exported = torch.export.export(model, (images,)).module()
    with torch.inference_mode():
        torch.testing.assert_close(exported(images), model(images), rtol=1e-4, atol=1e-4)


CHECKS = (check_parameters, check_shapes, check_gradients, check_learning, check_round_trip)


def _build(entry: ModelEntry, options: dict[str, Any]) -> nn.Module:
    model = trainer_of(entry).build(entry, check_options(entry, options))
    assert isinstance(model, nn.Module)
    return model


def _images(entry: ModelEntry, count: int, options: dict[str, Any]) -> Tensor:
    config = check_options(entry, options)
    generator = torch.Generator().manual_seed(1)
    shape = (count, config["in_channels"], config["image_size"], config["image_size"])
    return torch.randn(shape, generator=generator)
