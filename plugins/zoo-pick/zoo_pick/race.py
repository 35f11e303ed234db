"""Who trains next, and for how long: successive halving in which all get the same time.

Plain functions of what has ended so far, so that a pick that was stopped goes on as it would have.
Each rung gives every candidate that is left the same time, for as much of its recipe as fits: fewer
epochs, or a part of the images where not even one epoch fits. The best third goes on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import zoo

MEASURING = 0.3  # of the budget goes at most into measuring
LONG = 30.0  # seconds that the measuring of one may take, in a large budget
KEPT = 3  # one of so many goes on to the next rung
TRIES = 2  # trainings of a candidate that may be ended before their time
MORE = 1.3  # times the training before: less is not worth another one
UPDATES = 1000  # that a network needs to arrive; recipes that make fewer get longer
SMALL_BATCH = 32  # and these batches, where images are few
TOO_LONG = 20  # times the budget: a part of so long a training says nothing
FEWEST = 40  # images to learn from
WHOLE = 0.3  # of what is left may go into seeing all images once with frozen backbones
SLACK = 1.1  # validation after each epoch
START = 10.0  # seconds that a training may take beside its estimate
PATIENCE, PART = 1.5, 0.2  # times its estimate, or this part of what is left, if that is more


@dataclass(frozen=True)
class Candidate:
    """A model with one of its recipes."""

    name: str  # of the model, with the recipe after a colon where that is not `default`
    model: str  # plugin/name
    recipe: str
    planned: zoo.Recipe = field(repr=False)
    trainer: str = ""


@dataclass(frozen=True)
class Plan:
    """What a candidate does next: it is measured (rung 0), or trains."""

    candidate: Candidate
    rung: int
    learn: int = 0
    epochs: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # besides those of the pick
    share: float = 0.0  # of its whole training
    estimate: float = 0.0  # seconds
    limit: float = 0.0  # seconds after which it is ended

    @property
    def key(self) -> str:
        return f"{self.candidate.name}-{self.rung}"


@dataclass(frozen=True)
class Record:
    """What came of a plan: a line of trials.jsonl."""

    candidate: str
    rung: int
    state: str  # done, failed (cannot work), late (did not end in time)
    why: str = ""
    learn: int = 0
    epochs: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.0
    estimate: float = 0.0
    seconds: float = 0.0  # with everything around the training
    found: Mapping[str, Any] = field(default_factory=dict)  # see work.py

    @property
    def score(self) -> float:
        """Higher is better: the accuracy, or else the loss."""
        figures = self.found.get("figures", {})
        value = figures.get("accuracy", -figures.get("loss", math.inf))
        return value if math.isfinite(value) else -math.inf


NOTHING = Record("", 0, "done")


@dataclass(frozen=True)
class Limits:
    """What a person asks of the model."""

    ms: float = math.inf
    mb: float = math.inf

    def refuses(self, found: Mapping[str, Any]) -> str:
        ms, mb = found["ms"], found["bytes"] / 1e6
        if ms > self.ms:
            return f"it takes {ms:.2g} ms for an image, more than {self.ms:g}"
        return f"it has {mb:.3g} MB, more than {self.mb:g}" if mb > self.mb else ""


def limit(estimate: float, left: float) -> float:
    """Seconds after which a training is ended: estimates are rough, and the budget is not."""
    return min(left, max(PATIENCE * estimate, PART * left) + START)


@dataclass(frozen=True)
class Race:
    """All candidates and what has ended so far."""

    candidates: Sequence[Candidate]
    images: int  # to learn from
    budget: float  # seconds
    limits: Limits = Limits()
    workers: int = 1
    records: list[Record] = field(default_factory=list)

    def of(self, name: str, rung: int | None = None) -> list[Record]:
        return [r for r in self.records if r.candidate == name and rung in (None, r.rung)]

    def reason(self, candidate: Candidate) -> str:
        """Why a candidate is left out; "": it is not, or not yet."""
        if self.best(candidate):
            return ""
        own = self.of(candidate.name)
        if own and own[0].state == "done" and (refused := self.limits.refuses(own[0].found)):
            return refused
        # The other recipes of a model that fails need the same weights, say, or hang as well.
        like = [c.name for c in self.candidates if c.model == candidate.model and not own]
        every = own + [record for name in like for record in self.of(name, 0)]
        over = [r for r in every if r.state == "failed" or (r.state == "late" and not r.rung)]
        late = [r for r in own if r.state == "late"]
        return (over or late[TRIES - 1 :] or [NOTHING])[0].why

    def best(self, candidate: Candidate) -> Record | None:
        """Its best training; the measuring is not one."""
        done = [r for r in self.of(candidate.name) if r.rung and r.state == "done"]
        return max(done, key=lambda record: (record.score, record.share), default=None)

    def whole(self, candidate: Candidate) -> tuple[int, dict[str, Any]]:
        """Epochs of its whole training, and settings: longer than the recipe for few images."""
        recipe, found = candidate.planned, self.of(candidate.name, 0)[0].found
        known = found["recipe"]
        settings = {n: known[n] for n in ("precision",) if n in known}
        if not found["counted"]:  # it solves, or decides by itself
            return recipe.epochs, settings
        if recipe.epochs * math.ceil(self.images / recipe.batch_size) >= UPDATES:
            return recipe.epochs, settings
        size = min(recipe.batch_size, SMALL_BATCH)
        epochs = max(recipe.epochs, math.ceil(UPDATES / math.ceil(self.images / size)))
        if size != recipe.batch_size and recipe.batch_size % recipe.accumulate == 0:
            settings["batch_size"] = size
            if recipe.optimizer == "sgd":  # its steps would be too long for so small a batch
                settings["lr"] = recipe.lr * size / recipe.batch_size
        return epochs, settings

    def seconds(self, candidate: Candidate, learn: int, epochs: int, fresh: bool = False) -> float:
        """What a training takes, from what was measured and from the last training.

        fresh: on a machine that keeps no features of these images.
        """
        first = self.of(candidate.name, 0)[0].found
        last = [r for r in self.of(candidate.name) if r.rung]
        step = SLACK * (last[-1].found if last and last[-1].found else first)["step"]
        # What a frozen backbone says of all images is kept, for all recipes of its model.
        once = 0.0 if self._seen(candidate) and not fresh else first["once"]

        def told(learn: int, epochs: int) -> float:
            return float(first["fixed"] + learn * (once + epochs * step))

        if not last:
            return told(learn, epochs)
        ratio = last[-1].seconds / max(told(last[-1].learn, last[-1].epochs), 1e-3)
        return min(3.0, max(0.5, ratio)) * told(learn, epochs)

    def _seen(self, candidate: Candidate) -> bool:
        """Whether a training of its model had all images."""
        like = {one.name for one in self.candidates if one.model == candidate.model}
        return len(like) > 1 and any(
            r.candidate in like and r.rung and r.state == "done" and r.learn == self.images
            for r in self.records
        )

    def plain_seconds(self, candidate: Candidate) -> float:
        """What a training with the recipe as it is takes, on all these images."""
        return self.seconds(candidate, self.images, candidate.planned.epochs, fresh=True)

    def fitting(self, candidate: Candidate, time: float) -> Plan | None:
        """As much of its training as fits into a time; None: not even a part of the images."""
        whole, settings = self.whole(candidate)
        learn, epochs = self.images, whole
        if self.seconds(candidate, learn, epochs) > time:
            none, one = (self.seconds(candidate, learn, count) for count in (0, 1))
            epochs = min(whole, int((time - none) / max(one - none, 1e-9)))
            if epochs < 1 or self._heads(candidate):
                epochs = whole if self._heads(candidate) else 1
                nothing = self.seconds(candidate, 0, epochs)
                each = (self.seconds(candidate, 1000, epochs) - nothing) / 1000
                learn = min(self.images, int((time - nothing) / max(each, 1e-9)))
        if learn < min(FEWEST, self.images):
            return None
        share = learn * epochs / (self.images * whole)
        estimate = self.seconds(candidate, learn, epochs)
        return Plan(candidate, 0, learn, epochs, settings, share, estimate)

    def next(self, left: float, running: Collection[str] = ()) -> Plan | None:
        """What to start now, with so many seconds left; None: nothing, before something ends."""
        if left <= 0:
            return None
        if plan := self._measure(left, running):
            return plan
        if any(key.endswith("-0") for key in running):
            return None
        rung, alive = 1, self.alive()
        while alive:
            waiting = [c for c in alive if not self.of(c.name, rung) and not self._complete(c)]
            busy = [c for c in alive if f"{c.name}-{rung}" in running]
            waiting = [c for c in waiting if c not in busy]
            plan = self._train(rung, len(alive), waiting, left, running)
            if plan or busy:
                return plan
            before, alive = alive, self._going_on(alive)
            if alive == before and not any(r.rung == rung for r in self.records):
                return None
            rung += 1
        return None

    def alive(self) -> list[Candidate]:
        """Those that were measured and may train."""
        measured = {r.candidate for r in self.records if not r.rung and r.state == "done"}
        return [
            c for c in self.candidates
            if c.name in measured and not self.reason(c)
            and self.seconds(c, self.images, self.whole(c)[0]) <= TOO_LONG * self.budget
        ]  # fmt: skip

    def _measure(self, left: float, running: Collection[str]) -> Plan | None:
        spent = sum(r.seconds for r in self.records if r.rung == 0) / self.workers
        if spent > MEASURING * self.budget:
            return None
        for candidate in self.candidates:
            known = self.of(candidate.name, 0) or self.reason(candidate)
            if not known and f"{candidate.name}-0" not in running:
                seen = {c.trainer for c in self.candidates if self.of(c.name, 0)}
                most = min(LONG, max(LONG / 3, self.budget / 20))
                most += LONG * (candidate.trainer not in seen)  # it imports what its like need
                return Plan(candidate, 0, limit=min(most, left))
        return None

    def _train(
        self, rung: int, alive: int, waiting: Sequence[Candidate], left: float,
        running: Collection[str],
    ) -> Plan | None:  # fmt: skip
        """The cheapest of those that wait in this rung, with its part of the rung's time.

        Heads on frozen backbones come first, and have a time of their own.
        """
        heads = {c.name for c in self.candidates if self.of(c.name, 0) and self._heads(c)}
        ended = [r for r in self.records if r.rung == rung and r.candidate not in heads]
        spent = sum(r.seconds for r in ended) / self.workers
        rungs = max(1, math.ceil(math.log(alive, KEPT) - 1e-9))
        time = max(0.0, (left + spent) / rungs - spent) * self.workers
        others = [c for c in waiting if c.name not in heads]
        each = time / max(1, len(others) + len(running))

        def first(candidate: Candidate) -> tuple[bool, float]:
            seconds = self.seconds(candidate, self.images, self.whole(candidate)[0])
            return candidate.name not in heads, seconds

        begun = {c.model for c in self.candidates if self.of(c.name, rung)}
        passes = {c.model for c in waiting if c.name in heads and not self._seen(c)} - begun
        for candidate in sorted(waiting, key=first):
            # Of each backbone the first recipe may take longer: what it computes serves them all.
            whole = WHOLE * left / len(passes) if candidate.model in passes else 0.0
            last = self.of(candidate.name)[-1]
            if last.state == "late":  # the same once more: it goes on where it was ended
                estimate = max(last.estimate, last.seconds)
                return Plan(candidate, rung, last.learn, last.epochs, last.settings, last.share,
                            estimate, limit(estimate, left))  # fmt: skip
            around = 2 * self.seconds(candidate, 0, 0)  # or what surrounds a training is all of it
            plan = self.fitting(candidate, min(left, max(each, whole, around)))
            before = max((r.share for r in self.of(candidate.name) if r.rung), default=0.0)
            if plan is None or plan.share < min(1.0, MORE * before):
                continue
            return replace(self._shared(plan), rung=rung, limit=limit(plan.estimate, left))
        return None

    def _shared(self, plan: Plan) -> Plan:
        """With the images that its backbone has seen already, where those are not all."""
        if plan.learn == self.images or not self._heads(plan.candidate):
            return plan
        like = [c.name for c in self.candidates if c.model == plan.candidate.model]
        seen = [r.learn for name in like for r in self.of(name) if r.rung and r.state == "done"]
        learn = min(seen, key=lambda count: abs(count - plan.learn), default=plan.learn)
        if not plan.learn / MORE < learn < plan.learn * MORE:
            return plan
        return replace(plan, learn=learn, share=plan.share * learn / plan.learn)

    def _complete(self, candidate: Candidate) -> bool:
        """Whether it has had its whole training, or fails."""
        trained = [r for r in self.of(candidate.name) if r.rung]
        late = [r for r in trained if r.state == "late"]
        whole = any(r.share >= 1 and r.state == "done" for r in trained)
        return whole or len(late) >= TRIES or any(r.state == "failed" for r in trained)

    def _going_on(self, alive: Sequence[Candidate]) -> list[Candidate]:
        """The best third of those that are not complete; one, in the end. And those that nobody can
        judge yet, because their training was ended: what it computed is kept."""
        open_ = [c for c in alive if not self._complete(c)]
        more = [(record.score, c) for c in open_ if (record := self.best(c))]
        more.sort(key=lambda pair: -pair[0])
        ended = [c for c in open_ if not self.best(c) and self.of(c.name)[-1].state == "late"]
        return [c for _, c in more[: math.ceil(len(more) / KEPT)]] + ended

    def _heads(self, candidate: Candidate) -> bool:
        """Whether its time goes into seeing each image once, as that of a frozen backbone."""
        found = self.of(candidate.name, 0)[0].found
        if not found:  # it cannot even be measured
            return False
        return bool(found["once"] > self.whole(candidate)[0] * found["step"])
