"""Figures as people read them, the same wherever they are shown."""

from __future__ import annotations


def label(name: str) -> str:
    """`test_top5` -> `test top-5 accuracy`."""
    return name.replace("top5", "top-5_accuracy").replace("_", " ")


def figure(name: str, value: float) -> str:
    """The value of a metric: shares in percent."""
    return percent(value) if name.endswith(("accuracy", "top5")) else f"{value:.4f}"


def named(name: str, value: float) -> str:
    """`accuracy 91.20 %`, for a line of several."""
    if name == "images_per_second":
        return f"{value:,.0f} images/s"
    return f"{label(name)} {figure(name, value)}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(bytes_: int) -> str:
    """A file size."""
    value = float(bytes_)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
