"""The same figure is written the same way everywhere."""

import pytest

from zoo_core.io.console import duration, named, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.84, "0.8 s"), (59, "59.0 s"), (152, "2 min 32 s"), (7500, "2 h 05 min")],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (204_000, "204 kB"), (3_600_000, "3.6 MB")],
)
def test_sizes_read_as_people_say_them(bytes_, text):
    assert size(bytes_) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("test_accuracy", 0.8658, "test accuracy 86.58 %"),
        ("top5", 0.99, "top-5 accuracy 99.00 %"),
        ("reconstruction_mse", 0.01522, "reconstruction mse 0.0152"),
        ("images_per_second", 1234.5, "1,234 images/s"),
    ],
)
def test_metrics_have_names_in_words_and_shares_in_percent(name, value, text):
    assert named(name, value) == text
