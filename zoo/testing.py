"""What the tests of a plugin need; the zoo's own plugins use nothing else. Needs no pytest.

    @pytest.mark.parametrize("check", zoo.testing.checks_of("mixer"), ids=str)
    def test_it_keeps_its_promises(check):
        check()

Names are imported when they are first used, most of them from the package zoo-author;
docs/plugins.md explains them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo._lazy import lazy

if TYPE_CHECKING:
    from zoo_author.checks import Skipped as Skipped
    from zoo_author.models import job_of as job_of
    from zoo_author.suite import Check as Check
    from zoo_author.suite import checks_of as checks_of
    from zoo_author.torch import check_export as check_export

    from zoo_core.cli.main import main as main
    from zoo_core.io.errors import Finding as Finding

__getattr__, __dir__, __all__ = lazy(globals())
