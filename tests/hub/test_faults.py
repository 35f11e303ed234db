"""A hub that misbehaves: one sentence, nothing on disk, and the old copy stays."""

import threading

import pytest
from hub.loopback import Fault, Hub
from hub.parts import NAME, REFERENCE, altered, files_of, on_disk

import zoo
from zoo_core.io.errors import HubError, ManifestError, UsageError, WeightsError
from zoo_core.io.files import cache_dir
from zoo_core.publish.publish import plan
from zoo_core.use.load import answers

FILE = "/model.safetensors"


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """The client waits between its attempts; the tests do not, but know that it would have."""
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def refused(reference, error, words):
    before = on_disk(cache_dir("weights"))
    with pytest.raises(error, match=words) as caught:
        zoo.load(reference)
    assert on_disk(cache_dir("weights")) == before
    return caught.value


def test_500_is_said_and_a_later_try_works(online):
    online.faults.append(Fault("", "/", status=500, times=20))
    refused(REFERENCE, HubError, r"hub failed \(500\)")
    online.faults.clear()
    assert zoo.load(REFERENCE)


def test_a_500_on_the_file_alone(online):
    online.faults.append(Fault("GET", FILE, status=500))
    refused(REFERENCE, HubError, "hub failed|stopped answering")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "", "there is no repository"),
        (403, "", "you do not have the permission"),
        (404, "RepoNotFound", "there is no repository"),
        (403, "GatedRepo", "is gated: you need access"),
        (404, "RevisionNotFound", "has no such revision"),
        (429, "", "too many requests"),
    ],
)
def test_each_refusal_has_a_sentence_of_its_own(online, status, code, words):
    online.faults.append(Fault("", "/api/models/", status=status, code=code))
    assert refused(REFERENCE, HubError, words).hint


@pytest.mark.parametrize(("status", "words"), [(404, "does not have that file"), (409, "conflict"),
                                                (412, "published to it meanwhile")])  # fmt: skip
def test_refusals_of_a_file(online, status, words):
    code = "EntryNotFound" if status == 404 else ""
    online.faults.append(Fault("", "/config.json", status=status, code=code))
    refused(REFERENCE, HubError, words)


def test_a_gated_repository_and_a_missing_revision(online):
    refused(f"{REFERENCE}@v9", HubError, "has no such revision")
    refused(f"{REFERENCE}@{'0' * 40}", HubError, "has no such revision")
    online.repositories[NAME].gated = True
    refused(REFERENCE, HubError, "is gated")


