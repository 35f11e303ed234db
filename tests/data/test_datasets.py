"""Names, paths, options, and datasets of third parties."""

from pathlib import Path

import numpy as np
import pytest
from fixtures import datasets as made
from PIL import Image

import zoo
from zoo_core.data import datasets
from zoo_core.data.datasets import find_dataset, lasting, open_dataset, read_cache
from zoo_core.io.errors import DataError, OptionError, UnknownName, UsageError
from zoo_core.spec import registry as names

CALLS = []


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    CALLS.clear()


@pytest.fixture
def provide(monkeypatch):
    """Make one dataset of a third party known, whose target is this function."""

    def use(function, plugin="tiny", **fields):
        fields = {"summary": "For tests", "target": "fixture:function"} | fields
        entry = zoo.DatasetEntry(name="dots", **fields)
        known = made.registry_of(entry, plugin=plugin)
        monkeypatch.setattr(datasets, "registry", lambda: known)
        monkeypatch.setattr("zoo_core.io.targets.import_target", lambda target: function)
        records = known_plugins(plugin)
        monkeypatch.setattr(names, "load_plugins", lambda: records)
        return entry

    return use


def known_plugins(*more):
    import dataclasses

    plugins = names.load_plugins()
    extra = tuple(dataclasses.replace(plugins.records[0], id=name) for name in more)
    return dataclasses.replace(plugins, records=plugins.records + extra)


def dots(level=0):
    CALLS.append(level)
    return {
        "train_images": np.full((6, 8, 8), level, np.uint8),
        "train_labels": [0, 1, 2, 0, 1, 2],
        "test_images": np.full((3, 8, 8), level, np.uint8),
        "test_labels": [0, 1, 2],
    }


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("cifar10", False), ("my_pictures", False), ("builtin/cifar10", False), ("cnn/x", False)]
    + [("./my_pictures", True), ("/data/x", True), ("my/pictures", True), (".", True)]
    + [("..", True), ("~/x", True), ("C:\\pictures", True)],
)
def test_a_bare_name_is_never_a_path(reference, expected):
    assert names.is_path(reference) is expected


def test_an_unknown_name_that_is_a_folder_says_how_to_write_it(tmp_path, monkeypatch):
    (tmp_path / "cats").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownName) as caught:
        open_dataset("cats")
    assert caught.value.hint == "for the folder write ./cats"


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(UnknownName) as caught:
        open_dataset("cifer10")
    assert "cifar10" in caught.value.hint


def test_an_unknown_option_gets_a_suggestion():
    with pytest.raises(OptionError, match="'synthetic' has no option 'image_sise'") as caught:
        open_dataset("synthetic", image_sise=16)
    assert caught.value.hint == "did you mean image_size?"


def test_arrays_of_a_third_party_need_no_more_than_a_function(provide):
    provide(dots, classes=("a", "b", "c"))
    data = open_dataset("dots")
    assert data.classes == ("a", "b", "c")
    assert data.train.images.shape == (6, 8, 8, 1)
    assert data.train.labels.dtype == np.int64
    assert data.test.labels.tolist() == [0, 1, 2]
    assert (data.mean, data.std) == ((0.5,), (0.5,))
    assert (data.channels, data.image_size) == (1, 8)
    assert open_dataset("tiny/dots").digest == data.digest
    assert not any(datasets.cached(""))  # made on the spot: nothing to keep


def test_arrays_of_a_third_party_are_verified(provide):
    provide(dots, digests={"train_images": "0" * 64})
    with pytest.raises(DataError, match="dots: train_images is not what it should be"):
        open_dataset("dots")


def test_sources_of_a_third_party_are_cached_with_the_digests_of_the_first_fetch(provide):
    def sourced(level=7):
        return [zoo.Source("memory", lambda folder: dots(level))]

    provide(sourced, config={"level": 7})
    first = open_dataset("dots")
    assert first.classes == ("0", "1", "2")  # nobody named them
    assert open_dataset("dots").digest == first.digest
    assert CALLS == [7]
    (_, path), *more = datasets.cached("dots")
    assert path.name == "tiny--dots.safetensors"
    assert set(read_cache(path, arrays=False)[0]["digests"]) == {*dots(), "classes"}
    assert not more


def test_other_options_have_a_cache_file_of_their_own(provide):
    def sourced(level=7):
        return [zoo.Source("memory", lambda folder: dots(level))]

    provide(sourced, config={"level": 7}, digests=made.digests(arrays_of(7)))
    assert open_dataset("dots").train.images.max() == 7
    assert open_dataset("dots", level=9).train.images.max() == 9  # no pinned digest applies
    assert open_dataset("dots", level=9).train.images.max() == 9
    assert CALLS == [7, 9]
    assert len(datasets.cached("dots")) == 2
    assert all(datasets.verify_cached(request, path) for request, path in datasets.cached())


