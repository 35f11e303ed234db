"""Checks of models of every framework and task: each takes a name, and options that make a large
model small, and raises a Finding. What only one framework can check is named by `Framework.checks`.
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np

import zoo
from zoo import Job, ModelEntry, Preprocess, Recipe, Targets, ZooError, evaluate, load
from zoo.kit import (
    MissingDependency,
    build_job,
    capability,
    check_options,
    describe,
    did_you_mean,
    honoured,
    merge,
    open_data,
    open_display,
    open_sampler,
    override,
    read_tensors,
    registry,
    resolve,
    run_client,
    temporary_folder,
    train,
    trainer_of,
)
from zoo.testing import Finding
from zoo_author.checks import Skipped, check_signature

SEED = 20  # of torch, before a model is built
SHAPES = ("image_size", "in_channels")
IMAGES, COUNT = 3, 5  # that are made up; few models have as many of anything else
FEW = {"train_size": 16, "test_size": 8, "classes": COUNT}
ONE = Targets("class", tuple(map(str, range(COUNT))))  # what a classifier is checked with
PLAIN = {
    "batch_size": 8, "accumulate": 1, "validation_fraction": 0.0, "patience": 0, "subset": 1.0,
    "restore_best": False, "init": "", "data": {},
}  # fmt: skip
BRIEFLY = PLAIN | {"epochs": 1, "warmup": 0.0, "augment": ()}
TRIED = {"weight_decay": 0.5, "label_smoothing": 0.5, "clip_grad": 1e-3, "mixup": 1.0}
GIVEN = {  # capabilities that are called with images, and the arrays that they give
    "attention": "(layers, images, heads, rows, columns)",
    "features": "(images, features)",
}
CAPABILITIES = (*GIVEN, "backbone", "generate", "preprocess", "pretrained")
CAUSES = {  # what an exception in a plugin's code says, and what to do
    r"cuda|nvidia": "name no device: the zoo moves the model to one. Where forward makes a tensor, "
    "write device=images.device",
    r"'(tuple|list|dict)' object has no attribute 'float'": "let forward return one tensor, "
    "(images, num_classes)",
    r"'(tuple|FrozenDict)' object": "copy an option before you change it: LIST = list(LIST)",
}
UNAVAILABLE = (zoo.DataError, zoo.WeightsError, MissingDependency)


@contextmanager
def offline() -> Iterator[Mock]:
    """No network, neither here nor for pip and other programs; gives what remembers who asked."""
    none = ConnectionError("no network here")
    with (
        patch("socket.getaddrinfo", side_effect=none) as asked,
        patch.object(sys.modules[run_client.__module__], "run_client", asked),
    ):
        yield asked


def made_up(entry: ModelEntry, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The one place that decides what a model is checked on: a dataset that fits it and its task,
    and settings for a training on a few images of it."""
    size, channels = (options.get(k, entry.options[k]) for k in SHAPES)
    data = {**FEW, "image_size": min(max(size, 8), 64), "channels": channels}
    needs = getattr(resolve(entry.task, "task"), "needs", ()) if entry.own_task else ()
    if needs:
        data["labels"] = needs[0]
    model = {k: v for k, v in options.items() if k not in SHAPES}
    return "synthetic", {"model": model, "data": data, "preprocess": {"size": size}}


def job_of(model: str, /, **settings: Any) -> Job:
    """A job without a run, on a few made-up images: for tests of a trainer, a learner or a task.

    settings: fields of a recipe, as for `zoo.train`; the rest is plain and does not augment.
    """
    entry = registry().models.get(model)
    brief = _used(entry, {"epochs": 1, "batch_size": 8, "data": FEW})
    return _job(entry, Recipe(), "synthetic", merge(brief, settings))


def _job(entry: ModelEntry, recipe: Recipe, dataset: str, settings: Mapping[str, Any]) -> Job:
    recipe = override(recipe, settings)
    display = open_display(quiet=True)
    data, recipe = open_data(entry, recipe, dataset, display.say)
    return build_job(entry, recipe, data, display)


