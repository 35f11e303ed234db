"""Checks that a plugin keeps what it promises; docs/plugins.md shows how its tests call them."""

from zoo_core.io.errors import Finding, Skipped
from zoo_core.testing.suite import Check, checks_of

__all__ = ["Check", "Finding", "Skipped", "checks_of"]
