"""Files and documents of strangers, mutated: each is refused in a sentence, or is what it says.

    python tests/campaigns/mutations.py --kind all --seconds 60 --seed 1
    python tests/campaigns/mutations.py --kind weights --seed 1 --number 4711    # that case again

`mutate` makes a case of a kind from a random generator, `judge` raises unless all is well with it:
nothing but a ZooError comes out, altered bytes do not load, and what loads is what the file says.
A kind is a row of `KINDS`; data that consists of several files is one `packed` case.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import itertools
import json
import logging
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]  # where it is run as a script
from campaigns.tally import Tally  # noqa: E402
from hub.parts import entry, join_file, split_file  # noqa: E402
from zoo_tune.search import Search, SearchFolder  # noqa: E402

import zoo  # noqa: E402
from zoo_core.data.features import FeatureFile, FeatureKey  # noqa: E402
from zoo_core.data.table_files import table_file  # noqa: E402
from zoo_core.io.blocks import BlockStore  # noqa: E402
from zoo_core.io.console import UNPRINTABLE, plain  # noqa: E402
from zoo_core.io.documents import document_digest  # noqa: E402
from zoo_core.io.tensors import to_bytes  # noqa: E402
from zoo_core.publish.reproduce import summary  # noqa: E402
from zoo_core.runs.compare import compare, row_of  # noqa: E402
from zoo_core.runs.run import Run  # noqa: E402
from zoo_core.runs.summary import curves_of, summarize_any  # noqa: E402
from zoo_core.spec.framework import check_options, framework_of  # noqa: E402
from zoo_core.train.checkpoint import Checkpoints, State  # noqa: E402
from zoo_core.train.runner import resume, train  # noqa: E402
from zoo_core.use.load import load_model  # noqa: E402
from zoo_core.weights.manifest import Manifest, Weights, parse  # noqa: E402
from zoo_core.weights.records import read_record  # noqa: E402
from zoo_core.weights.references import obtain  # noqa: E402
from zoo_core.weights.statements import Statement, statements  # noqa: E402
from zoo_core.weights.verify import Located, check, read_tensors  # noqa: E402

CASES = Path(__file__).parent / "cases"
MEMORY = 1 << 30  # bytes more than at the start; what asks for more fails here, not the machine
HANGS = 60  # seconds for one case; the slowest takes a few tenths of one


# ---------------------------------------------------------------- how to mutate

WORDS = (
    "", "x", "x" * 600, "\x1b]0;t\x07\x9b2J\r", "\u202ea\u2066", "\0", "\ud800", "a\nb",
    "../../x", "/dev/zero", "C:\\x", "nan", "None", "1e999", "é" * 300, "float16", "BF16", "latest",
    "mlp/mlp", "os:system", "sha256:" + "0" * 64, "🦓", "complete", "running", "classes", "numbers",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 3, 7, 255, 1024, 4096, 50_000, 2**31, 2**31 - 1, 2**53 + 1, 2**63, 2**64, -(2**63),
    10**12, 10**30, 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e-45, 3.5e38, 1e300, 1.8e308, -1e300,
    float("nan"), float("inf"), float("-inf"), True, False,
)  # fmt: skip
KEY = re.compile(r'"\w+":')
RAW = "@raw@"  # stands for text that json would not write
TEXTS = (
    "[" * 2000 + "]" * 2000, '{"a":' * 300 + "1" + "}" * 300, "9" * 5000, "9" * 400, "-", "1e400",
    '"\\ud800"', "[" + "0," * 3000 + "0]", "{}", "[]", "[[[]]]", "tru", "'a'", "1_000", "0x10",
    '"\\u0000"', "",
)  # fmt: skip


def nasty(rng: random.Random, depth: int = 0) -> Any:
    """A value that nobody expects."""
    sort = rng.randrange(8 if depth < 3 else 5)
    if sort < 2:
        return rng.choice(NUMBERS)
    if sort == 2:
        return rng.choice(WORDS) if rng.random() < 0.98 else "x" * 70_000
    if sort == 3:
        return rng.choice((None, [], {}, RAW))
    if sort == 4:
        return rng.choice((rng.randrange(-10, 100), rng.random(), rng.getrandbits(70)))
    if sort == 5:
        return [nasty(rng, 3)] * rng.choice((1, 2, 3, 10, 1000))  # of a plain value
    if sort == 6:
        return [nasty(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(WORDS): nasty(rng, depth + 1) for _ in range(rng.randrange(3))}


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    found, left = [], [document]
    while left:
        holder = left.pop()
        inside = enumerate(holder) if isinstance(holder, list) else holder.items()
        for key, item in inside:
            found.append((holder, key))
            if isinstance(item, dict | list):
                left.append(item)
    return found


def mutated_document(rng: random.Random, document: Any) -> Any:
    """The document with something else in one place or several; it is changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        found = places(document)
        if not found:
            return nasty(rng)
        holder, key = rng.choice(found)
        sort = rng.randrange(10)
        if sort < 6:
            holder[key] = nasty(rng)
        elif sort == 6:
            del holder[key]
        elif sort == 7:
            other, at = rng.choice(found)
            holder[key] = json.loads(json.dumps(other[at]))
        elif sort == 8 and isinstance(holder, dict):
            holder[rng.choice(WORDS)] = holder[key] if rng.random() < 0.5 else nasty(rng)
        elif isinstance(holder[key], list) and len(holder[key]) < 1000:
            holder[key] = (holder[key] or [0]) * rng.choice((0, 2, 100))
        elif isinstance(holder[key], int | float):
            holder[key] = rng.choice((-1, 2, 10, 0.1, 1e6)) * holder[key]
        else:
            holder[key] = nasty(rng)
    return document


