"""zoo.load: every sort of reference gives the same model, checked, ready to use."""

import dataclasses
import io
import json
import pickle
import shutil
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hub.parts import REFERENCE, altered, entry, join_file, split_file
from msgspec.structs import replace
from PIL import Image
from zoo_numpy.trainer import NumpyTrainer

import zoo
from zoo_core.io.errors import (
    AmbiguousName,
    DataError,
    OptionError,
    UnknownName,
    UsageError,
    WeightsError,
)
from zoo_core.io.files import user_manifest
from zoo_core.io.net import read_url
from zoo_core.publish.publish import plan, publish
from zoo_core.spec.registry import qualified_name, registry
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.train.runner import train
from zoo_core.use.load import answers
from zoo_core.weights.manifest import write
from zoo_core.weights.references import of_run, published
from zoo_core.weights.verify import check, fits


@pytest.fixture
def folder(run, tmp_path):
    """The run, published to a folder; its reference."""
    publish(plan(run, f"file:{tmp_path / 'shared'}"))
    return f"file:{tmp_path / 'shared'}"


def test_every_reference_gives_bit_equal_outputs(run, folder, online, tmp_path):
    expected = answers(zoo.load(run.path))
    alone = tmp_path / "alone.safetensors"
    shutil.copy(run.model_file, alone)
    for reference in (str(run.model_file), str(alone), alone, "mlp", "mlp.synthetic",
                      "mlp/mlp.synthetic", folder, REFERENCE):  # fmt: skip
        assert answers(zoo.load(reference)) == expected, reference


def test_a_loaded_model_says_what_it_is(run, folder):
    model = zoo.load("mlp")
    about, document = model.zoo, run.read()
    assert not model.training
    assert about.entry is zoo.info("mlp")
    assert about.config["hidden"] == (8,) and about.config["num_classes"] == 10
    assert about.classes == tuple(document["dataset"]["classes"])
    assert about.preprocess.size == 32
    assert about.metrics["test_accuracy"] == document["result"]["test"]["accuracy"]
    assert about.digest == document["result"]["model"]["sha256"]
    assert about.source.startswith(f"{folder}@")
    assert "zoo" not in model.state_dict()
    with pytest.raises(AttributeError):
        about.digest = "other"


def test_predict_takes_a_loaded_model_and_any_reference(run, folder):
    image = np.zeros((32, 32, 3), np.uint8)
    by_model = zoo.predict(zoo.load("mlp"), [image])
    assert by_model == zoo.predict("mlp.synthetic", [image]) == zoo.predict(run.path, [image])
    with pytest.raises(UsageError, match="only a model that zoo.load returned"):
        zoo.predict(torch.nn.Linear(1, 1), [image])


