"""weights_manifest.json says one thing only, or is refused with the reason."""

import json
import runpy

import msgspec
import pytest
from hub.parts import entry
from msgspec.structs import replace
from support import ROOT

from zoo_core.cli.weights import score
from zoo_core.io.errors import ManifestError
from zoo_core.weights import manifest
from zoo_core.weights.manifest import (
    Manifest,
    Weights,
    all_weights,
    backbone_of,
    changing,
    packaged_file,
    parse,
    read,
    write,
)


@pytest.fixture(autouse=True)
def own_manifest(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "own.json"))


def document(**changes):
    return json.loads(msgspec.json.encode(entry())) | changes


def text_of(*entries):
    return json.dumps({"version": 1, "weights": list(entries)}).encode()


def refused(data, words):
    with pytest.raises(ManifestError, match=words):
        parse(data, Manifest, "a manifest")


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "m.json"
    write(path, [entry(name="mlp.b"), entry(name="mlp.a")])
    assert [one.name for one in read(path)] == ["mlp.a", "mlp.b"]
    write(tmp_path / "again.json", read(path))
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_zoos_own_manifest_is_what_make_manifest_writes(tmp_path):
    root, own = ROOT / "weights_manifest.json", tmp_path / "own.json"
    assert manifest.core_manifest() == root and read(root)
    runpy.run_path(str(ROOT / "weights_manifest.py"), run_name="__main__")
    assert own.read_bytes() == root.read_bytes()
    known = read(own)
    gone = replace(known[0], name=f"{known[0].model}.gone")
    online = replace(known[1], name=f"{known[1].model}.online", sources=(f"hf:a/b@{'1' * 40}",))
    write(own, [replace(known[0], sha256="0" * 64), *known[1:], gone, online])
    runpy.run_path(str(ROOT / "weights_manifest.py"), run_name="__main__")
    assert read(own) == sorted([*known, online], key=lambda one: one.name)


def test_the_zoos_own_manifest_lists_what_every_plugin_of_ours_ships():
    ours = {weights.name: weights for weights in read(ROOT / "weights_manifest.json")}
    lists = list(ROOT.glob("plugins/*/zoo_*/weights.json"))
    shipped = {weights.name: weights for path in lists for weights in read(path, path.parent.name)}
    assert ours == {name: replace(one, file="model.safetensors") for name, one in shipped.items()}


def test_one_file_in_two_lists_is_one_entry():
    listed = [(who, weights) for who, weights in all_weights()[0] if weights.plugin == "cnn"]
    names = [weights.name for _, weights in listed]
    assert "cnn.cifar10" in names and len(set(names)) == len(names)
    assert all(who == "plugin 'cnn'" and packaged_file(weights) for who, weights in listed)


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """The zoo's own list and those of two plugins, to be written by the test."""
    core, ours, theirs = (tmp_path / f"{name}.json" for name in ("core", "mlp", "other"))
    plugins = [("plugin 'mlp'", "zoo_mlp", ours), ("plugin 'other'", "other", theirs)]
    monkeypatch.setattr(manifest, "core_manifest", lambda: core)
    monkeypatch.setattr(manifest, "of_plugins", lambda: iter(plugins))
    return core, ours, theirs


def test_sources_of_all_lists_are_together_and_a_package_comes_first(lists):
    core, ours, _ = lists
    inside = entry(file="weights/m.safetensors", sources=("package:weights/m.safetensors",))
    write(core, [entry()])
    write(ours, [inside])
    ((who, weights),) = all_weights()[0]
    assert who == "plugin 'mlp'" and weights.file == entry().file
    assert weights.sources == ("package:zoo_mlp:weights/m.safetensors", *entry().sources)


