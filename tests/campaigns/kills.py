"""Kills: every command that writes, killed with SIGKILL and run again until it comes to its end.

A story is a command in a home of its own, killed up to eight times: before a file operation or
after a step, which are counted, or at any time. After each kill the commands that look at what
there is must work. In the end all is as two undisturbed runs of the command agree that it is:
weights, plots and tables byte for byte, documents in every field but times.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns import forks, scenes
from campaigns.hub_process import HubProcess

from zoo_core.io.files import file_digest
from zoo_core.use import many

Line = tuple[str, ...]
SMALL: Line = ("--set", "data.train_size=64", "--set", "data.test_size=32")
HOW: Line = ("--epochs", "2", "--set", "batch_size=16", "--no-report", "--quiet", "--device", "cpu",
             "--checkpoint-every", "1e-9")  # fmt: skip
TRAIN: Line = ("--dataset", "synthetic", *SMALL, *HOW)
TUNE: Line = ("--dataset", "synthetic", "--epochs", "2", "--set", "batch_size=16", *SMALL, "--set",
              "model.hidden=8", "--trials", "3", "--subset", "1", "--quiet", "--device", "cpu",
              "--checkpoint-every", "1e-9")  # fmt: skip
MLP: Line = ("train", "mlp", "--set", "model.hidden=8", *TRAIN)
FROZEN: Line = ("resnet18_features", "--dataset", "synthetic", *SMALL, "--quiet", "--device", "cpu",
                "--set", "preprocess.size=32", "--set", "model.channels=4,8,12,16", "--set",
                "model.backbone_weights=backbone.safetensors")  # fmt: skip
PHOTOS: Line = (
    "--dataset",
    "./photos",
    "--set",
    "data.image_size=16",
    "--set",
    "data.store=packed",
)
NAME = "org/shapes"
LONG = 600  # seconds, after which a command hangs
ANY = object()  # a fact that two undisturbed runs do not agree on
LOOK: tuple[Line, ...] = (("runs", "--json"), ("cache", "--json"), ("data", "list", "--json"))


@dataclass(frozen=True)
class Scenario:
    """A command that writes."""

    command: Line
    before: tuple[Line, ...] = ()  # what it needs
    resume: Line = ()  # what continues it, once `begun` matches a file
    begun: str = ""
    works: tuple[Line, ...] = ()  # commands that must work at any time, killed or not
    after: tuple[Line, ...] = ()  # commands that must work in the end; what they print is compared
    again: frozenset[int] = frozenset({0})  # exit codes of the same command after a kill
    stops: int = 0  # the last command of `before` is killed before this event
    must: str = ""  # a file whose bytes are compared, in words of the facts
    hub: bool = False
    weight: float = 1.0  # how often it is drawn


MANY: Line = ("predict", "lenet_numpy.mnist", "photos", "--out", "out.csv", "--device", "cpu")
PREDICT: Line = ("predict", "latest", "image.png", "--json")
RESUME: Line = (
    "train",
    "--resume",
    "latest",
    "--no-report",
    "--quiet",
    "--checkpoint-every",
    "1e-9",
)
BLEND: Line = ("-o", "blend.pdf", "--name", "student", "--set", "model.hidden=8", "--quiet",
               "--set", "epochs=2", "--set", "batch_size=16", "--device", "cpu")  # fmt: skip
PUBLISH: Line = ("publish", "latest", "--tag", "killed")
SAID_ONCE = frozenset({0, 1, 2})  # done before the kill: the second time there is nothing to do


def _training(*command: str, **how: Any) -> Scenario:
    fields: dict[str, Any] = {"resume": RESUME, "begun": "runs/*/run.json", "after": (PREDICT,)}
    return Scenario((*command, *TRAIN), must="model.safetensors", **(fields | how))


SCENARIOS: dict[str, Scenario] = {
    "train mlp": _training("train", "mlp", "--set", "model.hidden=8", weight=3),
    "train cnn": _training(
        "train",
        "cnn",
        "--set",
        "model.channels=4,8",
        "--set",
        "model.hidden=8",
        "--set",
        "augment=flip,crop:4",
        "--set",
        "ema=0.9",
    ),
    "train fcn_numpy": _training("train", "fcn_numpy", weight=2),
    "train acgan": _training("train", "acgan", "--set", "model.width=4", weight=0.5),
    "train frozen": _training("train", *FROZEN, weight=0.7),
    "train from a pack": Scenario(
        ("train", "mlp", "--set", "model.hidden=8", *PHOTOS, *HOW),
        resume=RESUME,
        begun="runs/*/run.json",
        after=(PREDICT,),
        must="cache/packs/",
        weight=2,
    ),
    "train and report": Scenario(
        tuple(w for w in MLP if w != "--no-report"),
        resume=tuple(w for w in RESUME if w != "--no-report"),
        begun="runs/*/run.json",
        after=(PREDICT,),
        must="model.safetensors",
        weight=0.1,
    ),
    "resume": Scenario(RESUME, before=(MLP,), stops=40, after=(PREDICT,), must="model.safetensors"),
    "tune": Scenario(
        ("tune", "mlp", *TUNE),
        resume=("tune", "--resume", "latest", "--quiet"),
        begun="runs/*/search.json",
        must="best.toml",
        weight=0.7,
    ),
    "tune with two workers": Scenario(
        ("tune", "mlp", *TUNE, "--workers", "2"),
        resume=("tune", "--resume", "latest", "--quiet"),
        begun="runs/*/search.json",
        must="best.toml",
        weight=0.03,
    ),
    "sweep": Scenario(
        (
            "sweep",
            "mlp",
            "--grid",
            "lr=0.01,0.1",
            *(w for w in TRAIN if w != "--no-report"),
            "--set",
            "model.hidden=8",
        ),
        resume=("sweep", "--resume", "latest", "--quiet"),
        begun="runs/*/search.json",
        must="model.safetensors",
        weight=0.7,
    ),
    "predict many": Scenario(
        (*MANY, "--batch", "4"),
        after=((*MANY, "--batch", "4", "--json"),),
        must="out.csv",
        weight=2,
    ),
    "predict a part": Scenario(
        (*MANY, "--batch", "4", "--part", "2/3"), must="out.part-2-of-3.csv", weight=2
    ),
    "predict with two workers": Scenario(
        (*MANY, "--batch", "4", "--workers", "2"), must="out.csv", weight=0.1
    ),
    "features with two workers": Scenario(
        ("features", "compute", *FROZEN, "--set", "data.train_size=900", "--workers", "2"),
        must="cache/features/",
        weight=0.1,
    ),
    "features": Scenario(
        ("features", "compute", *FROZEN),
        after=(("features", "list"), ("features", "verify")),
        must="cache/features/",
    ),
    "data fetch": Scenario(
        ("data", "fetch", "./photos", "--set", "image_size=16", "--set", "store=packed"),
        after=(("data", "verify"),),
        must="cache/packs/",
        weight=2,
    ),
    "data fetch from the hub": Scenario(("data", "fetch", "hf:org/photos"), hub=True, weight=2),
    "publish to a folder": Scenario(
        (*PUBLISH, "--to", "file:shared"),
        (MLP, (*PUBLISH, "--to", "file:shared", "--license", "a")),
        works=(("pull", "file:shared"), ("list", "--weights", "file:shared", "--json")),
        after=(("pull", "mlp.killed"), ("verify", "mlp.killed")),
        must="model.safetensors",
        weight=3,
    ),
    "publish to the hub": Scenario(
        (*PUBLISH, "--to", f"hf:{NAME}"),
        (MLP,),
        works=(("pull", f"hf:{NAME}"),),
        hub=True,
        after=(("pull", "mlp.killed"), ("verify", "mlp.killed")),
        must=".safetensors",
        weight=2,
    ),
    "pull": Scenario(
        ("pull", f"hf:{NAME}"),
        (),
        hub=True,
        after=(("pull", f"hf:{NAME}", "--json"),),
        must="cache/weights/",
        weight=2,
    ),
    "blend": Scenario(
        ("blend", "teacher", "--distil", "mlp", *BLEND),
        before=((*MLP, "--name", "teacher"),),
        must="cache/plugins/blend/",
        weight=0.1,
    ),
    "report": Scenario(("report", "latest"), (MLP,), must="report.md", weight=0.1),
    "export": Scenario(("export", "latest", "-o", "model.pt2"), (MLP,), weight=0.5),
    "plugin new": Scenario(("plugin", "new", "mixer"), again=SAID_ONCE, must="plugin.py", weight=2),
    "cache clear": Scenario(
        ("cache", "clear", "--yes"),
        (("data", "fetch", "./photos", "--set", "image_size=16", "--set", "store=packed"),),
    ),
    "runs remove": Scenario(("runs", "remove", "latest", "--yes"), (MLP,), again=SAID_ONCE),
    "remove": Scenario(
        ("remove", "mlp.killed", "--forget"),
        again=SAID_ONCE,
        before=(MLP, (*PUBLISH, "--to", "file:shared"), ("pull", "mlp.killed")),
    ),
}


@dataclass
class _Known:
    """A scenario that was played undisturbed."""

    template: Path
    facts: dict[str, Any]
    events: int
    seconds: float


@dataclass
class Kills:
    """The campaign; `attempt` plays one story."""

    folder: Path
    only: tuple[str, ...] = tuple(SCENARIOS)
    heavy: bool = True  # with torch
    timed: bool = True  # some kills come at any time; a test wants counted ones only
    _known: dict[str, _Known] = field(default_factory=dict)
    # For tests: called in every child that is told to continue.
    sabotage: Callable[[], object] | None = None

    def __enter__(self) -> Kills:
        forks.prepare_process()
        forks.load_zoo(self.heavy)
        many.BLOCKS = (8, 8)  # the few images are several blocks
        self._home = self.folder / "home"  # what every home begins as
        # Where all is played, one after the other: files that name it stay right when copied.
        self._stage = self.folder / "stage"
        scenes.make_home(self._home)
        self._hub_files = self.folder / "hub-files"
        if any(SCENARIOS[name].hub for name in self.only):
            self._published()
        if any("resnet18_features" in SCENARIOS[name].command for name in self.only):
            from features.parts import write_weights

            write_weights(self._home / "backbone.safetensors", seed=1)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _published(self) -> None:
        """What the hub holds before each story: weights, and photographs."""
        lines = (MLP, (*PUBLISH, "--to", "file:shared"), PREDICT)
        scenes.copy(self._home, self._stage)
        forks.warm(lines, self._stage, scenes.environment(self._stage))
        (model,) = (self._stage / "shared").rglob("model.safetensors")
        shutil.copytree(model.parent, self._hub_files / "weights")
        shutil.copytree(self._home / "photos", self._hub_files / "photos")

    def draw(self, seed: int, number: int) -> list[str]:
        """A story: its scenario, and what decides when the kills happen."""
        place = f"{seed} {number}"
        weights = [SCENARIOS[name].weight for name in self.only]
        return [random.Random(place).choices(self.only, weights)[0], place]

    def attempt(self, subject: list[str]) -> tuple[int, str]:
        """Play a story: how many kills it had, and what did not hold, "" if all did."""
        name, place = subject
        if name not in self._known:
            try:
                self._known[name] = self._undisturbed(name)
            except AssertionError as error:
                return 1, f"{name}, undisturbed: {error}"
        kills, problem = self._story(name, random.Random(f"{place} kills"))
        return kills, f"{name}: {problem}" if problem else ""

    def _undisturbed(self, name: str) -> _Known:
        """Two runs of it: what they agree on must hold after kills as well."""
        scenario = SCENARIOS[name]
        template, place = self.folder / name.replace(" ", "-"), self._stage
        scenes.copy(self._home, place)
        with self._world(scenario, place) as env:
            for line in scenario.before:
                last = scenario.stops if line is scenario.before[-1] else 0
                ended = forks.call(line, place, env=env, seconds=LONG, fatal=last)
                code = -signal.SIGKILL if last else 0
                assert ended.code == code, f"zoo {' '.join(line)}: {ended}"
        scenes.copy(place, template)
        found, events, seconds = [], 0, 0.0
        for turn in range(3):
            scenes.copy(template, place)
            with self._world(scenario, place) as env:
                if turn == 0:  # imports what the command needs
                    forks.warm((scenario.command, *scenario.works), place, env)
                else:
                    ended = forks.call(scenario.command, place, env=env, seconds=LONG, fatal=0)
                    assert ended.code == 0, str(ended)
                    events, seconds = ended.events, ended.seconds
                    found.append(self._outcome(scenario, place, env))
        first, second = found
        assert first.keys() == second.keys(), f"{first.keys() ^ second.keys()}"
        agreed = {key: v if second[key] == v else ANY for key, v in first.items()}
        sure = [key for key, value in agreed.items() if value is not ANY]
        assert any(scenario.must in key for key in sure), f"two runs differ in {scenario.must}"
        return _Known(template, agreed, events, seconds)

    @contextmanager
    def _world(self, scenario: Scenario, place: Path) -> Iterator[dict[str, str]]:
        """The environment of a home; with a hub of its own where the scenario has one."""
        env = scenes.environment(place)
        if not scenario.hub:
            yield env
            return
        weights, photos = self._hub_files / "weights", self._hub_files / "photos"
        with HubProcess({NAME: weights, "datasets/org/photos": photos}) as url:
            yield env | {"HF_ENDPOINT": url}

    def _outcome(self, scenario: Scenario, place: Path, env: dict[str, str]) -> dict[str, Any]:
        """What there is in the end, with what the commands that must work then print."""
        found = scenes.facts(place)
        for line in (*scenario.works, *scenario.after, *LOOK):
            ended = self._works(line, scenario, place, env)
            assert ended.code == 0, f"in the end zoo {' '.join(line)}: {ended}"
            if line in scenario.after:
                found[f"zoo {' '.join(line)}"] = scenes.told(ended.out, place)
        return found

    def _works(self, line: Line, scenario: Scenario, place: Path, env: Any) -> forks.Ended:
        """A look from outside: with a cache of its own, where it would change what there is."""
        if line in scenario.works:
            shutil.rmtree(place / "looked", ignore_errors=True)
            env = env | {"ZOO_CACHE": str(place / "looked")}
        return forks.call(line, place, env=env, seconds=LONG)

    def _story(self, name: str, draws: random.Random) -> tuple[int, str]:
        scenario, known, place = SCENARIOS[name], self._known[name], self._stage
        scenes.copy(known.template, place)
        wanted, kills, problem = draws.randint(1, 8), 0, ""
        with self._world(scenario, place) as env:
            for turn in range(wanted + 1):
                begun = scenario.resume and any(place.glob(scenario.begun))
                line = scenario.resume if begun else scenario.command
                how: dict[str, Any] = {}
                if turn < wanted and (not self.timed or draws.random() < 0.75):
                    how["fatal"] = draws.randint(1, max(1, known.events // (turn + 1)))
                elif turn < wanted:
                    how["after"] = draws.uniform(0.005, known.seconds)
                ended = forks.call(
                    line,
                    place,
                    env=env,
                    seconds=LONG,
                    before=self.sabotage if begun else None,
                    **how,
                )
                if ended.overdue:
                    return kills, f"zoo {' '.join(line)} {ended}"
                if ended.code != -signal.SIGKILL:
                    allowed = scenario.again if turn else (0,)
                    if ended.code not in allowed or "Traceback" in ended.err:
                        problem = f"after {kills} kills, zoo {' '.join(line)}: {ended}"
                    break
                kills += 1
                if problem := self._look(scenario, place, env):
                    return kills, problem
            try:
                found = self._outcome(scenario, place, env) if not problem else {}
            except AssertionError as error:
                return kills, f"after {kills} kills, {error}"
        if not problem and (differs := _difference(known.facts, found)):
            problem = f"after {kills} kills, {differs}"
        return kills, problem

    def _look(self, scenario: Scenario, place: Path, env: dict[str, str]) -> str:
        """Right after a kill: nothing is half published, no run is unreadable."""
        for line in (*scenario.works, LOOK[0]):
            ended = self._works(line, scenario, place, env)
            if ended.code or "Traceback" in ended.err:
                return f"after a kill, zoo {' '.join(line)}: {ended}"
            if line[0] == "runs":
                listed = {Path(row["path"]).name for row in json.loads(ended.out)}
                there = {path.parent.name for path in place.glob("runs/*/run.json")}
                if lost := there - listed:
                    return f"after a kill, zoo runs does not list {sorted(lost)[0]}"
        for config in place.glob("shared/*/config.json"):
            weights = json.loads(config.read_bytes())
            if file_digest(config.with_name("model.safetensors")) != weights["sha256"]:
                return f"after a kill, {config.parent.name} is half published"
        return ""


def _difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """The first facts that differ; what two undisturbed runs do not agree on does not count."""
    for key, value in expected.items():
        if key not in found:
            return f"{key} is missing"
        if value is not ANY and found[key] != value:
            return f"{key} is {str(found[key])[:300]!r}, not {str(value)[:300]!r}"
    return ", ".join(f"{key} is left" for key in sorted(found.keys() - expected.keys()))[:600]
