"""Calls: command lines made from the click tree itself, of ordinary and of nasty words.

Each runs in a copy of a small home that holds trained runs, images, and files that are none. What
must hold: no traceback, no unexpected error, exit code 0, 1, 2 or 130, an error is a sentence,
`--json` prints one JSON document, no sign that steers a terminal, no hang, little memory, and
nothing written outside of the home.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from campaigns import forks, scenes
from campaigns.kills import MLP, TRAIN
from campaigns.words import FITTING, NASTY, PLACES, SETTINGS, VALUES, VARIABLES

SECONDS = 60  # after which a call hangs
PATIENCE = 8  # seconds after which one that trains or serves gets a Ctrl-C
MEMORY = 3 << 30
CODES = (0, 1, 2, 130)
TEMPORARY = ("/tmp/", "/var/tmp/", "/usr/tmp/")
ESCAPES = ("\x1b", "\x07", "\x9b", "\u202e", "\x08")

LONG = {("train",), ("tune",), ("sweep",), ("tensorboard",), ("features", "compute"), ("publish",),
        ("reproduce",)}  # fmt: skip
RARE = {("doctor",): 0.03, ("plugin", "check"): 0.2, ("export",): 0.3, ("tensorboard",): 0.1,
        ("tune",): 0.5, ("compare",): 0.5, ("report",): 0.3, ("reproduce",): 0.3,
        ("blend",): 0.3}  # fmt: skip


@dataclass(frozen=True)
class Call:
    path: tuple[str, ...]
    arguments: tuple[str, ...]
    around: tuple[str, ...] = ()  # as in a shell: NAME=VALUE, and where the output goes

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.around, *self.path, *self.arguments)

    @property
    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.around if "=" in word)

    @property
    def output(self) -> str:
        return next((word for word in self.around if word.startswith(">")), "")


def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command that can be called, those of plugins too."""
    from zoo_core.cli.main import cli
    from zoo_core.cli.plugin_commands import labelled
    from zoo_core.spec.commands import COMMANDS

    context = click.Context(cli)
    top = {name: cli.get_command(context, name) for name in (*COMMANDS, *labelled())}
    return dict(_leaves((), top))


def _leaves(path: tuple[str, ...], found: Any) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in found.items():
        if isinstance(command, click.Group):
            yield from _leaves((*path, name), command.commands)
            if not command.invoke_without_command:
                continue
        yield (*path, name), command


def drawn(draws: random.Random, known: dict[tuple[str, ...], click.Command]) -> Call:
    """A command line: some options and arguments of a command, each with some word."""
    path = draws.choices(list(known), [RARE.get(one, 1.0) for one in known])[0]
    options, arguments = [], []
    params = [one for one in known[path].params if one.name not in ("help", "debug")]
    share = min(0.6, 3 / max(1, len(params)))
    for param in params:
        if isinstance(param, click.Argument):
            count = 1 if param.nargs == 1 else draws.choice((1, 1, 1, 2, 3))
            arguments += [_word(param, draws) for _ in range(count * (draws.random() < 0.93))]
            continue
        needed = param.required or (path[-1] == "clear" and param.name == "yes")
        for _ in range(
            (draws.random() < share or needed) + (param.multiple and draws.random() < 0.2)
        ):
            name = draws.choice([*param.opts, *param.secondary_opts])
            if param.is_flag:  # type: ignore[attr-defined]
                options.append([name])
            elif name.startswith("--") and draws.random() < 0.5:
                options.append([f"{name}={_word(param, draws)}"])
            else:
                options.append([name, _word(param, draws)])
    if draws.random() < 0.02:
        options.append([draws.choice(("--no-such-option", "-x", "--help", "--", "-"))])
    draws.shuffle(options)
    words = [word for option in options for word in option]
    words = [*arguments, *words] if draws.random() < 0.7 else [*words, *arguments]
    around = []
    if draws.random() < 0.15:
        around.append(f"{draws.choice(VARIABLES)}={draws.choice((*PLACES, *NASTY))}")
    if draws.random() < 0.05:
        around.append(draws.choice((">/dev/full", ">&-")))
    return Call(path, (*words, *_bounds(path, words, draws)), tuple(around))


