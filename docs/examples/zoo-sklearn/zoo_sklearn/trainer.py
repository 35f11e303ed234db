"""How the zoo trains and uses the models of this package.

A model here is a Python object of ours, not of a framework. So the three methods of the base that
call torch's method names are replaced. `honours` stays the base's: scikit-learn has no learning
rate and no epochs, and the zoo refuses a recipe that sets them.
"""

import math
import warnings

import numpy as np

import zoo


class SklearnTrainer(zoo.Trainer):
    def tensor_spec(self, entry, config):
        return self.build(entry, config).spec()

    def load_state(self, model, tensors):
        model.load(tensors)

    def describe(self, model):
        spec = model.spec().values()
        if any(None in shape for shape, _ in spec):  # the zoo counts after fitting
            return zoo.Description(0, 0, 0, type(model).__name__)
        sizes = [(math.prod(shape), np.dtype(dtype).itemsize) for shape, dtype in spec]
        count = sum(size for size, _ in sizes)
        weight = sum(size * each for size, each in sizes)
        return zoo.Description(count, count, weight, type(model).__name__)

    def fit(self, job):
        images, labels = job.training_arrays()  # (n, c, h, w), (n,)
        model = self.build(job.entry, job.config)
        with warnings.catch_warnings(record=True) as caught:  # that it did not converge
            warnings.simplefilter("always")
            try:
                tensors = model.fit(images.reshape(len(images), -1), labels, job.recipe.seed)
            except ValueError as error:  # one class only, for example
                raise zoo.ZooError(f"scikit-learn cannot fit {job.entry.name}: {error}") from error
        remarks = [str(warning.message).splitlines()[0].rstrip(":") for warning in caught]
        return zoo.Fitted(tensors, remarks=remarks)

    def predict_batch(self, model, images):
        return model.scores(images.reshape(len(images), -1))
