"""Checks of classifiers in torch: each takes the name of a model and raises a Finding.

Every check takes options of the model too, to make a large one small: `check("my_vit", depth=2)`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo_core.io.errors import Finding, OptionError
from zoo_core.io.tensors import read, to_bytes
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import check_options, framework_of
from zoo_core.spec.registry import registry


def check_parameters(name: str, **options: Any) -> None:
    """The declared numbers of parameters are the real ones. Built without memory, so in full."""
    entry = registry().models.get(name)
    with torch.device("meta"):
        model = _build(entry, {})
    parameters = list(model.parameters())
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    total = sum(p.numel() for p in parameters)
    for field, found, declared in (
        ("parameters", trainable, entry.parameters),
        ("total_parameters", total, entry.total_parameters),
    ):
        if declared not in (None, found):
            raise Finding(
                f"{name} declares {field}={declared:,} and has {found:,}",
                "people choose a model by that figure, and compare it with the paper's",
                f"write {field}={found:_} into the entry, or correct the network",
            )
    real = [key for key, tensor in model.state_dict().items() if not tensor.is_meta]
    if real:
        raise Finding(
            f"{name} makes real tensors on the meta device: {', '.join(real)}",
            "weights are checked and loaded against a model that takes no memory",
            "make buffers with torch.zeros, torch.arange and the like, without a device of "
            "your own, and not from NumPy or lists",
        )


def check_shapes(name: str, **options: Any) -> None:
    """The number of classes, channels and pixels are what was asked for."""
    entry = registry().models.get(name)
    size = options.get("image_size", entry.image_size)
    for asked in (
        {"num_classes": 3},
        {"in_channels": 4 - entry.in_channels},  # 3 for 1, and 1 for 3
        {"image_size": 2 * size},
    ):
        try:
            model = _build(entry, {**options, **asked}).eval()
            with torch.inference_mode():
                found = tuple(model(_images(entry, 2, {**options, **asked})).shape)
        except (OptionError, RuntimeError) as error:
            raise _unlike(name, asked, f"raises {type(error).__name__}: {error}") from error
        wanted = (2, asked.get("num_classes", entry.num_classes))
        if found != wanted:
            raise _unlike(name, asked, f"gives an output of {found}, not {wanted}")


def _unlike(name: str, asked: dict[str, int], what: str) -> Finding:
    return Finding(
        f"{name} with {', '.join(f'{k}={v}' for k, v in asked.items())} {what}",
        "the data decides these three options, so `zoo train` on other pictures fails",
        "use num_classes, in_channels and image_size wherever a size is written as a number",
    )


def check_options_count(name: str, **options: Any) -> None:
    """Every number or switch among the options of its own changes something."""
    entry = registry().models.get(name)
    for option, value in entry.config.items():
        other = _another(value)
        if other is None or option in options:
            continue
        try:
            if _same(entry, options, {**options, option: other}):
                raise Finding(
                    f"{option}={other} gives the same {name} as {option}={value}",
                    "somebody who sets an option believes that it does something",
                    f"use {option} in the network, or take it out of `config`",
                )
        except OptionError:
            continue  # not every number is possible, and it says so


def check_choices(name: str, **options: Any) -> None:
    """Every value that the entry declares for an option can be built."""
    entry = registry().models.get(name)
    for option, values in entry.choices.items():
        for value in values:
            try:
                with torch.device("meta"):
                    _build(entry, {**options, option: value})
            except OptionError as error:
                raise Finding(
                    f"{name} declares {option}={value} and cannot be built with it: {error}",
                    "zoo info offers it to everybody",
                    f"take it out of `choices`, or let the network know {option}={value}",
                ) from error


def check_errors(name: str, **options: Any) -> None:
    """Options that cannot work are refused when the model is built, with a sentence."""
    entry = registry().models.get(name)
    absurd = [{"image_size": 1}]
    absurd += [
        {k: 0} for k, v in entry.config.items() if isinstance(v, int) and v > 0 and v is not True
    ]
    for asked in absurd:
        try:
            model = _build(entry, {**options, **asked}).eval()
            if "image_size" in asked:
                with torch.inference_mode():
                    model(_images(entry, 2, {**options, **asked}))
        except OptionError:
            continue
        except Exception as error:
            (option, value), *_ = asked.items()
            raise Finding(
                f"{name} with {option}={value} ends in {type(error).__name__}: {error}",
                "the user sees a traceback from inside the network, and has no idea what to change",
                f'check {option} in __init__ and raise ValueError("... why it cannot work")',
            ) from error


def check_gradients(name: str, **options: Any) -> None:
    """Every trainable parameter takes part in the loss."""
    entry = registry().models.get(name)
    options = {**entry.recipes["default"].model, **options}  # as `zoo train` builds it
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
    if idle:
        raise Finding(
            f"no gradient reaches {', '.join(idle)} of {name}",
            "these parameters count, are stored, and never learn",
            "use them in forward, take them out, or set requires_grad=False",
        )


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
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=2e-3)
    loss = torch.tensor(float("inf"))
    for _ in range(150):
        loss = F.cross_entropy(model(images), labels)
        if loss < 0.02:
            return
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    raise Finding(
        f"{name} cannot learn 8 pictures by heart: the loss is {loss:.3f} after 150 steps",
        "a network that cannot do this learns nothing from more pictures either",
        "look for a softmax before the loss, a detached tensor, a wrong axis, a bad start",
    )


def check_round_trip(name: str, **options: Any) -> None:
    """Weights written to a file and read again give the same outputs, bit for bit."""
    entry = registry().models.get(name)
    trainer = framework_of(entry)
    config = check_options(entry, options)
    torch.manual_seed(0)
    model = trainer.build(entry, config).eval()
    _refuse_shared(name, model)
    state = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    tensors = read(to_bytes(state))
    spec = {key: (array.shape, str(array.dtype)) for key, array in tensors.items()}
    if spec != dict(trainer.tensor_spec(entry, config)):
        raise Finding(
            f"the tensors of {name} are not those of its tensor_spec",
            "weights are checked against it before they are used, so these would be refused",
            "build the same tensors on the meta device as elsewhere",
        )
    again = trainer.build(entry, config).eval()
    trainer.load_state(again, tensors)
    images = _images(entry, 2, options)
    with torch.inference_mode():
        if not torch.equal(model(images), again(images)):
            raise Finding(
                f"{name} gives other outputs after its weights were written and read",
                "what is published would not be what was trained",
                "keep everything that forward uses in parameters or persistent buffers, and draw "
                "nothing at random in __init__ but those",
            )


def _refuse_shared(name: str, model: nn.Module) -> None:
    places = defaultdict(list)
    for key, tensor in model.state_dict().items():
        if tensor.numel():
            places[tensor.untyped_storage().data_ptr()].append(key)
    for keys in places.values():
        if len(keys) > 1:
            raise Finding(
                f"{' and '.join(keys)} of {name} are one tensor in memory",
                "safetensors keeps each name apart: the file is larger than the model, and "
                "other tools refuse it",
                "register the tensor once, and use it where the other name is; or make copies "
                "(.clone())",
            )


def check_determinism(name: str, **options: Any) -> None:
    """In evaluation a picture always gets the same answer, whatever comes with it."""
    entry = registry().models.get(name)
    torch.manual_seed(0)
    model = _build(entry, options).eval()
    images = _images(entry, 4, options)
    with torch.inference_mode():
        torch.manual_seed(1)
        first = model(images)
        torch.manual_seed(2)
        second, alone = model(images), model(images[:1])
    if not torch.equal(first, second):
        raise Finding(
            f"{name} in evaluation gives another answer each time",
            "an accuracy that changes from call to call cannot be stated or checked",
            "draw at random only while self.training is true: F.dropout(x, p, self.training)",
        )
    if not torch.allclose(first[:1], alone, rtol=1e-3, atol=1e-4):
        raise Finding(
            f"what {name} says of a picture depends on the others of its batch",
            "a batch of 256 and a single picture would get different classes",
            "keep statistics of batches (norms, attention over the wrong axis) out of evaluation",
        )


def check_export(name: str, **options: Any) -> None:
    """torch.export takes the model, and what it made gives the same outputs. Takes seconds."""
    entry = registry().models.get(name)
    torch.manual_seed(0)
    model = _build(entry, options).eval()
    images = _images(entry, 2, options)
    exported = torch.export.export(model, (images,)).module()
    with torch.inference_mode():
        torch.testing.assert_close(exported(images), model(images), rtol=1e-4, atol=1e-4)


CHECKS = (
    check_parameters,
    check_shapes,
    check_options_count,
    check_choices,
    check_errors,
    check_gradients,
    check_learning,
    check_round_trip,
    check_determinism,
)


def _build(entry: ModelEntry, options: dict[str, Any]) -> nn.Module:
    model = framework_of(entry).build(entry, check_options(entry, options))
    assert isinstance(model, nn.Module)
    return model


def _images(entry: ModelEntry, count: int, options: dict[str, Any]) -> Tensor:
    config = check_options(entry, options)
    generator = torch.Generator().manual_seed(1)
    shape = (count, config["in_channels"], config["image_size"], config["image_size"])
    return torch.randn(shape, generator=generator)


def _another(value: Any) -> Any:
    """Another value of an option, where one can be made up."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return 2 * value if value else 1
    if isinstance(value, float):
        return value / 2 if value else 0.5
    return None


def _same(entry: ModelEntry, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two sets of options make the same network. First without memory, then in full."""
    trainer = framework_of(entry)
    if trainer.tensor_spec(entry, check_options(entry, one)) != trainer.tensor_spec(
        entry, check_options(entry, other)
    ):
        return False
    found = []
    for options in (one, other):
        torch.manual_seed(0)
        model = _build(entry, options).train()
        torch.manual_seed(0)
        with torch.no_grad():
            found.append((str(model), model(_images(entry, 2, options))))
    (text, output), (other_text, other_output) = found
    return text == other_text and torch.equal(output, other_output)
