import torch

import zoo


class FromCode(zoo.Generator):
    def __init__(self, model):
        super().__init__(model)
        self.noise = (model.latent,)

    @torch.inference_mode()
    def draw(self, noise, conditions):
        return self.model.eval().decoder(torch.from_numpy(noise)).numpy()


@torch.inference_mode()
def codes(model, images):
    return model.eval().encoder(images).numpy()
