"""zoo export: the written file says what the model says of images of any size, or is not kept."""

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from hub.parts import small_run
from PIL import Image
from support import ROOT
from zoo_export.command import export_command
from zoo_export.graph import OUTPUTS, Form, Graph
from zoo_export.torch import Arrays

import zoo

PAGE = Path(__file__).parents[3] / "docs" / "export.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained mlp. Nothing may be written to it."""
    return small_run(tmp_path_factory.mktemp("runs"), "mlp", hidden=(8,))


@pytest.fixture(scope="module")
def numpy_run(tmp_path_factory):
    """The same without torch."""
    return small_run(tmp_path_factory.mktemp("runs"), "fcn_numpy")


def export(*arguments):
    return CliRunner().invoke(export_command, [str(a) for a in arguments], catch_exceptions=True)


def stranger(path):
    """`classify` of the documentation, for one file."""
    lines = re.search(r"```python\n(import json\n.*?)```", PAGE.read_text("utf-8"), re.S)[1]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 20
    known = {}
    exec(compile(lines.replace("sys.argv", repr(["lines", str(path)])), PAGE, "exec"), known)
    return known["classify"]


def photographs(folder, images, sides):
    """JPEG files of these images, each in a random size."""
    rng, files = np.random.default_rng(0), []
    for number, image in enumerate(images):
        plain = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        if sides:
            plain = plain.resize(tuple(rng.integers(*sides, 2).tolist()), Image.Resampling.BICUBIC)
        files.append(str(folder / f"{number}.jpg"))
        plain.save(files[-1], quality=95)
    return files


def compare(classify, model, files):
    """The largest difference of a probability, and how many classes differ, unless nearly tied."""
    worst = wrong = 0
    for file, said in zip(files, zoo.predict(model, files, top=1000), strict=True):
        theirs, ours = classify(file), dict(said.classes)
        worst = max(worst, *(abs(theirs[name] - ours[name]) for name in ours))
        first, second = sorted(ours.values(), reverse=True)[:2]
        wrong += max(theirs, key=theirs.get) != max(ours, key=ours.get) and first - second > 2e-2
    return worst, wrong


def test_twenty_lines_of_onnxruntime_classify_like_zoo_predict(tmp_path):
    run = small_run(tmp_path / "runs", "fcn_numpy", hidden=(8,))
    done = zoo.export(run.path, tmp_path / "model.onnx")
    assert done.gives == ("probabilities",) and max(done.differences.values()) < 1e-2
    images = zoo.open_dataset("synthetic", {"train_size": 64, "test_size": 32}).test.images
    classify = stranger(done.path)
    for sides, allowed in ((None, 1e-4), ((10, 200), 1e-2)):
        worst, wrong = compare(classify, zoo.load(run.path), photographs(tmp_path, images, sides))
        assert worst < allowed and not wrong


def test_a_file_says_what_it_is(tmp_path):
    run = small_run(tmp_path / "runs", "fcn_numpy", hidden=(8,))
    session = onnxruntime.InferenceSession(zoo.export(run.path, tmp_path / "model.onnx").path)
    (image,), (answer,) = session.get_inputs(), session.get_outputs()
    assert (image.name, image.shape) == ("image", ["batch", "height", "width", 3])
    assert image.type == "tensor(uint8)" and answer.name == "probabilities"
    assert answer.shape == ["batch", len(zoo.load(run.path).zoo.classes)]
    about, model = (
        json.loads(session.get_modelmeta().custom_metadata_map["zoo"]),
        zoo.load(run.path),
    )
    assert about["classes"] == list(model.zoo.classes) and about["sha256"] == model.zoo.digest
    assert about["metrics"] == dict(model.zoo.metrics) and about["task"] == "classification"
    assert about["preprocess"] == model.zoo.preprocess.to_dict() and about["license"] == ""


@pytest.mark.slow
def test_a_torch_program_and_the_raw_form_say_the_same(tmp_path):
    run = small_run(tmp_path / "runs", "cnn", channels=(4, 8), hidden=8)
    model, file = zoo.load(run.path), tmp_path / "model.pt2"
    done = export(run.path, "-o", file)
    assert done.exit_code == 0 and "largest difference" in done.output, done.exception
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 50, 3), np.uint8)
    said = torch.export.load(file).module()(torch.from_numpy(images))["probabilities"].numpy()
    for row, one in zip(said, zoo.predict(model, images, top=99), strict=True):
        assert dict(zip(model.zoo.classes, row, strict=True)) == pytest.approx(
            dict(one.classes), abs=1e-2
        )
    assert export(run.path, "-o", tmp_path / "raw.onnx", "--raw").exit_code == 0
    for path in (file, tmp_path / "raw.onnx"):  # torch writes down the files of each line of code
        assert str(ROOT).encode() not in path.read_bytes()
    session = onnxruntime.InferenceSession(tmp_path / "raw.onnx")
    prepared = model.zoo.preprocess.batch(list(images))
    (logits,) = session.run(None, {"input": prepared.numpy()})
    assert np.allclose(logits, model(prepared).detach().numpy(), atol=1e-4)
    assert {p.name for p in tmp_path.iterdir()} - {"cache"} == {"model.pt2", "raw.onnx", "runs"}


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("more", [
    {}, {"stored_size": 24, "resize": 20, "interpolation": "bicubic"},
    {"channels": 1, "mean": (0.4,), "std": (0.2,), "stored_channels": 3},
    {"channels": 3, "stored_channels": 1},
])  # fmt: skip
def test_images_are_prepared_as_the_zoo_prepares_them(fit, more):
    """Both of a graph and of torch: to the bit, but for the rounding of floats."""
    given = {"size": 16, "channels": 3, "mean": (0.5,), "std": (0.25,), **more}
    preprocess = zoo.Preprocess(fit=fit, **given)
    form = Form(OUTPUTS, preprocess, zoo.Targets("class", ("a", "b")))
    graph = Graph()
    image = graph.input("image", "uint8", ("batch", "height", "width", 3))
    model = graph.model(form(graph, lambda x: x, image), {"outputs": None})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(0)
    for height, width in ((16, 16), (24, 24), (7, 31), (50, 33), (90, 400)):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8))
        images = np.array(coarse.resize((width, height), Image.Resampling.BICUBIC))[None]
        wanted = preprocess.batch(list(images), backend="numpy")
        (found,) = session.run(None, {"image": images})
        of_torch = form(Arrays(), lambda x: x, torch.from_numpy(images))["outputs"].numpy()
        assert np.allclose(found, of_torch, atol=1e-4)
        assert np.allclose(found, wanted, atol=1e-4)


