"""Two convolutions and two hidden layers, for MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from zoo_cnn.activations import make_activation, side_after


class MnistCNN2(nn.Module):
    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 1,
        image_size: int = 28,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        side = side_after(image_size, (4, 2), (4, 2))
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 10, 5),
            nn.MaxPool2d(2),
            make_activation(activation),
            nn.Conv2d(10, 20, 5),
            nn.MaxPool2d(2),
            make_activation(activation),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(20 * side * side, 128),
            make_activation(activation),
            nn.Linear(128, 32),
            make_activation(activation),
            nn.Linear(32, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))  # (B, num_classes)
