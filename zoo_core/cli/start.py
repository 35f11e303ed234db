"""Where the `zoo` command begins: an interruption of the first imports gets a sentence too."""

import os
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Import the command line and run it; Ctrl-C in the first moments shows no traceback."""
    try:
        from zoo_core.cli.main import main as run

        run(arguments)
    except KeyboardInterrupt:
        # Without the interpreter's own end, which imports and may be interrupted once more.
        os.write(2, b"Error: interrupted.\n")
        os._exit(130)
