"""The word `grey`: without it, colours alone tell which two versions belong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import zoo

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R 601, as in Pillow


@dataclass(frozen=True)
class Grey(zoo.Augmentation):
    """Take the colours out of so large a share of the images; others than RGB stay as they are."""

    probability: float = field(metadata={"limits": (0, 1)})

    def run(self, ops: Any, images: Any, draws: Any) -> Any:
        if images.shape[3] != len(LUMA):
            return images
        chosen = ops.put(np.flatnonzero(draws.uniform("chosen") < self.probability))
        grey = images[chosen] * ops.put(np.array(LUMA, np.float32))  # (n, h, w, 3)
        grey = grey[..., 0] + grey[..., 1] + grey[..., 2]  # written out: the same in all frameworks
        grey = ops.xp.round(grey) if images.dtype == ops.xp.uint8 else grey
        images[chosen] = ops.xp.asarray(grey, dtype=images.dtype)[..., None]
        return images
