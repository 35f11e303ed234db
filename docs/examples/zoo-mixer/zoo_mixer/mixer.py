"""MLP-Mixer: patches as rows of a table; MLPs mix down its columns and along its rows."""

from torch import Tensor, nn


class Block(nn.Module):
    """Mixes the patches of each channel, then the channels of each patch."""

    def __init__(self, tokens: int, width: int, token_hidden: int, hidden: int) -> None:
        super().__init__()
        self.token_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix_tokens = mlp(tokens, token_hidden)
        self.mix_channels = mlp(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix_tokens(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_channels(self.norm(x))  # (B, tokens, width)


class Mixer(nn.Module):
    # The data decides the first three when the model is trained; the others are `config`.
    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        patch_size: int = 4,
        width: int = 128,
        depth: int = 4,
        hidden: int = 256,
        token_hidden: int = 64,
    ) -> None:
        super().__init__()
        if patch_size < 1 or image_size % patch_size:
            raise ValueError(f"patches of {patch_size} pixels do not fill an image of {image_size}")
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        tokens = (image_size // patch_size) ** 2
        self.patches = nn.Conv2d(in_channels, width, patch_size, stride=patch_size)
        self.blocks = nn.Sequential(
            *(Block(tokens, width, token_hidden, hidden) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # (B, tokens, width)
        x = self.norm(self.blocks(x)).mean(1)  # (B, width)
        return self.head(x)  # (B, num_classes)


def mlp(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
