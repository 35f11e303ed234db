"""The trainer of frozen models: a backbone sees every image once, and then only features count.

A checkpoint holds the head alone, a trained model's file the head and the digest of the backbone.
With `task.finetune`, that head is where the training of the whole model begins.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from zoo import (
    Batch,
    Dataset,
    Description,
    Draws,
    Fitted,
    Interrupted,
    Job,
    Loop,
    ModelEntry,
    OptionError,
    Preprocess,
    Recipe,
    Split,
)
from zoo.kit import (
    EVALUATION_BATCH,
    FEATURE_DTYPES,
    OPTIMIZERS,
    PRECISIONS,
    Display,
    Features,
    Loader,
    TorchLearner,
    TorchTrainer,
    apart,
    choose_device,
    digest_of_tensors,
    flat,
    merge,
    prefixed,
    refuse,
    say,
    signal_of,
    timed_steps,
    to_arrays,
    typed,
    without_prefix,
)
from zoo_frozen.torch import finetune
from zoo_frozen.torch.backbones import (
    BY_DIGEST,
    OPTION,
    BackboneWeights,
    Config,
    FrozenModel,
    Say,
    TensorSpec,
    backbone_weights,
    digest_in,
)
from zoo_frozen.torch.extract import VIEWS, Extractor, Pass, batch_for

# Of the pass: `task.dtype`, `task.batch`.
OPTIONS = {"dtype": FEATURE_DTYPES[0], "batch": 0, **finetune.OPTIONS}
# The head that fine-tuning starts from, whatever the recipe says of the fine-tuning: solved.
PROBE: dict[str, Any] = {
    "optimizer": "lbfgs", "weight_decay": 3e-3, "epochs": 4, "schedule": "constant", "warmup": 0.0,
    "augment": (), "mixup": 0.0, "accumulate": 1, "clip_grad": 0.0, "ema": 0.0, "patience": 0,
    "restore_best": False, "evaluate_every": 0,
}  # fmt: skip
RECIPE = "finetune"  # for fine-tuning, where an entry has it and nobody names another
BACKBONE = "backbone."
TIMED = 16  # images that say how long one takes from its pixels on


class FrozenTrainer(TorchTrainer):
    # To measure the features of all test images costs next to nothing.
    honours = TorchTrainer.honours - {"evaluate_subset"}
    closures, more_options = True, OPTIONS
    # Of the last model: a search asks for the same a hundred times, and a backbone is large.
    _last: ClassVar[tuple[str, TensorSpec]] = ("", {})

    def complete(self, entry: ModelEntry, config: Config, say: Say) -> dict[str, Any]:
        """The options of a model to train, with its backbone named by digest; fetched if needed."""
        return {**config, OPTION: BY_DIGEST + self._weights(entry, config, say).digest}

    def tensor_spec(self, entry: ModelEntry, config: Config) -> TensorSpec:
        """Of the head alone, where the options name the backbone by digest."""
        spec, left_out = self._whole_spec(entry, config), BACKBONE if digest_in(config) else ()
        return {name: shape for name, shape in spec.items() if not name.startswith(left_out)}

    def _whole_spec(self, entry: ModelEntry, config: Config) -> TensorSpec:
        key = json.dumps([entry.target, config], sort_keys=True, default=str)
        if FrozenTrainer._last[0] != key:
            FrozenTrainer._last = key, super().tensor_spec(entry, config)
        return FrozenTrainer._last[1]

    def _weights(self, entry: ModelEntry, config: Config, say: Say) -> BackboneWeights:
        spec = without_prefix(BACKBONE, self._whole_spec(entry, config))
        return backbone_weights(entry, config, spec, say)

    def assemble(
        self, entry: ModelEntry, config: Config, tensors: Mapping[str, np.ndarray], **how: Any
    ) -> FrozenModel:
        _, tensors = self.whole(entry, config, tensors)
        model = super().assemble(entry, config, tensors, **how)
        assert isinstance(model, FrozenModel)
        if not how.get("dtype"):
            model.digest = digest_in(config)
        return model

    def whole(
        self, entry: ModelEntry, config: Config, tensors: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Options and tensors of the same model with its backbone inside."""
        if not digest_in(config):
            return dict(config), dict(tensors)
        backbone = prefixed(BACKBONE, self._weights(entry, config, say).tensors)
        return {**config, OPTION: ""}, {**backbone, **tensors}

    def sketch(self, entry: ModelEntry, config: Config) -> FrozenModel:
        sketch = super().sketch(entry, config)
        assert isinstance(sketch, FrozenModel), f"{entry.target} must make a zoo.FrozenModel"
        return sketch

    def untrained(self, entry: ModelEntry, config: Config) -> FrozenModel:
        """A model to train: the backbone has its weights, the head has zeros."""
        head = to_arrays(self.sketch(entry, config).head.to_empty(device="cpu"))
        zeros = {name: np.zeros_like(array) for name, array in head.items()}
        return self.assemble(entry, config, prefixed("head.", zeros))

    def check(self, job: Job) -> None:
        super().check(job)
        recipe, options = job.recipe, {**OPTIONS, **job.recipe.task}
        if (dtype := options["dtype"]) not in FEATURE_DTYPES:
            known = " or ".join(FEATURE_DTYPES)
            raise OptionError(f"task.dtype cannot be {dtype!r}", f"it is: {known}")
        if not isinstance(options["batch"], int) or options["batch"] < 0:
            raise OptionError(f"task.batch must be a whole number, not {options['batch']!r}")
        how = finetune.asked_for(recipe)
        if how:
            finetune.unfreeze(self.sketch(job.entry, job.config), how)
        views = [word for word in recipe.augment if word not in VIEWS and not how]
        in_parts = OPTIMIZERS[recipe.optimizer].closure and recipe.accumulate > 1
        refused = {
            f"augments with {' or '.join(VIEWS)}, not with {', '.join(views)}": bool(views),
            f"gives {recipe.optimizer} all features at once": in_parts,
            "takes features from a cache that any processor may have filled, so it cannot be "
            "portable": recipe.portable,
            "mixes images, not features: --set task.finetune=last:2": bool(
                recipe.mixup and not how
            ),
            f"has no {recipe.optimizer} for fine-tuning, which needs batches": bool(
                how and OPTIMIZERS[recipe.optimizer].closure
            ),
            "solves the head itself before fine-tuning, and takes none from init": bool(
                how and recipe.init
            ),
        }
        refuse(job, refused)

    def updates(self, recipe: Recipe, images: int) -> int | None:
        chosen = OPTIMIZERS.get(recipe.optimizer)
        solved = finetune.asked_for(recipe) or (chosen and chosen.closure)
        return None if solved else super().updates(recipe, images)

    def default_recipe(self, entry: ModelEntry, settings: Mapping[str, Any]) -> str:
        asked = settings.get("task", {}).get("finetune", finetune.HEAD)
        tuned = asked not in (finetune.AUTO, finetune.HEAD)
        return RECIPE if tuned and RECIPE in entry.recipes else "default"

    def further(
        self,
        job: Job,
        name: str,
        settings: Mapping[str, Any],
        build: Callable[[str, Mapping[str, Any]], Job],
        say: Say,
    ) -> tuple[Job, str]:
        """With `task.finetune=auto`: fine-tune as the recipe `finetune` says, if that is cheap."""
        entry, tuned = job.entry, job.entry.recipes.get(RECIPE)
        asked = settings.get("task", {}).get("finetune")
        how = finetune.asked_for(tuned) if tuned else None
        if tuned is None or how is None or asked not in (None, finetune.AUTO):
            return job, name
        if not asked and {*settings} & {*apart(entry.recipes["default"], tuned)}:
            return job, name  # what was set is meant for the head
        way = {"task": {"finetune": str(how)}}
        try:
            longer = build(RECIPE, {"epochs": finetune.EPOCHS, **settings, **way})
        except OptionError:  # fine-tuning refuses more than a head: `init`, a tiny backbone
            return job, name
        if len(longer.parts[1]) >= finetune.JUDGES:
            price = finetune.price(longer, how, self.untrained(entry, job.config))
            if price.fair:
                say(f"Training the head first, then more: {price}; task.finetune=head skips it.")
                return longer, RECIPE
            why = str(price)
        else:
            why = f"{len(longer.parts[1])} validation images are too few to judge fine-tuning"
        given = flat(merge(settings, way)).items()
        words = [word for k, v in given for word in ("--set", f"{k}={v}")]
        again = typed("zoo train", entry.name, "--dataset", job.dataset.reference, *words)
        say(f"Training the head alone: {why}. To fine-tune: {again}")
        kept = {k: v for k, v in job.recipe.task.items() if k not in finetune.OPTIONS}
        task = {**kept, "finetune": finetune.HEAD}
        return replace(job, recipe=replace(job.recipe, task=task)), name

    def outline(self, job: Job) -> Description:
        plain, how = super().outline(job), finetune.asked_for(job.recipe)
        if not how:
            return plain
        finetune.unfreeze(sketch := self.sketch(job.entry, job.config), how)
        learned = (p.numel() for p in sketch.parameters() if p.requires_grad)
        return replace(plain, trainable=sum(learned))

    def paces(self, job: Job) -> Iterator[float]:
        how, model = finetune.asked_for(job.recipe), self.untrained(job.entry, job.config)
        if how:
            finetune.unfreeze(model, how)
            return timed_steps(job, finetune.Finetuner(job, model))
        device = choose_device(job.device)
        batch = batch_for(device, job.preprocess.size)
        through = job.preprocess, device, "plain", batch, job.recipe.precision
        return Extractor(model.backbone, *through).paces(job.dataset.train.images[: 4 * batch])

    def prepare(self, job: Job) -> Sequence[Path]:
        """Before the first of many trainings: the pass, where a person sees how it goes."""
        return [view.path for views in self.features(job).values() for view in views]

    def fit(self, job: Job) -> Fitted:
        how = finetune.asked_for(job.recipe)
        return self._finetune(job, how) if how else self._fit_head(job, self.features(job))

    def _fit_head(self, job: Job, features: Mapping[str, Sequence[Features]]) -> Fitted:
        def loader(split: Split, *, augment: Sequence[str] = (), **how: Any) -> Loader:
            views = features["train" if split is job.dataset.train else "test"]
            return FeatureLoader(split, views if augment else views[:1], **how)

        recipe = replace(job.recipe, precision="float32")  # that of the pass is its own
        if OPTIMIZERS[recipe.optimizer].closure:
            recipe = replace(recipe, batch_size=len(job.parts[0]))
        torch.manual_seed(recipe.seed)
        fresh = self.sketch(job.entry, job.config).head.to_empty(device="cpu")
        head = nn.Sequential(OrderedDict(head=fresh))  # with the names of the whole model
        for layer in head.modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        if job.init is not None:
            self.load_state(head, job.init)
        on_features = replace(job, recipe=recipe, loader=loader)
        # The test set is measured with the whole model, from the same features.
        return replace(Loop(TorchLearner(on_features, head), on_features).fit(), test_scores=None)

    def _finetune(self, job: Job, how: finetune.Finetuning) -> Fitted:
        """Solve the head on features, and go on from there with images.

        The first part leaves nothing behind but features: a resume does it again, to the same
        bytes.
        """
        # The test images wait until the end: what is kept by then is measured on them.
        whole, job = job.dataset, replace(job, dataset=replace(job.dataset, test=None))
        recipe = replace(job.recipe, **PROBE, task={**job.recipe.task, **finetune.OPTIONS})
        solving = replace(job, recipe=recipe, run=None, resume_from=None)
        features = self.features(replace(solving, run=job.run))

        def solve(parts: tuple[np.ndarray, np.ndarray]) -> Fitted:
            quiet = replace(solving, parts=parts, display=Display(quiet=True))
            try:
                return self._fit_head(quiet, features)
            except Interrupted as error:
                again = typed("zoo train --resume", job.run.path) if job.run else ""
                raise Interrupted(str(error), again, signal_of(error)) from error

        probe = solve(job.parts)

        def kept_head() -> Fitted:
            if not whole.test or whole.targets.kind == "classes":
                return probe  # the validation images measure it, or decide its thresholds
            return solve((np.sort(np.concatenate(job.parts)), job.parts[1][:0]))

        torch.manual_seed(recipe.seed)
        model = self.assemble(job.entry, job.config, probe.tensors)
        rows = torch.from_numpy(features["train"][0].array[job.parts[1]])
        with torch.inference_mode():
            said = model.head(rows.float()).numpy()
        return finetune.fit(job, how, model, kept_head, said)

    def features(self, job: Job) -> dict[str, list[Features]]:
        """By split, the views of it; whatever of them is not in the cache is computed now."""
        options = {**OPTIONS, **job.recipe.task}
        sketch, digest = self.sketch(job.entry, job.config), digest_in(job.config)

        def of(split: str, view: str) -> Features:
            through = job.preprocess, job.dataset, split, view, options["dtype"]
            return Pass(sketch, digest, *through, job.recipe.precision).features(
                lambda: self.untrained(job.entry, job.config).backbone,
                job.display,
                choose_device(job.device),
                options["batch"],
                typed("zoo train --resume", job.run.path) if job.run else "",
            )

        views = () if finetune.asked_for(job.recipe) else job.recipe.augment  # words for images
        found = {"train": [of("train", view) for view in dict.fromkeys(("plain", *views))]}
        if job.dataset.test is not None and len(job.dataset.test):
            found["test"] = [of("test", "plain")]
        return found

    def predict_batch(self, model: nn.Module, images: Tensor) -> np.ndarray:
        size = batch_for(next(model.parameters()).device, images.shape[2])
        predict = super().predict_batch
        return np.concatenate([predict(model, part) for part in torch.split(images, size)])

    def score_split(
        self, model: FrozenModel, preprocess: Preprocess, dataset: Dataset, split: str
    ) -> tuple[np.ndarray, float] | None:
        """Scores of all images of a split from their features, the more exact ones if both are
        kept, and milliseconds that the whole model needs for an image. Features of a backbone that
        is in no other model, a fine-tuned one, are not worth keeping."""
        digest = model.digest or digest_of_tensors(to_arrays(model.backbone))
        whole = Pass(model, digest, preprocess, dataset, split)
        known = product(PRECISIONS[:-1], reversed(FEATURE_DTYPES))
        tried = (replace(whole, precision=p, dtype=d).kept(lambda _: None) for p, d in known)
        kept = next(filter(None, tried), None)
        if not kept and not model.digest:
            return None
        device = next(model.parameters()).device
        features = kept or whole.features(lambda: model.backbone, Display(), device)
        few = preprocess.batch(list(whole.images.images[:TIMED]), backend=self.backend)
        started = time.perf_counter()
        self.predict_batch(model, few)
        taken = 1000 * (time.perf_counter() - started) / len(few)
        with torch.inference_mode():
            rows = torch.split(torch.from_numpy(features.array), EVALUATION_BATCH)
            scores = [model.eval().head(part.to(device).float()).cpu().numpy() for part in rows]
        return np.concatenate(scores), taken


class FeatureLoader(Loader):
    """The loader of features: each time a row is drawn, it comes from one of the views."""

    def __init__(self, split: Split, views: Sequence[Features], **how: Any) -> None:
        super().__init__(replace(split, images=views[0].array), **how)
        self._views = [self._ops.place(view.array, self.indices) for view in views]

    def batch(self, epoch: int, number: int) -> Batch:
        first = number * self.batch_size
        positions = np.arange(first, min(first + self.batch_size, len(self.indices)))
        chosen = self._epoch_order(epoch)[positions]
        features = self._take(0, chosen)
        if len(self._views) > 1:
            view = Draws(self.seed, epoch, positions).bits("view") % len(self._views)
            for other in range(1, len(self._views)):
                here = np.flatnonzero(view == other)
                features[self._ops.put(here)] = self._take(other, chosen[here])
        indices = self.indices[chosen]
        assert self.labels is not None
        return Batch(features, self._ops.put(self.labels[indices]), indices)

    def _take(self, view: int, chosen: np.ndarray) -> Tensor:
        rows, where = self._views[view]
        taken: Tensor = rows.index_select(0, self._ops.put(where[chosen])).float()
        return taken