def test_a_bad_token_on_a_public_repository_is_named(online, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_bad")
    error = refused(REFERENCE, HubError, "does not accept your token for hf:org/shapes")
    assert "unset HF_TOKEN" in error.hint


def test_a_connection_that_is_dropped_in_the_middle_of_a_file(online, run):
    online.faults.append(Fault("GET", FILE, drop_after=5000, times=2))
    assert answers(zoo.load(REFERENCE)) == answers(zoo.load(run.path))  # the client resumes
    assert len([one for one in online.log if one[0] == "GET" and FILE in one[1]]) >= 2


def test_a_connection_that_is_always_dropped(online):
    online.faults.append(Fault("GET", FILE, drop_after=0))
    refused(REFERENCE, HubError, "stopped answering")


def test_wrong_bytes_of_the_right_size_are_fetched_once_more_then_refused(online, run, said):
    def flip(data):
        return data[:-1] + bytes([data[-1] ^ 1])

    online.faults.append(Fault("GET", FILE, change=flip, times=1))
    assert answers(zoo.load(REFERENCE)) == answers(zoo.load(run.path))
    assert said()[0].endswith("; fetching it once more")
    zoo.load(REFERENCE)
    stored = next(cache_dir("weights").glob("*.safetensors"))
    stored.write_bytes(flip(stored.read_bytes()))
    online.faults.append(Fault("GET", FILE, change=flip))
    online.log.clear()
    refused(REFERENCE, WeightsError, "is not the file that was published")
    assert len([one for one in online.log if one[0] == "GET" and FILE in one[1]]) == 2


def test_short_bodies(online):
    online.faults.append(Fault("GET", FILE, change=lambda data: data[:-100]))
    refused(REFERENCE, HubError, "stopped answering")
    online.faults[:] = [Fault("GET", FILE, change=lambda data: data[:-100], length=False)]
    refused(REFERENCE, HubError, "stopped answering")


def test_a_slow_server_is_waited_for(online):
    online.faults.append(Fault("", "/api/models", wait=lambda: threading.Event().wait(0.5)))
    assert zoo.load(REFERENCE)


def test_a_hub_that_disappears(online, run, said, slept):
    pinned = zoo.load(REFERENCE).zoo.source
    online.disappear()
    assert answers(zoo.load(pinned)) == answers(zoo.load(run.path))
    assert said() == []  # a commit needs no asking
    assert answers(zoo.load(REFERENCE)) == answers(zoo.load(run.path))
    assert said()[0].endswith("; using the revision that was seen last")
    refused("hf:org/other", HubError, "cannot be reached")
    assert slept == [], "nobody waits for a host that refuses"


def test_no_token_goes_to_another_origin(online, token):
    with Hub() as other:
        other.add(NAME, online.repositories[NAME].commits[-1][1])
        other.repositories[NAME].commits = online.repositories[NAME].commits
        online.faults.append(Fault("GET", FILE, redirect=other.url))
        zoo.load(REFERENCE)
        asked = [headers for method, path, headers in other.log if FILE in path]
        assert asked and not any("authorization" in map(str.lower, h) for h in asked)
        sent = [headers for _, _, headers in online.log]
        assert any("authorization" in map(str.lower, h) for h in sent)


def test_a_config_that_contradicts_the_file_beside_it(online, run):
    files = files_of(plan(run, REFERENCE))
    other = files["model.safetensors"] + b"\0" * 8
    online.add(NAME, {"model.safetensors": other})
    refused(REFERENCE, WeightsError, "is inconsistent")


@pytest.mark.parametrize(
    "config", [b"", b"{", b"[]", b"<html>", b'{"model": "os:system"}', b"\xff"]
)
def test_a_config_that_is_none(online, config):
    online.add(NAME, {"config.json": config})
    refused(REFERENCE, ManifestError, "does not describe weights")


def test_a_config_names_a_model_and_never_code(online, run):
    planned = plan(run, REFERENCE)
    files = altered(planned, run.model_file.read_bytes())
    for model in ("os:system", "../mlp", "mlp.mlp:MLP"):
        text = files["config.json"].replace(b'"model":"mlp"', b'"model":"%s"' % model.encode())
        online.add(NAME, {"config.json": text})
        refused(REFERENCE, ManifestError, "does not describe weights")


@pytest.mark.parametrize("options", [{"hidden": [-1]}, {"hidden": ["x"]}, {"num_classes": 10**12},
                                     {"image_size": 0}, {"hidden": [10**9]}, {"unknown": 1},
                                     {"dropout": "a"}, {"hidden": None}])  # fmt: skip
def test_options_that_no_model_can_have(online, run, options):
    planned = plan(run, REFERENCE)
    config = {**planned.weights.config, **options}
    online.add(NAME, altered(planned, run.model_file.read_bytes(), config=config))
    with pytest.raises(zoo.ZooError):
        zoo.load(REFERENCE)


def test_a_repository_without_weights_or_of_no_large_file(online, monkeypatch):
    online.add("org/empty", {"README.md": b"hello"})
    refused("hf:org/empty", HubError, "does not have that file")
    monkeypatch.setattr("hub.loopback.LFS_SUFFIX", ".nothing")
    refused(REFERENCE, HubError, "no digest to check it by")


@pytest.mark.parametrize("reference", ["hf:", "hf:one", "hf:a/b/c", "hf:a/b@", "hf:a/b@../x",
                                       "hf:../b", "hf:a/b@x y", "file:", "hf:a/b\0"])  # fmt: skip
def test_references_that_name_nothing(reference):
    with pytest.raises((UsageError, HubError)):
        zoo.load(reference)