def _bounds(path: tuple[str, ...], words: list[str], draws: random.Random) -> list[str]:
    """What keeps a training short; now and then it is as long as the words say, until a Ctrl-C."""
    if path not in (("train",), ("tune",), ("sweep",), ("features", "compute")):
        return ["--port", "0"] if path == ("tensorboard",) else []
    bounds = ["--set", "data.train_size=32", "--set", "data.test_size=16"]
    text = " ".join(words)
    if "--dataset" not in text:
        bounds += ["--dataset", "synthetic"]
    if "--epochs" not in text and "epochs=" not in text and path[0] != "features":
        bounds += ["--epochs", "1"]
    if path == ("tune",) and "--trials" not in text:
        bounds += ["--trials", "2"]
    return bounds if draws.random() < 0.9 and "--resume" not in text else []


def _word(param: click.Parameter, draws: random.Random) -> str:
    """A word for a parameter: one that fits, or any."""
    names = [str(param.name), *(option.lstrip("-") for option in param.opts)]
    fitting = next((FITTING[name] for name in names if name in FITTING), [])
    if isinstance(param.type, click.Choice):
        fitting = list(map(str, param.type.choices))
    elif param.type.name.startswith(("integer", "float")):
        fitting = ["0", "1", "2", "3", "0.5", "7"]
    elif "--set" in param.opts or param.name == "space":
        key = draws.choice(SETTINGS) if draws.random() < 0.9 else draws.choice(NASTY)
        value = draws.choice(VALUES) if draws.random() < 0.5 else draws.choice(NASTY)
        start = draws.choice(("log:", "choice:", "uniform:", "")) * (param.name == "space")
        return f"{key}={start}{value}"
    if fitting and draws.random() < 0.6:
        return draws.choice(fitting)
    return draws.choice(NASTY)