@pytest.mark.slow
def test_samples_are_exported_with_their_noise(tmp_path):
    run = small_run(tmp_path / "runs", "acgan", width=8, noise=6)
    done = zoo.export(run.path, tmp_path / "samples.onnx", generate=True)
    session = onnxruntime.InferenceSession(done.path)
    assert [one.name for one in session.get_inputs()] == ["noise", "condition"]
    noise = np.random.default_rng(0).standard_normal((5, 6), dtype=np.float32)
    (drawn,) = session.run(None, {"noise": noise, "condition": np.zeros(5, np.int64)})
    condition = zoo.load(run.path).zoo.classes[0]
    wanted = zoo.generate(run.path, 5, condition=condition)
    assert np.abs(drawn.astype(int) - wanted).max() <= 1
    assert zoo.export(run.path, tmp_path / "answers.onnx").gives == ("probabilities",)


def test_int8_is_kept_only_if_it_is_as_good(tmp_path, monkeypatch):
    run = small_run(tmp_path / "runs", "lenet_numpy")
    file = tmp_path / "model.onnx"
    refused = export(run.path, "-o", file, "--int8", "--margin", 0)
    assert isinstance(refused.exception, zoo.ZooError) and not file.exists()
    assert "--margin" in refused.exception.hint
    small = zoo.export(run.path, file, int8=True, margin=1.0).int8
    assert small.images == 32 and small.difference.interval[0] < 0
    (answers,) = onnxruntime.InferenceSession(file).run(
        None, {"image": np.zeros((2, 9, 9, 3), np.uint8)}
    )
    assert answers.sum(1) == pytest.approx([1, 1], abs=1e-3)


def test_what_cannot_be_exported(run, numpy_run, tmp_path, monkeypatch):
    for arguments, kind, words in (
        ((run.path, "-o", tmp_path / "model.zip"), zoo.UsageError, "must end in .onnx or .pt2"),
        ((numpy_run.path, "-o", tmp_path / "model.pt2"), zoo.UsageError, "cannot write a program"),
        ((run.path, "-o", tmp_path / "model.pt2", "--int8"), zoo.UsageError, "int8 is for"),
    ):
        done = export(*arguments)
        assert isinstance(done.exception, kind) and words in str(done.exception)
    monkeypatch.setattr(type(zoo.load(numpy_run.path).zoo.framework), "capabilities", {})
    with pytest.raises(zoo.UsageError, match="does not say how its models become ONNX"):
        zoo.export(numpy_run.path, tmp_path / "model.onnx")
    assert not [*tmp_path.glob("model*")]
    with pytest.raises(zoo.UsageError, match="untrained"):
        zoo.export(zoo.load("mlp", pretrained=False), tmp_path / "model.onnx")


def test_a_file_that_says_something_else_is_not_kept(numpy_run, tmp_path, monkeypatch):
    wrong = lambda self, outputs: outputs.round()  # noqa: E731
    monkeypatch.setattr(zoo.ClassAnswers, "values", wrong)
    done = export(numpy_run.path, "-o", tmp_path / "model.onnx")
    assert isinstance(done.exception, zoo.ZooError) and "the file was not saved" in str(
        done.exception
    )
    assert not (tmp_path / "model.onnx").exists()


SHIPPED = [
    row["name"]
    for row in zoo.list_weights(kind="classification")
    if row["sources"][0].startswith("package:")  # whatever else this machine has
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_classifier_says_the_same_of_1000_images(name, tmp_path):
    classify, model = stranger(zoo.export(name, tmp_path / "model.onnx").path), zoo.load(name)
    split, side = zoo.open_dataset(model.zoo.dataset).test, model.zoo.preprocess.stored_size
    for sides, allowed in ((None, 1e-4), ((side // 2, 4 * side), 1e-2)):
        files = photographs(tmp_path, split.images[:1000], sides)
        worst, wrong = compare(classify, model, files)
        assert worst < allowed and not wrong, f"{worst:.1e}, {wrong} classes"