def test_a_newer_plugin_knows_its_own_weights_better_than_the_zoos_own_list(lists):
    core, ours, theirs = lists
    write(core, [entry()])
    write(ours, [entry(sha256="cd" * 32)])
    assert [weights.sha256 for _, weights in all_weights()[0]] == ["cd" * 32]
    ours.unlink()
    write(theirs, [entry(sha256="cd" * 32)])  # of another plugin's model
    assert len(all_weights()[0]) == 2


def test_an_option_that_is_a_digest_names_other_weights():
    frozen = {"model": "vit_b16_finetune", "plugin": "frozen", "name": "vit_b16_finetune.x"}
    assert backbone_of(entry()) is None
    assert backbone_of(entry(**frozen)) == ""
    for fields in (frozen, {}):
        assert backbone_of(entry(**fields, config={"any": "sha256:ab"})) == "sha256:ab"


OPTIONAL = ("targets", "temperature")


@pytest.mark.parametrize("field", [f for f in Weights.__struct_fields__ if f not in OPTIONAL])
def test_every_field_must_be_there_and_of_its_type(field):
    missing = document()
    del missing[field]
    refused(text_of(missing), f"missing required field `{field}`")
    wrong = [1] if isinstance(document()[field], str | dict) else {"a": {"b": {"c": 1}}}
    refused(text_of(document(**{field: wrong})), "[Ee]xpected")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "mlp"}, {"name": "cnn.made_up"}, {"name": "mlp.Made"}, {"name": "mlp."},
        {"name": "mlp.a.b"}, {"model": "a:b"}, {"plugin": "../x"}, {"plugin": ""},
        {"distribution": "-e ."}, {"distribution": "a b"}, {"distribution": "git+https://x"},
        {"sha256": "ab"}, {"sha256": "AB" * 32}, {"sha256": "ab" * 32 + "\n"},
        {"bytes": -1}, {"bytes": 1.5}, {"bytes": 2**60}, {"bytes": True}, {"parameters": -1},
        {"dtype": "int8"}, {"dtype": "float8"},
        {"file": "../model.safetensors"}, {"file": "/model.safetensors"}, {"file": "model.bin"},
        {"file": "a/../../b.safetensors"}, {"file": "C:/x.safetensors"}, {"file": ""},
        {"file": "a\\..\\b.safetensors"}, {"file": "a\0.safetensors"}, {"file": "a//b.safetensors"},
        {"file": "./a.safetensors"}, {"file": "a\n.safetensors"},
        {"sources": ["hf:org/name"]}, {"sources": ["hf:org/name@main"]},
        {"sources": [f"hf:../name@{'1' * 40}"]}, {"sources": [f"hf:org/na..me@{'1' * 40}"]},
        {"sources": [f"https://x@{'1' * 40}"]}, {"sources": ["package:../x"]},
        {"sources": ["package:/etc/passwd"]}, {"sources": ["package:a:../x"]},
        {"sources": ["package::x"]}, {"sources": ["package:a.b:x"]},
        {"sources": ["package:a:b:x"]}, {"sources": [f"file:relative@{'1' * 40}"]},
        {"sources": [f"file:/a/../b@{'1' * 40}"]}, {"sources": [f"file:/a\0@{'1' * 40}"]},
        {"sources": ["file:/a"]}, {"sources": [f"file:/a@{'g' * 40}"]},
        {"config": {"a": {"b": 1}}}, {"config": {"a": [[[1]]]}}, {"metrics": {"a": "b"}},
        {"metrics": {"a": None}}, {"classes": [1]}, {"unknown": 1},
    ],
    ids=lambda changes: ", ".join(f"{k}={v!r}"[:50] for k, v in changes.items()),
)  # fmt: skip
def test_an_entry_that_says_what_it_may_not_say(changes):
    refused(text_of(document(**changes)), "is not a list of weights")


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\r", "\n", "\x7f", "\x9b", "\u202e", "\u2066"])
@pytest.mark.parametrize(
    "place",
    [
        {"dataset": "{}"}, {"license": "{}"}, {"classes": ["{}"]}, {"metrics": {"{}": 1.0}},
        {"config": {"{}": 1}}, {"config": {"a": "{}"}}, {"recipe": {"{}": 1}},
        {"recipe": {"a": ["{}"]}}, {"preprocess": {"fit": "{}"}}, {"targets": {"names": ["{}"]}},
        {"file": "{}.safetensors"}, {"sources": [f"file:/{{}}@{'1' * 40}"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_letter_that_a_terminal_obeys_is_refused_in_every_field(place, letter):
    for ascii in (True, False):
        whole = {"version": 1, "weights": [document(**place)]}
        text = json.dumps(whole).replace("{}", json.dumps(letter, ensure_ascii=ascii)[1:-1])
        refused(text.encode(), "without control characters|file must be|sources must be|invalid")


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "x" * 501}, {"classes": ["x" * 501]}, {"classes": ["x"] * 65_537},
        {"metrics": {str(n): 1.0 for n in range(1001)}}, {"metrics": {"x" * 501: 1.0}},
        {"config": {"a": "x" * 4097}}, {"config": {"a": 2**63}}, {"config": {"a": [0] * 65_537}},
        {"config": {"a": [[0] * 1001]}}, {"recipe": {str(n): 1 for n in range(1001)}},
        {"sources": [f"hf:org/name@{'1' * 40}"] * 1001}, {"license": "x" * 501},
    ],
    ids=lambda changes: ", ".join(f"{k}={v!r}"[:30] for k, v in changes.items()),
)  # fmt: skip
def test_every_field_of_an_entry_has_a_limit(changes):
    refused(text_of(document(**changes)), "[Ee]xpected `(str|int|array|object)`")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a list of weights"),
        (b"not JSON", "not a list of weights"),
        (b"\xff\xfe", "not a list of weights"),
        (b"[]", "not a list of weights"),
        (b"null", "not a list of weights"),
        (b'{"version": 1}', "weights"),
        (b'{"version": 2, "weights": []}', "version must be 1"),
        (b'{"version": true, "weights": []}', "not a list of weights"),
        (b'{"version": 1, "weights": [], "more": 1}', "unknown field"),
        (b'{"version": 1, "version": 1, "weights": []}', "'version' occurs twice"),
        (b'{"version": 1, "weights": []} x', "not a list of weights"),
        (b'{"version": 1, "weights": ' + b"[" * 100_000, "not a list of weights|too deep"),
        (b"[" * 100_000, "not a list of weights|too deep"),
        (b'{"a":' * 100_000, "not a list of weights|too deep"),
    ],
)
def test_a_document_that_is_no_manifest(data, words):
    refused(data, words)