def test_a_path_is_never_a_name(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = np.zeros((32, 32, 3), np.uint8)
    for use in (zoo.load, zoo.evaluate, zoo.generate, lambda path: zoo.predict(path, pixels)):
        with pytest.raises(UnknownName, match="there is no run './mlp'"):
            use(Path("mlp"))
    shutil.copytree(run.path, tmp_path / "mlp")
    assert zoo.load(Path("mlp")).zoo.source == str(Path("mlp"))
    assert zoo.predict(Path("mlp"), pixels) == zoo.predict(run.path, pixels)
    assert zoo.evaluate(Path("mlp"))["run"] == str(Path("mlp"))


def test_predict_takes_one_image_or_several_of_any_sort(run, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    image, path = Image.fromarray(pixels[0]), tmp_path / "image.png"
    image.save(path)
    model, data = zoo.load(run.path), path.read_bytes()
    (expected,) = zoo.predict(model, [pixels[0]])
    clear = Image.fromarray(np.dstack([pixels[0], np.full((32, 32), 255, np.uint8)]))  # RGBA
    unnamed = "image 1"
    with path.open("rb") as file:
        for one, name in (
            (pixels[0], unnamed), (image, unnamed), (clear, unnamed), (path, str(path)),
            (str(path), str(path)), (data, unnamed), (bytearray(data), unnamed),
            (memoryview(data), unnamed), (io.BytesIO(data), unnamed), (file, str(path)),
        ):  # fmt: skip
            assert zoo.predict(model, one) == [dataclasses.replace(expected, image=name)], type(one)
    both = zoo.predict(model, (one for one in (data, io.BytesIO(data))))
    assert both == zoo.predict(model, [data, path.read_bytes()])
    assert [one.image for one in both] == ["image 1", "image 2"]
    assert zoo.predict(model, pixels) == zoo.predict(model, list(pixels))
    assert len(zoo.predict(model, pixels)) == 2
    assert len(zoo.predict(model, pixels[0, :, :, 0])) == 1, "grey"


def test_the_images_of_a_folder_are_those_that_a_dataset_would_have(run, tmp_path):
    photos = tmp_path / "photos"
    (photos / "__MACOSX").mkdir(parents=True)
    (photos / "deep.png").mkdir()
    Image.new("RGB", (9, 9)).save(photos / "deep.png" / "b.JFIF", format="JPEG")
    Image.new("L", (9, 9)).save(photos / "a.pgm")
    for other in ("._a.jpg", "__MACOSX/a.jpg", ".thumbnail.png", "notes.txt"):
        (photos / other).write_text("not an image")
    found = [one.image for one in zoo.predict(run.path, photos)]
    assert found == [str(photos / "a.pgm"), str(photos / "deep.png" / "b.JFIF")]


def test_an_address_is_an_image(run, server, monkeypatch, zoo_here):
    folder, url = server
    Image.new("RGB", (9, 9), "teal").save(folder / "größe 1.png")
    Image.new("RGB", (9, 9), "teal").save(folder / "large.bmp")
    (folder / "page.html").write_text("<html>")
    (expected,) = zoo.predict(run.path, folder / "large.bmp")
    for address in (f"{url}größe 1.png", f"{url}gr%C3%B6%C3%9Fe%201.png".replace("http", "HTTP")):
        assert zoo.predict(run.path, address) == [dataclasses.replace(expected, image=address)]
    given = [f"{url}large.bmp", str(folder / "large.bmp")]
    done = zoo_here("predict", str(run.path), *given, "--json")
    assert [one["image"] for one in json.loads(done.stdout)] == given
    monkeypatch.setattr("zoo_core.use.predict.MOST_BYTES", 300)
    for name, words in {
        "large.bmp": "large.bmp is too large: at most 300 B are read",
        "missing.png": "missing.png could not be downloaded: .*404",
        "page.html": "page.html is a web page",
    }.items():
        with pytest.raises(DataError, match=f"^{url}{words}"):
            zoo.predict(run.path, f"{url}{name}")
    with pytest.raises(DataError, match="cannot be reached"):
        zoo.predict(run.path, "http://127.0.0.1:1/x.png")
    with pytest.raises(DataError, match="cannot be reached .*Port"):
        zoo.predict(run.path, "http://127.0.0.1:x/x.png")


def test_an_answer_of_unknown_length_is_bounded_too(monkeypatch):
    def answer(server):
        server.accept()[0].close()  # only asks whether anybody is there
        connection, _ = server.accept()
        connection.recv(1000)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1000)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with pytest.raises(DataError, match="too large: at most 999 B are read"):
            read_url(f"http://127.0.0.1:{server.getsockname()[1]}/x.png", 999)
        thread.join()


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (3, "image 1 is a int, which is not an image"),
        ([None], "image 1 is a NoneType"),
        (np.zeros((1, 3, 32, 32), np.uint8), "image 1 is an array of uint8, .3, 32, 32."),
        (np.zeros((32, 32, 3), np.float32), "image 1 is an array of float32"),
        (np.zeros((0, 32, 3), np.uint8), "image 1 is an array of uint8, .0, 32, 3."),
        ("nowhere.png", "there is no image nowhere.png"),
        (io.StringIO("text"), "image 1 is a StringIO"),
    ],
)
def test_what_is_not_an_image_is_said_to_be_none(run, image, words):
    with pytest.raises(UsageError, match=words) as caught:
        zoo.predict(run.path, image)
    assert caught.value.hint


