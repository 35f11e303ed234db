"""lenet_numpy: two convolutions with batch norm and average pooling, then three linear layers."""

from numpy.random import Generator, default_rng

from zoo_numpy import nn
from zoo_numpy.nn import Pair, pair
from zoo_numpy.tensor import Tensor


class LeNet(nn.Module):
    def __init__(
        self,
        *,
        in_channels: int = 1,
        image_size: Pair = 28,
        num_classes: int = 10,
        batch_norm: bool = True,
        generator: Generator | None = None,
    ) -> None:
        height, width = pair(image_size)
        if min(height, width) < 12 or min(in_channels, num_classes) < 1:
            asked = f"{in_channels} channels of {height}x{width} and {num_classes} classes"
            raise ValueError(f"LeNet needs a channel, 12x12 pixels and a class, not {asked}")
        rng = generator or default_rng()
        # The first convolution keeps the size, the second takes 4 away, each pooling halves it.
        features = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2, generator=rng)
        self.bn1 = nn.BatchNorm2d(6) if batch_norm else nn.Identity()
        self.conv2 = nn.Conv2d(6, 16, 5, generator=rng)
        self.bn2 = nn.BatchNorm2d(16) if batch_norm else nn.Identity()
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(features, 120, generator=rng)
        self.fc2 = nn.Linear(120, 84, generator=rng)
        self.fc3 = nn.Linear(84, num_classes, generator=rng)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, 28, 28)
        x = self.pool(self.bn1(self.conv1(x)).relu())  # (B, 6, 14, 14)
        x = self.pool(self.bn2(self.conv2(x)).relu())  # (B, 16, 5, 5)
        x = self.fc1(x.flatten(1)).relu()  # (B, 120)
        x = self.fc2(x).relu()  # (B, 84)
        return self.fc3.forward(x)  # (B, num_classes)