def arrays_of(level):
    arrays = {name: np.asarray(array, np.uint8) for name, array in dots(level).items()}
    CALLS.clear()
    return arrays


def test_a_source_gets_an_empty_folder_that_is_gone_afterwards(provide):
    seen = []

    def sourced():
        def fetch(folder):
            seen.extend([folder, list(folder.iterdir())])
            (folder / "big.bin").write_bytes(b"x")
            return dots()

        return [zoo.Source("memory", fetch)]

    provide(sourced)
    open_dataset("dots")
    folder, content = seen
    assert content == []
    assert not folder.exists()


def test_the_next_source_is_tried_when_one_fails_however_it_fails(provide):
    def fails(error):
        def fetch(folder):
            raise error

        return fetch

    def sourced():
        return [
            zoo.Source("first", fails(zoo.SourceUnavailable("the server sleeps"))),
            zoo.Source("second", fails(RuntimeError("boom"))),
            zoo.Source("third", lambda folder: {"train_images": np.zeros((2, 8), np.uint8)}),
            zoo.Source("fourth", lambda folder: dots(1)),
            zoo.Source("fifth", lambda folder: dots()),
        ]

    provide(sourced, digests=made.digests(arrays_of(0)))
    lines = []
    open_dataset("dots", report=lines.append)
    wrong = lines.pop(7)
    assert wrong.startswith("dots: fourth: train_images is not what it should be")
    assert lines == [
        "dots: first",
        "dots: first: the server sleeps; skipped",
        "dots: second",
        "dots: second: RuntimeError: boom; skipped",
        "dots: third",
        "dots: third: train_images is uint8 of shape (2, 8), "
        "and must be uint8 (n, height, width, channels); skipped",
        "dots: fourth",
        "dots: fifth",
    ]


def test_files_that_the_user_names_go_to_the_source_that_wants_them(provide, tmp_path):
    def sourced():
        return [
            zoo.Source("network", lambda folder: 1 / 0),
            zoo.Source("files", lambda path: dots(int(path.read_text())), needs="path"),
        ]

    provide(sourced)
    (tmp_path / "level.txt").write_text("5")
    assert open_dataset("dots", source=tmp_path / "level.txt").train.images.max() == 5
    lines = []
    open_dataset("dots", source=tmp_path / "other.txt", report=lines.append)
    assert "in the cache already" in lines[0]


def test_a_dataset_without_such_a_source_says_so(provide, tmp_path):
    provide(lambda: [zoo.Source("network", lambda folder: dots())])
    with pytest.raises(UsageError, match="cannot be read from files"):
        open_dataset("dots", source=tmp_path)


@pytest.mark.parametrize("name", ["reference", "options", "source", "fetch", "report"])
def test_an_option_is_the_datasets_and_never_one_of_opening_it(provide, name):
    provide(dots)
    with pytest.raises(OptionError, match=f"dataset 'dots' has no option '{name}'"):
        open_dataset("dots", {name: "x"})
    provide(lambda **options: dots(options[name]), config={name: 3})
    assert open_dataset("dots", {name: 5}).train.images.max() == 5


def test_the_command_line_refuses_them_as_well(zoo_here):
    small = "--set", "data.train_size=8", "--set", "data.test_size=8"
    for name in ("report", "fetch", "source"):
        refused = f"Error: dataset 'synthetic' has no option '{name}'."
        done = zoo_here("train", "mlp", "--dataset", "synthetic", *small,
                        "--set", f"data.{name}=x", status=2)  # fmt: skip
        assert done.stderr.splitlines()[0] == refused
        done = zoo_here("data", "show", "synthetic", "--set", f"{name}=x", status=2)
        assert done.stderr.splitlines()[0] == refused


def test_a_path_is_a_folder_even_where_a_dataset_has_that_name(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / "synthetic" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "synthetic" / name / "1.png")
    monkeypatch.chdir(tmp_path)
    data = open_dataset(Path("synthetic"))
    assert (data.classes, data.name) == (("a", "b"), "synthetic")
    assert lasting(Path("synthetic")) == str(tmp_path / "synthetic")
    with pytest.raises(DataError, match="there is no folder"):
        open_dataset(Path("cifar10"))


def test_what_happens_is_said_unless_somebody_else_tells(provide, said):
    provide(lambda: [zoo.Source("network", lambda folder: dots())])
    open_dataset("dots")
    assert said() == ["dots: network"]


