"""Loading and publishing read, hash, build and open each thing once."""

import hashlib
import os
from collections import Counter

import pytest
from hub.parts import REFERENCE

import zoo
from zoo_core.io.files import user_manifest
from zoo_core.publish.publish import plan, publish
from zoo_core.runs.run import Run
from zoo_core.torch.trainer import TorchTrainer
from zoo_core.weights import manifest, verify
from zoo_core.weights.repository import Folder, HuggingFace


@pytest.fixture
def count(run, monkeypatch):
    """How often each file of the run's size is hashed, and other things are done."""
    counted = Counter()
    size, caches = run.model_file.stat().st_size, set()
    read, built = Run.read, TorchTrainer.build
    parsed, folder, hub = manifest.read, Folder.__init__, HuggingFace.__init__

    def hashing(function):
        def digest(file, *rest):
            status = os.fstat(file.fileno())
            if status.st_size == size:
                counted["hash", status.st_ino] += 1
                caches.add(os.environ["ZOO_CACHE"])
                assert len(caches) == 1, "somebody changes the environment"
            return function(file, *rest)

        return digest

    def counting(name, function):
        def call(*arguments, **options):
            counted[name] += 1
            return function(*arguments, **options)

        return call

    def manifest_read(path, package=""):
        counted["list"] += path == user_manifest()
        return parsed(path, package)

    monkeypatch.setattr(hashlib, "file_digest", hashing(hashlib.file_digest))
    monkeypatch.setattr(verify, "contents", hashing(verify.contents))
    monkeypatch.setattr(Run, "read", counting("run.json", read))
    monkeypatch.setattr(TorchTrainer, "build", counting("build", built))
    monkeypatch.setattr(Folder, "__init__", counting("open", folder))
    monkeypatch.setattr(HuggingFace, "__init__", counting("open", hub))
    monkeypatch.setattr(manifest, "read", manifest_read)
    return counted


def hashes(counted):
    return [times for what, times in counted.items() if what[0] == "hash"]


def test_a_run_is_read_hashed_and_built_once(run, count):
    zoo.load(run.path)
    assert hashes(count) == [1] and count["run.json"] == 1 and count["build"] == 1


def test_a_download_is_hashed_and_built_once_and_so_is_the_stored_copy(run, online, count):
    zoo.load(REFERENCE)
    assert hashes(count) == [1] and count["build"] == 1 and count["open"] == 2
    count.clear()
    zoo.load(REFERENCE)
    assert hashes(count) == [1] and count["build"] == 1 and count["open"] == 1


def test_a_listed_name_asks_the_users_list_once(run, tmp_path, count):
    publish(plan(run, f"file:{tmp_path / 'shared'}"))
    count.clear()
    zoo.load("mlp")
    assert hashes(count) == [1] and count["build"] == 1 and count["list"] == 1


@pytest.mark.parametrize("place", ["file", "hf"])
def test_publishing_does_each_thing_once(run, place, hub, token, tmp_path, count):
    publish(plan(run, f"file:{tmp_path / 'shared'}" if place == "file" else REFERENCE))
    assert hashes(count) == [1, 1], "the run's file, and the one that came back"
    assert count["run.json"] == 1 and count["open"] == 1 and count["list"] <= 2
    assert count["build"] == 2, "the run's model, and the one that came back"
