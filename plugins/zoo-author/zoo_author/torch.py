"""Checks of classifiers in torch: each takes the name of a model, and options of it that make a
large one small (`check("my_vit", depth=2)`), and raises a Finding."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any, cast

import safetensors.numpy
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import OptionError
from zoo.kit import check_options, registry, trainer_of
from zoo.testing import Finding

ANOTHER: dict[type, Callable[[Any], Any]] = {  # value of an option
    bool: lambda value: not value,
    int: lambda value: 2 * value or 1,
    float: lambda value: value / 2 or 0.5,
}

CLASSES = 4  # to be learned by heart


class Subject:
    """A model with some options, and images for it."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name, self.entry, self.options = name, registry().models.get(name), options
        self.framework = trainer_of(self.entry)
        self.config = check_options(self.entry, options)

    def but(self, **changes: Any) -> Subject:
        return Subject(self.name, {**self.options, **changes})

    def with_classes(self) -> Subject:
        """One that can be trained on classes, also where the entry is made for one number."""
        return self.but(num_classes=CLASSES) if "num_classes" in self.config else self

    def sketch(self) -> nn.Module:
        return cast(nn.Module, self.framework.sketch(self.entry, self.config))

    def build(self, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        return cast(nn.Module, self.framework.build(self.entry, self.config))

    def images(self, count: int) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        size = self.config["image_size"]
        return torch.randn(count, self.config["in_channels"], size, size, generator=generator)

    @torch.no_grad()
    def output(self) -> Tensor:
        """Of a new model in training, with the same dropout each time."""
        model = self.build().train()
        torch.manual_seed(0)
        output: Tensor = model(self.images(2))
        return output


def check_meta(name: str, **options: Any) -> None:
    """It can be built on the meta device, without memory, and called there."""
    subject, what = Subject(name, options), ""
    model = subject.sketch()
    if real := [key for key, tensor in model.state_dict().items() if not tensor.is_meta]:
        what = f"{name} makes real tensors on the meta device: {', '.join(real)}"
    try:
        model(subject.images(2).to("meta"))
    except Exception as error:  # not every layer works without memory
        told = re.search(r"on device (\w+) is not on the expected|two devices, (\w+)", str(error))
        if told and not what:
            device = next(word for word in (*told.groups(), "cpu") if word not in (None, "meta"))
            what = f"forward of {name} makes a tensor on the device {device}, not where images are"
    if what:
        raise Finding(
            what,
            "a GPU cannot use it, and weights are checked against a model that takes no memory",
            "make buffers with torch.zeros or torch.arange, not NumPy or lists; name no device, or "
            "write device=images.device in forward",
        )


def check_options_count(name: str, **options: Any) -> None:
    """Every number or switch among the options of its own changes something."""
    subject = Subject(name, options)
    for option, value in subject.entry.config.items():
        if type(value) not in ANOTHER or option in options:
            continue
        other = ANOTHER[type(value)](value)
        with suppress(OptionError):  # not every number is possible, and it says so
            changed = subject.but(**{option: other})
            # First without memory, then in full.
            alike = str(subject.sketch()) == str(changed.sketch())
            if alike and torch.equal(subject.output(), changed.output()):
                raise Finding(
                    f"{option}={other} gives the same {name} as {option}={value}",
                    "somebody who sets an option believes that it does something",
                    f"use {option} in the network, or take it out of `config`",
                )


def check_choices(name: str, **options: Any) -> None:
    """Every value that the entry declares for an option can be built."""
    subject = Subject(name, options)
    for option, values in subject.entry.choices.items():
        for value in values:
            try:
                subject.but(**{option: value}).sketch()
            except OptionError as error:
                raise Finding(
                    f"{name} declares {option}={value} and cannot be built with it: {error}",
                    "zoo info offers it to everybody",
                    f"take it out of `choices`, or let the network know {option}={value}",
                ) from error


def check_errors(name: str, **options: Any) -> None:
    """Options that cannot work are refused when the model is built, with a sentence."""
    subject, ends = Subject(name, options), registry().models.get(name).ranges
    counts = [k for k, v in subject.entry.config.items() if type(v) is int]
    least = [("image_size", 1), *product(counts, (0, -1)), *((k, v[0]) for k, v in ends.items())]
    for option, value in [*least, *((k, v[1]) for k, v in ends.items())]:
        default = subject.entry.options[option]
        try:
            absurd = subject.but(**{option: like(default, value)})
            absurd.sketch()
            if (option, value) in least:  # the most may be more than this machine has memory for
                with torch.inference_mode():
                    absurd.build().eval()(absurd.images(2))
        except OptionError:
            continue
        except Exception as error:
            raise Finding(
                f"{name} with {option}={value} ends in {type(error).__name__}: {error}",
                "the user sees a traceback from inside the network, and has no idea what to change",
                f'check {option} in __init__ and raise ValueError("... why it cannot work")',
            ) from error


def like(default: Any, value: int) -> Any:
    """A value for an option: in a list of them, each is this one."""
    return tuple(like(v, value) for v in default) if isinstance(default, tuple) else value


def check_gradients(name: str, **options: Any) -> None:
    """Every trainable parameter takes part in the loss."""
    trained_with = registry().models.get(name).recipes["default"].model
    subject = Subject(name, {**trained_with, **options}).with_classes()
    model = subject.build().train()
    logits = model(subject.images(4))
    torch.autograd.backward(F.cross_entropy(logits, torch.arange(4)))
    trained = ((key, p.grad) for key, p in model.named_parameters() if p.requires_grad)
    if idle := [key for key, gradient in trained if gradient is None or not gradient.any()]:
        raise Finding(
            f"no gradient reaches {', '.join(idle)} of {name}",
            "these parameters count, are stored, and never learn",
            "use them in forward, take them out, or set requires_grad=False",
        )


def check_learning(name: str, **options: Any) -> None:
    """One batch can be learned by heart, without dropout: the loss goes to nothing."""
    subject = Subject(name, options).with_classes()
    model = subject.build().train()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        elif isinstance(layer, nn.RNNBase):
            layer.dropout = 0.0
    images, labels = subject.images(8), torch.arange(8) % CLASSES
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
        f"{name} cannot overfit 8 images: the loss is {loss:.3f} after 150 steps",
        "a network that cannot do this learns nothing from more images either",
        "look for a softmax before the loss, a detached tensor, a wrong axis, a bad start",
    )


