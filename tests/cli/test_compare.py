"""zoo compare, as a person types it."""

from PIL import Image
from report.made_runs import make_metrics, make_run


def columns(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_compare_ranks_runs_in_a_table_and_draws_their_curves(zoo_command, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="mlp", skill=2.5)
    make_run(root, model="cnn", skill=4.0)
    make_run(root, model="vit", done=2, status="interrupted")
    make_run(root, model="vae", classes=(), metrics=make_metrics(3, pace=9)[:1])
    done = zoo_command("compare", *(f"runs/{path.name}" for path in root.iterdir()))
    header, *rows, _, plot = done.stdout.splitlines()
    assert columns(header) == [
        "MODEL", "RUN", "DATASET", "PARAMETERS", "SIZE", "EPOCHS", "TIME", "IMAGES/S", "MS/IMAGE",
        "LOSS", "ACCURACY", "NOTE",
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == ["cnn", "mlp", "vit", "vae"]
    first = columns(rows[0])
    assert first[3:9] == ["1,147,914", "4.6 MB", "12/12", "2 min 30 s", "3,988", "0.213"]
    assert first[-1] == "best"
    assert columns(rows[2])[-1] == "interrupted"
    assert sum(row.endswith("best") for row in rows) == 1
    assert plot == "Plot: compare.png"
    assert done.stderr == ""
    with Image.open(tmp_path / "compare.png") as drawn:
        drawn.verify()
        assert 1500 < drawn.width < 3000
        assert 300 < drawn.height < 1000


def test_runs_on_different_datasets_are_compared_with_a_warning(zoo_command, zoo_json, tmp_path):
    runs = [make_run(tmp_path / "runs", dataset=name, done=2) for name in ("one", "two")]
    done = zoo_command("compare", *(run.name for run in runs), "-o", "pictures/both.svg")
    assert "different datasets" in done.stderr
    assert "<svg" in (tmp_path / "pictures" / "both.svg").read_text()
    (tmp_path / "compare.png").write_bytes(b"mine")
    document = zoo_json("compare", *(run.name for run in runs))
    assert document["plot"] == "compare-2.png"
    assert {row["dataset"] for row in document["runs"]} == {"one", "two"}
    assert all(0 < row["accuracy"] <= 1 for row in document["runs"])


def test_mistakes_get_a_sentence(zoo_command, tmp_path):
    run = make_run(tmp_path / "runs", done=1, status="interrupted")
    assert "needs two runs" in zoo_command("compare", run.name, "latest", status=2).stderr
    other = make_run(tmp_path / "runs", model="mlp", done=1, status="interrupted")
    done = zoo_command("compare", run.name, other.name, "-o", "x.bmp", status=2)
    assert ".png, .pdf or .svg" in done.stderr
    (tmp_path / "file").touch()
    done = zoo_command("compare", run.name, other.name, "-o", "file/x.png", status=1)
    assert "file/x.png could not be written" in done.stderr
    other.metrics_file.write_text("[]\n")
    assert "are damaged" in zoo_command("compare", run.name, other.name, status=1).stderr
