"""A race keeps its budget whatever its members do, and finds the best of them."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from zoo_pick.race import SMALL_BATCH, UPDATES, Candidate, Limits, Race, Record

import zoo

IMAGES = 4000


@dataclass
class Member:
    """How a made-up model really behaves."""

    best: float  # accuracy after its whole training
    step: float = 1e-4  # seconds for an image in an epoch
    once: float = 0.0
    fixed: float = 0.5
    early: float = 0.3  # of its training, after which it is near its best
    wrong: float = 1.0  # what was measured, over what is true
    ms: float = 1.0
    fails: str = ""
    hangs: bool = False


def candidates(members, **recipe):
    planned = zoo.Recipe(**{"epochs": 20, **recipe})
    return [Candidate(name, f"p/{name}", "default", planned) for name in members]


def run(members, budget=600.0, images=IMAGES, limits=None, overhead=0.2, **recipe):
    """Run a race in made-up time; the race and the seconds that it took."""
    race = Race(candidates(members, **recipe), images, budget, limits or Limits())
    spent, kept = 0.0, {}  # kept: seconds of trainings that were ended, which go on
    while plan := race.next(budget - spent):
        assert plan.limit <= budget - spent + 1e-9
        member, found = members[plan.candidate.name], {}
        state, why = "done", ""
        if member.fails:
            state, why, took = "failed", member.fails, 0.5
        elif member.hangs:
            state, why, took = "late", "it did not end", plan.limit
        elif not plan.rung:
            took = 2.0
            found = {
                "fixed": member.fixed * member.wrong, "once": member.once * member.wrong,
                "step": member.step * member.wrong, "counted": True, "ms": member.ms,
                "bytes": 4e6, "recipe": {"epochs": 1, "batch_size": 128}, "judges": 1000,
                "right": "", "figures": {},
            }  # fmt: skip
        else:
            took = member.fixed + plan.learn * (member.once + member.step * plan.epochs)
            took -= kept.get((plan.candidate.name, plan.learn, plan.epochs), 0.0)
            if took > plan.limit:
                state, why, took = "late", "it did not end", plan.limit
                kept[plan.candidate.name, plan.learn, plan.epochs] = took
            accuracy = member.best * (1 - math.exp(-3 * plan.share / member.early))
            found = {"figures": {"accuracy": accuracy}, "ms": member.ms, "bytes": 4e6,
                     "judges": 1000, "right": "", "recipe": {}, "step": member.step}  # fmt: skip
        spent += took + overhead
        race.records.append(
            Record(plan.candidate.name, plan.rung, state, why, plan.learn, plan.epochs,
                   plan.settings, plan.share, plan.estimate, took, found if state == "done" else {})
        )  # fmt: skip
        assert len(race.records) < 300
    return race, spent


def winner(race):
    return max((c for c in race.candidates if race.best(c)), key=lambda c: race.best(c).score).name


def drawn(draw, count):
    """Members of all sorts."""
    return {
        f"m{number}": Member(
            best=float(draw.uniform(0.3, 0.95)),
            step=float(10 ** draw.uniform(-5, -1.5)),
            once=float(draw.choice([0.0, 0.01])),
            wrong=float(draw.choice([0.3, 1.0, 2.0])),
            hangs=bool(draw.random() < 0.15),
            fails="no weights" if draw.random() < 0.15 else "",
        )
        for number in range(count)
    }


@pytest.mark.parametrize("budget", [20.0, 60.0, 600.0, 3600.0])
def test_the_budget_is_kept_whatever_the_members_do(budget):
    draw = np.random.default_rng(0)
    for _ in range(10):
        _, spent = run(drawn(draw, 20), budget)
        assert spent <= budget + 0.2  # what surrounds the last training


def test_the_best_of_unlike_members_is_found():
    members = {
        "quick": Member(0.55, step=1e-5, early=0.1),
        "frozen": Member(0.88, step=1e-6, once=0.01),
        "middle": Member(0.80, step=3e-4),
        "good": Member(0.93, step=5e-4, early=0.4),
        "slow": Member(0.95, step=1.0),  # a day
        "hangs": Member(0.99, hangs=True),
        "fails": Member(0.99, fails="its weights are not here"),
    }
    race, _ = run(members)
    assert winner(race) == "good"
    assert race.best(race.candidates[3]).share == 1
    reasons = {c.name: race.reason(c) for c in race.candidates}
    assert reasons["fails"] == "its weights are not here" and "did not end" in reasons["hangs"]
    assert not race.best(race.candidates[4])


def test_nothing_is_trained_twice_and_the_race_ends_when_all_is_done():
    race, spent = run({f"m{n}": Member(0.5 + n / 100, step=1e-5) for n in range(9)})
    assert spent < 120  # all have had their whole training
    keys = [(r.candidate, r.rung) for r in race.records]
    assert len(keys) == len(set(keys)) == 18
    assert all(r.share == 1 for r in race.records if r.rung)


def test_each_rung_keeps_a_third_and_gives_it_more_time():
    members = {f"m{n}": Member(0.5 + n / 50, step=3e-3, early=1.0) for n in range(18)}
    race, _ = run(members, 900.0)
    first, second = ([r for r in race.records if r.rung == rung] for rung in (1, 2))
    assert len(first) == 18 and len(second) == 6
    assert {r.candidate for r in second} == {f"m{n}" for n in range(12, 18)}
    assert min(r.share for r in second) >= 2 * max(r.share for r in first)
    assert winner(race) in ("m16", "m17")  # of two so alike either may have had an epoch more


def test_a_model_that_is_too_slow_or_too_large_never_trains():
    race, _ = run({"a": Member(0.5), "b": Member(0.9, ms=9)}, limits=Limits(ms=5))
    assert winner(race) == "a" and "9 ms" in race.reason(race.candidates[1])
    race, _ = run({"a": Member(0.5)}, limits=Limits(mb=3))
    assert "4 MB" in race.reason(race.candidates[0]) and not race.best(race.candidates[0])


def test_few_images_make_a_longer_training_with_smaller_batches():
    race, _ = run({"a": Member(0.5)}, images=320, batch_size=128, optimizer="sgd", lr=0.4)
    record = race.best(race.candidates[0])
    assert record.epochs == UPDATES / (320 / SMALL_BATCH) and record.share == 1
    assert record.settings == {"batch_size": SMALL_BATCH, "lr": 0.4 * SMALL_BATCH / 128}
    race, _ = run({"a": Member(0.5)}, images=320_000, budget=7200.0)
    assert race.best(race.candidates[0]).settings == {}


def test_where_not_even_an_epoch_fits_a_part_of_the_images_does():
    race, _ = run({"a": Member(0.9, step=0.02)}, 60.0, epochs=10)
    record = race.best(race.candidates[0])
    assert record.epochs == 1 and 100 < record.learn < IMAGES


def test_several_workers_get_several_plans_and_wait_for_the_measuring():
    race = Race(candidates({"a": 0, "b": 0}), IMAGES, 100.0, workers=2)
    first = race.next(90.0)
    second = race.next(90.0, [first.key])
    assert {first.candidate.name, second.candidate.name} == {"a", "b"}
    assert race.next(90.0, [first.key, second.key]) is None


def test_a_training_that_was_ended_is_tried_once_more():
    members = {"better": Member(0.9, once=0.02, wrong=0.2), "worse": Member(0.6)}
    race, _ = run(members, 300.0)
    states = [r.state for r in race.of("better") if r.rung]
    assert states[0] == "late" and "done" in states and winner(race) == "better"
    race, _ = run({"never": Member(0.9, step=0.02, wrong=0.001), "worse": Member(0.6)}, 300.0)
    assert [r.state for r in race.of("never") if r.rung] == ["late", "late"]
    assert race.reason(race.candidates[0]) == "it did not end" and winner(race) == "worse"
