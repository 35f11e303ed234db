"""zoo generate, and what the other commands do with models that are no classifiers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import environment

import zoo
from zoo_core.data.preprocess import Preprocess
from zoo_core.report.write import write_report
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.train.runner import train
from zoo_core.use.generate import Sampler

pytestmark = pytest.mark.renders  # the report of the run that all tests share

DATA = {"train_size": 64, "test_size": 40}

# A stranger's generator without torch's help: what the `generate` capability asks for, no more.
STRANGER = """
import numpy as np, torch, zoo

class Net(torch.nn.Module):
    def __init__(self, *, num_classes, in_channels, image_size):
        super().__init__()
        self.head = torch.nn.Linear(in_channels * image_size ** 2, num_classes)
        self.shape = (in_channels, image_size, image_size)
    def forward(self, images):
        return self.head(images.flatten(1))

class Draw(zoo.Generator):
    noise = (2,)
    def draw(self, noise, conditions):
        assert conditions is None and noise.dtype == np.float32
        return np.zeros((len(noise), *SHAPE), np.float32)

@zoo.hookimpl
def zoo_models():
    return [zoo.ModelEntry(name="stranger", target="stranger:Net", summary="Draws grey",
                           kinds=("classification", "generation"),
                           capabilities={"generate": "stranger:Draw"})]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with runs of a generator with classes, one without, and a classifier."""
    folder = tmp_path_factory.mktemp("generate")
    settings = {"epochs": 2, "batch_size": 32, "data": DATA}
    small = {
        "acgan": {"image_size": 16, "width": 8, "noise": 6},
        "vae": {"image_size": 8, "latent": 4},
        "vae_cluster": {"image_size": 8, "latent": 4, "clusters": 4},
        "vqvae": {"image_size": 8, "codes": 8, "width": 4},
        "mlp": {"hidden": (8,)},
    }
    for model, options in small.items():
        train(
            model, "synthetic", settings={**settings, "model": options}, runs=folder / "runs",
            quiet=True, report=write_report if model == "vae_cluster" else None,
        )  # fmt: skip
    return folder


def run_of(folder, model):
    return str(next((folder / "runs").glob(f"{model}-*")))


@pytest.fixture
def zoo_there(trained, zoo_here):
    """`zoo ARGUMENTS` where the runs are."""
    return lambda *arguments, **how: zoo_here(*arguments, cwd=trained, **how)


@pytest.fixture
def json_there(zoo_there):
    return lambda *arguments: json.loads(zoo_there(*arguments, "--json").stdout)


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB"))


def test_the_same_seed_gives_the_same_samples(trained, zoo_there):
    for name, arguments in {"a": (), "b": ("--seed", "0"), "c": ("--seed", "1")}.items():
        done = zoo_there(
            "generate", run_of(trained, "vae"), "--n", "9", *arguments, "-o", f"{name}.png"
        )
        assert done.stdout == f"Samples: {name}.png (seed {int(name == 'c')})\n"
    a, b, c = (pixels(trained / f"{name}.png") for name in "abc")
    assert np.array_equal(a, b)
    assert a.shape == c.shape and not np.array_equal(a, c)


def test_many_samples_are_pages_that_are_all_named(trained, json_there):
    run = run_of(trained, "vae")
    some = json_there("generate", run, "--n", "300", "-o", "many.png")
    assert some["pages"] == ["many.png", "many-page2.png"] and some["output"] == "many.png"
    assert max(pixels(trained / "many.png").shape) <= 1600


def test_samples_without_a_name_never_take_the_place_of_others(trained, zoo_here, tmp_path):
    run = run_of(trained, "vae")
    (tmp_path / "samples-2.png").write_bytes(b"mine")
    for name in ("samples.png", "samples-3.png"):
        done = zoo_here("generate", run, "--n", "2", "--seed", "7")
        assert done.stdout == f"Samples: {name} (seed 7)\n"
    assert (tmp_path / "samples-2.png").read_bytes() == b"mine"
    named = json.loads(
        zoo_here("generate", run, "--n", "2", "-o", "samples-2.png", "--json").stdout
    )
    assert (named["output"], named["seed"]) == ("samples-2.png", 0)
    assert pixels(tmp_path / "samples-2.png").any()  # who names a file means it
    made = zoo_here("data", "show", "synthetic", "--n", "2").stdout
    again = zoo_here("data", "show", "synthetic", "--n", "2").stdout
    assert "Wrote synthetic-test.png" in made and "Wrote synthetic-test-2.png" in again


def test_the_sheet_says_its_seed(trained, zoo_there, monkeypatch):
    titles = []
    monkeypatch.setattr("zoo.kit.write_sheet", lambda *a, **how: titles.append(how) or [])
    for more in ((), ("--class", "ring")):
        zoo_there("generate", run_of(trained, "acgan"), "--n", "2", "--seed", "7", *more)
    assert [how["title"] for how in titles] == [
        "acgan trained on synthetic, seed 7", "acgan trained on synthetic: ring, seed 7",
    ]  # fmt: skip


def test_a_device_can_be_chosen_for_both_models_of_a_distance(trained, zoo_there, monkeypatch):
    asked, assemble = [], TorchTrainer.assemble

    def spy(self, *given, device="not said", **how):
        asked.append(device)
        return assemble(self, *given, **how)

    monkeypatch.setattr(TorchTrainer, "assemble", spy)
    vae, mlp = run_of(trained, "vae"), run_of(trained, "mlp")
    done = zoo_there("generate", vae, "--distance", mlp, "--device", "cuda", status=2)
    assert "model 'mlp' declares no features" in done.stderr
    assert asked == ["cuda", "cuda"]
    assert zoo.generate(vae, 2, device="mps").shape == (2, 8, 8, 3)
    assert asked[2:] == ["mps"]


def test_a_class_can_be_asked_for_and_all_are_drawn_in_turn(trained, json_there):
    run = run_of(trained, "acgan")
    some = json_there("generate", run, "--class", "ring", "--n", "5", "-o", "x.webp")
    assert some["classes"] == ["ring"] * 5 and some["distance"] is None
    every = json_there("generate", run, "--n", "20", "-o", "x.webp")
    assert every["classes"] == every["classes"][:10] * 2
    assert len(set(every["classes"])) == 10
    steps = json_there("generate", run, "--interpolate", "--n", "16", "-o", "x.png")
    assert steps["classes"] == ["circle"] * 8 + ["square"] * 8


def test_clusters_are_asked_for_by_their_names(trained, zoo_there, json_there):
    run = run_of(trained, "vae_cluster")
    names = json_there("generate", run, "--n", "4")["classes"]
    assert len(names) == 4
    one = json_there("generate", run, "--class", names[0], "--n", "3")
    assert one["classes"] == [names[0]] * 3
    other = next(name for name in ("circle", "square", "cross", "ring", "moon", "plus")
                 if name not in names)  # fmt: skip
    done = zoo_there("generate", run, "--class", other, status=2)
    assert names[0] in done.stderr and "has no class" in done.stderr


def test_names_that_several_conditions_share_are_numbered():
    class Numbers(zoo.Generator):
        noise = (1,)

        def draw(self, noise, conditions):
            return np.full((len(noise), 3, 2, 2), conditions[:, None, None, None] / 10, np.float32)

    preprocess = Preprocess(size=2, channels=3, mean=(0.0,) * 3, std=(1.0,) * 3)
    source = Sampler(Numbers(None), preprocess, ("ship", "Deer", "ship"))
    assert source.sample(3).names == ("ship 1", "Deer", "ship 2")
    assert source.sample(4, condition="ship").names == ("ship 1", "ship 2") * 2
    assert source.sample(1, condition="ship 2").images[0, 0, 0, 0] == round(255 * 0.2)
    assert source.sample(2, condition="deer").names == ("Deer", "Deer")


@pytest.mark.parametrize(
    "mistake, sentence",
    [
        ({"condition": 6}, "by its name, not by 6"),
        ({"seed": -1}, "the seed at least 0"),
        ({"count": 0}, "number of samples must be at least 1"),
    ],
)
def test_mistakes_in_python_get_a_sentence_too(trained, monkeypatch, mistake, sentence):
    monkeypatch.chdir(trained)
    with pytest.raises(zoo.ZooError, match=sentence):
        zoo.generate(run_of(trained, "acgan"), **mistake)


def test_nobody_trains_a_model_to_learn_that_it_draws_nothing(zoo_there):
    done = zoo_there("generate", "vqvae", status=2)
    assert "declares no way to draw samples" in done.stderr


@pytest.mark.parametrize(
    "model, arguments, sentence",
    [
        ("mlp", (), "declares no way to draw samples"),
        ("vqvae", (), "declares no way to draw samples"),
        ("vae", ("--class", "ring"), "leave out --class"),
        ("acgan", ("--class", "rong"), "ring"),
        ("vae", ("-o", "x.pdf"), "must end in .png, .webp or .jpg"),
        ("vae", ("--distance", "latest"), "declares no features"),
    ],
)
def test_mistakes_get_a_sentence(trained, zoo_there, model, arguments, sentence):
    done = zoo_there("generate", run_of(trained, model), *arguments, status=2)
    assert sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_strangers_generator_is_used_as_ours_are(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "stranger.py").write_text(STRANGER.replace("SHAPE", "self.model.shape"))
    info = folder / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nstranger = stranger\n")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "zoo", *arguments], capture_output=True, text=True, cwd=tmp_path,
            env=environment(PYTHONPATH=str(folder), ZOO_CACHE=str(tmp_path / "cache")),
        )  # fmt: skip

    few = ("--set", "data.train_size=40", "--set", "data.test_size=10", "--set", "epochs=2")
    done = run("train", "stranger", "--dataset", "synthetic", *few)
    assert done.returncode == 0, done.stderr
    path = tmp_path / done.stdout.splitlines()[-1]
    assert {p.name for p in (path / "pictures").glob("samples*")} == {
        "samples-001.png", "samples.png",
    }  # fmt: skip
    done = run("generate", "latest", "--n", "4")
    assert done.returncode == 0, done.stderr
    assert len(np.unique(pixels(tmp_path / "samples.png")[60:90, 30:80])) == 1  # grey
    (folder / "stranger.py").write_text(STRANGER.replace("SHAPE", "(1, 2)"))
    done = run("generate", "latest")
    assert done.returncode == 1
    assert "Draw must draw an array (64, 3, 32, 32), not (64, 1, 2)" in done.stderr


# ---------------------------------------------------------------- the other commands


def test_a_report_shows_samples_reconstructions_and_codes(trained):
    run = Path(run_of(trained, "vae_cluster"))
    text = (run / "report.md").read_text()
    for name in ("samples.png", "samples-001.png", "task-reconstructions.png", "task-codes.png"):
        assert f"pictures/{name})" in text, name
        assert Image.open(run / "pictures" / name).size[0] > 300
    assert "own vote accuracy" in text and "reconstruction mse" in text
    wide, high = Image.open(run / "pictures/task-codes.png").size
    assert wide > 1.5 * high  # by true and by predicted class


def test_evaluating_again_gives_the_figures_of_the_run(trained, zoo_there, json_there):
    for model in ("vae", "vae_cluster", "vqvae"):
        document = json.loads(Path(run_of(trained, model), "run.json").read_text())
        kept = document["result"]["test"]
        again = json_there("evaluate", run_of(trained, model))
        for name in ("loss", "mse", "bits_per_dim", "accuracy"):
            assert (name in kept) == (name in again)
            if name in kept:
                assert again[name] == pytest.approx(kept[name], rel=1e-6), (model, name)
    shown = zoo_there("evaluate", run_of(trained, "vae")).stdout
    assert "bits per dim" in shown and "accuracy" not in shown


def test_runs_and_comparisons_invent_no_accuracy(trained, zoo_there):
    shown = zoo_there("runs", "vae-*").stdout
    assert "LOSS" in shown and "ACCURACY" not in shown
    assert "ACCURACY" in zoo_there("runs").stdout
    two = run_of(trained, "vae"), run_of(trained, "vqvae")
    done = zoo_there("compare", *two)
    header = done.stdout.splitlines()[0]
    assert "MSE" in header and "BITS PER DIM" in header and "ACCURACY" not in header
    assert "LOSS" not in header and "the loss has no column, because task" in done.stderr


def test_images_cannot_be_classified_by_what_does_not(trained, zoo_there):
    Image.new("RGB", (16, 16)).save(trained / "x.png")
    done = zoo_there("predict", run_of(trained, "vae"), "x.png", status=2)
    assert "is for generation, and answers nothing about an image" in done.stderr
    zoo_there("predict", run_of(trained, "vae_cluster"), "x.png")


def test_published_weights_give_the_same_samples(trained, zoo_there, tmp_path):
    import zoo

    run = run_of(trained, "acgan")
    shared = f"file:{tmp_path / 'shared'}"
    zoo_there("publish", run, "--to", shared)
    (card,) = (path.read_text() for path in (tmp_path / "shared").rglob("README.md"))
    assert "zoo generate" in card
    one, two = (
        zoo.generate(run, 8, condition="moon"),
        zoo.generate(zoo.load(shared), 8, condition="moon"),
    )
    assert np.array_equal(one, two) and one.shape == (8, 16, 16, 3)
