"""The `zoo` command: finds the module of a command, and turns errors into sentences."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from zoo_core import __version__
from zoo_core.io.console import plain, show_on_stderr
from zoo_core.io.errors import ZooError
from zoo_core.spec.commands import COMMANDS

if TYPE_CHECKING:
    from types import FrameType

    from click.shell_completion import CompletionItem

OUTPUT = {errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG}  # what printing can meet
KEPT_ERRORS = 20  # files with tracebacks; older ones go
TERMINATED = 128 + signal.SIGTERM  # what a shell reports of a process that SIGTERM ended

EPILOG = """\b
Examples:
  zoo list                       what can be trained
  zoo train cnn                  train it, on CIFAR-10
  zoo predict latest cat.jpg     use it
  zoo train efficientnet_lite0_finetune --dataset ./my_photos
                                 or train on your own photographs

\b
Completion of commands and names, in your shell's start-up file:
  bash   eval "$(_ZOO_COMPLETE=bash_source zoo)"
  zsh    eval "$(_ZOO_COMPLETE=zsh_source zoo)"
  fish   _ZOO_COMPLETE=fish_source zoo | source

\b
Environment:
  ZOO_CACHE             where datasets and weights are kept
  ZOO_MANIFEST          your manifest: the weights that you published
  ZOO_RUNS              where runs are kept (default: runs)
  ZOO_PLUGINS=a,b       load only these plugins
  ZOO_DISABLE_PLUGINS=a load all but these
  ZOO_PLUGIN_TIMEOUT    seconds that a plugin may take to load (default: 20)
  ZOO_CONFIG            where the zoo remembers which plugins you disabled
  ZOO_STRICT=1          a plugin that cannot be loaded is an error
"""


class LazyGroup(click.Group):
    """Commands that are imported when they are used; only names that are not ours load plugins."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            module = importlib.import_module(f"zoo_core.cli.{COMMANDS[name][0]}")
            command: click.Command = getattr(module, f"{name}_command")
            return command
        if name.startswith("-"):
            return None  # click says that there is no such option
        from zoo_core.cli.plugin_commands import find

        return find(name)

    def invoke(self, ctx: click.Context) -> None:
        super().invoke(ctx)  # as in click, what a command returns is not its exit code

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from zoo_core.cli.plugin_commands import format_section

        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])
        format_section(formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click's, which would import every command for its help."""
        from click.shell_completion import CompletionItem

        from zoo_core.cli.plugin_commands import completions

        known = {name: help for name, (_, help) in COMMANDS.items()}
        found = [CompletionItem(n, help=h) for n, h in known.items() if n.startswith(incomplete)]
        return found + completions(incomplete) + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="zoo %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """A model zoo for image models that grows by pip install."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # --debug is accepted anywhere, because that is where people add it: at the end.
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
        if sys.unraisablehook is sys.__unraisablehook__:  # a debugger's, or pytest's, stays
            sys.unraisablehook = _raise_again
    _open_streams()
    show_on_stderr()
    try:
        code = cli.main(given, prog_name="zoo", standalone_mode=False) or 0
        sys.stdout.flush()  # here, where a full disk still gets a sentence
        sys.exit(code)
    except ZooError as error:
        if debug:
            raise
        _complain(str(error), error.hint)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        help_command = f"{context.command_path if context else 'zoo'} --help"
        _complain(error.format_message(), f"{help_command} explains the usage")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        _complain("interrupted")
        cause = error.__cause__ or error  # click makes an Abort of a KeyboardInterrupt
        sys.exit(TERMINATED if cause.args == (TERMINATED,) else 130)
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        _drop_output()
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        # An OSError of a file names it; one without a name is of the stream that is printed to.
        if isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT:
            _drop_output()
            _complain(f"the output cannot be written: {error.strerror}")
        elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _complain("a name is too long for a file", "give a shorter one")
        elif isinstance(error, MemoryError):
            _complain("there is not enough memory for this", "choose smaller sizes or numbers")
        else:
            _unexpected(given, error)
        sys.exit(1)


def _open_streams() -> None:
    """Make printing safe: a stream may be closed, or may not know every letter."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # `zoo list >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still to be written goes nowhere; Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unexpected(given: Sequence[str], error: Exception) -> None:
    """One sentence, and a file with the rest of it."""
    import traceback
    from datetime import UTC, datetime

    from zoo_core.cli.plugin_commands import broken
    from zoo_core.io.files import cache_root

    hint = "the same command with --debug shows the traceback"
    with suppress(Exception):  # a full disk, a name that cannot be printed: the error counts
        folder = cache_root() / "errors"
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.txt"))[: 1 - KEPT_ERRORS]:
            old.unlink(missing_ok=True)
        file = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.txt"
        title, details = " ".join(("zoo", *given)), "".join(traceback.format_exception(error))
        file.write_text(f"zoo {__version__}\n{title}\n\n{details}", "utf-8", "backslashreplace")
        hint = f"{file} has the traceback; --debug shows it here"
    _complain(broken(given[0] if given else "", error), hint)


def _terminated(number: int, frame: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: what is begun is put in order, and a word is said."""
    raise KeyboardInterrupt(TERMINATED)


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Send a Ctrl-C again that Python could not raise: it came in a finaliser or a weak reference.

    Importing torch runs thousands of these. From here nothing can be raised, so a thread does it.
    """
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    number = signal.SIGTERM if lost.exc_value.args == (TERMINATED,) else signal.SIGINT
    threading.Thread(target=_send, args=(number, sys._getframe()), daemon=True).start()


def _send(number: int, hook: FrameType) -> None:
    """Wait until the hook has ended, however busy the machine: in it, the signal is lost too."""
    main_thread = threading.main_thread().ident
    while main_thread:
        frame = sys._current_frames().get(main_thread)
        while frame and frame is not hook:
            frame = frame.f_back
        if not frame:
            break
        time.sleep(0.001)
    os.kill(os.getpid(), number)


def _complain(sentence: str, hint: str = "") -> None:
    end = "" if sentence.endswith(("?", "...")) else "."
    text = f"Error: {sentence if not end else sentence.rstrip('.') + end}"
    with suppress(OSError):  # the screen itself may be gone
        click.echo(plain(f"{text}\nHint: {hint}" if hint else text), err=True)
