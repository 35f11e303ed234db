"""Mutated files and documents of every kind; the slow run and `make campaign` try more of them."""

import json
import random

import pytest
from campaigns import mutations
from campaigns.mutations import CASES, KINDS, case, judge, run
from hub.parts import join_file, split_file

from zoo_core.io.errors import WeightsError
from zoo_core.weights.verify import Located, check


def nothing_fails(kind, folder, most):
    seed = random.getrandbits(32)  # pytest-randomly seeds it and prints its seed
    tally = run(kind, seed, 600, folder, most=most)
    assert not tally.failed, f"of {tally.tried} with seed {seed}: {tally.failed[:5]}"
    assert tally.tried == tally.survived == most


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_is_refused_in_a_sentence_or_is_what_it_says(kind, tmp_path):
    nothing_fails(kind, tmp_path, 150)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_mutated_files_are_refused_or_are_what_they_say(kind, tmp_path):
    nothing_fails(kind, tmp_path, 10_000)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.bin")), ids=lambda path: path.stem)
def test_what_once_failed_does_not_fail_again(path, tmp_path):
    judge(path.stem.partition("-")[0], path.read_bytes(), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_for_the_same_seed_and_number(kind):
    assert case(kind, 7, 3) == case(kind, 7, 3)
    assert len({case(kind, 7, number) for number in range(20)}) > 10


def test_what_gets_through_is_told_and_kept(tmp_path, monkeypatch):
    """A reader that refuses nothing: the mutator must notice."""
    monkeypatch.setattr(mutations, "read_tensors", lambda path, **asked: {})
    tally = run("digest", 1, 60, tmp_path, most=30)
    assert tally.tried == 30 and tally.survived == 0
    name, _, why = tally.failed[4].partition(": ")
    assert name == "digest-1-4" and "altered bytes load" in why
    assert (tmp_path / f"{name}.bin").read_bytes() == case("digest", 1, 4)


def test_originals_are_fine(tmp_path):
    """Otherwise everything would be refused, and nothing tested."""
    judge("digest", mutations.weights(), tmp_path)
    folder = tmp_path / "weights"
    folder.mkdir()
    mutations.weights_judge(mutations.weights(), folder)
    mutations.manifest_judge(mutations.manifest(), folder)
    mutations.config_judge(json.dumps(mutations.listed()).encode(), folder)
    mutations.store_judge(mutations.a_store(), folder)


@pytest.mark.parametrize("config", [[[None, None]], [["hidden", [4]]], {"a": {"b": 1}}, None, "ab"])
def test_options_that_are_not_an_object_of_values_are_refused(config, tmp_path):
    """Pairs instead of an object make a dict as well, with keys that are not words."""
    header, body = split_file(mutations.weights())
    about = json.loads(header["__metadata__"]["zoo"])
    header["__metadata__"]["zoo"] = json.dumps(about | {"config": config})
    file = tmp_path / "it.safetensors"
    file.write_bytes(join_file(header, body))
    with pytest.raises(WeightsError, match="does not say which model it belongs to: "):
        check(Located(reference="it", source="it", path=file))
