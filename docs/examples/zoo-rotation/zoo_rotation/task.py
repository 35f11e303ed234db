"""What the network learns: by how much an image is turned."""

import numpy as np
import torch
import torch.nn.functional as F

import zoo

TURNS = ("upright", "a quarter turn", "half a turn", "three quarters")


class Turns(zoo.ClassAnswers):
    """One of the four turns, whatever the labels of the data are."""

    def __init__(self, targets):
        super().__init__(zoo.Targets("class", TURNS))


class Turning(zoo.Task):
    kinds = ("pretraining",)
    answers = Turns
    figures = {
        "loss": zoo.Figure("nats", better="lower"),
        "accuracy": zoo.Figure("%", better="higher"),
    }
    options = {"smoothing": 0.0}

    def scores(self, model, batch):
        """Scores (4 B, 4) of the images in all four positions, and the right answers (4 B,)."""
        turned = [torch.rot90(batch.images, turn, (2, 3)) for turn in range(4)]
        right = torch.arange(4, device=batch.images.device).repeat_interleave(len(batch))
        return model(torch.cat(turned)), right

    def step(self, batch, update):
        scores, right = self.scores(self.model, batch)
        loss = F.cross_entropy(scores, right, label_smoothing=self.settings["smoothing"])
        update("model", loss)
        accuracy = (scores.argmax(1) == right).float().mean()
        return {"loss": loss.detach(), "accuracy": accuracy}

    def evaluate(self, model, batches, sum_over):
        sums = np.zeros(3)  # loss, right answers, images: sums, not means
        for batch in batches:
            if len(batch):
                scores, right = self.scores(model, batch)
                losses = F.cross_entropy(scores, right, reduction="sum")
                sums += [float(losses), int((scores.argmax(1) == right).sum()), len(right)]
        loss, hits, count = sum_over(sums)
        return {"loss": loss / count, "accuracy": hits / count}

    def plots(self, model, batches):
        from matplotlib.figure import Figure  # only a report needs it

        scores, right = self.scores(model, next(batches))
        hits = (scores.argmax(1) == right).reshape(4, -1).float().mean(1)
        figure = Figure(figsize=(5, 2.5))
        axes = figure.add_subplot(xlim=(0, 1), xlabel="accuracy")
        axes.barh(TURNS, hits.cpu().numpy())
        return {"turns": figure}