def test_bytes_that_cannot_be_read_are_named_by_their_place(run):
    with pytest.raises(DataError, match="^image 2 cannot be read as an image: it is not in a kn"):
        zoo.predict(run.path, [Image.new("L", (8, 8)), b"not an image"], strict=True)
    found = zoo.predict(run.path, [Image.new("L", (8, 8)), b"not an image"])
    assert (len(found), found.left_out[0].name) == (1, "image 2")


def test_an_image_in_place_of_the_model_is_noticed_before_anything_is_loaded(zoo_here, tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "cat.jpg")
    for command in ("predict", "explain"):
        for image in ("cat.jpg", "CAT.JPEG", "https://example.org/cat"):
            done = zoo_here(command, image, "cnn", status=2)
            assert done.stderr == (
                f"Error: {image} is an image, not a model.\n"
                f"Hint: write the model first, then the image: MODEL {image}\n"
            )
    done = zoo_here("predict", "no_such_model", "missing.jpg", status=2)
    assert done.stderr == (
        "Error: there is no image missing.jpg.\n"
        "Hint: after the model, give a file, a folder or an address\n"
    )


def test_data_of_other_classes_is_refused_by_the_name_that_was_typed(folder):
    for reference in ("mlp", "mlp.synthetic"):
        known = "circle, square, triangle, plus, cross, ...; synthetic has pear"
        what = f"^{reference} has other classes than synthetic: it knows {known}"
        with pytest.raises(UsageError, match=what):
            measure_as(reference)


def measure_as(reference):
    """Evaluate on data of three classes, one of them unknown."""
    from zoo_core.use import evaluate

    data = zoo.open_dataset("synthetic", train_size=9, test_size=9)
    with pytest.MonkeyPatch.context() as patch:
        names = (*data.classes[:2], "pear")
        few = dataclasses.replace(data, targets=zoo.Targets("class", names))
        patch.setattr(evaluate, "open_dataset", lambda *given, **how: few)
        return zoo.evaluate(reference, "synthetic")


def test_the_device_reaches_whatever_computes(run, numpy_run, tmp_path, monkeypatch, zoo_here):
    asked, assemble = [], TorchTrainer.assemble

    def spy(self, *given, device="not said", **how):
        asked.append(device)
        return assemble(self, *given, **how)

    image = tmp_path / "image.png"
    Image.new("L", (8, 8)).save(image)
    monkeypatch.setattr(TorchTrainer, "assemble", spy)
    zoo.predict(run.path, image, device="cuda")
    zoo.evaluate(run.path, device="cuda")
    zoo_here("predict", str(run.path), str(image), "--device", "cuda")
    zoo_here("evaluate", str(run.path), "--device", "cuda")
    assert asked == ["cuda"] * 4
    zoo.predict(run.path, image)
    assert asked[4:] == ["auto"]
    trained = train(
        "mlp", "synthetic", runs=tmp_path / "runs", quiet=True, device="cpu",
        settings={"epochs": 1, "data": {"train_size": 20, "test_size": 10}, "init": str(run.path),
                  "model": {"hidden": (8,)}},
    )  # fmt: skip
    assert asked[5:] == ["cpu"] and trained.split == "test"  # it is measured where it was trained
    with pytest.raises(OptionError, match="model 'fcn_numpy' runs on the CPU in float32, not on c"):
        zoo.predict(numpy_run.path, image, device="cuda")
    with pytest.raises(UsageError, match="a model that is loaded stays on its device"):
        zoo.predict(zoo.load(run.path), image, device="cuda")
    monkeypatch.setattr(TorchTrainer, "assemble", assemble)
    with pytest.raises(OptionError, match="there is no device 'tpu' on this machine"):
        zoo.evaluate(run.path, device="tpu")


