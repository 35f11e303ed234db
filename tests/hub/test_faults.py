"""A hub that misbehaves: one sentence, nothing on disk, and the old copy stays."""

import itertools
import json
import re
import shutil
import threading

import pytest
from hub.loopback import Fault, Hub
from hub.parts import NAME, REFERENCE, altered, files_of, on_disk

import zoo
from zoo_core.doctor import examine
from zoo_core.io import net
from zoo_core.io.errors import HubError, ManifestError, SourceUnavailable, UsageError, WeightsError
from zoo_core.io.files import cache_dir
from zoo_core.publish.publish import plan, publish
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


def cache_clear():
    shutil.rmtree(cache_dir("weights"))


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
        (403, "", r"refuses access to it \(403\)"),
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


def fetched(hub, file=FILE):
    return len([one for one in hub.log if one[0] == "GET" and file in one[1]])


@pytest.mark.parametrize("file", [FILE, "/config.json"])
@pytest.mark.parametrize("change", [lambda data: data[:-100], lambda data: data + b" " * 2_000_000])
def test_a_wrong_size_is_fetched_once_more_then_refused(online, run, said, file, change):
    online.faults.append(Fault("GET", file, change=change, times=1))
    assert answers(zoo.load(REFERENCE)) == answers(zoo.load(run.path))
    assert said()[0].endswith("; fetching it once more")
    cache_clear()
    online.faults[:] = [Fault("GET", file, change=change)]
    online.log.clear()
    words = f"{file[1:]} (has another size than the hub says|is too large: at most .* are read)"
    refused(REFERENCE, HubError, words)
    assert fetched(online, file) == 2


def test_a_body_that_breaks_off(online):
    online.faults.append(Fault("GET", FILE, change=lambda data: data[:-100], length=False))
    refused(REFERENCE, HubError, "stopped answering")


def test_a_web_page_in_place_of_a_file_is_called_one(online, run):
    page = b"<!DOCTYPE html><title>Log in</title>"
    html = {"Content-Type": "text/html"}
    for file, name in (("/api/models/", "its answer"), ("/config.json", "config.json"),
                       (FILE, "model.safetensors")):  # fmt: skip
        for fault in (
            Fault("GET", file, change=lambda _: page),
            Fault("GET", file, change=lambda data: page.ljust(len(data))),
            Fault("HEAD" if "." in file else "GET", file, headers=html),
        ):
            online.faults[:] = [fault]
            assert "login page" in refused(REFERENCE, HubError, f"{name} is a web page").hint
    online.faults[:] = [Fault("", "/api/models/", status=503, change=lambda _: page, headers=html)]
    refused(REFERENCE, HubError, r"the hub failed \(503\)")


def test_a_drip_ends(online, monkeypatch):
    """A server that would go on for ever; of the limit, only the time is shortened."""
    monkeypatch.setattr("zoo_core.io.net.PACE_SECONDS", 0.3)
    sent = []

    def drip(data):
        for byte in iter(lambda: data[:1], None):
            threading.Event().wait(0.01)
            sent.append(byte)
            yield byte

    for file in ("/api/models/", "/config.json", FILE):
        online.faults[:] = [Fault("GET", file, pieces=drip)]
        online.log.clear()
        refused(REFERENCE, HubError, "the hub is too slow: .* B in . seconds")
        assert fetched(online, file) == 1 and len(sent) < 10_000


def test_a_drip_over_many_connections_ends(online, monkeypatch):
    """Each brings one byte, so that the client counts it as progress and asks again."""
    clock = itertools.count(step=7)  # seconds; the client waits between its attempts
    monkeypatch.setattr("zoo_core.io.net.time.monotonic", lambda: float(next(clock)))
    online.faults.append(Fault("GET", FILE, pieces=lambda data: [data[:1]]))
    refused(REFERENCE, HubError, "the hub is too slow")
    assert 2 <= fetched(online) < 20