@dataclass
class Calls:
    """The campaign; `attempt` makes one call."""

    folder: Path
    heavy: bool = True  # with torch
    sabotage: Callable[[], object] | None = None  # for tests: called in every child

    def __enter__(self) -> Calls:
        forks.prepare_process()
        forks.load_zoo(self.heavy)
        self._home, self._stage = self.folder / "home", self.folder / "stage"
        self._here = self._stage / "here"  # with room around it: `..` is still ours
        scenes.copy(self._made(), self._home)
        self._known = commands()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _made(self) -> Path:
        """A home with two runs, published weights, and files that are none."""
        here = self._here
        scenes.make_home(here)
        for image in sorted((here / "photos").rglob("*.png"))[6:]:
            image.unlink()
        env = scenes.environment(here)
        publish = ("publish", "latest", "--tag", "called", "--to", "file:shared")
        lines = [("train", "fcn_numpy", *TRAIN), *[MLP] * self.heavy, publish]
        lines += [("predict", "latest", "image.png"), ("list", "--weights"), ("data", "list")]
        forks.warm(lines, here, env)
        run = sorted(here.glob("runs/*"))[-1]  # mlp, after fcn_numpy
        shutil.copy(run / "model.safetensors", here / "model.safetensors")
        self._run = run.name
        draws = random.Random(0)
        for name in ("noise.png", "noise.json", "noise.safetensors"):
            (here / name).write_bytes(draws.randbytes(3000))
        (here / "deep.json").write_text("[" * 100_000)
        (here / "deep.toml").write_text("x = " + "[" * 100_000)
        (here / "config.toml").write_text(
            'model = "mlp"\ndataset = "synthetic"\n[settings]\nlr = 0.1\n'
        )
        (here / "text.csv").write_text(
            "image,label\nphotos/a/0.png,x\nphotos/b/1.png,y\n\x1b[31m,z\n"
        )
        (here / "secret").write_text("not readable")
        (here / "secret").chmod(0)
        (here / "folder").mkdir()
        for name in ("empty", "empty.png"):
            (here / name).touch()
        (here / "loop").symlink_to("loop")
        (here / "dangling").symlink_to("nowhere")
        return self._stage

    def draw(self, seed: int, number: int) -> list[str]:
        """A command line; RUN stands for the name of the newest run, which is never the same."""
        return list(drawn(random.Random(f"{seed} {number}"), self._known).words)

    def attempt(self, subject: list[str]) -> tuple[int, str]:
        """Make a call: one, and what did not hold, "" if all did."""
        words = tuple(re.sub(r"\bRUN\b", self._run, word) for word in subject)
        start = next(n for n, word in enumerate(words) if not re.match(r"[A-Z_]+=|>", word))
        path = max((p for p in self._known if p == words[start : start + len(p)]), key=len)
        problem = self.judge(Call(path, words[start + len(path) :], words[:start]))
        shown = " ".join(
            word if len(word) < 80 else f"{word[:30]}...({len(word)})" for word in words
        )
        return 1, f"zoo {shown}: {problem}" if problem else ""

    def judge(self, call: Call) -> str:
        scenes.copy(self._home, self._stage)
        for name in ("pipe", "pipe.png"):
            os.mkfifo(self._here / name)
        before = scenes.around(self._stage)
        watched = self.folder / "outside"
        watched.write_bytes(b"")
        patience = PATIENCE if call.path in LONG else 0
        prepared = Watch(
            self._stage, watched, call.environment, patience, call.output, self.sabotage
        )
        ended = forks.call(
            (*call.path, *call.arguments), self._here,
            env=scenes.environment(self._here) | call.environment, seconds=SECONDS,
            memory=MEMORY, before=prepared,
        )  # fmt: skip
        outside = watched.read_text(errors="backslashreplace")
        watched.unlink()
        if outside:
            return f"written outside: {outside.splitlines()[0]}"
        if before != scenes.around(self._stage):
            return "something beside its folder changed"
        return self._verdict(call, ended)

    def _verdict(self, call: Call, ended: forks.Ended) -> str:
        both = ended.out + ended.err
        errors = sorted((self._here / "cache" / "errors").glob("*.txt"))
        if errors:
            last = errors[-1].read_text("utf-8", "replace")
            return f"an unexpected error: {last[-700:]}"
        if ended.overdue or ended.code not in CODES or "Traceback (most recent" in both:
            return str(ended)
        silent = not ended.err.strip() and not ended.out.strip()
        if ended.code in (1, 2) and silent and call.output != ">&-":  # --json says it there
            return f"no word about what is wrong: {ended}"
        if any(sign in both for sign in ESCAPES):
            return f"signs that steer a terminal: {ended}"
        if call.output:
            return ""
        if "--json" in call.arguments and "--" not in call.arguments and not ended.code:
            if "--help" in call.arguments or "-h" in call.arguments:
                return ""
            try:
                json.loads(ended.out)
            except ValueError:
                return f"not one JSON document: {ended}"
        return ""


@dataclass(frozen=True)
class Watch:
    """Called in the child: notes what it writes outside of a folder, and presses Ctrl-C."""

    folder: Path
    notes: Path
    set: Collection[str]  # variables of the environment
    patience: float
    output: str
    sabotage: Callable[[], object] | None

    def __call__(self) -> None:
        from fixtures.kills import EVENTS

        # Where TMPDIR cannot be used, Python looks for another place that can be.
        own = [str(self.folder), *(TEMPORARY if "TMPDIR" in self.set else ())]
        log = os.open(self.notes, os.O_WRONLY | os.O_APPEND)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
            if (not writes and event not in EVENTS) or not isinstance(arguments[0], str | bytes):
                return
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith((*own, "/dev/", "/proc/")):
                os.write(log, f"{event} {path}\n".encode(errors="backslashreplace"))

        sys.dont_write_bytecode = True  # Python's own writing is not judged
        sys.addaudithook(watch)
        if self.output == ">&-":
            sys.stdout.close()  # as Python finds it: there is none
            sys.stdout = None  # type: ignore[assignment]
        elif self.output:
            os.dup2(os.open(self.output[1:], os.O_WRONLY), 1)
        if self.patience:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, self.patience, self.patience)
        if self.sabotage:
            self.sabotage()