def text_of(rng: random.Random, document: Any, indent: int | None = None) -> bytes:
    """A document as JSON, now and then with a key twice or with what json would not write."""
    text = json.dumps(document, indent=indent, ensure_ascii=rng.random() < 0.5)
    if f'"{RAW}"' in text:
        text = text.replace(f'"{RAW}"', rng.choice(TEXTS))
    if rng.random() < 0.05 and (keys := [*itertools.islice(KEY.finditer(text), 100)]):
        at = rng.choice(keys)
        text = f"{text[: at.start()]}{at[0]} {rng.choice(TEXTS) or 0},{text[at.start() :]}"
    return text.encode("utf-8", "surrogatepass")


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """The bytes with some changed, cut out, put in, repeated or exchanged."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, length = rng.randrange(len(changed) + 1), rng.choice((1, 2, 4, 8, 40))
        sort = rng.randrange(7)
        if sort < 2:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif sort == 2:
            del changed[at : at + length]
        elif sort == 3:
            changed[at:at] = rng.randbytes(length)
        elif sort == 4:
            changed[at:at] = changed[at : at + length] * rng.choice((1, 2, 100))
        elif sort == 5:
            changed[at : at + length] = bytes(length) if rng.random() < 0.5 else b"\xff" * length
        else:
            del changed[at:]
    return bytes(changed)


def mutated_json(rng: random.Random, text: bytes, indent: int | None = None) -> bytes:
    if rng.random() < 0.2:
        return mutated_bytes(rng, text)
    return text_of(rng, mutated_document(rng, json.loads(text)), indent)


def mutated_lines(rng: random.Random, text: bytes) -> bytes:
    """JSON in lines: one of them mutated, or left out, or all in another order."""
    lines = text.splitlines()
    if not lines or rng.random() < 0.15:
        return mutated_bytes(rng, text)
    at = rng.randrange(len(lines))
    lines[at] = mutated_json(rng, lines[at])
    if rng.random() < 0.2:
        rng.shuffle(lines)
        del lines[rng.randrange(len(lines) + 1) :]
    return b"\n".join(lines) + b"\n"


def mutated_tensors(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file with something else in its bytes, its header, or what it tells."""
    sort = rng.randrange(10)
    if sort == 0:
        return mutated_bytes(rng, data)
    if sort == 1:  # the length of the header, where a bit changes a lot
        number = rng.choice((rng.getrandbits(64), rng.randrange(4096), 2**63, 2**20, len(data)))
        return number.to_bytes(8, "little") + data[8:]
    header, body = split_file(data)
    about = json.loads(header.get("__metadata__", {}).get("zoo", "{}"))
    if sort == 2:
        tensor = header[rng.choice([name for name in header if name != "__metadata__"])]
        field = rng.choice(("dtype", "shape", "data_offsets"))
        dtypes = ("F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3")
        numbers = [rng.choice((*NUMBERS, rng.randrange(len(body)))) for _ in range(2)]
        tensor[field] = rng.choice(dtypes) if field == "dtype" else numbers
    elif sort == 3:  # numbers that are not finite, or hardly
        at = 4 * rng.randrange(len(body) // 4)
        odd = np.float32(rng.choice((np.nan, np.inf, 3e38, 1e-45, 0))).tobytes()
        body = body[:at] + odd + body[at + 4 :]
    elif sort < 7 and about:
        mutated_document(rng, about)
        header["__metadata__"]["zoo"] = text_of(rng, about).decode("utf-8", "surrogatepass")
    else:
        mutated_document(rng, header)
    return join_file(text_of(rng, header), body)


def packed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    parts = []
    while data:
        size = 4 + int.from_bytes(data[:4], "little")
        parts.append(data[4:size])
        data = data[size:]
    return parts


# ---------------------------------------------------------------- what is mutated

OPTIONS = {"hidden": (4,), "image_size": 4, "in_channels": 1, "num_classes": 3}
IMAGE = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)


