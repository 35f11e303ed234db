"""Checks that a plugin keeps what it promises; `zoo plugin check` and its author's tests run them.

    import pytest
    from zoo_core.testing import checks_of

    @pytest.mark.parametrize("check", checks_of("my-plugin"), ids=str)
    def test_it_keeps_its_promises(check):
        check()

Nothing here is a pytest plugin: it costs nobody anything who does not import it.
"""

from zoo_core.io.errors import Finding, Skipped
from zoo_core.testing.suite import Check, checks_of

__all__ = ["Check", "Finding", "Skipped", "checks_of"]