def check_round_trip(name: str, **options: Any) -> None:
    """Weights written to a file and read again give the same outputs, bit for bit."""
    subject = Subject(name, options)
    model, again = subject.build().eval(), subject.build(seed=1).eval()
    places = defaultdict(list)
    for key, tensor in model.state_dict().items():
        if tensor.numel():
            places[tensor.untyped_storage().data_ptr()].append(key)
    for keys in places.values():
        if len(keys) > 1:
            raise Finding(
                f"{' and '.join(keys)} of {name} are one tensor in memory",
                "safetensors stores both: the file is too large, and other tools refuse it",
                "register the tensor once and use it in both places, or make copies (.clone())",
            )
    tensors = safetensors.numpy.load(safetensors.torch.save(model.state_dict()))
    subject.framework.load_state(again, tensors)
    images = subject.images(2)
    with torch.inference_mode():
        if not torch.equal(model(images), again(images)):
            held = [(k, v) for module in model.modules() for k, v in vars(module).items()]
            lists = [(k, v if isinstance(v, list | tuple) else [v]) for k, v in held]
            left = {k for k, v in lists if any(isinstance(i, Tensor | nn.Module) for i in v)}
            raise Finding(
                f"{name} gives other outputs after its weights were written and read; they are "
                f"without {', '.join(sorted(left)) or 'something that forward uses'}",
                "what is published would not be what was trained",
                "keep layers in nn.ModuleList, tensors in parameters or with register_buffer, and "
                "draw nothing else at random in __init__",
            )


def check_determinism(name: str, **options: Any) -> None:
    """In evaluation an image always gets the same answer, whatever comes with it."""
    subject = Subject(name, options)
    model, images = subject.build().eval(), subject.images(4)
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
            f"what {name} says of an image depends on the others of its batch",
            "a batch of 256 and a single image would get different classes",
            "keep statistics of batches (norms, attention over the wrong axis) out of evaluation",
        )


def check_export(name: str, **options: Any) -> None:
    """torch.export takes the model, and what it made gives the same outputs. Takes seconds."""
    subject = Subject(name, options)
    model, images = subject.build().eval(), subject.images(2)
    exported = torch.export.export(model, (images,)).module()
    with torch.inference_mode():
        torch.testing.assert_close(exported(images), model(images), rtol=1e-4, atol=1e-4)


CHECKS = (
    check_meta, check_options_count, check_choices, check_errors, check_determinism,
    check_round_trip, check_gradients, check_learning,
)  # fmt: skip