@functools.cache
def weights() -> bytes:
    """A small mlp, complete with what it says about itself."""
    mlp = zoo.info("mlp")
    config = check_options(mlp, OPTIONS)
    spec = framework_of(mlp).tensor_spec(mlp, config)
    generator = np.random.default_rng(0)
    arrays = {n: generator.normal(size=shape).astype("float32") for n, (shape, _) in spec.items()}
    preprocess = {"size": 4, "channels": 1, "mean": [0.5], "std": [0.5], "stored_size": 4,
                  "stored_channels": 1, "resize": 5, "interpolation": "bilinear"}  # fmt: skip
    targets = {"kind": "classes", "mean": [0.1, 0.2, 0.3], "thresholds": [0.5, 0.5, 0.25]}
    about = {"model": "mlp/mlp", "config": config, "dataset": "x", "classes": ["a", "b", "c"],
             "preprocess": preprocess, "targets": targets}  # fmt: skip
    return to_bytes(arrays, json.dumps(about))


def listed(**changes: Any) -> dict[str, Any]:
    """The entry of a manifest for these weights."""
    about = json.loads(split_file(weights())[0]["__metadata__"]["zoo"])
    del about["model"]
    known = {"sha256": sha256(weights()), "bytes": len(weights()), "parameters": 83}
    found: dict[str, Any] = json.loads(msgspec.json.encode(entry(**about, **known)))
    return found | changes


@functools.cache
def manifest() -> bytes:
    other = listed(name="mlp.other", sources=[f"file:/shared@{'1' * 40}", "package:x.safetensors"])
    return json.dumps({"version": 1, "weights": [listed(), other]}).encode()


@functools.cache
def a_run() -> dict[str, bytes]:
    """The files of a run that is complete, and its checkpoint."""
    settings = {"epochs": 2, "data": {"train_size": 32, "test_size": 16}, "model": {"hidden": (4,)}}
    with tempfile.TemporaryDirectory() as folder:
        run = train("mlp", "synthetic", settings=settings, runs=Path(folder), quiet=True,
                    device="cpu").run  # fmt: skip
        files = {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}
        tensors = {"model.x": np.arange(8, dtype=np.float32), "rng": np.arange(5, dtype=np.uint8)}
        values = {"epoch": 1, "step": 3, "learner": {"lr": 0.1, "scale": [1, 2]}, "best": None}
        path = Checkpoints(Path(folder)).save(7, State(tensors, values))
        pair = path.read_bytes(), path.with_suffix(".safetensors").read_bytes()
        return files | {"checkpoint": packed(*pair)}