def test_slow_is_less_than_1000_bytes_a_second_over_a_minute(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("zoo_core.io.net.time.monotonic", lambda: now[0])

    def come(size, seconds):
        pace = net.Pace("it")
        for _ in range(seconds):
            now[0] += 1
            pace.reached(pace.total + size)

    come(1000, 600)
    come(0, 60)
    come(10, 60)
    with pytest.raises(SourceUnavailable, match="it is too slow: 54.9 kB in 61 seconds"):
        come(900, 600)


def test_an_endless_answer_ends(online):
    def endless(data):
        yield data
        while True:
            yield bytes(65_536)

    closed = {"Content-Length": None, "Connection": "close"}
    for file in ("/config.json", FILE):
        online.faults[:] = [Fault("GET", file, headers=closed, pieces=endless)]
        refused(REFERENCE, HubError, f"{file[1:]} is too large: at most .* are read")


def test_nobody_waits_for_as_long_as_a_hub_says(online, slept):
    for header in ({"Retry-After": "999999999"}, {"RateLimit": '"api";r=0;t=99999999'}):
        online.faults[:] = [Fault("GET", FILE, status=429, headers=header)]
        refused(REFERENCE, HubError, "too many requests")
    assert slept and max(slept) <= 10


def test_the_hubs_own_words_are_not_printed(online):
    words = b'{"error": "\\u001b]0;owned\\u0007"}'
    online.faults.append(Fault("", "/api/models/", status=418, change=lambda _: words))
    refused(REFERENCE, HubError, r"hf:org/shapes: the hub refused the request \(418\)\n")


@pytest.mark.parametrize("edit", [
    {"sha": None}, {"sha": "main"}, {"sha": 7}, {"siblings": "x"}, {"siblings": [{"rfilename": 7}]},
    {"siblings": [{"rfilename": "/etc/x.png", "size": 1, "blobId": "a"}]},
    {"siblings": [{"rfilename": "../x.png", "size": 1, "blobId": "a"}]},
    {"siblings": [{"rfilename": "x.png", "size": -1, "blobId": "a"}]},
    {"siblings": [{"rfilename": "x.png", "size": 1, "blobId": "../a"}]},
])  # fmt: skip
def test_a_list_of_files_that_cannot_be_one(online, edit):
    def change(data):
        return json.dumps(json.loads(data) | edit).encode()

    online.faults.append(Fault("GET", "/api/models/", change=change))
    refused(REFERENCE, HubError, "gave an answer that cannot be used")


@pytest.mark.parametrize("given", [
    "", " ", "huggingface.co", "http://", "https://", "ftp://hub.example", "http://hub:99999",
    "http://hub:0", "http://hub:port", "http://my hub", "http://[::1", "http://hub/?a=b", "://",
    "file:///etc", "http://hub#x", "http:hub", "\x1b[31m",
])  # fmt: skip
def test_an_address_that_is_none_is_named(given, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", given)
    words = re.escape(f"HF_ENDPOINT is {given!r}, which is not the address of a hub")
    assert "unset it" in refused(REFERENCE, HubError, words).hint


def test_the_doctor_names_an_address_that_is_none(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "hub")
    assert "HF_ENDPOINT is 'hub'" in next(one.words for one in examine() if one.about == "hub")


@pytest.mark.parametrize("given", ["http://a..b", "http://" + "a" * 300, "http://nowhere.invalid"])
def test_a_host_that_cannot_be_is_named(given, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", given)
    refused(REFERENCE, HubError, f"{given[7:]} cannot be reached")


def test_a_proxy_that_cannot_be_is_a_sentence(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:99999")
    refused(REFERENCE, HubError, "hub.example cannot be reached")


def test_403_speaks_of_writing_only_to_who_publishes(online, run, token):
    online.faults.append(Fault("", "/api/", status=403))
    pulled = refused(REFERENCE, HubError, r"refuses access to it \(403\)")
    assert "writ" not in f"{pulled} {pulled.hint}"
    with pytest.raises(HubError, match=r"you may not write to it \(403\)") as caught:
        publish(plan(run, REFERENCE))
    assert "may write" in caught.value.hint


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


def test_no_token_goes_where_an_upload_is_to_be_confirmed(hub, run, token):
    with Hub() as other:

        def elsewhere(data):
            document = json.loads(data)
            for one in document["objects"]:
                one["actions"]["verify"]["href"] = f"{other.url}/uploaded"
            return json.dumps(document).encode()

        hub.faults.append(Fault("POST", "/objects/batch", change=elsewhere))
        with pytest.raises(HubError):  # the other one does not know the file
            publish(plan(run, REFERENCE))
        asked = [headers for _, path, headers in other.log if path == "/uploaded"]
        assert asked and not any("authorization" in map(str.lower, h) for h in asked)


def test_a_file_of_a_folder_that_is_too_large_is_not_copied(run, tmp_path, monkeypatch):
    done = publish(plan(run, f"file:{tmp_path / 'shared'}"))
    with (tmp_path / "shared" / done.revision / "model.safetensors").open("rb+") as file:
        file.truncate(3 << 40)  # of holes: a copy would end in a full disk
    what = "has 3,298,534,883,328 bytes instead of at most"
    refused(done.weights.sources[0], WeightsError, f"is inconsistent|{what}")
    refused(done.weights.name, HubError, what)


def test_a_config_that_contradicts_the_file_beside_it(online, run):
    files = files_of(plan(run, REFERENCE))
    other = files["model.safetensors"] + b"\0" * 8
    online.add(NAME, {"model.safetensors": other})
    refused(REFERENCE, WeightsError, "is inconsistent")


@pytest.mark.parametrize("config", [b"", b"{", b"[]", b"<xml>", b'{"model": "os:system"}', b"\xff"])
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
