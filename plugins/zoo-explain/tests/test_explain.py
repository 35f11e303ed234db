"""zoo explain: the map marks what a model looks at, and says whether it can be relied on."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from zoo_explain.explain import random_like

import zoo
from zoo import kit
from zoo.testing import main

SIZE = 16
BRIGHT = np.full((SIZE, SIZE), 255, np.uint8)
BRIGHT[::2] = 0  # hiding it leaves grey, which the models below take for nothing


class Corner(nn.Module):
    """It sees only the lower right corner, a quarter of both sides, whatever follows its maps."""

    def __init__(self, outputs=2):
        super().__init__()
        self.maps = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(inplace=True), nn.AvgPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * 64, outputs))
        with torch.no_grad():
            self.maps[0].weight.fill_(1.0)
            self.maps[0].bias.zero_()
            self.head[1].bias.zero_()
            weight = self.head[1].weight.zero_().view(outputs, 2, 8, 8)
            weight[0, :, 6:, 6:] = 0.5
            weight[1:, :, 6:, 6:] = -0.5

    def forward(self, images):
        return self.head(self.maps(images))


def look(model, images):
    shares = np.full((1, len(images), 1, 4, 4), 0.01)
    shares[..., 3, 3] = 0.5
    return shares


def described(model, entry, targets, **preprocess):
    how = zoo.Preprocess(SIZE, 1, (0.5,), (0.5,), **preprocess)
    blank = zoo.load("fcn_numpy", pretrained=False).zoo
    model.zoo = replace(blank, entry=entry, targets=targets, preprocess=how)
    return model


@pytest.fixture
def corner(monkeypatch):
    """A model of torch that looks at one corner, with attention that says so."""
    monkeypatch.setitem(sys.modules, "planted", SimpleNamespace(look=look))
    entry = zoo.ModelEntry(name="corner", target="planted:Corner", summary="Looks at a corner",
                           capabilities={"attention": "planted:look"})  # fmt: skip
    return described(Corner(), entry, zoo.Targets("class", ("in", "out")))


@pytest.fixture
def numpy_corner():
    """The same with the framework of zoo-numpy."""
    model = zoo.create("fcn_numpy", num_classes=2, in_channels=1, image_size=SIZE)
    first, *rest = (name for name in model.state_dict() if name.endswith("weight"))
    seen = np.zeros((SIZE, SIZE), np.float32)
    seen[13::2, 12:] = 0.1  # its bright rows
    state = {name: np.zeros_like(array) for name, array in model.state_dict().items()}
    state[first] += seen.ravel()  # (hidden, pixels)
    for name in rest:
        state[name][0] = 0.2
    model.load_state_dict(state)
    return described(model, zoo.info("fcn_numpy"), zoo.Targets("class", ("in", "out")))


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Type `zoo explain lenet_numpy ...` in an empty folder; what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0):
        with pytest.raises(SystemExit) as ended:
            main(["explain", "lenet_numpy", *arguments])
        printed = capsys.readouterr()
        assert ended.value.code == status, printed
        return printed

    return run


def marked(explanation):
    """The place of the maximum, as shares of the sides."""
    found = np.unravel_index(explanation.map.argmax(), explanation.map.shape)
    return tuple((i + 0.5) / n for i, n in zip(found, explanation.map.shape, strict=True))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("method", ["cam", "attention", "occlusion"])
def test_each_method_marks_the_corner_that_decides(corner, method, frozen):
    corner.requires_grad_(not frozen)
    (found,) = zoo.explain(corner, BRIGHT, method=method)
    assert (found.method, found.target, found.map.max()) == (method, "in", 1.0)
    assert min(marked(found)) > 0.75
    assert found.holds and found.score < min(found.random) and len(found.random) == 8
    assert "lowers the probability faster than hiding random places" in found.sentence
    assert zoo.explain(corner, BRIGHT, method=method)[0].random == found.random


def test_a_map_of_the_wrong_place_is_not_to_be_relied_on(corner, monkeypatch):
    monkeypatch.setattr(sys.modules["planted"], "look", lambda *a: look(*a)[..., ::-1, ::-1])
    (found,) = zoo.explain(corner, BRIGHT, method="attention")
    assert max(marked(found)) < 0.25
    assert not found.holds and found.sentence.endswith("Do not rely on this map.")


def test_a_model_without_gradients_is_asked_as_a_black_box(numpy_corner):
    (found,) = zoo.explain(numpy_corner, BRIGHT)
    assert found.method == "occlusion" and min(marked(found)) > 0.75 and found.holds
    with pytest.raises(zoo.UsageError, match="no feature maps that Grad-CAM could use"):
        zoo.explain(numpy_corner, BRIGHT, method="cam")
    with pytest.raises(zoo.UsageError, match="declares no attention"):
        zoo.explain(numpy_corner, BRIGHT, method="attention")


def test_a_framework_may_have_feature_maps_of_its_own(numpy_corner, monkeypatch):
    asked = []

    def evidence(model, images, output):
        asked.append((model, images.shape, output))
        return look(model, images)[0, 0, 0]

    monkeypatch.setitem(sys.modules, "planted", SimpleNamespace(evidence=evidence))
    kind = type(numpy_corner.zoo.framework)
    monkeypatch.setattr(kind, "capabilities", {"evidence": "planted:evidence"})
    (found,) = zoo.explain(numpy_corner, BRIGHT)
    assert asked == [(numpy_corner, (1, 1, SIZE, SIZE), 0)]
    assert found.method == "cam" and min(marked(found)) > 0.75 and found.holds


def test_another_class_can_be_explained_and_an_unknown_one_is_named(corner):
    (found,) = zoo.explain(corner, BRIGHT, target="out")
    assert (found.target, found.predicted) == ("out", "in") and found.value < 0.5
    assert "(predicted: in)" in found.answer
    assert found.map.max() <= 0  # nothing speaks for it
    with pytest.raises(zoo.UsageError, match="the model knows no 'put'") as error:
        zoo.explain(corner, BRIGHT, target="put")
    assert "out" in error.value.hint


def test_of_several_classes_the_likeliest_is_explained(corner):
    corner.zoo = described(Corner(), corner.zoo.entry, zoo.Targets("classes", ("in", "out"))).zoo
    (found,) = zoo.explain(corner, BRIGHT)
    assert found.target == "in" and min(marked(found)) > 0.75


def test_a_number_is_explained_by_its_change(corner):
    targets = zoo.Targets("numbers", ("width",), ("mm",), (3.0,), (2.0,))
    model = described(Corner(1), corner.zoo.entry, targets)
    (found,) = zoo.explain(model, BRIGHT)
    assert (found.method, found.target) == ("occlusion", "width")
    assert min(marked(found)) > 0.75
    assert found.holds and found.score < min(found.random) < 0
    assert "changes the number faster" in found.sentence
    with pytest.raises(zoo.UsageError, match="explained by occlusion alone"):
        zoo.explain(model, BRIGHT, method="cam")


def test_a_transformer_of_torch_has_maps_too():
    small = {"width": 16, "hidden": 16, "heads": 2, "image_size": SIZE, "in_channels": 1}
    model = zoo.create("nano_vit_p4", num_classes=2, **small)
    model = described(model, zoo.info("nano_vit_p4"), zoo.Targets("class", ("a", "b")))
    found = zoo.explain(model, [BRIGHT] * 2)
    assert [(one.method, one.map.shape) for one in found] == [("cam", (4, 4))] * 2
    np.testing.assert_array_equal(found[0].map, found[1].map)


def test_what_does_not_classify_says_so():
    with pytest.raises(zoo.UsageError, match="for generation, and answers nothing about an image"):
        zoo.explain(zoo.load("dcgan", pretrained=False), BRIGHT)


def test_a_random_map_is_as_smooth_as_the_map():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:12, :12]
    smooth = np.exp(-((y - 3) ** 2 + (x - 8) ** 2) / 8)
    drawn = random_like(smooth, rng)
    waves = np.abs(np.fft.fft2(smooth - smooth.mean()))
    np.testing.assert_allclose(np.abs(np.fft.fft2(drawn)), waves, atol=1e-9)
    assert abs(np.corrcoef(drawn.ravel(), smooth.ravel())[0, 1]) < 0.9


@pytest.mark.parametrize(
    ("fit", "extra", "box"),
    [
        ("crop", {}, (0.25, 0.0, 0.75, 1.0)),
        ("crop", {"resize": 32}, (0.375, 0.25, 0.625, 0.75)),
        ("pad", {}, (0.0, -0.5, 1.0, 1.5)),
        ("stretch", {}, (0.0, 0.0, 1.0, 1.0)),
    ],
)
def test_the_map_lies_where_the_model_saw_it(corner, fit, extra, box):
    described(corner, corner.zoo.entry, corner.zoo.targets, fit=fit, **extra)
    wide = np.full((40, 80), 200, np.uint8)
    every = zoo.explain(corner, wide, method="cam")
    (found,) = every
    assert found.box == box and found.pixels.shape == (40, 80, 3)
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "save_figure", lambda figure, path: figures.append(figure))
        every.draw("unused.png")
    plain, over, bar = figures[0].axes
    assert over.images[1].get_extent() == [box[0], box[2], box[3], box[1]]
    assert (over.get_xlim(), over.get_ylim()) == ((0, 1), (1, 0))
    assert over.get_aspect() == plain.get_aspect() == 0.5
    assert "Hiding what the map marks" in plain.get_xlabel().replace("\n", " ")
    assert bar.get_ylabel().startswith("importance")


@pytest.mark.renders
def test_a_notebook_shows_it(corner):
    found = zoo.explain(corner, [BRIGHT] * 5, method="cam")
    html = found._repr_html_()
    assert html.count("<img") == 1 and "and 1 more" in html
    assert found[0]._repr_html_().count("<img") == 1
    assert repr(found[0]).startswith("Explanation(image 1: in ")


def test_the_command_writes_a_plot_and_replaces_none(typed, tmp_path):
    Image.fromarray(BRIGHT).resize((28, 28)).save(tmp_path / "a.png")
    said = typed("a.png").out.splitlines()
    assert said[0].startswith("a.png: ") and " %, by occlusion. Hiding what" in said[0]
    assert said[1] == "Plot: explain.png"
    again = typed("a.png", "--class", "3", "--json").out
    document = json.loads(again)
    assert document["plots"] == ["explain-2.png"] and (tmp_path / "explain-2.png").exists()
    (one,) = document["explanations"]
    assert (one["image"], one["target"], one["method"]) == ("a.png", "3", "occlusion")
    assert np.shape(one["map"]) == (8, 8) and len(one["random"]) == 8
    assert one["holds"] in (True, False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gone.png"], "Error: there is no image gone.png."),
        (["a.png", "-o", "a.jpeg"], "Error: a.jpeg must end in .png, .pdf or .svg."),
        (["a.png", "--class", "cat"], "Error: the model knows no 'cat'."),
        (["a.png", "--method", "cam"],
         "Error: model 'lenet_numpy' has no feature maps that Grad-CAM could use."),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence_and_write_nothing(typed, tmp_path, arguments, sentence):
    Image.fromarray(BRIGHT).save(tmp_path / "a.png")
    done = typed(*arguments, status=2)
    assert done.err.splitlines()[0] == sentence
    assert not [*tmp_path.glob("explain*")]