def a_statement() -> bytes:
    one = Statement(
        of="mlp.cifar10", verdict="interval", sha256="0" * 64, found="1" * 64, dtype="float16",
        run="again", created="2026-11-18T20:41:36+00:00", trained="2" * 64, epochs=13,
        different=["threads was 1 and is now 2"], first_epoch=2, test="McNemar, mid-p", p=0.4,
        figures={"test_accuracy": (0.59, 0.6), "test_loss": (1.2, None)}, interval=(-0.01, 0.02),
        dataset="3" * 64, recipe={"epochs": 13}, environment={"processor_flags": ["avx"]},
    )  # fmt: skip
    return msgspec.json.encode(one) + b"\n"


@functools.cache
def a_search() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        data = {"train_size": 32, "test_size": 16}
        result = zoo.tune(
            "mlp", "synthetic", space=["lr=choice:0.01,0.1"], trials=2, searcher="grid", quiet=True,
            runs=folder, device="cpu", epochs=1, data=data, model={"hidden": (4,)},
        )  # fmt: skip
        found = SearchFolder(Path(result.path))
        return packed(found.settings_file.read_bytes(), found.trials_file.read_bytes())


@functools.cache
def a_store() -> bytes:
    """The features of 3 images: the record and the file."""
    from zoo_core.data.dataset import Split

    split = Split(np.zeros((3, 1, 1, 1), np.uint8), np.arange(3))
    key = FeatureKey(backbone="b", structure="s", weights="w", layer="l", pooling="p",
                     preprocess={"size": 4}, precision="float32", dtype="float32",
                     dataset="d", split="train", view="plain")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = BlockStore(Path(folder) / "kept.safetensors")
        layout = key.layout(split, 2, classes=["a"], dataset="d")
        with store.writing(layout) as writer:
            for block in writer:
                writer.commit(block, np.ones((3, 2), np.float32))
        return packed(store.record.read_bytes(), store.path.read_bytes())


TABLES = {
    ".csv": b"image,split,label,age\na.png,train,cat,3\nb.png,train,dog,4.5\nc.png,test,cat,\n",
    ".jsonl": b'{"file_name": "a.png", "label": ["cat", "x"], "n": 1}\n'
    b'{"file_name": "b.png", "label": "dog", "n": 2.5}\n{"file_name": "c.png", "label": null}\n',
}


# ---------------------------------------------------------------- what must hold


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def shown(*texts: object) -> None:
    """A terminal can show them, and obeys nothing in them."""
    text = plain("\n".join(map(str, texts)))
    text.encode()
    assert not UNPRINTABLE.search(text.replace("\n", "").replace("\t", ""))


def digest_judge(data: bytes, folder: Path) -> None:
    """Only the original passes its digest."""
    path = written(folder, "digest.safetensors", data)
    try:
        read_tensors(path, sha256=sha256(weights()), size=len(weights()))
    finally:
        refused = sys.exc_info()[1] is not None
        assert refused == (data != weights()), "altered bytes load, or the original does not"


def same(model: Any, data: bytes) -> None:
    """A loaded model is what its file says."""
    header, body = split_file(data)
    about = model.zoo
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    spec = framework_of(about.entry).tensor_spec(about.entry, about.config)
    assert set(state) == set(spec) == set(header) - {"__metadata__"}
    for name, array in state.items():
        begin, end = header[name]["data_offsets"]
        assert list(array.shape) == header[name]["shape"] and np.isfinite(array).all()
        if header[name]["dtype"] == "F32":
            assert array.tobytes() == body[begin:end]
    assert about.digest == sha256(data)
    outputs = about.config["num_classes"]
    if about.targets.names:
        (prediction,) = zoo.predict(model, IMAGE)
        assert len(about.targets.names) == outputs and finite(prediction.answer)
        shown(prediction, *prediction.words)


