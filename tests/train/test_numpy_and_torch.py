"""Two frameworks, one promise: the same job teaches NumPy's LeNet what it teaches torch's."""

import numpy as np
import pytest
import torch
from zoo_numpy.networks import LeNet
from zoo_numpy.trainer import NumpyLearner, NumpyTrainer

import zoo
from zoo.testing import job_of
from zoo_core.torch.learner import TorchLearner

GREY = {"channels": 1, "image_size": 28, "train_size": 200, "test_size": 50, "classes": 10}
MIXED = {"mixup": 0.4, "label_smoothing": 0.1, "clip_grad": 0.5, "ema": 0.9, "accumulate": 2}


class TorchLeNet(torch.nn.Module):
    """LeNet as torch has it, with the same names of tensors."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.bn1 = torch.nn.BatchNorm2d(6) if norm else torch.nn.Identity()
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.bn2 = torch.nn.BatchNorm2d(16) if norm else torch.nn.Identity()
        self.pool = torch.nn.AvgPool2d(2)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    forward = LeNet.forward  # the same code serves both


def learn(learner, job, steps):
    """Some steps of the first epoch; the rate changes, as in a schedule."""
    loader = job.training_loader(**learner.loading())
    for k in range(steps):
        batch = loader.batch(0, k)
        learner.step(batch, zoo.Position(0, k, k, job.recipe.lr / (k + 1), len(batch)))


@pytest.mark.parametrize("more", [{}, MIXED], ids=["plain", "everything"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_both_learn_the_same(optimizer, more):
    # Before batch norm a bias has no gradient but rounding errors, and Adam would enlarge them.
    norm, lr = (True, 0.05) if optimizer == "sgd" else (False, 0.002)
    settings = {"optimizer": optimizer, "lr": lr, "weight_decay": 0.01, "batch_size": 32, **more}
    job = job_of("lenet_numpy", model={"batch_norm": norm}, data=GREY, **settings)
    ours, theirs = NumpyTrainer().build(job.entry, job.config), TorchLeNet(norm)
    ours.load_state_dict(theirs.state_dict())
    learners = NumpyLearner(job, ours), TorchLearner(job, theirs)
    for learner in learners:
        learn(learner, job, 6)
    mine, reference = (learner.weights() for learner in learners)
    for name, value in reference.items():
        np.testing.assert_allclose(mine[name], value, atol=1e-4, err_msg=name)
    for figures in zip(*(learner.totals().items() for learner in learners), strict=True):
        assert figures[0][0] == figures[1][0]
        assert figures[0][1] == pytest.approx(figures[1][1], abs=1e-4)
    test = [
        learner.evaluate(job.evaluation_loader(job.dataset.test, **learner.loading()))
        for learner in learners
    ]
    assert test[0] == pytest.approx(test[1], abs=1e-3)
