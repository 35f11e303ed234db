"""How the zoo trains the models of this package.

The loop is the zoo's; what is here is the arithmetic of one step.
"""

import numpy as np

import zoo


class SumsTrainer(zoo.Trainer):
    # What of a recipe counts here. The zoo refuses the rest, and run.json does not record it.
    honours = zoo.Loop.honours | {"optimizer", "label_smoothing", "init"}
    optimizers = {"sgd": "lr=log:0.001:1.0"}  # and what `zoo tune` varies with it

    def fit(self, job: zoo.Job) -> zoo.Fitted:
        model = self.build(job.entry, job.config)
        model.load_state_dict(job.init or {}, strict=False)
        return zoo.Loop(SumsLearner(job, model), job).fit()

    def predict_batch(self, model, images: np.ndarray) -> np.ndarray:
        return model(images)


class SumsLearner(zoo.Learner):
    def learn(self, batch: zoo.Batch, place: zoo.Position, last: bool) -> None:
        scores = self.model(batch.images)  # (B, classes)
        wanted = batch.targets(scores.shape[1], self.recipe.label_smoothing)
        chance = np.exp(scores - scores.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        loss = -(wanted * np.log(chance + 1e-12)).sum()
        right = (scores.argmax(1) == batch.labels).sum()
        self.add({"loss": loss, "accuracy": right}, len(batch))
        error = (chance - wanted) * (place.lr / place.size)
        self.model.weight -= batch.images.reshape(len(batch), -1).T @ error
        self.model.bias -= error.sum(0)

    def scores(self, images: np.ndarray) -> np.ndarray:
        return self.published(images)
