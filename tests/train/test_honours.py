"""A trainer says what of a recipe counts: the rest is refused, and no run claims it."""

import inspect
import re
from dataclasses import fields

import pytest
from support import ROOT
from zoo_author.models import check_recipes, check_training
from zoo_frozen.torch.frozen import FrozenTrainer
from zoo_numpy.trainer import NumpyTrainer

import zoo
from zoo_core.io.errors import Finding
from zoo_core.spec.settings import read_request
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.train import runner
from zoo_core.train.job import honoured, ignored

DATA = {"train_size": 60, "test_size": 20}
SMALL = {"epochs": 1, "batch_size": 30, "data": DATA}
ALL = {spec.name for spec in fields(zoo.Recipe)}
REFUSED = "'fcn_numpy' cannot be trained with precision=bfloat16: its trainer, numpy, does not use"


def train(tmp_path, **changes):
    how = {"runs": tmp_path / "runs", "quiet": True, "device": "cpu"}
    return runner.train("fcn_numpy", "synthetic", settings={**SMALL, **changes}, **how)


@pytest.mark.parametrize("kind", [zoo.Loop, NumpyTrainer, TorchTrainer, FrozenTrainer])
def test_what_is_honoured_are_fields_of_a_recipe(kind):
    assert zoo.Trainer.honours <= kind.honours <= ALL


def test_torch_uses_all_of_a_recipe_and_the_others_say_what_they_do_not():
    assert TorchTrainer.honours == ALL
    assert ALL - FrozenTrainer.honours == {"evaluate_subset"}
    assert ALL - NumpyTrainer.honours == {"compile", "precision", "decay", "by_width"}
    assert zoo.Trainer.honours == {
        "subset", "validation_fraction", "preprocess", "seed", "portable", "model", "task", "data",
    }  # fmt: skip


def test_what_the_core_applies_counts_for_a_trainer_that_does_not_say_so(monkeypatch):
    monkeypatch.setattr(NumpyTrainer, "honours", {"lr"})
    assert honoured(NumpyTrainer()) == zoo.Trainer.honours | {"lr"}
    recipe = zoo.Recipe(lr=0.5, mixup=0.2, subset=0.5, epochs=10)
    assert ignored(NumpyTrainer(), recipe) == {"mixup": 0.2}


def test_it_is_refused_before_a_dataset_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "open_data", lambda *args: pytest.fail("fetched"))
    with pytest.raises(zoo.ZooError, match=REFUSED) as refused:
        train(tmp_path, precision="bfloat16")
    assert refused.value.hint.startswith("leave out precision; it uses: optimizer, lr, ")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("search", [zoo.tune, zoo.sweep])
@pytest.mark.parametrize("end", [0, 1])
def test_a_search_over_it_is_refused_at_every_end(tmp_path, search, end):
    axis = {"precision": ["float32", "bfloat16"][:: 1 if end else -1]}
    named = {"space": axis, "searcher": "grid"} if search is zoo.tune else {"grid": axis}
    with pytest.raises(zoo.ZooError, match=REFUSED):
        search(
            "fcn_numpy", "synthetic", settings=SMALL, runs=tmp_path / "runs", quiet=True, **named
        )
    assert not (tmp_path / "runs").exists()


def test_run_json_records_what_is_honoured_and_can_be_trained_again(tmp_path):
    result = train(tmp_path)
    document = result.run.read()
    assert document["recipe"].keys() == NumpyTrainer.honours
    request = read_request(result.path / "run.json")
    again = runner.train(
        request.model, request.dataset, settings=request.settings, runs=tmp_path, quiet=True
    )
    assert again.run.model_file.read_bytes() == result.run.model_file.read_bytes()
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy


def test_a_run_of_an_older_zoo_that_records_all_fields_resumes_and_loads(tmp_path):
    result = train(tmp_path)
    whole, document = result.run.model_file.read_bytes(), result.run.read()
    older = {**document["recipe"], "precision": "float32", "compile": False}
    result.run.write({**document, "recipe": older, "status": "interrupted"})
    assert runner.resume(str(result.path), quiet=True).run.model_file.read_bytes() == whole
    zoo.load(result.path)


def test_a_run_that_claims_what_its_trainer_does_not_use_is_not_resumed(tmp_path):
    run = train(tmp_path).run
    document = run.read()
    claimed = {**document["recipe"], "precision": "bfloat16"}
    run.write({**document, "recipe": claimed, "status": "interrupted"})
    with pytest.raises(zoo.ZooError, match=REFUSED):
        runner.resume(str(run.path), quiet=True)


def test_a_recipe_of_an_entry_that_its_trainer_does_not_use_is_found(monkeypatch):
    check_recipes("fcn_numpy")
    monkeypatch.setattr(NumpyTrainer, "honours", NumpyTrainer.honours - {"lr", "optimizer"})
    with pytest.raises(
        Finding, match=r"recipe .* with (optimizer|lr)=.*: its trainer, numpy, does not use"
    ):
        check_recipes("fcn_numpy")


def test_weights_that_do_not_fit_the_spec_are_found(monkeypatch):
    spec = NumpyTrainer.tensor_spec
    more = {"more": ((None,), "float32")}
    monkeypatch.setattr(NumpyTrainer, "tensor_spec", lambda *given: {**spec(*given), **more})
    with pytest.raises(Finding, match="cannot be loaded: .* more is missing"):
        check_training("fcn_numpy")


def test_without_an_optimizer_a_search_asks_what_to_vary(tmp_path, monkeypatch):
    monkeypatch.setattr(NumpyTrainer, "honours", NumpyTrainer.honours - {"optimizer"})
    with pytest.raises(zoo.ZooError, match="has no optimizer: say what the search varies") as asked:
        zoo.tune("fcn_numpy", "synthetic", runs=tmp_path / "runs")
    assert "zoo tune fcn_numpy --space " in asked.value.hint


def test_label_smoothing_is_refused_where_the_task_does_not_use_it(tmp_path):
    with pytest.raises(zoo.ZooError, match="'vae' does not use label_smoothing"):
        zoo.train("vae", "synthetic", label_smoothing=0.1, data=DATA, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", [zoo.Framework, zoo.Trainer, zoo.Learner, zoo.Loop, zoo.Task])
def test_every_method_that_an_author_may_write_is_explained(kind):
    methods = inspect.getmembers(kind, inspect.isroutine)
    ours = [(name, method) for name, method in methods if name in vars(kind)]
    assert ours and not [name for name, method in ours if not method.__doc__]


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        (zoo.Framework, {"predict_batch"}),
        (zoo.Trainer, {"fit", "predict_batch"}),
        (zoo.Learner, {"learn", "scores"}),
        (zoo.Task, {"step", "evaluate"}),
    ],
)
def test_what_an_author_must_write_is_abstract_and_nothing_else(kind, needed):
    assert kind.__abstractmethods__ == needed


def test_the_docs_list_every_method_of_a_trainer():
    page = (ROOT / "docs" / "training.md").read_text().partition("### All methods")[2]
    rows = page.partition("\n#")[0].splitlines()
    listed = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in rows if "|" in row))
    ours = (c for c in zoo.Trainer.__mro__ if c.__module__.startswith("zoo_core"))
    public = {name for c in ours for name in vars(c) if not name.startswith("_")}
    assert sorted(listed) == sorted(public - {"check_optimizer"})
    assert "`check_optimizer`" in " ".join(rows)
