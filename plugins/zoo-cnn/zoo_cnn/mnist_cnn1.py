"""One convolution, for MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from zoo_cnn.activations import side_after


class MnistCNN1(nn.Module):
    def __init__(
        self, *, num_classes: int = 10, in_channels: int = 1, image_size: int = 28
    ) -> None:
        super().__init__()
        side = side_after(image_size, (4, 4))
        self.features = nn.Sequential(nn.Conv2d(in_channels, 10, 5), nn.MaxPool2d(4), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(10 * side * side, num_classes))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))  # (B, num_classes)