def finite(document: Any) -> bool:
    if isinstance(document, Mapping):
        return all(map(finite, document.values()))
    if isinstance(document, list | tuple):
        return all(map(finite, document))
    return not isinstance(document, float) or math.isfinite(document)


def weights_judge(data: bytes, folder: Path) -> None:
    path = written(folder, "weights.safetensors", data)
    same(load_model(check(Located(reference="it", source="it", path=path))), data)


def manifest_judge(data: bytes, folder: Path) -> None:
    kind = Weights if data.lstrip().startswith(b'{"name') else Manifest
    found = parse(data, kind, "it")
    assert parse(msgspec.json.encode(found), kind, "it again") == found
    document = msgspec.to_builtins(found)
    values = [key for _, key in places(document)] + [
        holder[key] for holder, key in places(document)
    ]
    assert not any(UNPRINTABLE.search(text) for text in values if isinstance(text, str))


def config_judge(data: bytes, folder: Path) -> None:
    """A config.json beside a file whose digest and size it declares."""
    path = folder / "model.safetensors"
    if not path.exists():
        path.write_bytes(weights())
    written(folder, "config.json", data)
    model = load_model(obtain(str(path)))
    same(model, weights())


def checkpoint_judge(data: bytes, folder: Path) -> None:
    record, tensors = unpacked(data)
    written(folder, "00000007.json", record)
    written(folder, "00000007.safetensors", tensors)
    state, warnings = Checkpoints(folder).load()
    assert (state is None) == bool(warnings)
    shown(*warnings)
    if state:
        about = json.loads(record)
        assert sha256(tensors) == about["sha256"]
        if digest := about.pop("digest", ""):
            assert digest == document_digest(about), "an altered document loads"
        header, body = split_file(tensors)
        for name, array in state.tensors.items():
            begin, end = header[name]["data_offsets"]
            assert array.tobytes() == body[begin:end]


def in_run(folder: Path, **files: bytes) -> Run:
    for name, content in (a_run() | files).items():
        if name in files or (name != "checkpoint" and not (folder / name).exists()):
            written(folder, name, content)
    return Run(folder)


def run_judge(data: bytes, folder: Path) -> None:
    run = in_run(folder, **{"run.json": data})
    look_at(run)
    with contextlib.suppress(zoo.ZooError):
        shown(read_record(str(run.settings_file)))
    rare = zlib.crc32(data) % 8  # the rest takes ten times as long
    with contextlib.suppress(zoo.ZooError):
        if rare < 2:
            model = load_model(obtain(str(run.path)))
            assert model.zoo.digest == sha256(run.model_file.read_bytes())
    with contextlib.suppress(zoo.ZooError), mock.patch("zoo_core.train.runner.execute"):
        if rare == 0:  # up to the training
            resume(str(run.path), quiet=True)


def statements_judge(data: bytes, folder: Path) -> None:
    written(folder, "statements.jsonl", data)
    for one in statements(folder / "statements.jsonl"):
        shown(one)
        shown(*summary(one))


def look_at(run: Run) -> None:
    """All that zoo runs, zoo compare and their tables read."""
    summary = summarize_any(run)
    shown(summary.shown_status, summary.shown_epochs, summary.error, summary.model, summary)
    json.dumps(msgspec.to_builtins(summary), default=str)
    with contextlib.suppress(zoo.ZooError):
        for comparison in compare([row_of(run), row_of(run)]):
            shown(*comparison.apart, *comparison.unlike, *comparison.labels)


def metrics_judge(data: bytes, folder: Path) -> None:
    run = in_run(folder, **{"metrics.jsonl": data})
    look_at(run)
    with contextlib.suppress(zoo.ZooError):
        curves_of(run.metrics())


def search_judge(data: bytes, folder: Path) -> None:
    settings, trials = unpacked(data)
    written(folder, "search.json", settings)
    written(folder, "trials.jsonl", trials)
    search = Search(folder)
    shown(summarize_any(SearchFolder(folder)))
    search.plan()
    search.trials()


