"""zoo data, as a person types it."""

import json
import os
import pty
import subprocess
import sys

import pytest
from fixtures import datasets as made
from PIL import Image
from support import ROOT, environment
from testing.mistakes import importable

PLUGIN = """
import os
import zoo

@zoo.hookimpl
def zoo_datasets():
    return [zoo.DatasetEntry(name="dots", target="fixture_cli:dots", summary="For tests",
                             config={"level": 7}, classes=("a", "b", "a long name of a class"))]

def dots(level):
    def make(path):
        import numpy as np
        images = np.full((40, 16, 16), level, np.uint8)
        return {"train_images": images, "train_labels": np.arange(40) % 3,
                "test_images": images[:9], "test_labels": np.arange(9) % 3}
    return [zoo.Source("our server", make), zoo.Source("files", make, needs="path")]
"""


@pytest.fixture
def site(tmp_path):
    site = made.install_plugin(tmp_path / "site", "fixture_cli", PLUGIN)
    with importable(site):
        yield str(site)


@pytest.fixture
def data(zoo_here, site):
    return lambda *arguments, **options: zoo_here("data", *arguments, **options)


@pytest.fixture
def data_json(json_here, site):
    return lambda *arguments: json_here("data", *arguments)


@pytest.fixture
def folder(tmp_path):
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png", "dog/note.txt"):
        path = tmp_path / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20), "orange").save(path, format="PNG")
    return tmp_path / "pets"


def test_the_life_of_a_dataset(data, data_json, tmp_path):
    """fetch, list, info, verify, remove, one after the other."""
    done = data("fetch", "dots")
    path = tmp_path / "cache" / "data" / "fixture_cli--dots.safetensors"
    assert done.stdout == f"dots: 40 + 9 images, 16 x 16 x 1, 3 classes, verified, in {path}\n"
    assert done.stderr == "dots: our server\n"
    assert data("fetch", "dots").stderr == ""  # from the cache

    rows = {row["name"]: row for row in data_json("list")}
    assert rows["dots"]["cached_bytes"] == path.stat().st_size
    assert rows["cifar10"]["cached_bytes"] is None
    assert (rows["cifar10"]["train"], rows["cifar10"]["classes"]) == (50_000, 10)

    info = data_json("info", "dots")
    assert info["config"] == {"level": 7}
    (copy,) = info["cached"]
    assert (copy["path"], copy["source"]) == (str(path), "our server")
    text = data("info", "dots").stdout
    for part in ("level=7", "fixture_cli", "its first fetch", str(path), "our server"):
        assert part in text

    (row,) = data_json("verify")
    sound = {"name": "dots", "ok": True, "state": "ok", "path": str(path), "problem": ""}
    assert row == sound
    assert "ok" in data("verify", "dots").stdout

    assert data("remove", "dots", "--yes").stdout.startswith("Deleted ")
    assert not path.exists()
    assert "Not in the cache" in data("remove", "dots", "--yes").stderr
    assert "No dataset is in the cache" in data("verify").stderr


def test_fetch_takes_options_files_and_several_names(data, data_json, tmp_path):
    (row,) = data_json("fetch", "dots", "--set", "level=9")
    assert "@" in row["path"]
    done = data("fetch", "dots", "synthetic", "--from", str(tmp_path), status=0)
    assert done.stderr == f"dots: {tmp_path}\n"
    assert "made when it is used" in done.stdout


def test_verify_names_what_is_damaged_and_fails(data, tmp_path):
    data("fetch", "dots")
    path = tmp_path / "cache" / "data" / "fixture_cli--dots.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    done = data("verify", status=1)
    assert "damaged" in done.stdout
    assert done.stderr.startswith(f"Error: {path}: train_labels is not what it should be")
    assert "zoo data fetch dots gets it again" in done.stderr
    rows = json.loads(data("verify", "--json", status=1).stdout)
    assert rows[0]["ok"] is False
    path.write_bytes(b"x")
    assert "damaged" in data("info", "dots").stdout
    assert "a new copy is needed" in data("fetch", "dots").stderr
    data("verify")


def test_verify_of_what_is_not_there_fails(data):
    assert "cifar10 is not in the cache" in data("verify", "cifar10", status=1).stderr


def test_remove_asks_first(data, tmp_path, site):
    data("fetch", "dots")
    done = subprocess.run(
        [sys.executable, "-m", "zoo", "data", "remove", "dots"],
        input="n\n",
        text=True,
        capture_output=True,
        env=environment(PYTHONPATH=site, ZOO_CACHE=str(tmp_path / "cache")),
    )
    assert done.returncode == 1
    assert "Delete 1" in done.stderr and "Error: nothing was deleted." in done.stderr
    assert (tmp_path / "cache" / "data" / "fixture_cli--dots.safetensors").exists()


