from dataclasses import dataclass, field

import numpy as np

import zoo


@dataclass(frozen=True)
class Dim(zoo.Augmentation):
    """Make images darker, each by its own share."""

    most: float = field(default=0.5, metadata={"limits": (0, 1)})

    def run(self, ops, images, draws):
        factors = draws.uniform("factor", 1 - self.most, 1)
        tables = np.rint(factors[:, None, None] * np.arange(256)).astype(np.uint8)
        return ops.lookup(images, tables.repeat(images.shape[3], axis=1))
