"""zoo predict --out: tables of very many images, in blocks, parts and several processes."""

import csv
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fixtures import kills
from PIL import Image
from pyarrow import parquet

import zoo
from zoo_core.io.engine import THREADS
from zoo_core.use import many

HERE = Path(__file__).parent
MODEL = "lenet_numpy.mnist"


@pytest.fixture
def photos(tmp_path):
    """Twenty images in two folders, and one that is none."""
    rng = np.random.default_rng(0)
    for number in range(20):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (30, 40), np.uint8)).save(path)
    (tmp_path / "photos" / "a" / "99.png").write_bytes(b"nonsense")
    return tmp_path / "photos"


def read(path):
    """Rows of a table, whatever its format, with the same cells."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_each_image_is_a_row_with_the_answer_of_predict(photos, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    done = zoo.predict_many(MODEL, photos, out, top=2)
    assert (done.path, done.images, done.broken) == (out, 21, 1)
    rows = {row["image"]: row for row in read(out)}
    assert list(rows) == sorted(rows) and len(rows) == 21
    assert rows.pop("a/99.png")["error"].endswith("it is not in a known format")
    for name, row in rows.items():
        (expected,) = zoo.predict(MODEL, photos / name, top=2)
        if suffix == ".jsonl":
            found = [(one["name"], one["probability"]) for one in row["classes"]]
        else:
            found = [(row[f"class{n}"], float(row[f"probability{n}"])) for n in ("", "_2")]
        assert [name for name, _ in found] == [name for name, _ in expected.classes]
        assert [p for _, p in found] == pytest.approx([p for _, p in expected.classes], abs=1e-6)


def test_an_array_of_a_dataset_has_the_names_of_its_splits(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28, 1), np.uint8)
    arrays = {"train_images": images[:4], "test_images": images[4:]}
    zoo.predict_many(MODEL, arrays, tmp_path / "out.csv")
    names = [row["image"] for row in read(tmp_path / "out.csv")]
    assert names == ["train 1", "train 2", "train 3", "train 4", "test 1", "test 2"]


def test_the_same_command_is_complete_and_another_one_is_refused(zoo_here, photos, tmp_path):
    command = ("predict", MODEL, "photos", "--out", "out.csv")
    assert "out.csv: 21 images, 1 of them cannot be read" in zoo_here(*command).stdout
    before = (tmp_path / "out.csv").stat().st_mtime_ns
    assert "out.csv is complete" in zoo_here(*command).stderr
    assert (tmp_path / "out.csv").stat().st_mtime_ns == before
    said = zoo_here(*command, "--top", "1", status=2).stderr
    assert "already exists and was made with other top.\n" in said and "rm out.csv" in said
    (tmp_path / "mine.csv").write_text("mine\n")
    said = zoo_here("predict", MODEL, "photos", "--out", "mine.csv", status=2).stderr
    assert "made by something else" in said and (tmp_path / "mine.csv").read_text() == "mine\n"


def test_parts_joined_are_the_whole(zoo_here, photos, tmp_path):
    zoo_here("predict", MODEL, "photos", "--out", "whole.csv", "--batch", "4")
    command = ("predict", MODEL, "photos", "--out", "out.csv")
    for part in ("1/3", "3/3"):
        zoo_here(*command, "--batch", "4", "--part", part)
    said = zoo_here(*command, "--join", status=2).stderr
    assert "1 of 3 parts of out.csv are missing: out.part-2-of-3.csv" in said
    assert not (tmp_path / "out.csv").exists()
    zoo_here(*command, "--batch", "4", "--part", "2/3")
    assert "21 images, 1 of them" in zoo_here(*command, "--join").stdout
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert "out.csv already exists" in zoo_here(*command, "--join", status=2).stderr


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_parts_of_other_formats_join_too(photos, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    for part in ("1/2", "2/2"):
        zoo.predict_many(MODEL, photos, out, batch=4, part=part)
    done = zoo.predict_many(MODEL, photos, out, join=True)
    assert (done.images, done.broken) == (21, 1)
    assert len(read(out)) == 21


def test_any_number_of_workers_writes_the_same_rows(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(many, "BLOCKS", (8, 8))
    for name in THREADS:  # of each worker, however many there are
        monkeypatch.setenv(name, "1")
    zoo.predict_many(MODEL, photos, tmp_path / "two.csv", batch=4, workers=2)
    zoo.predict_many(MODEL, photos, tmp_path / "three.csv", batch=4, workers=3)
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "three.csv").read_bytes()
    assert len(read(tmp_path / "two.csv")) == 21


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_any_time_it_writes_the_same_rows_and_computes_none_twice(
    photos, tmp_path, count
):
    for number in range(20, 20 + 6 * count):
        (photos / "b" / f"{number}.png").write_bytes((photos / "a" / "00.png").read_bytes())
    done = kills.drive(HERE / "kill_driver.py", tmp_path, photos, count, 0)
    assert done["tables"][0] == done["tables"][1]
    for before, computed in done["computed"]:
        assert not set(before) & set(computed)
    assert done["left"] == [".out.csv.zoo", "done.json", "out.csv"]


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(many, "BLOCKS", (8, 8))
    scored, seen = many.Work._scored, []

    def stop_in_the_second_block(self, rows):
        seen.append(rows)
        if len(seen) == 2:
            os.kill(os.getpid(), 2)
        return scored(self, rows)

    monkeypatch.setattr(many.Work, "_scored", stop_in_the_second_block)
    sync = os.fsync  # a slow disk: the first block is still being saved when the signal comes
    monkeypatch.setattr(os, "fsync", lambda file: (time.sleep(0.2), sync(file)))
    with pytest.raises(zoo.Interrupted, match="stopped after 8 of 21 images") as stopped:
        zoo.predict_many(MODEL, photos, tmp_path / "out.csv", batch=4)
    assert stopped.value.exit_code == 130 and not (tmp_path / "out.csv").exists()
    zoo.predict_many(MODEL, photos, tmp_path / "out.csv", batch=4)
    assert [rows.start for rows in seen] == [0, 8, 8, 16]


@pytest.mark.parametrize("moment", ["write_table", "BlockStore.remove"])
def test_killed_while_the_table_is_written_it_is_complete_the_next_time(
    photos, tmp_path, monkeypatch, moment
):
    with monkeypatch.context() as patch:
        patch.setattr(f"zoo_core.use.many.{moment}", None)
        with pytest.raises(TypeError):
            zoo.predict_many(MODEL, photos, tmp_path / "out.csv", batch=4)
    monkeypatch.setattr(many.Work, "_scored", None)
    done = zoo.predict_many(MODEL, photos, tmp_path / "out.csv", batch=4)
    assert (done.images, done.broken) == (21, 1)
    assert [path.name for path in (tmp_path / ".out.csv.zoo").iterdir()] == ["done.json"]


def test_of_two_commands_at_once_both_have_the_table_whoever_writes_it(
    photos, tmp_path, monkeypatch
):
    scored, said, found = many.Work._scored, threading.Event(), []
    ask = lambda: found.append(zoo.predict_many(MODEL, photos, tmp_path / "out.csv"))  # noqa: E731
    other = threading.Thread(target=ask)

    def last_block(self, rows):
        if threading.current_thread() is not other:
            said.set()
            raise AssertionError("the other one has claimed it")
        begun.set()
        assert said.wait(60)
        yield from scored(self, rows)

    begun = threading.Event()
    monkeypatch.setattr(many.Work, "_scored", last_block)
    monkeypatch.setattr(many, "say", lambda sentence: said.set())
    wait, here = time.sleep, threading.current_thread()

    def sleep(seconds):  # the whole process gets it: locks that other threads wait for use it too
        other.join() if threading.current_thread() is here else wait(seconds)

    monkeypatch.setattr("zoo_core.io.blocks.time.sleep", sleep)
    other.start()
    assert begun.wait(60)
    ask()
    other.join()
    assert len(found) == 2 and found[0] == found[1]


def test_a_worker_that_does_not_see_the_folder_of_the_table_says_so(tmp_path):
    with pytest.raises(zoo.ZooError, match="is not the folder of the command"):
        many.fill_piece((None, tmp_path / "gone"), {}, print)


def test_parts_with_other_columns_are_not_joined(photos, tmp_path):
    for suffix in (".csv", ".parquet"):
        out = tmp_path / f"out[1]{suffix}"
        for part, top in (("1/2", 1), ("2/2", 2)):
            zoo.predict_many(MODEL, photos, out, batch=4, part=part, top=top)
        with pytest.raises(zoo.UsageError, match="part-2-of-2.* has other columns than"):
            zoo.predict_many(MODEL, photos, out, join=True)
        assert not out.exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["photos", "--out", "out.txt"], "out.txt must end in .parquet, .csv or .jsonl"),
        (["photos", "--out", "out.csv", "--part", "4/3"], "part '4/3' does not name a part"),
        (["photos", "a", "--out", "out.csv"], "name one folder, table or dataset"),
        (["photos", "--out", "out.csv", "--strict"], "--strict has no meaning with --out"),
        (["photos", "--out", "out.csv", "--resources", "gpu=1"], "has no option 'gpu'"),
        (["photos", "--part", "1/2"], "--part needs --out FILE"),
        (["photos", "--set", "image=x"], "--set needs --out FILE"),
        (["nothere", "--out", "out.csv"], "there is no dataset 'nothere'"),
        (["photos", "--out", "out.csv", "--join"], "there are no parts of out.csv"),
    ],
)
def test_mistakes_get_a_sentence_and_change_nothing(zoo_here, photos, tmp_path, given, words):
    before = sorted(tmp_path.iterdir())
    assert words in zoo_here("predict", MODEL, *given, status=2).stderr
    assert sorted(path for path in tmp_path.iterdir() if path.name != "cache") == before


def test_embeddings_are_a_column_of_the_features(photos, tmp_path):
    zoo.predict_many("cnn.cifar10", photos, tmp_path / "out.parquet", embeddings=True)
    rows = read(tmp_path / "out.parquet")
    widths = {len(row["embedding"]) for row in rows if row["embedding"]}
    assert len(widths) == 1 and widths.pop() > 10
