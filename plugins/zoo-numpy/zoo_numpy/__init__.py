"""A small deep-learning framework on NumPy alone, with torch's names: `from zoo_numpy import nn`.

Read it in this order: tensor (autograd), nn (layers, losses), optim, networks, trainer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo_numpy import nn, optim
    from zoo_numpy.tensor import Tensor, load, no_grad, save

__all__ = ["Tensor", "load", "nn", "no_grad", "optim", "save"]


def __getattr__(name: str) -> Any:
    """Import on first use: listing models imports this package, and need not pay for NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("nn", "optim"):
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.tensor"), name)
