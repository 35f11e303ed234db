"""What a person types becomes a recipe, or a sentence."""

import json

import pytest

import zoo
from zoo_core.spec.settings import override, parse_settings, read_request
from zoo_core.train.loop import learning_rate


@pytest.fixture
def cnn():
    return zoo.info("cnn")


def test_assignments_take_the_type_of_what_they_replace(cnn):
    settings = parse_settings(
        [
            "lr=1e-3",
            "epochs=3",
            "compile=true",
            "optimizer=sgd",
            "model.dropout=0.3",
            "model.channels=8,16",
            "model.batch_norm=no",
            "task.beta=0.5",
            "data.path=./x",
            "preprocess.size=64",
        ],
        cnn,
    )
    assert settings == {
        "lr": 1e-3,
        "epochs": 3,
        "compile": True,
        "optimizer": "sgd",
        "model": {"dropout": 0.3, "channels": (8, 16), "batch_norm": False},
        "task": {"beta": 0.5},
        "data": {"path": "./x"},
        "preprocess": {"size": 64},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flip", ("flip",)),
        ("flip,crop:4", ("flip", "crop:4")),
        (
            "flip,affine:rotate=10,shift=3,cutout:8",
            ("flip", "affine:rotate=10,shift=3", "cutout:8"),
        ),
        ("flip,rand:2,9,cutout:8", ("flip", "rand:2,9", "cutout:8")),
        ("", ()),
    ],
)
def test_augmentation_words_keep_their_own_commas(cnn, text, words):
    assert parse_settings([f"augment={text}"], cnn) == {"augment": words}


@pytest.mark.parametrize(
    ("assignment", "message", "hint"),
    [
        ("lr", "is not of the form name=value", ""),
        ("=3", "is not of the form name=value", ""),
        ("learning_rate=3", "no setting 'learning_rate'", "it has: optimizer, lr"),
        ("epoch=3", "no setting 'epoch'", "did you mean epochs?"),
        ("lr=fast", "lr must be a number, not 'fast'", ""),
        ("compile=perhaps", "compile must be true or false", ""),
        ("model.drop=1", "has no option 'drop'", "did you mean dropout?"),
        ("modle.dropout=1", "no setting 'modle.dropout'", ""),
        ("model=3", "no setting 'model'", ""),
    ],
)
def test_a_wrong_assignment_says_what_is_wrong(cnn, assignment, message, hint):
    with pytest.raises(zoo.ZooError) as caught:
        parse_settings([assignment], cnn)
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_sections_are_merged_and_fields_replaced():
    recipe = zoo.Recipe(lr=1, model={"a": 1, "b": 2})
    changed = override(recipe, {"lr": 2, "model": {"b": 3}})
    assert (changed.lr, dict(changed.model)) == (2, {"a": 1, "b": 3})
    with pytest.raises(zoo.ZooError, match="lr must be a number above 0"):
        override(recipe, {"lr": 0})
    with pytest.raises(zoo.ZooError, match="no setting 'speed'"):
        override(recipe, {"speed": 1})


def test_a_toml_file_is_a_request(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        'lr = 0.01\naugment = ["flip"]\n[model]\ndropout = 0.1\n'
        '[run]\nmodel = "cnn"\ndataset = "mnist"\nrecipe = "paper"\n'
    )
    request = read_request(path)
    assert (request.model, request.dataset, request.recipe) == ("cnn", "mnist", "paper")
    assert request.settings == {"lr": 0.01, "augment": ("flip",), "model": {"dropout": 0.1}}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "lr = ", "is not valid toml"),
        ("a.toml", "speed = 3", "no setting 'speed'"),
        ("a.toml", "[run]\nmodle = 'x'", "unknown setting run.modle"),
        ("a.json", "{", "is not valid json"),
        ("a.json", json.dumps({"a": 1}), "is not the run.json of a run"),
        ("missing.toml", None, "cannot be read: No such file"),
    ],
)
def test_a_bad_file_gets_a_sentence(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(zoo.ZooError, match=message):
        read_request(tmp_path / name)


def rates(**recipe):
    chosen = zoo.Recipe(lr=1.0, epochs=10, **recipe)
    return [learning_rate(chosen, step, 10) for step in range(100)]


def test_schedules_start_and_end_where_they_should():
    assert set(rates()) == {1.0}
    cosine = rates(schedule="cosine")
    assert cosine[0] == 1.0
    assert cosine == sorted(cosine, reverse=True)
    assert 0 < cosine[-1] < 0.001
    step = rates(schedule="step")
    assert (step[0], step[49], step[50], step[75]) == (1.0, 1.0, 0.1, pytest.approx(0.01))
    cycle = rates(schedule="one_cycle")
    assert cycle[0] == pytest.approx(1 / 25)
    assert max(cycle) == cycle[30] == 1.0
    assert cycle[-1] == pytest.approx(1e-4)
    assert rates(schedule="one_cycle", warmup=1)[10] == 1.0


def test_warm_up_rises_in_a_straight_line_and_then_hands_over():
    warm = rates(schedule="cosine", warmup=2)
    assert warm[:20] == pytest.approx([(step + 1) / 21 for step in range(20)])
    assert warm[20] == 1.0