def _brief_job(entry: ModelEntry, options: Mapping[str, Any], **more: Any) -> Job:
    dataset, settings = made_up(entry, options)
    wanted = {**_used(entry, BRIEFLY), **settings, **more}
    return _job(entry, entry.recipes["default"], dataset, wanted)


def _used(entry: ModelEntry, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some settings that a model's trainer uses."""
    used = honoured(trainer_of(entry))
    return {field: value for field, value in settings.items() if field in used}


def _broken(what: str, entry: ModelEntry, error: Exception, fix: str = "") -> Exception:
    """What to raise where a plugin's code raised something."""
    if isinstance(error, UNAVAILABLE):
        return Skipped(str(error))
    said = describe(error)[:200]
    fixes = (fix for words, fix in CAUSES.items() if re.search(words, said, re.IGNORECASE))
    lists = [key for key, value in entry.config.items() if isinstance(value, tuple | Mapping)]
    fix = next(fixes, fix or "correct that first").replace("LIST", (lists or ["widths"])[0])
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    own = [f for f in frames if entry.target.partition(".")[0] in Path(f.filename).parts]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return Finding(f"{what} raised {said}{where}", "nobody can use it like this", fix)


def check_build(name: str, **options: Any) -> None:
    """It can be built, out of the declared options and random numbers alone."""
    entry = registry().models.get(name)
    check_signature(name, entry.target, entry.options)
    framework, config = trainer_of(entry), check_options(entry, options)
    torch = sys.modules.get("torch")  # of whose seed the first weights are a function
    if torch:
        torch.manual_seed(SEED)
    with offline() as asked:
        try:
            framework.build(entry, config)
        except Exception as error:
            if not asked.called:
                raise _broken(f"building {name}", entry, error) from error
    if asked.called:
        raise Finding(
            f"building {name} uses the network: it asks for {asked.call_args.args[0]}",
            "every command builds models, to count parameters or to load weights of its own",
            "fetch nothing in __init__: declare the capability `pretrained`, see docs/hooks.md",
        )
    if torch and torch.initial_seed() != SEED:
        raise Finding(
            f"building {name} sets the seed of torch",
            "every run starts from the same weights, whatever seed a recipe names",
            "seed nothing in __init__: the zoo does it before it builds the model",
        )


def _is_whole(value: Any) -> bool:
    """Whether an option is a whole number, or a list of them."""
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_whole, value))
    return type(value) is int


def check_ranges(name: str, **options: Any) -> None:
    """Each of its options that is a whole number, or a list of them, has a range."""
    entry = registry().models.get(name)
    open_ones = [k for k, v in entry.config.items() if _is_whole(v) and k not in entry.ranges]
    if open_ones:
        wanted = ", ".join(f'"{option}": (1, 512)' for option in open_ones)
        raise Finding(
            f"{name} declares no range for {' and '.join(open_ones)}",
            "options come with weights, which may be a stranger's: a depth of 10**12 never ends",
            f"write ranges={{{wanted}}} into the entry, with the least and the most of each",
        )


def check_shapes(name: str, **options: Any) -> None:
    """A classifier gives one score for each class, whatever the images are."""
    entry = registry().models.get(name)
    framework, config = trainer_of(entry), check_options(entry, options)
    classes = {"num_classes": COUNT} if entry.num_classes else {}
    channels = 1 if entry.in_channels == 3 else 3
    shapes = {"in_channels": channels, "image_size": 2 * config["image_size"]}
    for other in (classes, *({option: value} for option, value in shapes.items())):
        said = ", ".join(f"{option}={value}" for option, value in other.items()) or "its options"
        try:
            config = check_options(entry, {**options, **classes, **other})
            model = framework.build(entry, config)
            answers = framework.answers(entry, ONE)
            if not answers or not framework.describe(model).total:
                return  # it is empty until it is fitted: check_training looks at it then
            scores = framework.predict_batch(model, _images(entry, config))
        except Exception as error:
            fix = "use num_classes, in_channels and image_size where a size is written as a number"
            raise _broken(f"{name} with {said}", entry, error, fix) from error
        _judge(f"{name} with {said}", entry, scores, (IMAGES, answers.size))