def test_a_folder_of_pictures_is_a_dataset(data, data_json, folder, tmp_path):
    done = data("fetch", "./pets")
    assert "pets: decoding 4 images\npets: 1 other files are ignored" in done.stderr
    assert "pets: 2 + 2 images, 20 x 20 x 3, 2 classes" in done.stdout
    assert "decoding" not in data("fetch", "./pets").stderr
    (pack,) = (tmp_path / "cache" / "packs").glob("pets-*.safetensors")
    (row,) = data_json("verify", "./pets")
    assert (row["name"], row["state"], row["path"]) == (str(folder), "ok", str(pack))
    assert data_json("list")[-1]["name"] == str(folder)
    (copy,) = data_json("info", "./pets")["cached"]
    assert (copy["path"], copy["holds"]) == (str(pack), "4 images, 20 x 20 x 3, decoded")
    content = pack.read_bytes()
    pack.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = data("verify", status=1)
    assert "damaged" in done.stdout and f"{pack} is damaged" in done.stderr
    assert data("remove", "./pets", "--yes").stdout.startswith("Deleted ")
    assert not pack.exists() and (folder / "cat" / "1.png").exists()
    assert "No dataset is in the cache" in data("verify").stderr


def test_show_writes_a_labelled_sheet(data, tmp_path):
    done = data("show", "synthetic", "--n", "20")
    assert done.stdout.startswith("Wrote synthetic-test.png: 20 images")
    with Image.open(tmp_path / "synthetic-test.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 900
    data("show", "dots", "-o", "x.png", "--split", "train", "--n", "5")
    with Image.open(tmp_path / "x.png") as sheet:
        colours = {colour for _, colour in sheet.convert("RGB").getcolors(100_000)}
    assert (7, 7, 7) in colours
    assert len(colours) > 5  # the letters of the captions


def test_show_writes_pages_and_names_them_all(zoo_here, tmp_path):
    pages = ["synthetic-test.png", "synthetic-test-page2.png"]
    done = zoo_here("data", "show", "synthetic", "--n", "150")
    assert done.stdout == f"Wrote {', '.join(pages)}: 150 images.\n"
    assert {path.name for path in tmp_path.glob("*.png")} == {*pages}


def test_show_as_json_and_without_a_test_split(data, data_json, folder):
    shown = data_json("show", "./pets", "--set", "test_fraction=0")
    page = "pets-train.png"
    assert shown == {"path": page, "pages": [page], "split": "train", "images": 4}
    done = data("show", "./pets", "--set", "test_fraction=0", "--split", "test", status=2)
    assert "has no test images" in done.stderr


def test_show_that_cannot_write_says_where(data, tmp_path):
    (tmp_path / "file").touch()
    done = data("show", "synthetic", "-o", "file/x.png", status=1)
    assert done.stderr.startswith("Error: file/x.png could not be written")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["fetch", "cifer10"], 2, "did you mean cifar10"),
        (["fetch", "synthetic", "--set", "siez=3"], 2, "has no option 'siez'"),
        (["fetch", "synthetic", "--set", "classes"], 2, "--set classes has no value"),
        (["fetch", "synthetic", "--set", "classes=99"], 2, "classes must be a whole number"),
        (["fetch", "./nowhere"], 1, "there is no folder"),
        (["fetch", "mnist", "--from", "nowhere"], 1, "nowhere does not exist"),
        (["fetch"], 2, "Missing argument"),
        (["show", "synthetic", "--n", "0"], 2, "0 is not in the range"),
        (["info", "no_such"], 2, "there is no dataset 'no_such'"),
        (["remove", "no_such"], 2, "there is no dataset 'no_such'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_sentences(data, arguments, status, sentence):
    done = data(*arguments, status=status)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["list", "fetch", "info", "verify", "remove", "show"])
def test_every_command_explains_itself_with_examples(data, name):
    assert f"  zoo data {name}" in data(name, "--help").stdout


def test_on_a_terminal_there_is_a_progress_bar(tmp_path, folder):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "data", "fetch", "./pets"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=tmp_path,
        env=environment(TERM="xterm", ZOO_CACHE=str(tmp_path / "cache")),
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass
    os.close(ours)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert b"4/4" in shown
    assert b"decoding" in shown
    assert out.startswith(b"pets: 2 + 2 images")


def test_the_example_of_the_documentation_works(zoo_command, tmp_path):
    text = (ROOT / "docs" / "datasets.md").read_text()
    source = text.split("```python\n# zoo_dots.py\n")[1].split("```")[0]
    site = made.install_plugin(tmp_path / "docs-site", "zoo_dots", source)
    done = zoo_command("data", "fetch", "dots", "--set", "size=8", PYTHONPATH=str(site))
    assert done.stdout.startswith("dots: 80 + 20 images, 8 x 8 x 1, 2 classes, verified")
