"""zoo features: what models say about images: the cache of frozen backbones, and what is alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import click

import zoo
from zoo import kit
from zoo_frozen.kept import export_features, find_features

SHOWN = 8  # letters of a digest
LOOKS = ("dataset", "split", "view", "backbone", "stored", "pixels", "dtype")  # of a row


def complete_features(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [file.id for file in kit.kept_features() if file.id.startswith(incomplete)]


ids_argument = click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete_features)


@kit.group()
def features_command() -> None:
    """Show, compute, export and compare features: what models say about images.

    A frozen backbone sees every image once; the cache keeps its features. ID is the first
    column of `zoo features list`, or the beginning of one.

    Example:
      zoo features export 252cd8 -o test.npz
    """


@features_command.command("list")
def list_() -> kit.Answer:
    """List the features in the cache, last used first.

    Example:
      zoo features list --json
    """
    files = kit.kept_features()
    rows = [about(file) for file in files]
    tell_apart(rows, [file.progress() for file in files])

    def show() -> None:
        for row in rows:
            row["size"] = kit.size(row["bytes"])
            row["id"], row["differs"] = row["id"][:SHOWN], as_words(row.get("differs", {}))
            if "used" in row:  # people read their own time, programs the one that all share
                row["used"] = f"{datetime.fromisoformat(row['used']).astimezone():%Y-%m-%d %H:%M}"
        columns = ["id", "dataset", "split", "view", "backbone", "#stored", "#pixels", "#images",
                   "#width", "dtype", "#size", "used", "state"]  # fmt: skip
        columns += ["differs"] * any(row["differs"] for row in rows)
        empty = "There are no features yet; training a frozen model computes them."
        same = [name for name in ("dtype", "view") if len({row.get(name) for row in rows}) == 1]
        kit.print_table(columns, rows, [*same, "#width", "used", "#images", "#size"], empty)
        if rows:
            click.echo(f"{kit.size(sum(row['bytes'] for row in rows))} in all.", err=True)

    return kit.Answer(rows, show)


@features_command.command()
@click.argument("id_", metavar="ID", shell_complete=complete_features)
def info(id_: str) -> kit.Answer:
    """Show every setting that these features depend on, and how they were made.

    Example:
      zoo features info 252cd8
    """
    file = find_features(id_)
    progress = file.progress()
    if progress is None:
        raise zoo.DataError(f"{file.record} cannot be read", f"zoo features remove {file.id}")
    document = {
        **about(file),
        "path": str(file.path if file.path.exists() else file.part),
        "key": progress.key,
        "made_with": progress.about["made_with"],
        "seconds": round(progress.seconds, 1),
        "images_per_second": round(progress.done / max(progress.seconds, 1e-9), 1),
        "sha256": progress.sha256,
    }

    def show() -> None:
        shown: dict[str, Any] = {**document, "size": kit.size(document["bytes"])}
        for section in ("key", "made_with"):
            shown |= {f"{section}: {name}": value for name, value in shown.pop(section).items()}
        kit.print_fields(shown)

    return kit.Answer(document, show)


@features_command.command()
@ids_argument
def verify(ids: tuple[str, ...]) -> kit.Answer:
    """Read features again, every byte, and check them.

    The next training that needs damaged features computes only the damaged part again.

    Example:
      zoo features verify 252cd8     without an ID all of them
    """
    rows = []
    for file in [find_features(id_) for id_ in ids] if ids else kit.kept_features():
        try:
            state, sound = file.verify(), True
        except zoo.DataError as error:
            state, sound = str(error), False
        rows.append({"id": file.id, "ok": sound, "state": state, "path": file.path})
    empty, ok = "There are no features yet.", all(row["ok"] for row in rows)
    return kit.Answer(
        rows, lambda: kit.print_table(["id", "state"], rows, empty=empty), failed=not ok
    )


@features_command.command()
@ids_argument
@click.option("--max-size", default="", metavar="SIZE", help="Keep at most this: 500MB, 5GB, 0.")
def remove(ids: tuple[str, ...], max_size: str) -> kit.Answer:
    """Delete features; they can be computed again.

    Examples:
      zoo features remove 252cd8
      zoo features remove --max-size 5GB      deletes the longest unused until the rest fits
    """
    if bool(ids) == bool(max_size):
        raise click.UsageError("say which: ID..., or --max-size")
    files = beyond(parse_size(max_size)) if max_size else [find_features(id_) for id_ in ids]
    removed = [(file, file.remove()) for file in files]
    rows = [{"id": file.id, "bytes": used, "path": file.path} for file, used in removed]
    lines = [f"{file.id}: deleted, {kit.size(used)}" for file, used in removed]
    remarks = [] if rows else ["There is nothing to remove."]
    return kit.Answer(rows, "\n".join(lines), remarks=remarks)


@features_command.command()
@kit.model_argument
@kit.dataset_option
@kit.set_option("As for zoo train: model.NAME, preprocess.NAME, augment.")
@kit.engine_options
@kit.device_option
@kit.quiet_option
def compute(model: str, dataset: str, assignments: tuple[str, ...], **how: Any) -> kit.Answer:
    """Compute the features that a training of MODEL would need, and train nothing.

    Features in the cache are not computed again. After Ctrl-C or a kill, run the same command to
    continue. Several workers, or commands on machines that share the cache, divide the images.

    Examples:
      zoo features compute efficientnet_lite0_finetune --dataset cifar10
      zoo features compute timm_frozen --set model.backbone=resnet50 --set augment=flip
    """
    if not model:
        raise click.UsageError("say which MODEL; zoo list shows them")
    settings = kit.parse_settings(assignments, zoo.info(model))
    paths = zoo.compute_features(model, dataset, settings=settings, **how)
    rows = [about(kit.FeatureFile(path)) for path in paths]
    lines = [f"{row['id']}  {row['dataset']} {row['split']} {row['view']}" for row in rows]
    return kit.Answer(rows, "\n".join(lines))


@features_command.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_features)
@kit.output_option(".npz", ".safetensors", required=True,
                       help="A file that ends in .npz or .safetensors.")  # fmt: skip
def export(ids: tuple[str, ...], output: Path) -> kit.Answer:
    """Write features and labels for other programs, scikit-learn for example.

    The file has the arrays train_features, train_labels, test_features and so on, float32 and
    int64, and the names of the classes.

    Example:
      zoo features export 252cd8 9f01ab -o cifar10.safetensors
    """
    shapes = export_features([find_features(id_) for id_ in ids], output)
    used = output.stat().st_size
    lines = [f"{name}  {' x '.join(map(str, shape))}" for name, shape in shapes.items()]
    lines.append(f"{output}  {kit.size(used)}")
    return kit.Answer({"file": output, "bytes": used, "arrays": shapes}, "\n".join(lines))


@features_command.command("nearest")
@kit.run_argument
@click.argument("image", type=click.Path())
@kit.dataset_option
@click.option("--n", "count", type=click.IntRange(1, 1000), default=11, show_default=True,
              help="Number of images.")  # fmt: skip
@click.option("--split", type=click.Choice(["train", "test"]), default="train", show_default=True)
@kit.set_option("An option of the data, such as data.image_size=64.")
@kit.output_option(".png", ".webp", ".jpg", default="nearest.png",
                   help="The sheet to write: .png, .webp or .jpg.")  # fmt: skip
@kit.device_option
@kit.runs_option
def nearest_(
    run: str, image: str, dataset: str, count: int, split: str, assignments: tuple[str, ...],
    output: Path, device: str, runs: Path | None,
) -> kit.Answer:  # fmt: skip
    """Find the images of a dataset that a model finds most like IMAGE.

    RUN is a run or weights of a model that has features. Features of frozen models that are in
    the cache are not computed again; without --dataset, it is the dataset of the training.

    Example:
      zoo features nearest efficientnet_lite0_finetune cat.jpg --dataset cifar10
    """
    from zoo_frozen.alike import nearest

    kit.named_images(run, [image])  # before anything is loaded
    model = kit.loaded(run, runs, device)
    options = kit.parse_settings(assignments, model.zoo.entry).get("data", {})
    found = nearest(model, image, dataset, count=count, split=split, options=options)
    pages = found.draw(output, f"Nearest to {Path(image).name}")
    each = zip(found.rows.tolist(), found.labels, found.similarity.tolist(), strict=True)
    rows = [{"row": row, "label": label, "similarity": round(s, 6)} for row, label, s in each]

    def show() -> None:
        kit.print_table(["#row", "label", "#similarity"], rows)
        click.echo(f"Sheet: {', '.join(map(str, pages))}")

    return kit.Answer({"image": image, "nearest": rows, "pages": pages}, show)


@features_command.command("map")
@kit.run_argument
@kit.dataset_option
@click.option("--n", "count", type=click.IntRange(10, 20_000), default=1000, show_default=True,
              help="Number of images, at most.")  # fmt: skip
@click.option("--split", type=click.Choice(["train", "test"]), default="test", show_default=True)
@kit.set_option("An option of the data, such as data.image_size=64.")
@kit.output_option(".png", ".pdf", ".svg", default="map.png",
                   help="The plot to write: .png, .pdf or .svg.")  # fmt: skip
@kit.device_option
@kit.runs_option
def map_(
    run: str, dataset: str, count: int, split: str, assignments: tuple[str, ...], output: Path,
    device: str, runs: Path | None,
) -> kit.Answer:  # fmt: skip
    """Draw the images of a dataset in the plane, near where a model finds them alike (t-SNE).

    RUN and --dataset are as for zoo features nearest. Each class has a colour.

    Example:
      zoo features map efficientnet_lite0_finetune --dataset cifar10
    """
    from zoo_frozen.alike import feature_map

    model = kit.loaded(run, runs, device)
    options = kit.parse_settings(assignments, model.zoo.entry).get("data", {})
    found = feature_map(model, dataset, count=count, split=split, options=options)
    found.draw(output, f"{run}: {split} images of {dataset or 'its dataset'}")
    document = {
        "output": output,
        "classes": found.classes,
        "labels": found.labels.tolist(),
        "rows": found.rows.tolist(),
        "places": found.places.astype(float).round(4).tolist(),
    }
    return kit.Answer(document, f"Plot: {output}, {len(found.rows):,} images")


def about(file: kit.FeatureFile) -> dict[str, Any]:
    progress = file.progress()
    row: dict[str, Any] = {"id": file.id, "bytes": file.bytes}
    if progress is None:
        return {**row, "state": "cannot be read"}
    key, complete = progress.key, file.path.exists() and bool(progress.sha256)
    return {
        **row,
        "dataset": progress.about["dataset"],
        "split": key["split"],
        "view": key["view"],
        "backbone": key["backbone"],
        "stored": key["preprocess"].get("stored_size") or key["preprocess"]["size"],
        "pixels": key["preprocess"]["size"],
        "images": progress.rows,
        "width": progress.about["width"],
        "dtype": key["dtype"],
        "used": datetime.fromtimestamp(file.last_used, UTC).isoformat(timespec="seconds"),
        "state": "complete" if complete else f"{progress.done:,} of {progress.rows:,}",
    }


def tell_apart(rows: Sequence[dict[str, Any]], known: Sequence[Any]) -> None:
    """Add what else differs in the keys of rows that would look the same."""
    alike: dict[tuple[Any, ...], list[tuple[dict[str, Any], dict[str, str]]]] = {}
    for row, progress in zip(rows, known, strict=True):
        if progress is not None:
            looks = tuple(row[name] for name in LOOKS)
            alike.setdefault(looks, []).append((row, flat(progress.key)))
    for members in alike.values():
        for name in dict.fromkeys(name for _, key in members for name in key):
            if len({key.get(name) for _, key in members}) > 1:
                for row, key in members:
                    row.setdefault("differs", {})[name] = key.get(name, "")


def flat(key: Mapping[str, Any]) -> dict[str, str]:
    """All of a key as words: `dtype`, `preprocess.size`."""
    found: dict[str, str] = {}
    for name, value in key.items():
        inner = value.items() if isinstance(value, Mapping) else ()
        found |= {f"{name}.{option}": _word(item) for option, item in inner}
        found |= {} if isinstance(value, Mapping) else {name: _word(value)}
    return found


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def beyond(size: int) -> list[kit.FeatureFile]:
    """What has to go so that the rest takes at most so many bytes: the longest unused."""
    files = kit.kept_features()
    used = accumulate(file.bytes for file in files)
    return [file for file, total in zip(files, used, strict=True) if total > size]


def as_words(settings: Mapping[str, str]) -> str:
    """`preprocess.interpolation=bicubic weights=0a1b2c3d`: of a digest its beginning."""
    return " ".join(f"{k}={v[:SHOWN] if len(v) == 64 else v}" for k, v in settings.items())


def parse_size(text: str) -> int:
    """`500MB`, `5 GB`, `1000`: bytes."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise zoo.UsageError(f"{text!r} is not a size", "write 500MB or 5GB")
    return int(float(found[1]) * 1000 ** ("", "k", "m", "g", "t").index(found[2]))
