"""How the zoo trains and uses nearest neighbours: nothing is learnt, all is kept."""

import numpy as np

import zoo


class KNNTrainer(zoo.Trainer):
    def tensor_spec(self, entry, config):
        """None: as many images as there are to train on."""
        inputs = self.build(entry, config).inputs
        return {"images": ((None, inputs), "float32"), "labels": ((None,), "int64")}

    def load_state(self, model, tensors):
        """The file may be anybody's: whatever could go wrong later is refused here."""
        if tensors.keys() != {"images", "labels"}:
            raise ValueError("nearest neighbours need both images and labels")
        images, labels = tensors["images"].astype(np.float32), tensors["labels"]
        if len(images) != len(labels):
            raise ValueError(f"it has {len(images)} images and {len(labels)} labels")
        if labels.min() < 0 or labels.max() >= model.classes:
            raise ValueError(f"it has labels other than 0 to {model.classes - 1}")
        model.images, model.labels = images, labels
        with np.errstate(over="ignore"):
            model.squares = np.square(images).sum(1)
        if not np.isfinite(model.squares).all():
            raise ValueError("its images have numbers too large to compare")

    def describe(self, model):
        return zoo.Description(0, 0, 0, f"{model.neighbours} nearest neighbours")

    def fit(self, job):
        images, labels = job.training_arrays()  # (n, c, h, w), (n,)
        return zoo.Fitted({"images": images.reshape(len(images), -1), "labels": labels})

    def predict_batch(self, model, images):
        return model.scores(images.reshape(len(images), -1))