def test_a_manifest_that_is_too_big_is_not_even_decoded():
    refused(b" " * (manifest.LARGEST + 1), "bytes; .* are allowed")
    with pytest.raises(ManifestError, match="are allowed"):
        parse(b" " * (manifest.LARGEST_ENTRY + 1), Weights, "config.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(number):
    text = text_of(document()).replace(b"0.5}", number.encode() + b"}")
    assert number.encode() in text
    refused(text, "not a list of weights")


KEYS = ['"lr": 0.1', '"test_accuracy": 0.5', '"num_classes": 10', '"license": "mit"', '"size": 32']


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("blank", ["", " ", "\n"])
@pytest.mark.parametrize("disguise", [False, True])
def test_a_key_twice_is_refused_however_it_is_written(key, blank, disguise):
    """Also where the quick way of counting keys is led astray."""
    text = text_of(document(license="mit")).decode()
    assert key in text
    again = key.replace('":', f'"{blank}:')
    changed = text.replace(key, f"{key}, {again}")
    if disguise:  # a text that begins with a colon looks like one key more
        changed = changed.replace('["a", "b"]', '["a", ":b"]')
    refused(changed.encode(), "occurs twice")
    if key == '"lr": 0.1':
        escaped = text.replace(key, f'{key}, "l\\u0072": 0.2')
        refused(escaped.encode(), "occurs twice")


def test_targets_are_there_where_an_image_has_several_and_never_twice():
    several = {"kind": "classes", "thresholds": [0.5, 0.25]}
    text = text_of(document(targets=several)).decode()
    (weights,) = parse(text.encode(), Manifest, "m").weights
    assert weights.targets == several
    plain = msgspec.json.encode(parse(text_of(document()), Manifest, "m").weights[0])
    assert b"targets" not in plain
    twice = text.replace('"targets":', '"targets": {}, "targets":')
    assert twice != text
    refused(twice.encode(), "occurs twice")


def test_odd_but_unique_keys_are_fine():
    text = text_of(document(classes=[":a", '":', "b\\"], recipe={":": 1, '"': 2})).decode()
    (weights,) = parse(text.replace('"lr":', '"lr" :').encode(), Manifest, "m").weights
    assert weights.classes[0] == ":a"


def test_a_name_twice_is_refused():
    refused(text_of(document(), document()), "a name occurs twice")


def test_one_bad_manifest_does_not_hide_the_others(tmp_path, monkeypatch):
    (tmp_path / "own.json").write_text("{")
    good = tmp_path / "good.json"
    write(good, [entry()])
    monkeypatch.setattr(manifest, "core_manifest", lambda: good)
    monkeypatch.setattr(manifest, "of_plugins", lambda: iter(()))
    listed, problems = all_weights()
    assert [weights.name for _, weights in listed] == ["mlp.made_up"] and len(problems) == 1


def test_a_change_is_written_only_if_there_is_one(tmp_path):
    path = tmp_path / "own.json"
    with changing(path) as entries:
        entries["mlp.made_up"] = entry()
    before = path.stat().st_mtime_ns
    with changing(path) as entries:
        entries["mlp.made_up"] = entry()
    assert path.stat().st_mtime_ns == before
    with pytest.raises(RuntimeError), changing(path) as entries:
        entries.clear()
        raise RuntimeError
    assert len(read(path)) == 1


def test_what_cannot_be_read_back_is_not_written(tmp_path):
    wrong = msgspec.structs.replace(entry())
    msgspec.structs.force_setattr(wrong, "bytes", -1)
    with pytest.raises(ManifestError):
        write(tmp_path / "own.json", [wrong])
    assert not (tmp_path / "own.json").exists()


def test_an_entry_of_a_plugin_that_is_not_installed_names_its_package(tmp_path, zoo_command):
    write(tmp_path / "own.json", [entry(name="net.x", model="net", distribution="zoo-net")])
    shown = zoo_command("list", "--weights", ZOO_MANIFEST=str(tmp_path / "own.json")).stdout
    assert "net.x" in shown and "zoo-net" in shown and "50.00 %" in shown
    missing = zoo_command("pull", "net", status=1, ZOO_MANIFEST=str(tmp_path / "own.json"),
                          HF_ENDPOINT="http://127.0.0.1:9").stderr  # fmt: skip
    assert "cannot be reached" in missing


def test_weights_can_be_filtered_by_what_their_models_do(zoo_command):
    def names(*filters):
        return [
            one["name"]
            for one in json.loads(zoo_command("list", "--weights", "--json", *filters).stdout)
        ]

    assert names("--kind", "generation") == ["acgan.cifar10", "cvae_classifier.cifar10"]
    assert "cnn.cifar10" in names("--kind", "classification", "--dataset", "cifar10")
    assert names("--tag", "no-such-tag") == []


def test_the_accuracy_of_a_discriminator_is_no_score():
    figures = {"test_loss": 2.9, "test_discriminator_accuracy": 0.965}
    assert score(figures) == "loss 2.9"
    assert score(figures | {"test_accuracy": 0.5}) == "50.00 %"
    assert score({}) is None
