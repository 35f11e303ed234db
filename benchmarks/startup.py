"""How long a user waits for `zoo --help` and `zoo list`, as ratios measured in one run.

    python benchmarks/startup.py [--repeat 15] [--plugins 10 100 500]

The unit is `python -c "import click"` in the same interpreter: what any command line made with
click has to pay. Each figure is the best of many runs, taken in turns, because machines are noisy.
The second part has ten generated plugins that bring a command each, and no others: at most 2 units.
The third installs generated one-model plugins in a folder of their own and prints what each of them
adds. Asked for: at most 3 units, at most 2 ms a plugin.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PLUGIN = """import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="made_{number}",
            target="zoo_made_{number}.model:Model",
            summary="Generated for a benchmark",
            config={{"hidden": (512, 256), "dropout": 0.1}},
            ranges={{"hidden": (1, 65_536)}},
            parameters=1_000_000,
            recipes={{"paper": zoo.Recipe(lr=1e-4), "default": zoo.Recipe(lr=1e-3)}},
        )
    ]
"""

COMMAND = """import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands():
    return [
        zoo.CommandEntry(
            name="made-{number}",
            target="zoo_made_{number}.command:command",
            help="Generated for a benchmark.",
        )
    ]
"""
COMMANDS = 10  # plugins


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=15, help="runs of each command")
    options.add_argument("--plugins", type=int, nargs="+", default=[10, 100, 500])
    chosen = options.parse_args()
    repeat = chosen.repeat
    # As for a user: compiled bytecode is kept and used.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    zoo = [sys.executable, "-m", "zoo"]

    best = best_of(
        {
            UNIT: lambda: run([sys.executable, "-c", "import click"]),
            "zoo --help": lambda: run([*zoo, "--help"], environment),
            "zoo list": lambda: run([*zoo, "list"], environment),
            "zoo list, on a terminal": lambda: run_on_terminal([*zoo, "list"], environment),
            "zoo info cnn": lambda: run([*zoo, "info", "cnn"], environment),
        },
        repeat,
    )
    best |= best_of(
        {"timm.list_models()": lambda: run([sys.executable, "-c", LIST_TIMM], environment)},
        min(3, repeat),
    )
    show(best)

    print()
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), COMMANDS, COMMAND)
        only = environment | {
            "PYTHONPATH": folder,
            "ZOO_PLUGINS": ",".join(f"made-{number}" for number in range(COMMANDS)),
        }
        print(f"{COMMANDS} plugins that have a command each, and no others")
        best = best_of(
            {
                UNIT: lambda: run([sys.executable, "-c", "import click"], only),
                "zoo --help": lambda: run([*zoo, "--help"], only),
                "zoo list": lambda: run([*zoo, "list"], only),
            },
            repeat,
        )
    show(best)

    print()
    with tempfile.TemporaryDirectory() as folder:
        commands = {"0": lambda: run([*zoo, "list"], environment)}
        for count in chosen.plugins:
            path = Path(folder) / str(count)
            install(path, count, PLUGIN)
            more = environment | {"PYTHONPATH": str(path)}
            commands[str(count)] = lambda more=more: run([*zoo, "list"], more)  # type: ignore[misc]
        best = best_of(commands, -(-repeat // 3))
        for name, seconds in best.items():
            each = (seconds - best["0"]) / max(int(name), 1) * 1000
            print(f"{name:>4} more plugins  {seconds * 1000:7.0f} ms  {each:5.2f} ms a plugin")


LIST_TIMM = "import timm; timm.list_models()"
UNIT = 'python -c "import click"'


def show(best: dict[str, float]) -> None:
    for name, seconds in best.items():
        print(f"{name:28} {seconds * 1000:7.0f} ms  {seconds / best[UNIT]:6.2f}x")


def best_of(commands: dict[str, Callable[[], None]], repeat: int) -> dict[str, float]:
    """The quickest of several runs of each command, in turns so that noise meets all of them."""
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(repeat):
        for name, command in commands.items():
            started = time.perf_counter()
            command()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    quiet = subprocess.DEVNULL  # without models, `zoo list` says so
    subprocess.run(command, env=environment, check=True, stdout=quiet, stderr=quiet)


def run_on_terminal(command: list[str], environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=theirs) as process:
        os.close(theirs)
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0


def install(folder: Path, count: int, source: str) -> None:
    """Packages as pip would leave them: compiled, with metadata, in a folder on the path."""
    for number in range(count):
        package = folder / f"zoo_made_{number}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "plugin.py").write_text(source.format(number=number))
        metadata = folder / f"zoo_made_{number}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: zoo-made-{number}\nVersion: 1.0\n\n" + "Words. " * 500
        )
        (metadata / "entry_points.txt").write_text(
            f"[zoo]\nmade-{number} = zoo_made_{number}.plugin\n"
        )
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)


if __name__ == "__main__":
    main()
