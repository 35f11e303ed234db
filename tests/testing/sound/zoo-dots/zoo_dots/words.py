from dataclasses import dataclass, field

import numpy as np

import zoo


@dataclass(frozen=True)
class Dim(zoo.Augmentation):
    """Make images darker, each by its own share."""

    most: float = field(default=0.5, metadata={"limits": (0, 1)})

    def run(self, ops, images, draws):
        factors = draws.uniform("factor", 1 - self.most, 1).astype(np.float32)
        return images * ops.put(factors)[:, None, None, None]
