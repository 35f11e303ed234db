"""Learning rates that hold for any width: maximal update parametrisation (muP).

A wide network needs a smaller rate than a narrow one, unless its layers are scaled (Yang and Hu,
arXiv 2203.03466, table 3). Shapes say how: a model is compared with itself at the default width.
"""

from __future__ import annotations

from torch import nn

from zoo_core.torch.task import OPTIMIZERS


def follow_width(model: nn.Module, narrow: nn.Module, optimizer: str) -> None:
    """Scale the rates and the last layer of a new model so that the best rate is that of `narrow`.

    narrow: the same model at the width for which `lr` is meant; tensors without memory will do.
    """
    adaptive, sizes = OPTIMIZERS[optimizer].adaptive, dict(narrow.named_parameters())
    scales: dict[str, float] = {}
    for name, p in model.named_parameters():
        grown = [wide / base for wide, base in zip(p.shape, sizes[name].shape, strict=True)]
        wider = [ratio for ratio in grown if ratio != 1]
        if len(grown) > 1 and grown[1] != 1:  # it reads from a wider layer
            last = grown[0] == 1  # and writes into one that stays, as the last layer does
            if adaptive or last:
                scales[name] = 1 / grown[1]
            if last:
                p.data.mul_(grown[1] ** -0.5)
        elif wider and not adaptive:  # the first layer, biases, norms, positions
            scales[name] = wider[0]
    model.lr_scales = scales  # type: ignore[assignment]  # an attribute like any other