def store_judge(data: bytes, folder: Path) -> None:
    record, content = unpacked(data)
    file = FeatureFile(folder / "kept.safetensors")
    file.record.write_bytes(record)
    file.path.write_bytes(content)
    with contextlib.suppress(zoo.ZooError):
        file.verify()
    features = file.load()
    if features is not None and file.record.read_bytes() == unpacked(a_store())[0]:
        assert content == unpacked(a_store())[1]


def table_judge(data: bytes, folder: Path) -> None:
    for name in "abc":
        if not (folder / f"{name}.png").exists():
            written(folder, f"{name}.png", b"")
    suffix, _, text = data.partition(b":")
    path = written(folder, f"table{suffix.decode()}", text)
    found = table_file(path=str(path), image=None, target=None, labels="auto", root=None)
    for row in range(len(found.names)):
        place = Path(found.read(row)).resolve()
        assert place.is_relative_to(folder.resolve())
    if found.labels is not None:
        assert len(found.labels) == len(found.names) and np.isfinite(found.labels).all()
    shown(*(found.classes or ()), *(one.reason for one in found.left_out), *found.remarks)


# ---------------------------------------------------------------- the kinds


class Kind(NamedTuple):
    mutate: Callable[[random.Random], bytes]
    judge: Callable[[bytes, Path], None]


def _config(rng: random.Random) -> bytes:
    return mutated_json(rng, json.dumps(listed()).encode())


def _told(rng: random.Random) -> bytes:
    """Only what a file says of its model, so that the rest is not in the way."""
    header, body = split_file(weights())
    about = json.loads(header["__metadata__"]["zoo"])
    part = rng.choice(("preprocess", "targets", "config", "classes"))
    about[part] = mutated_document(rng, about[part])
    header["__metadata__"]["zoo"] = text_of(rng, about).decode("utf-8", "surrogatepass")
    return join_file(header, body)


def _checkpoint(rng: random.Random) -> bytes:
    record, tensors = unpacked(a_run()["checkpoint"])
    if rng.random() < 0.25:
        return packed(mutated_json(rng, record, 2), tensors)
    about = json.loads(record)
    if rng.random() < 0.5:
        about["values"] = mutated_document(rng, about["values"])
    else:
        tensors = mutated_tensors(rng, tensors)
    if rng.random() < 0.5:  # the digests made right
        about["sha256"] = sha256(tensors)
        about["digest"] = document_digest({k: v for k, v in about.items() if k != "digest"})
    return packed(text_of(rng, about, 2), tensors)


def _manifest(rng: random.Random) -> bytes:
    return mutated_json(rng, manifest() if rng.random() < 0.5 else json.dumps(listed()).encode())


def _search(rng: random.Random) -> bytes:
    settings, trials = unpacked(a_search())
    if rng.random() < 0.5:
        return packed(mutated_json(rng, settings, 2), trials)
    return packed(settings, mutated_lines(rng, trials))


def _store(rng: random.Random) -> bytes:
    record, content = unpacked(a_store())
    sort = rng.randrange(3)
    if sort == 0:
        return packed(mutated_json(rng, record), content)
    content = mutated_tensors(rng, content)
    if sort == 1:  # the digest made right
        record = json.dumps(json.loads(record) | {"sha256": sha256(content)}).encode()
    return packed(record, content)


