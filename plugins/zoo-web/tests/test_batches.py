"""What waits is computed together, in order, and one image does not spoil the others."""

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
from zoo_web.server.batches import Batches, best_size

import zoo


class Model:
    """Answers each image with its number; a negative one cannot be computed."""

    def __init__(self):
        self.sizes, self.free = [], threading.Event()
        self.asked = threading.Event()

    def __call__(self, images):
        self.asked.set()
        assert self.free.wait(60)
        self.sizes.append(len(images))
        if min(int(image[0]) for image in images) < 0:
            raise zoo.WeightsError("it gives numbers that are not finite")
        return np.stack(images)


@pytest.fixture
def model():
    return Model()


def images(*numbers):
    return [np.array([number]) for number in numbers]


def numbers(future):
    return [int(row[0]) for row in future.result(60)]


def begun(model, batches):
    """A job that the model is at work on, so that the next ones wait."""
    first = batches.submit(images(0))
    assert model.asked.wait(60)
    return first


def test_what_waits_is_computed_together_in_batches_of_the_size(model):
    batches = Batches(model, 4)
    first = begun(model, batches)
    jobs = [batches.submit(images(n, n + 1, n + 2)) for n in (10, 20, 30)]
    model.free.set()
    assert numbers(first) == [0]
    assert [numbers(job) for job in jobs] == [[n, n + 1, n + 2] for n in (10, 20, 30)]
    assert model.sizes == [1, 4, 4, 1]
    batches.stop()


def test_an_image_that_fails_fails_alone(model):
    batches = Batches(model, 8)
    begun(model, batches)
    good, bad = batches.submit(images(1, 2)), batches.submit(images(3, -1))
    model.free.set()
    assert numbers(good) == [1, 2]
    kept, failed = bad.result(60)
    assert int(kept[0]) == 3 and isinstance(failed, zoo.WeightsError)
    batches.stop()


def test_a_job_that_nobody_waits_for_is_not_computed(model):
    batches = Batches(model, 8)
    begun(model, batches)
    left, kept = batches.submit(images(1)), batches.submit(images(2))
    assert left.cancel()
    model.free.set()
    assert numbers(kept) == [2] and model.sizes == [1, 1]
    with pytest.raises(CancelledError):
        left.result()
    batches.stop()


def test_it_finishes_what_waits_and_takes_nothing_more(model):
    batches = Batches(model, 1)
    begun(model, batches)
    jobs = [batches.submit(images(n)) for n in range(3)]
    batches.stop()
    with pytest.raises(zoo.ZooError, match="stopping"):
        batches.submit(images(9))
    model.free.set()
    assert [numbers(job) for job in jobs] == [[0], [1], [2]]


def test_the_best_size_is_the_one_that_takes_least_for_each_image(monkeypatch):
    took = {1: 1.0, 2: 1.2, 4: 1.6, 8: 4.0, 16: 16.0}
    clock = [0.0]
    monkeypatch.setattr("zoo_web.server.batches.PATIENCE", 3.0)
    monkeypatch.setattr("zoo_web.server.batches.time.perf_counter", lambda: clock[0])

    def compute(given):
        clock[0] += took[len(given)]
        return np.stack(given)

    assert best_size(compute, np.zeros(1), 64) == 4
    assert best_size(compute, np.zeros(1), 2) == 2
