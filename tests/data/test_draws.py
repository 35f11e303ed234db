import numpy as np
import pytest

from zoo_core.data.draws import Draws, permutation


def test_the_bits_are_pinned():
    bits = Draws(7, 3, np.array([0, 1, 2, 49_999])).bits("crop.x")
    assert [hex(value) for value in bits] == [
        "0xe2b7ae37417871cc",
        "0xda4c851cab00aa9e",
        "0xeb467cac3a27bd53",
        "0xec433cb62df2c80",
    ]


def test_the_bits_are_splitmix64_of_a_hashed_key():
    """Once more, in plain Python."""
    import hashlib

    mask = (1 << 64) - 1
    key = int.from_bytes(hashlib.blake2b(b"7/3/crop.x", digest_size=8).digest(), "little")
    for position in (0, 1, 49_999):
        z = (key + position * 0x9E3779B97F4A7C15) & mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        assert Draws(7, 3, np.array([position])).bits("crop.x")[0] == z


def test_a_draw_depends_on_its_address_alone():
    draws = Draws(1, 2, np.arange(1000))
    for name in ("bits", "uniform", "coins"):
        whole = getattr(draws, name)("flip")
        some = np.array([999, 3, 500])
        assert np.array_equal(getattr(Draws(1, 2, some), name)("flip"), whole[some])
    for other in (Draws(2, 2, draws.positions), Draws(1, 3, draws.positions)):
        assert not np.any(other.bits("flip") == draws.bits("flip"))
    assert not np.any(draws.bits("crop.x") == draws.bits("crop.y"))


def test_whole_numbers_are_spread_evenly_and_include_both_ends():
    values = Draws(0, 0, np.arange(90_000)).integers("crop.x", -4, 4)
    counts = np.bincount(values + 4)
    assert len(counts) == 9
    assert np.all(np.abs(counts - 10_000) < 5 * np.sqrt(10_000))


def test_neighbouring_positions_epochs_and_purposes_are_independent():
    n = 100_000
    a = Draws(0, 0, np.arange(n)).uniform("a")
    others = (a[1:], Draws(0, 1, np.arange(n)).uniform("a"), Draws(0, 0, np.arange(n)).uniform("b"))
    for other in others:
        assert abs(np.corrcoef(a[: len(other)], other)[0, 1]) < 5 / np.sqrt(n)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.5, 1.0, 2.0, 8.0])
def test_beta_draws_follow_the_beta_distribution(alpha):
    n = 20_000
    values = np.sort(Draws(0, 0, np.arange(n)).beta("mixup", alpha))
    assert values[0] >= 0 and values[-1] <= 1
    reference = np.sort(np.random.default_rng(0).beta(alpha, alpha, n))
    # Two samples of n from one distribution: the Kolmogorov-Smirnov distance exceeds
    # 1.95 * sqrt(2 / n) once in a thousand times.
    both = np.concatenate((values, reference))
    steps = [np.searchsorted(sample, both, side="right") / n for sample in (values, reference)]
    assert np.abs(steps[0] - steps[1]).max() < 1.95 * np.sqrt(2 / n)


def test_orders_are_permutations_that_differ_between_seeds_and_epochs():
    orders = [permutation(1000, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    for order in orders:
        assert np.array_equal(np.sort(order), np.arange(1000))
    assert len({order.tobytes() for order in orders}) == 4
    assert permutation(8, 0, 0).tolist() == [1, 5, 6, 2, 4, 0, 7, 3]
