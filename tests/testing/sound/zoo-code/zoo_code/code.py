"""An autoencoder of one layer each way, and what it is trained for."""

import numpy as np
from torch import nn

import zoo


class Code(nn.Module):
    def __init__(self, *, in_channels=3, image_size=8, latent=4):
        super().__init__()
        if latent < 1:
            raise ValueError(f"a code of {latent} numbers says nothing")
        self.latent = latent
        shape = (in_channels, image_size, image_size)
        values = in_channels * image_size * image_size
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(values, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, values), nn.Unflatten(1, shape))

    def forward(self, images):
        return self.decoder(self.encoder(images))


class Coding(zoo.Task):
    options = {"beta": 0.0}

    def losses(self, model, batch):
        codes = model.encoder(batch.images)
        error = (model.decoder(codes) - batch.images).square().flatten(1).mean(1)
        return error + self.settings["beta"] * codes.square().mean(1)  # (B,)

    def step(self, batch, update):
        loss = self.losses(self.model, batch).mean()
        update("model", loss)
        return {"loss": loss.detach()}

    def evaluate(self, model, batches, sum_over):
        sums = np.zeros(2)
        for batch in batches:
            sums += [float(self.losses(model, batch).sum()), len(batch)]
        total, count = sum_over(sums)
        return {"loss": float(total / count)}
