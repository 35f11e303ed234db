"""Three convolutions and a head: for classes, or for the four ways to turn an image."""

from torch import Tensor, nn


def layer(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()
    )


class Network(nn.Module):
    def __init__(
        self, *, num_classes: int = 10, in_channels: int = 3, image_size: int = 32, width: int = 32
    ) -> None:
        super().__init__()
        if image_size < 5:
            raise ValueError(f"an image of {image_size} pixels cannot be halved three times")
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        self.body = nn.Sequential(
            layer(in_channels, width), layer(width, 2 * width), layer(2 * width, 4 * width)
        )
        self.head = nn.Linear(4 * width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.body(images).mean((2, 3))  # (B, 4 width)
        return self.head(x)  # (B, num_classes)


class Rotation(Network):
    """Gives four scores. `--init` takes the tensors whose names and shapes fit: the body."""

    def __init__(self, *, in_channels: int = 3, image_size: int = 32, width: int = 32) -> None:
        super().__init__(num_classes=4, in_channels=in_channels, image_size=image_size, width=width)
