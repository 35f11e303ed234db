"""The datasets and trainers that come with zoo-core."""

from __future__ import annotations

ZOO_API = 1
