"""zoo compare, as a person types it."""

import json
import re
import shutil

import pytest
from PIL import Image
from report.made_runs import make_metrics, make_run, make_search


@pytest.fixture
def undrawn(monkeypatch):
    """Drawing takes most of the time of a comparison."""
    monkeypatch.setattr("zoo_core.report.plots.draw_comparison", lambda path, lines: None)


def columns(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.mark.renders
def test_compare_ranks_runs_in_a_table_and_draws_their_curves(zoo_here, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="mlp", skill=2.5)
    make_run(root, model="cnn", skill=4.0)
    make_run(root, model="vit", done=2, status="interrupted")
    make_run(root, model="vae", classes=(), metrics=make_metrics(3, pace=9)[:1])
    done = zoo_here("compare", *(f"runs/{path.name}" for path in root.iterdir()))
    header, *rows, _, plot = done.stdout.splitlines()
    assert columns(header) == [
        "RANK", "MODEL", "RUN", "DATASET", "PARAMETERS", "SIZE", "EPOCHS", "TIME", "IMAGES/S",
        "MS/IMAGE", "LOSS", "ACCURACY", "INTERVAL", "NOTE",
    ]  # fmt: skip
    assert [row.split()[:2] for row in rows[:2]] == [["1", "cnn"], ["2", "mlp"]]
    assert [row.split()[:2] for row in rows[2:4]] == [["-", "vit"], ["-", "vae"]]
    assert any("another may change the order" in row for row in rows[4:])  # one seed each
    first = columns(rows[0])
    assert first[4:10] == ["1,150,000", "4.6 MB", "12/12", "2 min 30 s", "3,988", "0.213"]
    assert first[-1] == "best"
    assert columns(rows[2])[-1] == "interrupted"
    assert sum(row.endswith("best") for row in rows) == 1
    assert plot == "Plot: compare.png"
    assert done.stderr == ""
    with Image.open(tmp_path / "compare.png") as drawn:
        drawn.verify()
        assert 1500 < drawn.width < 3000
        assert 300 < drawn.height < 1000


@pytest.mark.renders
def test_runs_on_different_datasets_are_in_tables_of_their_own(zoo_here, tmp_path, request):
    root = tmp_path / "runs"
    runs = [make_run(root, dataset=name) for name in ("one", "two")]
    runs.append(make_run(root, dataset="two", time="20261116T101502Z", skill=3))
    names = [run.name for run in runs]
    drawn = zoo_here("compare", *names, "-o", "pictures/both.svg", "--json")
    document = json.loads(drawn.stdout)
    assert document["plots"] == ["pictures/both.svg", "pictures/both-2.svg"]
    assert all("<svg" in (tmp_path / path).read_text() for path in document["plots"])
    assert [row["group"] for row in document["runs"]] == ["one", "two", "two"]
    assert all(0 < row["accuracy"] <= 1 for row in document["runs"])
    request.getfixturevalue("undrawn")
    (tmp_path / "compare.png").write_bytes(b"mine")
    done = zoo_here("compare", *names)
    assert "\nPlot: compare-2.png\n" in done.stdout
    one, two = done.stdout.split("\n\ntwo\n")
    assert one.startswith("one\n") and "best" not in one  # there is nothing to be better than
    assert sum(line.endswith("best") for line in two.splitlines()) == 1


def test_what_is_not_a_run_is_skipped_with_a_word(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    runs, search = [make_run(root, model=name) for name in ("cnn", "mlp")], make_search(root)
    (root / "notes").mkdir()
    (root / "plot.png").touch()
    every = [f"runs/{path.name}" for path in sorted(root.iterdir())]
    done = zoo_here("compare", *every)
    assert len([line for line in done.stdout.splitlines() if "-made_up-" in line]) == 2
    skipped = done.stderr.splitlines()
    assert f"Skipped: runs/{search.name} is a search, not a run; zoo report" in done.stderr
    assert len(skipped) == 3 and all(line.startswith("Skipped: runs/") for line in skipped)
    runs[0].metrics_file.write_text("[]\n")
    done = zoo_here("compare", *every, status=2)  # one is left
    assert "is damaged" in done.stderr and "needs two different runs" in done.stderr
    assert "there is no run 'cnm'" in zoo_here("compare", "cnm", *every, status=2).stderr


def test_settings_that_differ_are_columns(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    document = make_run(root, model="a").read()
    model, data = document["model"], document["dataset"] | {"reference": "x", "name": "x"}
    for number, (recipe, size, drop) in enumerate(
        [({"seed": 1}, 32, 0.5), ({"subset": 0.5}, 64, 0.5), ({"optimizer": "sgd"}, 32, 0.1)]
    ):
        options = {"image_size": size} if size != 32 else {}
        time, skill = f"20261116T10150{number}Z", 3 - number
        make_run(root, model="cnn", time=time, recipe=recipe, dataset="x", skill=skill).update(
            model=model | {"name": "cnn", "config": {"dropout": drop, "image_size": size}},
            dataset=data | {"options": options, "digest": f"{size}"},
        )
    names = sorted(path.name for path in root.glob("cnn-*"))
    header, *rows = zoo_here("compare", *names).stdout.splitlines()[:4]
    assert columns(header)[:9] == [
        "RANK", "MODEL", "RUN", "DATASET", "OPTIMIZER", "SUBSET", "SEED", "MODEL.DROPOUT",
        "DATA.IMAGE_SIZE",
    ]  # fmt: skip
    assert columns(rows[1])[4:9] == ["adam", "0.5", "0", "0.5", "64"]
    assert columns(rows[2])[4:9] == ["sgd", "1", "0", "0.1", "-"]
    document = json.loads(zoo_here("compare", *names, "--json").stdout)["runs"]
    assert document[0]["settings"] == {
        "optimizer": "adam", "subset": "1", "seed": "1", "model.dropout": "0.5",
        "data.image_size": None,
    }  # fmt: skip


def test_how_many_images_are_measured_between_epochs_is_not_a_difference(
    zoo_here, tmp_path, undrawn
):
    root = tmp_path / "runs"
    for seed, share in enumerate((1.0, 1200.0)):
        make_run(root, time=str(seed), seed=seed, recipe={"seed": seed, "evaluate_subset": share})
    names = [path.name for path in root.iterdir()]
    document = json.loads(zoo_here("compare", *names, "--json").stdout)
    assert [len(team["runs"]) for team in document["teams"]] == [2]
    assert all(list(row["settings"]) == ["seed"] for row in document["runs"])


def test_copies_of_the_same_weights_are_one_row(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    first, other = make_run(root, model="cnn"), make_run(root, model="mlp")
    shutil.copytree(first.path, root / "again")
    done = zoo_here("compare", first.name, other.name, "again", "--json")
    assert [row["run"] for row in json.loads(done.stdout)["runs"]] == [first.name, other.name]
    assert f"again has the same weights as {first.name}, byte for byte" in done.stderr
    both = zoo_here("compare", first.name, "again", status=2)
    assert "needs two different runs" in both.stderr


def test_losses_that_are_not_alike_share_no_column(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    vae = {"name": "vae", "task": "zoo_vae.vae:VAETask", "config": {}}
    lines = [line | {"test_mse": 0.1} for line in make_metrics(2)]
    lines = [{k: v for k, v in line.items() if "accuracy" not in k} for line in lines]
    for beta in (1, 4):
        run = make_run(root, model=f"vae{beta}", classes=(), metrics=lines)
        run.update(model=vae, recipe=run.read()["recipe"] | {"task": {"beta": beta}})
    make_run(root, model="cnn")
    make_run(root, model="mlp", skill=3)
    names = sorted(path.name for path in root.iterdir())
    done = zoo_here("compare", *names)
    first, second = done.stdout.split("\n\nmade_up, VAE\n")
    assert first.startswith("made_up, classification\n") and "LOSS" in first
    assert "TASK.BETA" in second and "LOSS" not in second and "best" not in second
    assert done.stderr == "made_up, VAE: the loss has no column, because task.beta differs.\n"
    smooth = make_run(root, model="cnn", time="20261116T101505Z", recipe={"label_smoothing": 0.1})
    done = zoo_here("compare", names[0], smooth.name)
    assert "LOSS  " not in done.stdout.replace("LABEL_SMOOTHING", "")
    assert "because label_smoothing differs" in done.stderr


def test_other_images_under_the_same_name_are_another_group(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    runs = [make_run(root, time=f"20261116T10150{i}Z") for i in range(4)]
    for run, digest, options in zip(runs, "aaba", ({}, {}, {}, {"seed": 0}), strict=True):
        run.update(dataset=run.read()["dataset"] | {"digest": digest, "options": options})
    document = json.loads(zoo_here("compare", *(run.name for run in runs), "--json").stdout)
    groups = [row["group"] for row in document["runs"]]
    assert groups == ["made_up", "made_up", "made_up", "made_up, version 2"]


@pytest.mark.parametrize("width", [80, 250])
def test_the_table_fits_the_terminal_and_keeps_the_settings(
    zoo_here, tmp_path, monkeypatch, undrawn, width
):
    root = tmp_path / "runs"
    make_run(root, time="20261116T101501Z", recipe={"seed": 3, "augment": ("flip",), "ema": 0.9})
    make_run(root, time="20261116T101502Z", recipe={"optimizer": "sgd", "precision": "bfloat16"})
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = zoo_here("compare", *(path.name for path in root.iterdir())).stdout
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines[: lines.index("")])) <= width  # below it are sentences
    words = " ".join(lines).split()
    assert ("ema=0.9" in words and "optimizer=sgd" in words) == (width == 80)
    assert ("EMA" in words) == (width == 250)


def test_mistakes_get_a_sentence(zoo_here, tmp_path):
    nothing = zoo_here("compare", status=2)
    assert "name what to compare" in nothing.stderr and "zoo compare cnn mlp" in nothing.stderr
    run = make_run(tmp_path / "runs", done=1, status="interrupted")
    assert "needs two different runs" in zoo_here("compare", run.name, "latest", status=2).stderr
    other = make_run(tmp_path / "runs", model="mlp", done=1, status="interrupted")
    done = zoo_here("compare", run.name, other.name, "-o", "x.bmp", status=2)
    assert ".png, .pdf or .svg" in done.stderr
    (tmp_path / "file").touch()
    done = zoo_here("compare", run.name, other.name, "-o", "file/x.png", status=1)
    assert "file/x.png could not be written" in done.stderr


def pair_of(zoo_here, *names):
    document = json.loads(zoo_here("compare", *names, "--json").stdout)
    return document, document["pairs"][0]


def test_runs_that_the_test_images_cannot_tell_apart_share_a_rank(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    ours, theirs = make_run(root, model="cnn", skill=3.0), make_run(root, model="mlp", skill=3.02)
    done = zoo_here("compare", ours.name, theirs.name)
    _, *rows = done.stdout.splitlines()[:3]
    assert [row.split()[0] for row in rows] == ["1", "1"] and "best" not in done.stdout
    assert "mlp and cnn cannot be told apart: 0." in done.stdout
    assert "McNemar, mid-p" in done.stdout and "images would settle it." in done.stdout
    document, pair = pair_of(zoo_here, ours.name, theirs.name)
    assert not pair["different"] and pair["p"] > 0.05 and pair["images"]["enough"] > 400
    assert [row["rank"] for row in document["runs"]] == [1, 1]
    low, high = document["runs"][0]["intervals"]["accuracy"]
    assert low < document["runs"][0]["accuracy"] < high


def test_runs_that_differ_by_the_seed_alone_are_one_row(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    runs = [
        make_run(root, model=model, time=f"20261116T10150{seed}Z", recipe={"seed": seed},
                 seed=seed + 5, skill=skill)
        for model, skill in (("cnn", 4.0), ("mlp", 2.5)) for seed in range(3)
    ]  # fmt: skip
    names = [run.name for run in runs]
    lines = zoo_here("compare", *names).stdout.splitlines()
    assert "OVER SEEDS" in lines[0] and "THEIR MEAN" in lines[0] and len(lines[:3]) == 3
    assert "0,1,2" in lines[1] and "3 seeds" in lines[1] and lines[1].endswith("best")
    said = zoo_here("compare", *names).stdout
    assert re.search(
        r"\n\(3 seeds\)|cnn \(3 seeds\) is better than mlp \(3 seeds\) by \d+\.\d\d points", said
    )
    assert "cannot be told apart" not in said
    document, pair = pair_of(zoo_here, *names)
    assert [team["runs"] for team in document["teams"]] == [names[:3], names[3:]]
    assert pair["seeds"]["test"] == "t-test over seeds" and pair["different"]
    assert pair["p"] == max(pair["seeds"]["p"], pair["images"]["p"])
    again = make_run(root, time="20261116T101509Z", recipe={"seed": 0})
    document, _ = pair_of(zoo_here, *names[:3], again.name)  # one seed twice is not a repetition
    assert sorted(len(team["runs"]) for team in document["teams"]) == [1, 3]


def test_only_runs_on_the_same_images_are_paired(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    ours, theirs = make_run(root, model="cnn"), make_run(root, model="mlp", skill=3)
    data = theirs.read()["dataset"]
    theirs.update(dataset=data | {"digest": "cd" * 32, "options": {"image_size": 64}})
    _, pair = pair_of(zoo_here, ours.name, theirs.name)
    assert pair["images"]["test"] == "two independent shares"
    theirs.update(dataset=data)
    assert pair_of(zoo_here, ours.name, theirs.name)[1]["images"]["test"] == "McNemar, mid-p"
    theirs.predictions_file.write_bytes(b"damaged")
    _, pair = pair_of(zoo_here, ours.name, theirs.name)
    assert pair["images"]["test"] == "two independent shares"


def test_a_run_that_was_chosen_by_the_test_set_says_so(zoo_here, tmp_path, undrawn):
    root = tmp_path / "runs"
    plan = {"kind": "sweep", "model": "mlp/mlp", "trials": 3, "recipe": {"validation_fraction": 0}}
    search = make_search(root, kind="sweep", plan=plan)
    for number in (1, 2):
        run = make_run(root, model=f"m{number}")
        (search.path / "trials").mkdir(exist_ok=True)
        run.path.rename(search.path / "trials" / f"00{number}")
    done = zoo_here("compare", *(f"{search.name}/trials/00{n}" for n in (1, 2)))
    assert done.stdout.count("chosen on the test set") == 1
    assert "(chosen on test)" in zoo_here("runs").stdout
