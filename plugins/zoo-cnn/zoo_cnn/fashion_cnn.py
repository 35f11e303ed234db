"""Two convolutions and a hidden layer, for Fashion-MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from zoo_cnn.activations import make_activation, side_after


class FashionCNN(nn.Module):
    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 1,
        image_size: int = 28,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        side = side_after(image_size, (0, 2), (0, 2))
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 32, 3, padding=1),
            make_activation(activation),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            make_activation(activation),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * side * side, 128),
            make_activation(activation),
            nn.Linear(128, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))  # (B, num_classes)
