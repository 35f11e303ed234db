"""The learning rate at every step, as a function of nothing but the recipe and the step."""

from __future__ import annotations

import math

from zoo_core.types import Recipe

RISE = 0.3  # of a one-cycle schedule, unless `warmup` says otherwise
START = 1 / 25  # of the peak, where one-cycle begins
END = 1e-4  # of the peak, where one-cycle ends


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The rate of update `step`, counted from 0 over the whole run."""
    total = recipe.epochs * steps_per_epoch
    warmup = recipe.warmup * steps_per_epoch
    if recipe.schedule == "one_cycle":
        rise = warmup or RISE * total
        if step < rise:
            return recipe.lr * _cosine(START, 1, step / rise)
        return recipe.lr * _cosine(1, END, (step - rise) / max(1, total - 1 - rise))
    if step < warmup:
        return recipe.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, total - warmup)
    if recipe.schedule == "cosine":
        return recipe.lr * _cosine(1, 0, done)
    if recipe.schedule == "step":
        return recipe.lr * 0.1 ** ((done >= 0.5) + (done >= 0.75))
    return recipe.lr


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(1.0, done))) / 2