def _table(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return b".jsonl:" + mutated_lines(rng, TABLES[".jsonl"])
    cells = re.split(b"([,\n])", TABLES[".csv"])
    for _ in range(rng.choice((1, 1, 2, 5))):
        value = rng.choice((rng.choice(WORDS), rng.choice(TEXTS), str(rng.choice(NUMBERS))))
        cells[rng.randrange(len(cells))] = value.encode("utf-8", "surrogatepass")
    text = b"".join(cells)
    return b".csv:" + (mutated_bytes(rng, text) if rng.random() < 0.3 else text)


_KINDS = {
    "digest": Kind(lambda rng: mutated_tensors(rng, weights()), digest_judge),
    "weights": Kind(lambda rng: mutated_tensors(rng, weights()), weights_judge),
    "told": Kind(_told, weights_judge),
    "manifest": Kind(_manifest, manifest_judge),
    "config": Kind(_config, config_judge),
    "checkpoint": Kind(_checkpoint, checkpoint_judge),
    "run": Kind(lambda rng: mutated_json(rng, a_run()["run.json"], 2), run_judge),
    "metrics": Kind(lambda rng: mutated_lines(rng, a_run()["metrics.jsonl"]), metrics_judge),
    "statements": Kind(lambda rng: mutated_lines(rng, a_statement()), statements_judge),
    "search": Kind(_search, search_judge),
    "store": Kind(_store, store_judge),
    "table": Kind(_table, table_judge),
}
KINDS: tuple[str, ...] = tuple(_KINDS)


def mutate(rng: random.Random, kind: str) -> bytes:
    return _KINDS[kind].mutate(rng)


def judge(kind: str, data: bytes, folder: Path) -> None:
    """Raise unless the case is refused with a ZooError, or is right; folder: its own, to write."""
    folder = folder / kind
    if not folder.exists():
        folder.mkdir()
    try:
        _KINDS[kind].judge(data, folder)
    except zoo.ZooError as error:
        shown(error, error.hint)


def case(kind: str, seed: int, number: int) -> bytes:
    return mutate(random.Random(f"{kind} {seed} {number}"), kind)


def run(kind: str, seed: int, seconds: float, folder: Path, *, most: int = 0) -> Tally:
    """Mutate for so long, or so many; what failed is told by kind, seed and number, and kept."""
    tally = Tally(0, 0, [])
    with bounded(folder, kind):
        until = time.monotonic() + seconds
        while time.monotonic() < until and not (most and tally.tried >= most):
            data = case(kind, seed, tally.tried)
            try:
                signal.alarm(HANGS)
                judge(kind, data, folder)
                tally.survived += 1
            except Exception as error:
                name = f"{kind}-{seed}-{tally.tried}"
                told = f"{name}: {type(error).__name__}: {error}"
                tally.failed.append(told[:300])
                written(folder, f"{name}.bin", data)
            finally:
                signal.alarm(0)
            tally.tried += 1
    return tally


@contextlib.contextmanager
def bounded(folder: Path, kind: str) -> Iterator[None]:
    """Little memory, no endless case, a cache of its own, and nothing printed."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"it takes more than {HANGS} s")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, hangs)
    logger, level = logging.getLogger("zoo"), logging.getLogger("zoo").level
    try:
        logger.setLevel(logging.CRITICAL)
        with mock.patch.dict(os.environ, {"ZOO_CACHE": str(folder / "cache")}):
            with contextlib.suppress(Exception):
                for number in range(20):  # imports and makes what it needs
                    judge(kind, case(kind, 0, number), folder)
            if sys.platform == "linux":
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                most = pages * resource.getpagesize() + MEMORY
                resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)
        logger.setLevel(level)


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kind", default="all", choices=["all", *KINDS])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=10, help="for each kind")
    options.add_argument("--number", type=int, help="only this case, with its traceback")
    chosen = options.parse_args(arguments)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        if chosen.number is not None:
            with bounded(folder, chosen.kind):
                data = case(chosen.kind, chosen.seed, chosen.number)
                print(data[:3000])
                judge(chosen.kind, data, folder)
            return
        for kind in KINDS if chosen.kind == "all" else (chosen.kind,):
            with bounded(folder, kind):
                started = time.process_time()
                tally = run(kind, chosen.seed, chosen.seconds, folder)
            rate = tally.tried / (time.process_time() - started)  # other processes do not count
            told = (
                f"{tally.tried:,} tried, {tally.survived:,} survived, {len(tally.failed):,} failed"
            )
            print(f"{kind:10} seed {chosen.seed}: {told}, {rate:,.0f} a second", flush=True)
            for line in tally.failed[:10]:
                print(f"  {line}")


if __name__ == "__main__":
    main()