def test_mistakes_of_predict_that_are_not_about_images(run):
    with pytest.raises(UsageError, match="top must be at least 1"):
        zoo.predict(run.path, np.zeros((32, 32, 3), np.uint8), top=0)
    with pytest.raises(UsageError, match="model 'mlp' has no names for its classes"):
        zoo.predict(zoo.load("mlp", pretrained=False), np.zeros((32, 32, 3), np.uint8))


def test_a_file_on_its_own_knows_what_it_was_trained_on(run, tmp_path):
    alone = tmp_path / "alone.safetensors"
    shutil.copy(run.model_file, alone)
    assert zoo.load(alone).zoo.dataset == "synthetic"
    assert zoo.load(run.path).zoo.dataset == "synthetic"


def test_a_numpy_model_goes_the_same_way(numpy_run, tmp_path):
    publish(plan(numpy_run, f"file:{tmp_path / 'shared'}"))
    expected = answers(zoo.load(numpy_run.path))
    model = zoo.load(f"file:{tmp_path / 'shared'}")
    assert answers(model) == expected and model.zoo.entry.framework == "numpy"
    with pytest.raises(OptionError, match="runs on the CPU in float32"):
        zoo.load("fcn_numpy", device="cuda")
    other = zoo.load("fcn_numpy", num_classes=3)
    assert other.zoo.config["num_classes"] == 3 and other.zoo.classes == ()


@pytest.mark.parametrize("mapped", [False, True])
def test_weights_are_used_where_they_were_read_and_training_does_not_change_the_file(
    run, monkeypatch, mapped
):
    if mapped:
        monkeypatch.setattr("zoo_core.io.tensors.COPIED", 0)
    before = run.model_file.read_bytes()
    model = zoo.load(run.path)
    storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
    owned = [p for p in model.parameters() if p.numpy(force=True).base is None]
    assert len(storages) == len(list(model.parameters())) and not owned
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert run.model_file.read_bytes() == before


LARGE = "vit_b16_finetune"  # 86 million parameters


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == LARGE))
        for name in registry().models.labels()
    ],
)
def test_every_installed_model_is_the_same_after_a_load(name, tmp_path):
    """Saved and loaded through the trainer's own functions."""
    from zoo_core.io.tensors import to_bytes
    from zoo_core.train.job import trainer_of
    from zoo_core.use.load import load_model
    from zoo_core.weights.verify import Located, check

    model = zoo.create(name)
    entry_of, trainer = zoo.info(name), trainer_of(zoo.info(name))
    arrays = {key: np.asarray(value) for key, value in model.state_dict().items()}
    path = tmp_path / "model.safetensors"
    path.write_bytes(to_bytes(arrays))
    size, channels = entry_of.image_size, entry_of.in_channels
    preprocess = {"size": size, "channels": channels, "mean": [0.5], "std": [0.5]}
    located = Located(
        reference=name,
        source=name,
        path=path,
        model=qualified_name(entry_of),
        config=entry_of.options,
        preprocess=preprocess,
    )
    loaded = load_model(check(located))
    images = np.random.default_rng(0).normal(size=(2, channels, size, size)).astype(np.float32)
    batch = torch.from_numpy(images) if trainer.backend == "torch" else images
    expected, found = (trainer.predict_batch(one, batch) for one in (model, loaded))
    # What is in a file is aligned otherwise, and a product with one column may then be added up in
    # another order. What classifies has several, and is compared to the bit.
    exact = "classification" in entry_of.kinds
    assert np.array_equal(found, expected) if exact else np.allclose(found, expected, rtol=1e-5)


def test_what_a_file_does_not_hold_is_built_for_real(tmp_path, monkeypatch):
    """A buffer that is not saved, a tensor that is a plain attribute, a shared weight."""
    from zoo_core.torch.trainer import TorchTrainer

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight
            self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
            self.shift = torch.ones(4)

        def forward(self, x):
            return self.second(self.first(x)) * self.scale + self.shift

    trainer, original = TorchTrainer(), Odd()
    monkeypatch.setattr(trainer, "build", lambda entry, config: Odd())
    tensors = {name: tensor.numpy() for name, tensor in original.state_dict().items()}
    model = trainer.assemble(None, {}, tensors)
    x = torch.randn(3, 4)
    assert torch.equal(model(x), original(x))
    assert model.second.weight is model.first.weight


