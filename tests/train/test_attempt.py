"""kit.attempt: trainings on the same images, judged by the same others, without the test set."""

import numpy as np
import pytest

from zoo import Interrupted, kit
from zoo_core.train import attempt as module

DATA = {"classes": 2, "image_size": 8, "channels": 1, "train_size": 100, "test_size": 20}
SETTINGS = {"validation_fraction": 0.2, "data": DATA, "batch_size": 20}


def tried(folder, **how):
    return kit.attempt("fcn_numpy", "synthetic", kit.Run(folder), settings=SETTINGS, **how)


def test_images_to_learn_from_grow_and_the_judges_stay(tmp_path):
    few, all_ = tried(tmp_path / "a", learn=30, epochs=2), tried(tmp_path / "b", epochs=2)
    assert [one.document["dataset"]["train"] for one in (few, all_)] == [30, 80]
    assert np.array_equal(few.labels, all_.labels) and len(all_.values) == 20
    assert few.document["recipe"]["epochs"] == few.document["result"]["epochs"] == 2
    assert not few.document["dataset"]["test"] and "test" not in few.document["result"]
    right = (all_.values.argmax(1) == all_.labels).mean()
    assert all_.figures["accuracy"] == pytest.approx(right) and all_.ms > 0


def test_what_a_kill_left_goes_on_and_what_is_complete_is_measured_again(tmp_path, monkeypatch):
    whole, plain = tried(tmp_path / "a", epochs=3), module.execute

    def killed(job, **how):
        plain_fit = job.trainer.fit

        def fit(job):
            plain_fit(job)
            raise Interrupted("stopped")

        monkeypatch.setattr(job.trainer, "fit", fit)
        return plain(job, **how)

    with monkeypatch.context() as patched:
        patched.setattr(module, "execute", killed)
        with pytest.raises(Interrupted):
            tried(tmp_path / "b", epochs=3)
    again = tried(tmp_path / "b", epochs=3)
    assert (
        again.document["result"]["model"]["sha256"] == whole.document["result"]["model"]["sha256"]
    )
    assert np.array_equal(tried(tmp_path / "b", epochs=3).values, whole.values)


def test_epochs_are_left_alone_where_a_trainer_counts_none(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "honoured", lambda trainer: frozenset())
    assert tried(tmp_path / "a", epochs=2).document["recipe"]["epochs"] != 2