def test_without_fetching_only_the_cache_counts(provide):
    def sourced():
        return [zoo.Source("network", lambda folder: dots())]

    provide(sourced)
    with pytest.raises(DataError, match="'dots' is not in the cache") as caught:
        open_dataset("dots", fetch=False)
    assert caught.value.hint == "zoo data fetch dots"
    assert CALLS == []
    open_dataset("dots")
    assert len(open_dataset("dots", fetch=False).train) == 6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_images": None}, "there are no train_images"),
        ({"images": 1}, "unknown array 'images'"),
        ({"train_images": np.zeros((0, 8, 8), np.uint8)}, "train_labels has 6 labels for 0 images"),
        ({"train_images": np.zeros((6, 8, 8))}, "train_images is float64"),
        ({"train_labels": [0, 1]}, "train_labels has 2 labels for 6 images"),
        (
            {"train_labels": [0, 1, 2, 0, 1, 3]},
            "the label 3 at position 5, and there are 3 classes",
        ),
        ({"test_labels": [-1, 1, 2]}, "test_labels has the label -1 at position 0"),
        ({"test_labels": ["a", "b", "c"]}, "must be integers"),
        ({"test_labels": None}, "labels for some of the images only"),
        ({"test_images": np.zeros((3, 9, 9), np.uint8)}, "differ in shape"),
        ({"classes": ["a"]}, "there are 1 classes"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_a_sentence(provide, changes, sentence):
    provide(lambda: {**dots(), **changes}, classes=("a", "b", "c"))
    with pytest.raises(DataError, match=sentence):
        open_dataset("dots")


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"train_size": 7}, "there are 6 training images, and there should be 7"),
        ({"test_size": 7}, "there are 3 test images, and there should be 7"),
        ({"image_size": 9}, "there are 8 pixels a side, and there should be 9"),
        ({"in_channels": 3}, "there are 1 channels, and there should be 3"),
    ],
)
def test_declared_sizes_are_checked(provide, declared, sentence):
    provide(dots, **declared)
    with pytest.raises(DataError, match=sentence):
        open_dataset("dots")


@pytest.mark.parametrize("result", [None, 3, ["a"], "text", []])
def test_a_target_that_returns_something_else_is_named(provide, result):
    provide(lambda: result)
    with pytest.raises(
        DataError, match="'dots' gave neither zoo.Originals, nor arrays, nor a list of zoo.Source"
    ):
        open_dataset("dots")


def test_a_target_that_raises_is_named(provide):
    provide(lambda: 1 / 0)
    with pytest.raises(DataError, match="dataset 'dots' raised ZeroDivisionError"):
        open_dataset("dots")


def test_more_than_256_classes_are_kept_whole(provide):
    def sourced():
        images = np.zeros((300, 8, 8), np.uint8)
        arrays = {"train_images": images, "train_labels": np.arange(300)}
        return [zoo.Source("memory", lambda folder: arrays)]

    provide(sourced)
    open_dataset("dots")
    data = open_dataset("dots")
    assert data.train.labels.tolist() == list(range(300))
    assert data.test is None


def test_two_plugins_with_one_name_do_not_share_a_cache_file(provide):
    provide(dots, plugin="other")
    other = find_dataset("other/dots").file
    provide(dots, plugin="tiny")
    assert find_dataset("tiny/dots").file != other


def test_opening_a_dataset_imports_no_torch():
    import subprocess
    import sys

    code = (
        "import sys; from zoo_core.data.datasets import open_dataset; open_dataset('synthetic');"
        "assert not {'torch', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_that_are_not_square_become_so_as_a_file_would(provide):
    wide = np.random.default_rng(0).integers(0, 256, (4, 8, 12, 3)).astype(np.uint8)
    provide(lambda: {"train_images": wide, "train_labels": [0, 1, 0, 1]})
    cut = open_dataset("dots")
    assert np.array_equal(cut.train.images, wide[:, :, 2:10])
    padded, stretched = (open_dataset("dots", fit=fit) for fit in ("pad", "stretch"))
    assert np.array_equal(padded.train.images[:, 2:10], wide)
    assert stretched.train.images.shape == (4, 12, 12, 3)
    assert len({cut.digest, padded.digest, stretched.digest}) == 3
    for data, fit in ((cut, "crop"), (padded, "pad"), (stretched, "stretch")):
        how = zoo.Preprocess.for_dataset(data, {"fit": fit})
        assert np.array_equal(how.stored(Image.fromarray(wide[0])), data.train.images[0])
