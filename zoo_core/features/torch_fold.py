"""Batch norms folded into the convolutions before them: the same function, in less time.

Only a copy that computes features is folded. The weights that are kept, hashed and published are
those that came.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

TOLERANCE = 1e-3  # of the largest feature; what is right differs by a hundredth of that


@torch.no_grad()
def fold_batch_norms(model: nn.Module, probe: Tensor) -> nn.Module:
    """A faster copy of a network in evaluation mode, or the network itself if that would differ.

    A convolution is taken to feed the first batch norm that is defined after it, as people write
    them. `probe`, a few pictures, says whether that was so.
    """
    folded = copy.deepcopy(model)
    for module in list(folded.modules()):
        before = ""
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Conv2d):
                before = name
            # Exactly this class: others, timm's for example, do more than to normalise.
            elif type(layer) is nn.BatchNorm2d and before:
                conv = getattr(module, before)
                if conv.out_channels == layer.num_features:
                    setattr(module, before, fuse_conv_bn_eval(conv, layer))
                    setattr(module, name, nn.Identity())
                before = ""
    try:
        expected, found = model(probe), folded(probe)
    except RuntimeError:  # shapes that do not fit: the order was another
        return model
    allowed = TOLERANCE * float(expected.abs().max())
    difference = float((expected - found).abs().max())
    return folded if math.isfinite(difference) and difference <= allowed else model
