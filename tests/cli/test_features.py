"""zoo features, as people type it."""

import json

import numpy as np
import pytest
import safetensors.numpy
from features.parts import settings, write_weights
from PIL import Image
from zoo_frozen import alike

import zoo
from zoo_core.cli.main import main

SMALL = ("--dataset", "synthetic", "--set", "data.train_size=300", "--set", "data.test_size=40",
         "--set", "model.channels=4,8,12,16", "--set", "preprocess.size=32")  # fmt: skip


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """`zoo features ARGUMENTS` in this process: one import of torch for all of them."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0):
        with pytest.raises(SystemExit) as ended:
            main(["features", *arguments])
        printed = capsys.readouterr()
        assert ended.value.code == status, printed.err
        return printed

    return run


@pytest.fixture
def compute(typed, tmp_path):
    weights = write_weights(tmp_path / "mine.safetensors", seed=1)
    option = ("--set", f"model.backbone_weights={weights}")
    return lambda *more: typed("compute", "resnet18_features", *SMALL, *option, *more)


def test_features_are_computed_listed_checked_exported_and_removed(compute, typed, tmp_path):
    assert "no features yet" in typed("list").err
    done = compute()
    assert "Computing the features of synthetic train: 300 images." in done.err
    assert "images/s" in done.err
    again = compute("--json")
    assert "Computing" not in again.err
    train, test = json.loads(again.out)
    assert (train["split"], train["images"], train["width"]) == ("train", 300, 16)
    assert train["state"] == test["state"] == "complete"

    listed = {row["id"]: row for row in json.loads(typed("list", "--json").out)}
    assert set(listed) == {train["id"], test["id"]}
    table = typed("list")
    assert "resnet 1" in table.out and "in all" in table.err
    about = json.loads(typed("info", train["id"][:6], "--json").out)
    assert about["key"]["preprocess"]["size"] == 32 and about["images_per_second"] > 0
    assert typed("info", test["id"]).out.count("key: ") == len(about["key"])
    assert all(row["ok"] for row in json.loads(typed("verify", "--json").out))

    # For scikit-learn: it learns something from them.
    typed("export", train["id"], test["id"], "-o", "both.npz")
    with np.load(tmp_path / "both.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays} == {
            "train_features": (300, 16), "train_labels": (300,), "test_features": (40, 16),
            "test_labels": (40,), "classes": (10,),
        }  # fmt: skip
        assert arrays["train_features"].dtype == np.float32
        kept = dict(arrays)
    typed("export", test["id"], "-o", "test.safetensors")
    assert np.array_equal(
        safetensors.numpy.load_file(tmp_path / "test.safetensors")["test_features"],
        kept["test_features"],
    )
    refused = typed("export", test["id"], "-o", "test.csv", status=2)
    assert "must end in .npz or .safetensors" in refused.err

    # Damage is found, and only what is damaged is computed again.
    path = next((tmp_path / "cache" / "features").glob("*train*.safetensors"))
    content = bytearray(path.read_bytes())
    content[4000] ^= 1  # in the first of two blocks
    path.write_bytes(content)
    verified = typed("verify", status=1)
    assert "is damaged" in verified.out
    mended = compute()
    assert "300 images, 44 of them already in the cache" in mended.err
    typed("verify")

    # What was used last stays.
    room = listed[train["id"]]["bytes"] + 2000
    removed = json.loads(typed("remove", "--max-size", str(room), "--json").out)
    assert [row["id"] for row in removed] == [train["id"]]
    typed("remove", test["id"][:4])
    assert json.loads(typed("list", "--json").out) == []


def test_what_is_alike_is_found_from_the_cache_or_without_it(typed, tmp_path, monkeypatch):
    weights = write_weights(tmp_path / "mine.safetensors", seed=1)
    given = settings(weights, epochs=1, task={"finetune": "head"})
    zoo.train("resnet18_features", "synthetic", settings=given, name="mine", quiet=True)
    asked, compute = [], alike._features
    monkeypatch.setattr(alike, "_features", lambda m, i: asked.append(len(i)) or compute(m, i))
    data = zoo.open_dataset("synthetic", given["data"])
    model, image = zoo.load("mine"), data.train.images[7]
    found = alike.nearest(model, image, count=3, options=given["data"])
    assert asked == [1]  # the image itself: the cache has all others
    assert found.rows[0] == 7 and found.similarity[0] > 0.999
    assert found.labels[0] == data.classes[data.train.labels[7]]
    assert list(found.similarity) == sorted(found.similarity, reverse=True)
    np.testing.assert_array_equal(found.images[0], image)
    np.testing.assert_array_equal(found.images[1], image)

    typed("remove", "--max-size", "0")
    again = alike.nearest(model, image, count=3, options=given["data"])
    assert sum(asked) == 1 + 1 + 200
    np.testing.assert_array_equal(again.rows, found.rows)

    Image.fromarray(image).save("one.png")
    small = ("--dataset", "synthetic", "--set", "data.train_size=200", "--set", "data.test_size=50")
    told = json.loads(typed("nearest", "mine", "one.png", *small, "--n", "3", "--json").out)
    assert [row["row"] for row in told["nearest"]] == found.rows.tolist()
    assert Image.open("nearest.png").width > 300
    told = json.loads(typed("map", "mine", *small, "--n", "20", "--json").out)
    assert len(told["places"]) == len(told["labels"]) == len(told["rows"]) == 20
    np.testing.assert_array_equal(data.test.labels[told["rows"]], told["labels"])
    assert (tmp_path / "map.png").exists()
    folder = typed("nearest", "mine", ".", status=2).err
    assert "is a folder, and the nearest are found for one image" in folder
    assert "declares no features" in typed("map", "lenet_numpy", status=2).err


def test_rows_that_look_the_same_say_what_differs(compute, typed, tmp_path):
    small = ("--set", "data.train_size=20", "--set", "data.test_size=10")
    compute(*small)
    compute(*small, "--set", "data.image_size=16")
    compute(*small, "--set", "preprocess.interpolation=bicubic")
    rows = json.loads(typed("list", "--json").out)
    assert sorted((row["stored"], row["pixels"], row["split"]) for row in rows) == sorted(
        (stored, 32, split) for stored in (16, 32, 32) for split in ("train", "test")
    )
    differs = [row.get("differs") for row in rows]
    for word in ("bilinear", "bicubic"):
        assert differs.count({"preprocess.interpolation": word}) == 2
    header, *lines = typed("list").out.splitlines()
    assert header.split()[4:8] == ["BACKBONE", "STORED", "PIXELS", "IMAGES"]
    assert len({line.partition("  ")[2] for line in lines}) == 6  # without their ids


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["info", "abc"], "there are no features 'abc'"),
        (["remove"], "say which: ID..., or --max-size"),
        (["remove", "abc", "--max-size", "1GB"], "say which: ID..., or --max-size"),
        (["remove", "--max-size", "much"], "'much' is not a size"),
        (["compute", "mlp"], "model 'mlp' has no frozen backbone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_a_sentence(typed, arguments, words):
    assert words in typed(*arguments, status=2).err


def test_the_command_is_there(zoo_command):
    assert "There are no features yet" in zoo_command("features", "list").stderr
