"""Datasets of a hub on loopback, through the real client: real Parquet files, tar files, images."""

import io
import json
import tarfile

import numpy as np
import pyarrow
import pytest
from hub.loopback import Fault, Hub
from PIL import Image
from pyarrow import parquet

import zoo

NAMES = ["blue", "red"]


def png(number):
    """An image that looks like its class: blue where the number is even, red where it is odd."""
    pixels = np.full((8, 8, 3), number, np.uint8)
    pixels[:, :, 0 if number % 2 else 2] = 220
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def shard(numbers):
    """Images and labels as the Hub's library writes them."""
    table = pyarrow.table(
        {
            "image": [{"bytes": png(n), "path": f"{n}.png"} for n in numbers],
            "label": [n % 2 for n in numbers],
        }
    )
    features = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    file = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(about), file, row_group_size=4)
    return file.getvalue()


FILES = {
    "README.md": b"# Photos",
    "data/train-00000-of-00002.parquet": shard(range(0, 12)),
    "data/train-00001-of-00002.parquet": shard(range(12, 20)),
    "data/test-00000-of-00001.parquet": shard(range(20, 26)),
}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.add("datasets/org/photos", FILES)
        yield hub


def refused(reference):
    with pytest.raises(zoo.ZooError) as caught:
        zoo.open_dataset(reference)
    assert "\n" not in str(caught.value)
    return f"{caught.value}. {caught.value.hint}"


def test_parquet_files_of_the_hub_are_a_dataset_with_its_splits_and_class_names(hub):
    data = zoo.open_dataset("hf:org/photos")
    assert (data.name, data.classes) == ("photos", ("blue", "red"))
    assert data.train.labels.tolist() == [n % 2 for n in range(20)]
    assert data.test.images[:, 0, 0, 1].tolist() == list(range(20, 26))
    assert not any("README" in path for _, path, _ in hub.log)


def test_a_run_records_the_commit_and_reads_it_again_without_the_network(
    hub, tmp_path, monkeypatch
):
    commit = hub.repositories["datasets/org/photos"].commits[-1][0]
    settings = {"epochs": 1, "quiet": True, "runs": tmp_path / "runs", "device": "cpu"}
    result = zoo.train("fcn_numpy", "hf:org/photos", **settings)
    recorded = result.run.read()["dataset"]["reference"]
    assert recorded == f"hf:org/photos@{commit}"
    assert result.path.name.startswith("fcn_numpy-photos-")
    hub.add("datasets/org/photos", {"data/train-00000-of-00002.parquet": shard(range(2))})
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = len(hub.log)
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy
    assert len(hub.log) == asked
    assert len(list((tmp_path / "cache" / "packs").glob("*.safetensors"))) == 1
    assert "HF_HUB_OFFLINE is set" in refused("hf:org/photos")


def test_the_newest_commit_is_used_unless_a_revision_is_named(hub):
    old = hub.repositories["datasets/org/photos"].commits[-1][0]
    hub.add("datasets/org/photos", {"data/train-00000-of-00002.parquet": shard(range(2))})
    assert len(zoo.open_dataset("hf:org/photos").train) == 10
    assert len(zoo.open_dataset(f"hf:org/photos@{old}").train) == 20


def test_a_folder_of_a_repository(hub):
    hub.add(
        "datasets/org/several", {"a/x.parquet": shard(range(6)), "b/y.parquet": shard(range(9))}
    )
    data = zoo.open_dataset("hf:org/several/b", test_fraction=0)
    assert len(data.train) == 9


def test_images_with_metadata(hub):
    files = {f"train/{n}.png": png(n) for n in range(6)} | {f"test/{n}.png": png(n) for n in (6, 7)}
    for part, numbers in (("train", range(6)), ("test", (6, 7))):
        lines = ["file_name,colour", *(f"{n}.png,{NAMES[n % 2]}" for n in numbers)]
        files[f"{part}/metadata.csv"] = "\n".join(lines).encode()
    hub.add("datasets/org/folders", files)
    data = zoo.open_dataset("hf:org/folders")
    assert data.classes == ("blue", "red")
    assert (len(data.train), data.test.labels.tolist()) == (6, [0, 1])


def test_tar_files(hub):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for n in range(6):
            for ending, data in (("png", png(n)), ("cls", str(n % 2).encode())):
                member = tarfile.TarInfo(f"{n}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    hub.add("datasets/org/tars", {"0.tar": file.getvalue()})
    assert len(zoo.open_dataset("hf:org/tars", test_fraction=0).train) == 6


def test_what_the_hub_refuses_is_one_sentence(hub):
    assert "there is no repository hf:org/nothing, or it is private" in refused("hf:org/nothing")
    assert "no such revision" in refused("hf:org/photos@v9")
    hub.add("datasets/org/gated", FILES, gated=True)
    assert "hf:org/gated is gated: you need access" in refused("hf:org/gated")
    hub.add("datasets/org/texts", {"README.md": b"#", "a.txt": b"words"})
    said = refused("hf:org/texts")
    assert "has no images" in said
    assert "hf:org/texts@refs/convert/parquet" in said
    assert "write hf:ORGANISATION/NAME" in refused("hf:photos")


def test_a_hub_that_is_gone_is_one_sentence(hub):
    hub.disappear()
    assert "cannot be reached" in refused("hf:org/photos")


def test_a_file_with_another_digest_is_refused_and_not_kept(hub, tmp_path):
    change = lambda body: body[:-1] + bytes([body[-1] ^ 1])  # noqa: E731
    hub.faults.append(Fault("GET", "/resolve/", change=change, times=1))
    assert "is damaged" in refused("hf:org/photos")
    assert not list((tmp_path / "cache").rglob("*.parquet"))
    assert len(zoo.open_dataset("hf:org/photos").train) == 20


def test_a_list_without_digests_is_refused_and_not_kept(hub):
    hub.add("datasets/org/bare", {f"{c}/{n}.png": png(n) for c in "ab" for n in range(4)})

    def change(body):
        listed = json.loads(body)
        for file in listed["siblings"]:
            file.pop("blobId", None)
        return json.dumps(listed).encode()

    hub.faults.append(Fault("GET", "/api/datasets/", change=change, times=2))
    assert "lists a/0.png without a digest" in refused("hf:org/bare")
    hub.faults.clear()
    assert len(zoo.open_dataset("hf:org/bare", test_fraction=0).train) == 8
