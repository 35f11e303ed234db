"""zoo attention, as a person types it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from support import environment
from zoo_attention.attention import Attention, as_seen, attention
from zoo_attention.drawing import plot

import zoo
from zoo_core.data.preprocess import Preprocess
from zoo_core.train.runner import train

# A stranger's transformer: its own layers, and a function that says where they look.
STRANGER = """
import numpy as np, torch, zoo

class Net(torch.nn.Module):
    def __init__(self, *, num_classes, in_channels, image_size):
        super().__init__()
        self.head = torch.nn.Linear(in_channels * image_size ** 2, num_classes)
    def forward(self, images):
        return self.head(images.flatten(1))

def look(model, images):
    return np.full(SHAPE, 0.25, np.float32)

@zoo.hookimpl
def zoo_models():
    return [zoo.ModelEntry(name="stranger", target="stranger:Net", summary="Looks everywhere",
                           capabilities={"attention": "stranger:look"})]
"""


def installed(folder, shape):
    """The stranger's package, as pip would leave it."""
    folder.mkdir()
    (folder / "stranger.py").write_text(STRANGER.replace("SHAPE", repr(shape)))
    info = folder / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nstranger = stranger\n")
    return str(folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with runs of a transformer and of a network without attention, and an image."""
    folder = tmp_path_factory.mktemp("attention")
    settings = {"epochs": 1, "batch_size": 50, "data": {"train_size": 100, "test_size": 20}}
    small = {"width": 16, "hidden": 16, "heads": 2}
    for model, options in (("nano_vit_p4", small), ("mlp", {"hidden": (8,)})):
        train(
            model, "synthetic", settings={**settings, "model": options}, runs=folder / "runs",
            quiet=True,
        )  # fmt: skip
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "cat.png")
    return folder


def run_of(folder, model):
    return str(next((folder / "runs").glob(f"{model}*")))


@pytest.mark.renders
def test_it_draws_a_picture_and_says_where_it_is(trained, zoo_here):
    done = zoo_here("attention", run_of(trained, "nano"), "cat.png", cwd=trained)
    first, second = done.stdout.splitlines()
    assert first.startswith("cat.png: ") and first.endswith(" %")
    plot = second.removeprefix("Plot: ")
    assert plot == "attention.png"
    again = zoo_here("attention", run_of(trained, "nano"), "cat.png", cwd=trained)
    assert again.stdout.endswith("Plot: attention-2.png\n")
    one = Image.open(trained / "attention.png").size
    assert one[0] > 3 * one[1]  # five panels beside each other
    zoo_here(
        "attention", run_of(trained, "nano"), "cat.png", "--heads", "-o", "heads.png", cwd=trained
    )
    each = Image.open(trained / "heads.png").size
    assert each[0] < each[1]  # four layers, two heads


@pytest.mark.renders
def test_python_sees_the_same_on_the_sharp_image(trained, zoo_here):
    run, path = run_of(trained, "nano"), trained / "cat.png"
    seen = attention(run, path)
    pixels = np.asarray(Image.open(path))
    np.testing.assert_allclose(seen.image, pixels[:, 10:50] / 255, atol=1e-6)  # 40 of 60 columns
    assert (seen.name, seen.maps.shape) == ("cat.png", (4, 2, 8, 8))
    for image in (pixels, Image.open(path)):
        again = attention(zoo.load(run), image)
        np.testing.assert_array_equal(again.maps, seen.maps)
        np.testing.assert_array_equal(again.image, seen.image)
    seen.draw(trained / "python.png")
    zoo_here("attention", run, "cat.png", "-o", "command.png", cwd=trained)
    assert (trained / "python.png").read_bytes() == (trained / "command.png").read_bytes()
    with pytest.raises(zoo.UsageError, match="there is no image"):
        attention(run, trained / "gone.png")


@pytest.mark.parametrize("heads", [False, True])
def test_attention_has_one_scale_for_all_panels(heads):
    maps = np.full((2, 3, 4, 4), 0.01)
    maps[1, 2, 0, 0] = 0.5
    figure = plot(Attention("a.png", np.zeros((90, 90, 3)), "cat", 0.5, maps), heads)
    *panels, bar = figure.axes
    assert bar.get_ylabel() == "share of the attention"
    laid_over = [axes.images[1] for axes in panels if len(axes.images) == 2]
    assert len(laid_over) == (6 if heads else 2)
    assert {one.get_clim() for one in laid_over} == {(0, bar.get_ylim()[1])}
    assert panels[0].images[0].get_array().shape == (90, 90, 3)


@pytest.mark.renders
def test_a_notebook_shows_it_on_the_image():
    maps = np.full((2, 3, 4, 4), 1 / 17)
    seen = Attention("<cat>.png", np.zeros((9, 9, 3)), "cat", 0.5, maps)
    html = seen._repr_html_()
    assert html.count("<img") == 1 and "<cat>" not in html and "&lt;cat&gt;" in html
    assert repr(seen) == "Attention(<cat>.png: cat 50.0 %; 2 layers, 3 heads, 4 x 4 patches)"


def test_a_huge_image_is_drawn_smaller_and_a_small_one_as_it_is_seen():
    how = Preprocess(32, 1, (0.5,), (0.2,), resize=40, stored_size=64)
    assert as_seen(how, np.zeros((3000, 2000, 3), np.uint8)).shape == (819, 819, 3)
    assert as_seen(how, np.full((20, 20), 255, np.uint8)).min() == 1
    assert as_seen(how, np.zeros((20, 20), np.uint8)).shape == (32, 32, 3)


def test_json_has_the_shares_of_every_layer(trained, zoo_here):
    shares = {}
    for flags in ((), ("--heads",)):
        done = zoo_here(
            "attention", run_of(trained, "nano"), "cat.png", "--json", "-o", "x.png", *flags,
            cwd=trained,
        )  # fmt: skip
        answer = json.loads(done.stdout)
        shares[flags] = np.array(answer["layers"])
        assert answer["image"] == "cat.png" and 0 < answer["probability"] <= 1
    assert shares[()].shape == (4, 8, 8) and shares[("--heads",)].shape == (4, 2, 8, 8)
    np.testing.assert_allclose(shares[("--heads",)].mean(1), shares[()], atol=2e-6)
    assert (shares[()].sum((1, 2)) < 1).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN", "dog.png"], "Error: there is no image dog.png."),
        (["RUN", "."], "Error: . is a folder, and attention is drawn for one image."),
        (["RUN", "cat.png", "--device", "tpu"], "Error: there is no device 'tpu' on this machine."),
        (["RUN", "cat.png", "-o", "a.jpeg"], "Error: a.jpeg must end in .png, .pdf or .svg."),
        (["MLP", "cat.png"], "Error: model 'mlp' declares no attention that could be drawn."),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(trained, zoo_here, arguments, sentence):
    names = {"RUN": run_of(trained, "nano"), "MLP": run_of(trained, "mlp")}
    before = set(trained.iterdir())
    done = zoo_here("attention", *(names.get(a, a) for a in arguments), cwd=trained, status=2)
    assert done.stderr.splitlines()[0] == sentence
    if arguments[0] == "MLP":
        assert "Hint: these do: " in done.stderr and "nano_vit_p4" in done.stderr
    assert set(trained.iterdir()) == before


@pytest.mark.slow
def test_a_strangers_model_can_have_attention_too(trained, zoo_command, tmp_path):
    site = installed(tmp_path / "site", (2, 1, 3, 4, 4))
    common = ["--set", "data.train_size=50", "--set", "data.test_size=10", "--no-report"]
    zoo_command(
        "train", "stranger", "--dataset", "synthetic", "--epochs", "1", *common, PYTHONPATH=site
    )
    picture = str(trained / "cat.png")
    done = zoo_command("attention", "latest", picture, "--json", PYTHONPATH=site)
    assert np.array(json.loads(done.stdout)["layers"]).shape == (2, 4, 4)
    wrong = installed(tmp_path / "wrong", (2, 1, 4, 4))
    done = zoo_command("attention", "latest", picture, PYTHONPATH=wrong, status=2)
    assert "must be an array of (layers, images, heads, rows, columns)" in done.stderr
    assert "(2, 1, 4, 4)" in done.stderr


def test_the_help_of_the_command_imports_nothing_heavy():
    code = (
        "import sys\nfrom zoo_core.cli.main import main\n"
        "try: main(['attention', '--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'torch', 'matplotlib') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
