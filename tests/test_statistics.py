"""Intervals hold as often as they say, and tests raise as few false alarms."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from zoo_core.runs.predictions import intervals
from zoo_core.runs.statistics import (
    across_seeds,
    draws,
    gathered,
    holm,
    independent,
    paired,
    percentiles,
    resampled,
    spread,
    student,
    t_quantile,
    wilson,
)
from zoo_core.spec.answers import ClassAnswers, Targets


@pytest.mark.parametrize(("right", "count"), [(0, 5), (5, 5), (86, 100), (8637, 10_000), (1, 3)])
def test_the_interval_of_a_share_is_wilsons(right, count):
    expected = stats.binomtest(right, count).proportion_ci(0.95, "wilson")
    assert wilson(right / count, count) == pytest.approx((expected.low, expected.high))
    assert wilson(0.0, 0) == (0, 1)
    for every in range(1, 200):
        assert wilson(1.0, every)[1] == 1 and wilson(0.0, every)[0] == 0


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (8, 2), (2, 8), (40, 40), (300, 250)])
def test_paired_shares_have_the_p_value_of_a_fair_coin(won, lost):
    found, coin = paired(won, lost, 1000), stats.binom(won + lost, 0.5)
    few = min(won, lost)
    expected = min(1, 2 * coin.cdf(few) - coin.pmf(few))
    assert found.p == pytest.approx(expected)
    assert found.value == (won - lost) / 1000
    assert found.interval[0] < found.value < found.interval[1]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30])
def test_students_t_is_that_of_scipy(freedom):
    for t in (0.0, 0.5, 2.0, 5.0):
        assert student(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-12)
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom))


def test_seeds_are_compared_by_a_t_test():
    ours, theirs = (0.861, 0.866, 0.864), (0.858, 0.859)
    found = across_seeds(ours, theirs)
    assert found.p == pytest.approx(stats.ttest_ind(ours, theirs).pvalue)
    assert across_seeds((0.8,), (0.9,)) is None  # nobody knows what a seed changes
    one = across_seeds((0.8,), theirs)
    assert one.interval[0] < one.value < one.interval[1]
    assert across_seeds((0.8, 0.8), (0.8, 0.8)).p == 1.0
    told = spread(ours)
    interval = stats.t.interval(0.95, 2, np.mean(ours), stats.sem(ours))
    assert told.interval == pytest.approx(interval)
    assert (told.seeds, told.low, told.high) == (3, 0.861, 0.866)
    assert spread((0.9,)).interval is None


def test_holm_adjusts_from_the_smallest_p_on():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_shares_of_other_images_are_compared_as_independent():
    found = independent(0.86, 10_000, 0.88, 10_000)
    table = [[8600, 1400], [8800, 1200]]
    assert found.p == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue)
    assert found.interval[0] < -0.02 < found.interval[1] < 0


def test_the_images_that_would_settle_a_difference_settle_it():
    found = paired(110, 90, 10_000)
    assert not found.significant
    enough = found.enough(10_000)
    times = enough / 10_000
    assert paired(round(110 * times), round(90 * times), enough).p < 0.01
    assert paired(50, 50, 1000).enough(1000) is None


def test_samples_are_the_same_every_time_and_as_large_as_the_images():
    first, second = (np.concatenate([*draws(50)]) for _ in range(2))
    assert (first == second).all() and (first.sum(1) == 50).all()


@pytest.mark.slow
def test_classifiers_of_equal_accuracy_are_rarely_called_different():
    random, alarms = np.random.default_rng(0), 0
    for _ in range(2000):
        easy = random.random(2000)  # errors of both are on the same hard images, mostly
        ours, theirs = (random.random(2000) < 0.7 + 0.3 * easy for _ in range(2))
        alarms += paired((ours & ~theirs).sum(), (theirs & ~ours).sum(), 2000).significant
    assert 0.03 * 2000 < alarms <= 0.06 * 2000


@pytest.mark.slow
def test_two_points_are_found_on_ten_thousand_images():
    random, found = np.random.default_rng(1), 0
    for _ in range(500):
        ours, theirs = random.random(10_000) < 0.86, random.random(10_000) < 0.88
        test = paired(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), 10_000)
        found += test.significant and test.value < 0
    assert found >= 0.95 * 500


@pytest.mark.slow
def test_families_of_equal_classifiers_raise_as_few_alarms_as_one_pair():
    random, alarms = np.random.default_rng(2), 0
    for _ in range(500):
        five = random.random((5, 1000)) < 0.86
        tests = [
            paired(int((a & ~b).sum()), int((b & ~a).sum()), 1000).p
            for a, b in itertools.combinations(five, 2)
        ]
        alarms += min(holm(tests)) < 0.05
    assert alarms <= 0.06 * 500


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.86, 0.98])
@pytest.mark.parametrize("count", [200, 2000])
def test_intervals_of_shares_hold_the_true_one_as_often_as_they_say(share, count):
    right = np.random.default_rng(3).binomial(count, share, 4000)
    intervals = [wilson(each / count, count) for each in right]
    held = np.mean([low <= share <= high for low, high in intervals])
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
def test_intervals_over_seeds_hold_the_true_mean_as_often_as_they_say():
    random = np.random.default_rng(4)
    found = [spread(values).interval for values in random.normal(0.86, 0.003, (4000, 3))]
    assert 0.93 <= np.mean([low <= 0.86 <= high for low, high in found]) <= 0.97


@pytest.mark.slow
def test_bootstrap_intervals_hold_the_true_difference_as_often_as_they_say():
    random, held, called = np.random.default_rng(5), 0, 0
    for _ in range(600):
        shared = random.exponential(0.3, 500)
        ours, theirs = (shared + random.exponential(0.2, 500) for _ in range(2))
        gain = ours - theirs
        drawn = gathered(lambda w, gain=gain: {"loss": w @ gain / len(gain)}, 500)["loss"]
        test = resampled(gain.mean(), drawn)
        held += test.interval[0] <= 0 <= test.interval[1]
        called += test.significant
        assert test.interval == percentiles(drawn) and math.isfinite(test.p)
    assert 0.93 * 600 <= held <= 0.97 * 600
    assert called <= 0.07 * 600


def boastful_scores(random, images):
    """Logits of a model that is right in about two of three cases and surer than that."""
    labels = random.choice(3, images, p=(0.5, 0.3, 0.2))
    logits = random.normal(size=(images, 3)) * 1.5
    logits[np.arange(images), labels] += 1.2
    return 1.5 * logits, labels


@pytest.mark.slow
def test_intervals_of_all_figures_hold_the_true_ones_as_often_as_they_say():
    random, answers = np.random.default_rng(6), ClassAnswers(Targets("class", ("a", "b", "c")))
    logits, labels = boastful_scores(random, 300_000)
    true = answers.weighted(logits, labels)(np.ones((1, len(labels))))
    held, rounds = dict.fromkeys(true, 0), 400
    for _ in range(rounds):
        logits, labels = boastful_scores(random, 1000)
        found = intervals(answers, answers.values(logits), labels)
        for name, (low, high) in found.items():
            held[name] += low <= true[name][0] <= high
    shares = {name: count / rounds for name, count in held.items()}
    assert all(0.93 <= share <= 0.975 for share in shares.values()), shares


@pytest.mark.slow
def test_the_calibration_error_of_a_calibrated_model_may_be_zero():
    random, answers = np.random.default_rng(7), ClassAnswers(Targets("class", ("a", "b", "c")))
    held = 0
    for _ in range(300):
        logits = random.normal(size=(1000, 3)) * 2
        values = answers.values(logits)
        labels = (random.random((1000, 1)) < np.cumsum(values, 1)).argmax(1)
        held += intervals(answers, values, labels)["ece"][0] == 0
    assert held >= 0.93 * 300
