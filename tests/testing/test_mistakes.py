"""Mistakes of plugin authors get one finding each, which names the cause; see mistakes.py."""

import pytest
from testing.mistakes import MISTAKES, Mistake, apart, look

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


@pytest.mark.parametrize(
    "name",
    [
        "seed-in-init",
        "no-range-for-some-numbers",
        "augmentation-misspelt",
        "attention-gives-a-list",
        "scores-of-something-else",
        "plot-is-not-a-figure",
        "mean-and-std-of-imagenet",
        "bias-not-loaded",
        "word-draws-from-numpy",
        "word-gives-float64",
        "group-misspelt-and-installed",
    ],
)
def test_a_mistake_has_one_finding_that_names_the_cause(name):
    said = look(BY_NAME[name])
    assert said.verdict == "named", said.findings


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["gaze", "code", "dots", "sums"])
def test_a_plugin_without_mistakes_has_no_finding(plugin):
    assert not apart(Mistake("none", plugin, ())).findings


@pytest.mark.slow
def test_nearly_all_mistakes_have_one_finding_that_names_the_cause_and_none_is_silent():
    said = {mistake.name: apart(mistake) for mistake in MISTAKES}
    others = {name: one.findings for name, one in said.items() if one.verdict != "named"}
    assert len(MISTAKES) == 65 and len(others) <= 4, others
    assert all(others.values()), others