def test_another_number_of_classes_keeps_the_body_and_says_so(run, said):
    model, old = zoo.load(run.path, num_classes=5), zoo.load(run.path)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 5)
    weights, before = model.state_dict(), old.state_dict()
    same = [name for name in weights if weights[name].shape == before[name].shape]
    assert same and all(torch.equal(weights[name], before[name]) for name in same)
    assert said()[0].endswith("2 of 4 tensors; new: layers.3.weight, layers.3.bias.")
    assert model.zoo.classes == () and model.zoo.metrics == {} and not model.training


def test_device_and_dtype(run):
    model = zoo.load(run.path, dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert zoo.predict(model, [np.zeros((32, 32, 3), np.uint8)])
    assert next(zoo.load(run.path, dtype="float64").parameters()).dtype == torch.float64
    with pytest.raises(OptionError, match="no device 'teapot'"):
        zoo.load(run.path, device="teapot")
    with pytest.raises(OptionError, match="no dtype 'int8'"):
        zoo.load(run.path, dtype="int8")


def test_untrained(folder):
    model = zoo.load("mlp", pretrained=False)
    assert model.zoo.digest == "" and model.zoo.config["hidden"] == (512, 256)
    assert zoo.load("mlp.synthetic", pretrained=False).zoo.config["hidden"] == (8,)
    assert zoo.load("cnn", pretrained=False, num_classes=3)(torch.zeros(1, 3, 32, 32)).shape[1] == 3


def test_a_name_without_weights_says_what_can_be_done():
    with pytest.raises(WeightsError, match="no trained weights of model 'cnn'") as caught:
        zoo.load("cnn")
    assert "zoo train cnn" in caught.value.hint
    with pytest.raises(UnknownName, match="there is no model and no run 'cnm'") as caught:
        zoo.load("cnm")
    assert caught.value.hint == "did you mean cnn?"
    with pytest.raises(UnknownName) as caught:
        zoo.load("CNN")
    assert caught.value.hint == "did you mean cnn?"
    with pytest.raises(UnknownName) as caught:
        zoo.load("quite_another_thing")
    assert "zoo list --weights" in caught.value.hint and "--runs" not in caught.value.hint
    with pytest.raises(UnknownName, match="there are no weights 'cnn.imagenet'"):
        zoo.load("cnn.imagenet")


def test_weights_of_a_plugin_that_is_not_installed_name_the_pip_command(tmp_path, online, run):
    planned = plan(run, REFERENCE)
    other = altered(planned, run.model_file.read_bytes(), name="net.x", model="net",
                    plugin="strangers", distribution="zoo-strangers")  # fmt: skip
    online.add("org/other", other)
    with pytest.raises(UnknownName, match="strangers/net', which is not installed") as caught:
        zoo.load("hf:org/other")
    assert caught.value.hint == "pip install zoo-strangers, or the folder of its source"


def test_two_manifests_with_one_name_are_ambiguous_unless_the_bytes_are_the_same(
    monkeypatch, tmp_path
):
    from zoo_core.weights import manifest

    write(user_manifest(), [entry()])
    core = tmp_path / "core.json"
    monkeypatch.setattr(manifest, "core_manifest", lambda: core)
    write(core, [entry()])
    assert published("mlp.made_up") == entry()
    write(core, [entry(sha256="cd" * 32)])
    with pytest.raises(AmbiguousName, match="your manifest .* and by zoo-core"):
        zoo.load("mlp.made_up")


def test_each_of_several_weights_with_one_name_has_a_reference_of_its_own(tmp_path, zoo_here):
    """Two plugins with one name, two lists with one name, and a model that is not installed."""
    core = tmp_path / "core.json"  # the zoo's own list, in these tests
    mine = entry(name="net.x", model="net", plugin="here", sha256="1" * 64)
    write(tmp_path / "own.json", [mine])
    write(core, [replace(mine, sha256="2" * 64), replace(mine, name="net.y")])
    assert published("net.y").name == "net.y" and published("here/net.y").name == "net.y"
    first, second = f"here/net.x@{'1' * 12}", f"here/net.x@{'2' * 12}"
    for reference in ("net.x", "here/net.x"):
        refused = zoo_here("pull", reference, status=2).stderr
        assert f"{reference!r} means several weights" in refused
        assert f"write {first} or {second}" in refused
        assert "zoo remove --forget net.x" in refused
    assert published(first) == mine and published(second).sha256 == "2" * 64
    several = zoo_here("verify", "net", status=2).stderr
    assert "write" in several and "net.y" in several, "none of them is taken without a word"
    assert "not on this machine" in zoo_here("verify", first, status=1).stdout
    shown = zoo_here("list", "--weights", "net").stdout
    assert all(reference in shown for reference in (first, second, "net.y"))
    write(core, [replace(mine, plugin="there", sha256="2" * 64)])
    assert published("here/net.x") == mine and published("there/net.x").plugin == "there"
    assert published("elsewhere/net.x") is None, "a path"
    zoo_here("remove", "--forget", second, status=2)
    zoo_here("remove", "--forget", first)
    assert published("net.x").plugin == "there"
    write(core, [replace(mine, plugin="there")])
    write(tmp_path / "own.json", [replace(mine, plugin="there", sources=())])
    assert published("net.x").sources == mine.sources, "the same bytes in two lists are one entry"


def test_the_default_weights_are_those_of_the_models_own_dataset(tmp_path):
    entries = [entry(name="mlp.one", sha256="1" * 64), entry(name="mlp.two", sha256="2" * 64)]
    write(user_manifest(), entries)
    with pytest.raises(AmbiguousName, match="several weights"):
        published("mlp")
    write(user_manifest(), [*entries, entry(name="mlp.cifar10")])
    assert published("mlp").name == "mlp.cifar10"


def test_a_file_that_does_not_say_what_it_is_needs_its_config_beside_it(run, tmp_path):
    header, body = split_file(run.model_file.read_bytes())
    del header["__metadata__"]
    data = join_file(header, body)
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(WeightsError, match="does not say which model it belongs to"):
        zoo.load(tmp_path / "model.safetensors")
    files = altered(plan(run, REFERENCE), data)
    (tmp_path / "config.json").write_bytes(files["config.json"])
    assert answers(zoo.load(tmp_path / "model.safetensors")) == answers(zoo.load(run.path))
    changed = bytearray(data)
    changed[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(changed)
    with pytest.raises(WeightsError, match="not the file that was published"):
        zoo.load(tmp_path / "model.safetensors")


def test_a_run_whose_weights_were_changed_is_refused(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-3] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    with pytest.raises(WeightsError, match="not the file that was published"):
        zoo.load(copy)
    document = json.loads((copy / "run.json").read_text())
    document |= {"result": None, "status": "interrupted"}
    (copy / "run.json").write_text(json.dumps(document))
    with pytest.raises(WeightsError, match="has no trained weights yet"):
        zoo.load(copy)


def test_weights_can_be_trained_further_evaluated_and_compared(run, folder, tmp_path):
    figures = zoo.evaluate("mlp.synthetic")
    assert figures["accuracy"] == run.read()["result"]["test"]["accuracy"]
    options = {"hidden": (8,)}
    data = {"train_size": 64, "test_size": 32}
    result = zoo.train("mlp", "synthetic", init="mlp.synthetic", epochs=1, model=options,
                       data=data, runs=tmp_path / "runs", quiet=True)  # fmt: skip
    assert result.path.exists()


def test_a_loaded_model_can_be_copied_and_pickled(run):
    import copy

    model = zoo.load(run.path)
    assert copy.deepcopy(model).zoo == model.zoo
    assert pickle.loads(pickle.dumps(model)).zoo.digest == model.zoo.digest
    assert registry().models.get("mlp") == model.zoo.entry


@pytest.mark.parametrize(
    ("shape", "good"),
    [((3, 4), True), ((1, 4), True), ((0, 4), False), ((3, 5), False), ((3,), False),
     ((3, 4, 1), False), ((), False)],
)  # fmt: skip
def test_a_size_that_only_fitting_decides_is_any_but_0(shape, good):
    assert fits(shape, (None, 4)) is good


def test_what_a_model_says_against_its_tensors_is_one_sentence(numpy_run, monkeypatch):
    def refuse(self, model, tensors):
        raise ValueError("two of them disagree")

    monkeypatch.setattr(NumpyTrainer, "load_state", refuse)
    with pytest.raises(WeightsError, match="does not fit the model: two of them disagree"):
        zoo.load(numpy_run.path)


def test_open_sizes_are_tried_on_the_model_before_weights_are_kept(numpy_run, monkeypatch):
    spec, tried = NumpyTrainer.tensor_spec, []

    def opened(self, entry, config):
        fixed = spec(self, entry, config).items()
        return {name: ((None, *shape[1:]), dtype) for name, (shape, dtype) in fixed}

    monkeypatch.setattr(NumpyTrainer, "tensor_spec", opened)
    monkeypatch.setattr(NumpyTrainer, "load_state", lambda self, model, t: tried.append(t))
    check(of_run(numpy_run))
    assert len(tried) == 1


def test_info_shows_a_run_and_weights_with_their_model(zoo_here, run, folder):
    latest = zoo_here("info", "latest", "--runs", str(run.path.parent)).stdout
    assert run.name in latest and "accuracy" in latest and "zoo_mlp" in latest
    document = json.loads(zoo_here("info", str(run.path), "--json").stdout)
    assert document["status"] == "complete" and document["entry"]["name"] == "mlp"
    assert document["parameters"] == run.read()["parameters"]["total"]
    digest = run.read()["result"]["model"]["sha256"]
    for reference in ("mlp.synthetic", folder):
        shown = zoo_here("info", reference).stdout
        assert digest in shown and "test accuracy" in shown and "zoo_mlp" in shown
        assert zoo.info(reference).name == "mlp"
    assert zoo.info(str(run.path)) is zoo.info("mlp")
    assert "there is no model 'nix'" in zoo_here("info", "nix", status=2).stderr
    assert "there is no run" in zoo_here("info", "./nix", status=2).stderr


def test_a_model_that_is_not_installed_names_the_package_that_lists_weights_of_it(zoo_here):
    write(user_manifest(), [entry(name="net.x", model="net", distribution="zoo-net")])
    for arguments in (["train", "net"], ["info", "net"]):
        told = zoo_here(*arguments, status=2 if "train" in arguments else 0)
        assert "pip install zoo-net" in told.stderr
    with pytest.raises(UnknownName) as caught:
        zoo.create("net")
    assert "zoo-net" in caught.value.hint


def test_removed_weights_stay_listed_and_that_is_said(zoo_here, run, folder):
    zoo.load("mlp.synthetic")
    removed = zoo_here("remove", "mlp.synthetic")
    assert "deleted" in removed.stdout and "stays in your manifest" in removed.stderr
    (row,) = zoo.list_weights("mlp")
    assert not row["here"]
    zoo_here("pull", "mlp.synthetic")
    forgotten = zoo_here("remove", "--forget", "mlp.synthetic")
    assert "deleted" in forgotten.stdout and not forgotten.stderr
    assert zoo.list_weights("mlp") == []


def test_weights_are_deleted_before_they_are_forgotten(zoo_here, run, folder, monkeypatch):
    """So that after a kill in between the same command still finds them."""

    def killed(weights):
        raise KeyboardInterrupt

    zoo_here("pull", "mlp.synthetic")
    with monkeypatch.context() as patch:
        patch.setattr("zoo_core.weights.store.remove", killed)
        zoo_here("remove", "--forget", "mlp.synthetic", status=130)
    assert "deleted" in zoo_here("remove", "--forget", "mlp.synthetic").stdout
