"""The public face: small, lazy, and with sentences for mistakes."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import environment

import zoo
import zoo.kit
import zoo.testing


def test_every_public_name_is_there_and_nothing_is_imported_before_it_is_used():
    code = (
        "import sys, zoo\n"
        "assert 'zoo_core.spec.recipe' not in sys.modules and 'pluggy' not in sys.modules\n"
        "assert all(hasattr(zoo, name) for name in zoo.__all__)\n"
        "assert set(zoo.__all__) == set(dir(zoo))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        zoo.lode  # noqa: B018


@pytest.mark.parametrize("page", [zoo, zoo.kit, zoo.testing], ids=lambda page: page.__name__)
def test_the_names_that_type_checkers_see_are_those_that_exist(page):
    seen = re.findall(r"    from (\S+) import (\S+) as \2\n", Path(page.__file__).read_text())
    assert [name for _, name in seen] == [name for name in page.__all__ if name != "__version__"]
    for module, name in seen:
        assert getattr(page, name) is getattr(importlib.import_module(module), name)


def test_list_models_gives_names_that_create_takes():
    names = zoo.list_models()
    assert {"cnn", "mlp"} <= set(names)
    assert zoo.list_models("cn?") == ["cnn"]
    assert zoo.list_models(plugin="mlp") == ["mlp"]


@pytest.mark.parametrize("name", zoo.list_models(kind="classification"))
def test_every_model_has_the_parameters_that_its_entry_declares(name):
    entry = zoo.info(name)
    if entry.framework != "torch" or entry.parameters is None:
        pytest.skip("counted by its own plugin's tests")
    import torch

    with torch.device("meta"):
        model = zoo.create(name)
    counts = [p.numel() for p in model.parameters()]
    assert sum(counts) == entry.total_parameters
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == entry.parameters


def test_create_explains_what_it_cannot_build():
    with pytest.raises(zoo.ZooError, match="no model 'cnnn'") as caught:
        zoo.create("cnnn")
    assert caught.value.hint == "did you mean cnn?"
    with pytest.raises(zoo.ZooError, match="no option 'num_class'") as caught:
        zoo.create("cnn", num_class=3)
    assert caught.value.hint == "did you mean num_classes?"
    with pytest.raises(zoo.ZooError, match="cannot be built with these options: .*too few"):
        zoo.create("cnn", image_size=2)
    with pytest.raises(zoo.ZooError, match="channels must be a list of at most 100 whole numbers"):
        zoo.create("cnn", channels="wide")


def test_create_without_torch_says_how_to_get_it():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import zoo\n"
        "try: zoo.create('cnn')\n"
        "except zoo.ZooError as error: print(error, '|', error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert done.stdout == (
        "model 'cnn' needs torch, which is not installed | pip install 'zoo-core[torch]'\n"
    )


def test_a_target_that_does_not_exist_is_the_plugins_fault(monkeypatch, plugin_site):
    code = "import zoo\ntry: zoo.create('good_net')\nexcept zoo.ZooError as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=str(plugin_site)),
    )
    assert "has no attribute 'Net'" in done.stdout
    assert "model 'good_net'" in done.stdout


@pytest.mark.parametrize("value", [0, -1, None, 1.5, True, "ten"])
@pytest.mark.parametrize("option", ["num_classes", "in_channels", "image_size"])
def test_shapes_are_whole_numbers_whatever_the_model(option, value):
    with pytest.raises(zoo.ZooError, match=f"{option} must be a whole number, 1 to "):
        zoo.create("mlp", **{option: value})


@pytest.mark.parametrize("function", [zoo.train, zoo.tune, zoo.sweep])
def test_the_dataset_may_have_its_name(function, tmp_path):
    """And `model` stays free for the options of the model."""
    more = {"grid": {"lr": [0.1]}} if function is zoo.sweep else {}
    for where in ({"dataset": "nowhere"}, {"dataset": "nowhere", "model": {"hidden": (8,)}}):
        with pytest.raises(zoo.ZooError, match="'nowhere'"):
            function("fcn_numpy", **where, runs=tmp_path, quiet=True, **more)
    with pytest.raises(zoo.ZooError, match="'nowhere'"):
        function("fcn_numpy", "nowhere", runs=tmp_path, quiet=True, **more)


def test_no_function_hides_a_parameter_that_people_name():
    for name in ("create", "evaluate", "generate", "info", "list_models", "load", "predict",
                 "resume", "sweep", "train", "tune"):  # fmt: skip
        given = inspect.signature(getattr(zoo, name)).parameters.values()
        hidden = {p.name for p in given if p.kind is p.POSITIONAL_ONLY}
        assert hidden <= {"model"}, name  # `model={...}` are the options of a model


def test_what_python_sets_holds_for_the_training_after_a_search(monkeypatch):
    asked = []

    def run_search(settings):
        asked.append(settings)
        return SimpleNamespace(trained="the result")

    monkeypatch.setattr("zoo_tune.tuning.run_search", run_search)
    assert zoo.train("fcn_numpy", "synthetic", tune=True, subset=0.5, epochs=3) == "the result"
    assert asked[0].kept == ("subset", "epochs") and asked[0].train and asked[0].report
    zoo.train("fcn_numpy", tune=True, validation_fraction=0.3, settings={"patience": 2})
    assert sorted(asked[1].kept) == ["patience", "validation_fraction"]
    with pytest.raises(zoo.ZooError, match="patience and restore_best need a validation_fraction"):
        zoo.train("fcn_numpy", tune=True, patience=2)