def _images(entry: ModelEntry, config: Mapping[str, Any]) -> Any:
    """A few made-up images as models of the framework are given them."""
    size, channels = (config[k] for k in SHAPES)
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, channels))
    preprocess = Preprocess(size, channels, (0.5,), (0.5,))
    return preprocess.batch(list(pixels.astype(np.uint8)), backend=trainer_of(entry).backend)


def _judge(name: str, entry: ModelEntry, scores: Any, wanted: tuple[int, int]) -> None:
    """Find what is wrong with the scores of a classifier."""
    shape = getattr(scores, "shape", type(scores).__name__)
    if shape != wanted:
        what = f"are {shape} for {wanted[0]} images of {wanted[1]} classes, not {wanted}"
        fix = "let the last layer have num_classes outputs"
        if not entry.num_classes:
            fix = "take the option num_classes; for scores of anything else declare other kinds "
            fix += f"than {' and '.join(entry.kinds)}"
    elif not np.isfinite(scores).all():
        what = f"are not finite, {scores.min()} for example"
        fix = "look for a division by 0, for a logarithm or a root of what can be negative"
    elif (scores >= 0).all() and np.allclose(scores.sum(1), 1, atol=1e-3):
        what = "sum to 1 for every image: they are probabilities"
        fix = "leave out the softmax, which the zoo applies itself, or give their logarithm"
    else:
        return
    why = "training and evaluation cannot work with such scores"
    raise Finding(f"the scores of {name} {what}", why, fix)


def check_parameters(name: str, **options: Any) -> None:
    """The declared numbers of parameters are those that its framework counts, in full size."""
    entry = registry().models.get(name)
    framework = trainer_of(entry)
    counted = framework.describe(framework.sketch(entry, entry.options))
    for field, found in (("parameters", counted.trainable), ("total_parameters", counted.total)):
        declared = getattr(entry, field)
        if declared not in (None, found):
            raise Finding(
                f"{name} declares {field}={declared:,} and has {found:,}",
                "people choose a model by that figure, and compare it with the paper's",
                f"write {field}={found:_} into the entry, or correct the network",
            )


def check_recipes(name: str, **options: Any) -> None:
    """Its recipes can be used on images that fit, and set only what its trainer uses."""
    entry = registry().models.get(name)
    for recipe, sets in entry.recipes.items():
        dataset, settings = made_up(entry, {**sets.model, **options})
        settings["preprocess"] |= sets.preprocess
        plain = replace(sets, **_used(entry, PLAIN), model={}, preprocess={})
        with offline() as asked:
            try:
                _job(entry, plain, dataset, settings)
            except ZooError as error:
                if asked.called or isinstance(error, UNAVAILABLE):
                    raise Skipped(str(error)) from error
                raise Finding(
                    f"recipe {recipe!r} of {name} cannot be used: {error}",
                    f"`zoo train {name} --recipe {recipe}` stops with that sentence",
                    error.hint or "correct the recipe in the entry",
                ) from error


