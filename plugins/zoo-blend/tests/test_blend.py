"""An ensemble is measured from what its members have said; nothing is computed twice."""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from zoo_blend import members
from zoo_blend.blend import blend, fitted, held_out
from zoo_blend.command import blend_command
from zoo_blend.distil import write_scores
from zoo_blend.members import find_members
from zoo_blend.task import Distil

import zoo
from zoo import kit

SMALL = {"train_size": 300, "test_size": 100}
STUDENT = {"epochs": 2, "batch_size": 32, "model": {"hidden": [8]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `a` and `b` kept the same images for validation, `whole` none."""
    found = tmp_path_factory.mktemp("blend")
    how = {"epochs": 2, "data": SMALL, "runs": found / "runs", "quiet": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(found / "cache"))
        for name, own in {
            "a": {"model": {"hidden": [16]}, "validation_fraction": 0.3},
            "b": {"model": {"hidden": [8, 8]}, "validation_fraction": 0.3},
            "whole": {"model": {"hidden": [16]}},
        }.items():
            settings = {"augment": [], "lr": 3e-3, **own}
            zoo.train("mlp", "synthetic", name=name, settings=settings, **how)
    return found


@pytest.fixture(autouse=True)
def own_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def ask(folder):
    return lambda *names, **how: blend(*names, runs=folder / "runs", quiet=True, **how)


@pytest.fixture
def counted(monkeypatch):
    """How many images members were asked about, batch by batch."""
    seen, readable = [], kit.readable

    def count(model, images):
        seen.append(len(images))
        return readable(model, images)

    monkeypatch.setattr("zoo_blend.members.kit.readable", count)
    return seen


def test_the_weights_explain_the_labels_best():
    draw = np.random.default_rng(0)
    true = draw.dirichlet(np.full(4, 0.3), 2000)
    labels = np.array([draw.choice(4, p=row) for row in true])
    said = np.stack([true, draw.dirichlet(np.full(4, 1.0), 2000), 0.5 * true + 0.125])

    def fit(weights):
        mean = np.tensordot(weights, said, 1)
        return np.log(mean[np.arange(len(labels)), labels]).mean()

    found = fitted(said, labels)
    tried = draw.dirichlet(np.ones(3), 500)
    assert found.sum() == pytest.approx(1) and found[1] < 0.02
    assert fit(found) >= max(map(fit, tried)) - 1e-6


def test_stored_predictions_are_measured_without_a_model(ask, folder, monkeypatch):
    monkeypatch.setattr("zoo_blend.members.kit.loaded", lambda *_: pytest.fail("a model is loaded"))
    found = ask("a", "whole")
    said = [kit.read_predictions(kit.Run(folder / "runs" / name)) for name in ("a", "whole")]
    alone, mean = [one.right() for one in said], (said[0].values + said[1].values) / 2
    right = mean.argmax(1) == said[0].labels
    assert [one.weight for one in found.members] == [0.5, 0.5]
    assert "whole trained on all training images" in found.why_equal
    assert found.accuracy == found.equal == right.mean()
    best = int(np.argmax([one.mean() for one in alone]))
    assert found.best == ("a", "whole")[best]
    assert found.gain.value == pytest.approx(right.mean() - alone[best].mean())
    assert found.members[0].without == found.members[1].accuracy == alone[1].mean()


def test_images_that_no_member_trained_on_choose_the_weights_once(
    ask, folder, counted, monkeypatch
):
    found = ask("a", "b")
    assert found.held_out == 90 and sum(counted) == 180
    assert sum(one.weight for one in found.members) == pytest.approx(1)
    again = ask("a", "b")
    assert again == found and sum(counted) == 180
    one, other = find_members(["a", "b"], runs=folder / "runs")
    other = replace(other, recipe=zoo.Recipe(seed=1, subset=0.5, validation_fraction=0.5))
    monkeypatch.setattr("zoo_blend.blend.LEAST", 1)
    rows, _ = held_out([one, other])
    trained = [set(each.data.parts(each.recipe)[0]) for each in (one, other)]
    assert len(rows) > 30 and set(rows) == set(range(300)) - trained[0] - trained[1]


def test_a_sweep_stands_for_its_runs(folder, tmp_path):
    for number, name in enumerate(("a", "b")):
        shutil.copytree(folder / "runs" / name, tmp_path / "seeds" / "trials" / f"00{number}")
    names = [one.name for one in find_members(["seeds"], runs=tmp_path)]
    assert names == ["seeds/trials/000", "seeds/trials/001"]


def test_few_images_choose_nothing(ask, monkeypatch):
    monkeypatch.setattr("zoo_blend.blend.LEAST", 91)
    found = ask("a", "b")
    assert found.members[0].weight == 0.5 and "only 90 training images" in found.why_equal


def test_a_kill_loses_one_block_at_most(folder, counted, monkeypatch):
    monkeypatch.setattr(members, "BLOCK", 32)
    (one,) = find_members(["a"], runs=folder / "runs")
    plain = kit.readable

    def stop(model, images):
        if len(counted) == 3:
            raise KeyboardInterrupt
        return plain(model, images)

    monkeypatch.setattr("zoo_blend.members.kit.readable", stop)
    rows = np.arange(100)
    with pytest.raises(zoo.Interrupted, match="stopped while a looked") as stopped:
        one.said("train", rows)
    assert "same command" in stopped.value.hint and counted == [32, 32, 32]
    monkeypatch.setattr("zoo_blend.members.kit.readable", plain)
    found = one.said("train", rows)
    assert counted == [32, 32, 32, 4]
    model = zoo.load(folder / "runs" / "a")
    images = one.data.train.images[:100]
    assert np.allclose(found, kit.readable(model, kit.as_input(model, images)), atol=1e-6)


def test_weights_without_stored_predictions_are_asked_once(ask, folder, tmp_path, counted):
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes((folder / "runs" / "whole" / "model.safetensors").read_bytes())
    beside = ask("a", "whole")
    for _ in range(2):
        with pytest.raises(zoo.ZooError):
            ask("a", copy)  # a file alone does not say which images it saw
    assert beside.images == 100 and not counted


class Fixed(torch.nn.Module):
    """Says the same, whatever it sees."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = torch.nn.Parameter(outputs)

    def forward(self, images):
        return self.outputs


@pytest.mark.parametrize("mixed", [False, True])
def test_the_loss_is_that_of_labels_and_of_softened_scores(monkeypatch, mixed):
    draw = np.random.default_rng(0)
    scores = draw.dirichlet(np.ones(4), 6).astype(np.float32)
    monkeypatch.setattr("zoo_blend.task._read", lambda _: {"scores": scores})
    settings = {"scores": "x", "temperature": 3.0, "truth": 0.25}
    outputs = draw.normal(0, 1, (3, 4)).astype(np.float32)
    targets = zoo.Targets("class", tuple("abcd"))
    task = Distil(Fixed(torch.from_numpy(outputs)), zoo.Recipe(task=settings), targets)
    labels, rows = np.array([0, 1, 3]), np.array([5, 0, 2])
    others, further = np.array([2, 2, 0]), np.array([1, 4, 3])
    share = np.array([0.9, 0.5, 0.2], np.float32)
    more = (torch.from_numpy(others), torch.from_numpy(share), further) if mixed else ()
    batch = zoo.Batch(torch.zeros(3, 1), torch.from_numpy(labels), rows, *more)
    losses = []
    found = task.step(batch, lambda name, loss: losses.append(loss.item()))

    def softmax(values):
        return np.exp(values) / np.exp(values).sum(1, keepdims=True)

    def expected(labels, rows):
        taught, said = softmax(np.log(scores[rows]) / 3), softmax(outputs / 3)
        apart = 9 * (taught * np.log(taught / said)).sum(1)
        plain = -np.log(softmax(outputs)[np.arange(3), labels])
        return 0.25 * plain + 0.75 * apart

    wanted = expected(labels, rows)
    if mixed:
        wanted = share * wanted + (1 - share) * expected(others, further)
    assert losses == [pytest.approx(wanted.mean(), rel=1e-5)]
    assert set(found) == {"loss", "accuracy"}


def test_a_student_that_was_stopped_ends_with_the_same_bytes(ask, folder, monkeypatch):
    names, how = ("a", "whole"), {"distil": "mlp", "settings": STUDENT}
    whole = kit.Run(ask(*names, name="student", **how).student)
    step, steps = Distil.step, []

    def stop(task, batch, update):
        steps.append(len(batch))
        if len(steps) == 14:  # in the second epoch
            os.kill(os.getpid(), signal.SIGINT)
        return step(task, batch, update)

    monkeypatch.setattr(Distil, "step", stop)
    with pytest.raises(zoo.Interrupted):
        ask(*names, name="stopped", **how)
    assert len(steps) == 14
    cut = kit.Run(ask(*names, name="stopped", **how).student)
    assert len(steps) == 20  # ten batches an epoch, none of them twice
    assert cut.model_file.read_bytes() == whole.model_file.read_bytes()
    task = whole.read()["recipe"]["task"]
    digests = [kit.file_digest(folder / "runs" / name / "model.safetensors") for name in names]
    assert task["teachers"] == [f"mlp@{digest}" for digest in digests]
    assert task["weights"] == [0.5, 0.5] and task["use"] == "Distil"
    assert (task["temperature"], task["truth"]) == (2.0, 0.1)  # the defaults, which may change


@pytest.mark.slow
def test_a_student_copies_its_teachers_and_not_the_labels(ask, tmp_path, monkeypatch):
    """Teachers that call each class by the name of the next one teach just that."""
    said = members.Member.said

    def turned(member, split, rows):
        return np.eye(10, dtype=np.float32)[(member.data.train.labels[rows] + 1) % 10]

    monkeypatch.setattr(members.Member, "said", turned)
    settings = {"epochs": 6, "batch_size": 16, "lr": 3e-3, "augment": [], "task": {"truth": 0}}
    found = ask("a", distil="mlp", name=f"turned-{tmp_path.name}", settings=settings)
    monkeypatch.setattr(members.Member, "said", said)
    tests = kit.read_predictions(kit.Run(found.student))
    turned_right = (tests.values.argmax(1) == (tests.labels + 1) % 10).mean()
    assert turned_right > 0.3 and tests.right().mean() < 0.15


@pytest.mark.parametrize(
    ("names", "how", "problem"),
    [
        (["a"], {}, "two different models"),
        (["a", "a"], {}, "two different models"),
        (["a", "nothing"], {}, "no model and no run 'nothing'"),
        (["a", "cnn"], {}, "different images"),
        (["a", "b"], {"distil": "fcn_numpy"}, "numpy, learns labels only"),
        (["a", "b"], {"distil": "vae"}, "not trained as a classifier"),
        (["a", "b"], {"distil": "mlp", "settings": {"task": {"truth": 1}}}, "task.truth"),
        (["a", "b"], {"distil": "mlp", "settings": {"task": {"temperature": 0}}}, "temperature"),
        (["a", "b"], {"distil": "mlp", "settings": {"task": {"heat": 2}}}, "no option 'heat'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(ask, folder, names, how, problem):
    before = sorted((folder / "runs").iterdir())
    with pytest.raises(zoo.ZooError, match=problem):
        ask(*names, **how)
    assert sorted((folder / "runs").iterdir()) == before


def test_scores_that_are_gone_or_of_other_images_are_refused(folder):
    one = find_members(["a"], runs=folder / "runs")
    task = {"scores": write_scores(one, [1.0], np.arange(9)), "teachers": [one[0].title]}
    task |= {"use": "Distil", "weights": [1.0]}
    how = {"runs": folder / "runs", "quiet": True, "epochs": 1}
    with pytest.raises(zoo.ZooError, match="seen other images"):
        zoo.train("mlp", "synthetic", task=task, data={"train_size": 290}, **how)
    with pytest.raises(zoo.ZooError, match="those of other scores"):
        zoo.train("mlp", "synthetic", task={**task, "teachers": ["x@1"]}, data=SMALL, **how)
    (kit.cache_dir("blend") / f"{task['scores']}.safetensors").write_bytes(b"")
    Distil.check.__func__.__globals__["_read"].cache_clear()
    with pytest.raises(zoo.ZooError, match="the file was changed") as gone:
        zoo.train("mlp", "synthetic", task=task, data=SMALL, **how)
    assert "--distil" in gone.value.hint


@pytest.mark.parametrize(
    ("use", "problem"), [("blend", "something else"), ("Nothing", "no task 'Nothing'")]
)
def test_only_tasks_of_installed_plugins_can_be_used(folder, use, problem):
    with pytest.raises(zoo.ZooError, match=problem):
        zoo.train("mlp", "synthetic", task={"use": use}, data=SMALL, runs=folder / "runs")
    with pytest.raises(zoo.ZooError, match="no option 'use'"):
        zoo.train("vae", "synthetic", task={"use": "Distil"}, data=SMALL, runs=folder / "runs")


def test_the_command_prints_a_table_and_json(folder, tmp_path):
    words = ["a", "b", "--runs", str(folder / "runs"), "-o", str(tmp_path / "x.png")]
    shown = CliRunner().invoke(blend_command, words, catch_exceptions=False)
    assert "ensemble" in shown.output and "90 images that no member" in shown.output
    printed = CliRunner().invoke(blend_command, [*words, "--json"], catch_exceptions=False)
    document = json.loads(printed.output)
    assert document["members"][0]["name"] == "a" and (tmp_path / "x.png").stat().st_size
    alone = CliRunner().invoke(blend_command, [*words, "--set", "epochs=1"])
    assert isinstance(alone.exception, zoo.UsageError)
