"""The `zoo` command: finds the module of a command, and turns errors into sentences."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

import click

from zoo_core import __version__
from zoo_core.io.console import show_on_stderr
from zoo_core.io.errors import UsageError, ZooError, did_you_mean

TERMINATED = 128 + signal.SIGTERM  # what a shell reports of a process that SIGTERM ended

# The module and the help of each command, so that `zoo --help` imports none of them. A command is
# the function NAME_command of its module; a test keeps the table true.
COMMANDS = {
    "list": ("catalog", "List models, datasets, trainers or trained weights."),
    "info": ("catalog", "Show what a model, dataset or trainer is and how it can be used."),
    "plugins": ("plugins", "List the installed plugins and their state."),
    "data": ("data", "Fetch, check and look at datasets."),
    "train": ("train", "Train a model."),
    "tune": ("train", "Search for the settings that train a model best."),
    "sweep": ("train", "Train a model with every combination of some settings."),
    "evaluate": ("use", "Measure a trained run: loss, accuracy and the other metrics of its task."),
    "predict": ("use", "Classify images."),
    "generate": ("use", "Generate samples with a generative model."),
    "attention": ("use", "Draw where a transformer looks, layer by layer."),
    "report": ("runs", "Write the report of a run again."),
    "compare": ("runs", "Compare runs in one table and one plot."),
    "runs": ("runs", "List the runs, newest last."),
    "pull": ("weights", "Bring weights to this machine and check them."),
    "publish": ("publish", "Publish the weights of a run, with a card."),
    "verify": ("weights", "Read weights on this machine again, every byte, and check them."),
    "remove": ("weights", "Delete the copy of weights on this machine."),
    "features": ("features", "Show, compute and export the features of frozen backbones."),
    "export": ("use", "Write a trained model as ONNX or as a torch program."),
    "plugin": ("plugins", "Start a plugin, or check one."),
    "cache": ("system", "Show or clear what the zoo keeps on this machine."),
    "doctor": (
        "system",
        "Check what is installed, reachable and writable, and say how to fix the rest.",
    ),
}

EPILOG = """\b
Examples:
  zoo list                              what can be trained
  zoo train cnn                         train it, on CIFAR-10
  zoo train cnn --dataset ./my_images   or on your own images
  zoo predict latest cat.jpg            use it

\b
Completion of commands and names, in your shell's start-up file:
  bash   eval "$(_ZOO_COMPLETE=bash_source zoo)"
  zsh    eval "$(_ZOO_COMPLETE=zsh_source zoo)"
  fish   _ZOO_COMPLETE=fish_source zoo | source

\b
Environment:
  ZOO_CACHE             where datasets and weights are kept
  ZOO_MANIFEST          the list of weights that you published
  ZOO_RUNS              where runs are kept (default: runs)
  ZOO_PLUGINS=a,b       load only these plugins
  ZOO_DISABLE_PLUGINS=a load all but these
  ZOO_STRICT=1          a plugin that cannot be loaded is an error
"""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported when one of them is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"zoo_core.cli.{COMMANDS[name][0]}")
        command = getattr(module, f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS, "zoo --help lists the commands")
            raise UsageError(f"there is no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


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
    show_on_stderr()
    try:
        status = cli.main(given, prog_name="zoo", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
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
    except BrokenPipeError:
        # The reader, `head` for example, has seen enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _terminated(number: int, frame: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: what is begun is put in order, and a word is said."""
    raise KeyboardInterrupt(TERMINATED)


def _complain(sentence: str, hint: str = "") -> None:
    end = "" if sentence.endswith(("?", "...")) else "."
    click.echo(f"Error: {sentence if not end else sentence.rstrip('.') + end}", err=True)
    if hint:
        click.echo(f"Hint: {hint}", err=True)