def check_capabilities(name: str, **options: Any) -> None:
    """What it can do besides gives arrays of the right sort."""
    entry = registry().models.get(name)
    for able in entry.capabilities:
        if able not in CAPABILITIES and (hint := did_you_mean(able, CAPABILITIES)):
            raise Finding(
                f"{name} declares a capability {able!r}, which nothing asks for",
                "the command that needs it says that the model does not have it",
                f"{hint.removesuffix('?')}, as in docs/hooks.md",
            )
    config = check_options(entry, options)
    called = [able for able in GIVEN if able in entry.capabilities]
    framework = trainer_of(entry)
    model = framework.assemble(entry, config, {}) if called else None
    if model is None or not framework.describe(model).total:
        return  # or it is empty until it is fitted
    for able in called:
        images, target = _images(entry, config), entry.capabilities[able]
        try:
            found = capability(entry, able)(model, images)
        except Exception as error:
            raise _broken(f"{target}, called for {able},", entry, error) from error
        shape, what = tuple(getattr(found, "shape", ())), ""
        fits = len(shape) == len(GIVEN[able].split(",")) and shape[able == "attention"] == IMAGES
        if not isinstance(found, np.ndarray) or found.dtype.kind != "f":
            what = f"a {type(found).__name__}"
        elif not fits:
            what = f"an array {shape}"
        elif able == "attention" and (found.sum((-1, -2)) > 1.001).any():
            what = f"maps that sum to {found.sum((-1, -2)).max():.3g}, above 1"
        if what:
            raise Finding(
                f"{able} of {name} gives {what} for images of {tuple(images.shape)}",
                "what asks for it works with NumPy, and ends in a traceback or in a wrong plot",
                f"let {target} give a float array of NumPy, {GIVEN[able]}: "
                "tensor.detach().cpu().numpy() makes one",
            )


def check_generation(name: str, **options: Any) -> None:
    """What declares `generate` draws samples of the right shape, the same ones from one seed."""
    entry = registry().models.get(name)
    config = check_options(entry, options)
    model = trainer_of(entry).build(entry, config)
    preprocess = Preprocess(config["image_size"], config["in_channels"], (0.5,), (0.5,))
    classes = [f"class {number}" for number in range(config.get("num_classes") or 0)]
    source = open_sampler(entry, model, preprocess, classes)
    try:
        one, two = source.sample(3).images, source.sample(3).images
    except Exception as error:
        raise _broken(entry.capabilities["generate"], entry, error) from error
    if not np.array_equal(one, two):
        raise Finding(
            f"{name} draws other samples from the same noise",
            "nobody could draw a sample again, or compare two epochs",
            "put the model into evaluation, and draw nothing at random in `draw`",
        )


def check_task(name: str, **options: Any) -> None:
    """A step of its own task learns; an evaluation gives means, the same ones each time."""
    entry = registry().models.get(name)
    kind = resolve(entry.task, "task")
    try:
        job = _brief_job(entry, options)
    except ZooError:
        return  # check_recipes says so
    if not hasattr(kind, "step"):
        return  # a trainer may have tasks of its own
    if kind.kinds not in ((), entry.kinds):
        both = (" and ".join(kinds) for kinds in (entry.kinds, kind.kinds))
        raise Finding(
            "the entry of {} says that it is for {}, and its task for {}".format(name, *both),
            "zoo list shows what the entry says, and the card what the task says",
            f"write kinds={kind.kinds!r} into the entry, or other words into the task",
        )
    if "classification" in entry.kinds and kind.answers is None:
        raise Finding(
            f"{name} is for classification, and {entry.task} has no answers",
            "zoo predict would have nothing to say, and nobody would learn its accuracy",
            "write answers = zoo.ClassAnswers into the task if forward gives a score for each of "
            "num_classes; for scores of anything else declare other kinds than classification",
        )
    backend, targets = job.trainer.backend, job.dataset.targets
    model = job.trainer.build(entry, job.config)
    task = kind(model, job.recipe, targets)
    task.start(model)
    called: list[str] = []
    batch = next(iter(job.training_loader(backend=backend).epoch(0)))

    def asked(method: Callable[..., Any], times: int = 1) -> Any:
        """What a method says of a few images, so many times over."""
        indices = np.tile(np.arange(8), times)
        loader = job.evaluation_loader(job.dataset.train, indices, backend=backend)
        return method(entry, model, job.recipe, loader, targets)

    measure, plots = job.trainer.measure, {}
    try:
        figures = task.step(batch, lambda optimizer, loss: called.append(optimizer))
        one, again, twice = asked(measure), asked(measure), asked(measure, 2)
        if importlib.util.find_spec("matplotlib"):
            plots = asked(job.trainer.plots)
    except Exception as error:
        raise _broken(f"a step, an evaluation or a plot of {entry.task}", entry, error) from error
    what = ""
    if not called or any("loss" not in (given or ()) for given in (figures, one)):
        what = "updates nothing in step" if not called else "gives no loss in step or evaluate"
        fix = 'call update("model", loss) in step, and give the mean as "loss" in both'
    elif str(one) != str(again):  # NaN is not equal to itself
        what = "gives other figures at each evaluate: it draws at random"
        fix = "call torch.manual_seed inside torch.random.fork_rng in evaluate"
    elif one["loss"] and math.isclose(twice["loss"], 2 * one["loss"], rel_tol=1e-3):
        what = "gives twice the loss in evaluate for the same images twice: a sum"
        fix = "give the mean over images: add up sums and counts, and divide after sum_over"
    elif not all(hasattr(plot, "savefig") for plot in dict(plots).values()):
        what = "gives plots that are not figures of matplotlib"
        fix = 'give {"NAME": figure} in plots, each made with matplotlib.figure.Figure()'
    elif not task.needs or "none" in task.needs:
        try:
            task.step(replace(batch, labels=None), lambda optimizer, loss: None)
        except Exception as error:
            what = f"cannot take a step without labels: {describe(error)}"
            fix = 'write needs = ("class",) into it, or do without batch.labels'
    if what:
        raise Finding(f"{entry.task} {what}", "training and its figures depend on it", fix)


def check_training(name: str, **options: Any) -> None:
    """`zoo train` works with it, on a few made-up images, and the run loads and predicts."""
    entry = registry().models.get(name)
    dataset, settings = made_up(entry, options)
    settings = {**_used(entry, BRIEFLY), **settings}
    with temporary_folder() as folder:
        try:
            result = train(name, dataset, runs=folder, quiet=True, settings=settings)
        except UNAVAILABLE as error:
            raise Skipped(str(error)) from error
        except ZooError as error:
            raise Finding(
                f"`zoo train {name}` stops: {error}",
                "that is the first thing that people try",
                f"try it: zoo train {name} --dataset synthetic --epochs 1 --debug",
            ) from error
        again, model = evaluate(str(result.path)), load(result.path)
        kept = read_tensors(result.run.model_file)
    if answers := trainer_of(entry).answers(entry, model.zoo.targets):
        scores = trainer_of(entry).predict_batch(model, images := _images(entry, model.zoo.config))
        _judge(name, entry, scores, (len(images), answers.size))
    plain = trainer_of(entry).backend == "numpy" and hasattr(model, "state_dict")
    held = model.state_dict() if plain else {}
    other = [key for key in held if key in kept and not np.array_equal(held[key], kept[key])]
    pairs = [(again[k], result.metrics[k]) for k in ("loss", "accuracy") if k in again]
    if other or not all(math.isclose(now, then, rel_tol=1e-4) for now, then in pairs):
        raise Finding(
            f"{name} gives other scores after loading from its run; "
            f"{', '.join(other[:3]) or 'something'} did not come with it",
            "what is published would not be what was measured",
            "keep all that forward uses in parameters or persistent buffers; load_state must take "
            "every tensor of the file",
        )


def check_honours(name: str, **options: Any) -> None:
    """What its trainer claims to use of a recipe changes what comes out."""
    entry = registry().models.get(name)

    def fitted(**more: Any) -> Mapping[str, np.ndarray]:
        with suppress(Exception):  # the task may refuse it; check_training says what is wrong
            job = _brief_job(entry, options, **more)
            done = job.trainer.fit(job)
            return done.tensors if done else {}
        return {}

    recipe, honours = entry.recipes["default"], trainer_of(entry).honours
    for field in [name for name in TRIED if name in honours and not getattr(recipe, name)]:
        plain, other = fitted(), fitted(**{field: TRIED[field]})
        if plain and other and all(np.array_equal(plain[k], other.get(k, ())) for k in plain):
            raise Finding(
                f"trainer {entry.trainer!r} honours {field}, which changes nothing in {name}",
                "run.json records a setting that had no effect, and people compare by it",
                f"use job.recipe.{field} in fit, or take {field} out of honours",
            )
