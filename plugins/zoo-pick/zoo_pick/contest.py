"""A race at work: its folder, the pieces that an engine gets, and what comes back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zoo
from zoo import kit
from zoo_pick.race import Candidate, Plan, Race, Record, limit
from zoo_pick.verdict import clock, line_of
from zoo_pick.work import Given, Told, shut

FORMAT = 1
RESERVE = 0.03  # of the budget, for the report; at least REPORT seconds
REPORT = 4.0
END = 1.0  # seconds that are left when nothing starts any more


@contextmanager
def opened(root: Path, name: str, dataset: str) -> Iterator[Path]:
    """The folder of a pick, which one process works in."""
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        hint = "use up to 100 letters, digits and . _ -, such as pick-photos"
        raise zoo.UsageError(f"--name {name[:100]!r} cannot name a folder on every system", hint)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", dataset).strip("-.") or "images"
    folder = root / (name or f"pick-{stem}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with kit.os_errors(f"{folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        others = [one for one in folder.iterdir() if not one.name.startswith(".")]
    if others and not (folder / "pick.json").exists():
        raise zoo.UsageError(f"{folder} is not the folder of a pick", "choose another --name")

    def refuse() -> None:
        hint = "wait for it, or stop it with Ctrl-C"
        raise zoo.UsageError(f"another process is working on {folder}", hint)

    with kit.locked(folder / "pick", refuse):
        yield folder


def begun(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What pick.json of a pick that goes on says; other settings are refused."""
    try:
        document = kit.read_document(folder / "pick.json", FORMAT)
    except FileNotFoundError:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return {"format": FORMAT, "created": created, "asked": asked, "spent": 0.0, "pending": []}
    for name, value in asked.items():
        if document["asked"].get(name) != value:
            what = f"{folder} was started with {name} {document['asked'].get(name)!r}"
            raise zoo.UsageError(f"{what}, and now it is {value!r}", "choose another --name")
    kept = ("format", "created", "asked", "spent", "pending")
    return {key: document[key] for key in kept}


def recorded(file: Path) -> list[Record]:
    with suppress(FileNotFoundError):
        lines = file.read_text("utf-8").splitlines()
        with suppress(ValueError, TypeError):
            return [Record(**json.loads(line)) for line in lines]
        raise zoo.ZooError(f"{file} is damaged", "start again with another --name")
    return []


@dataclass
class Contest:
    """A race at work: hands plans to an engine, and keeps what comes back."""

    folder: Path
    race: Race
    document: dict[str, Any]
    settings: Mapping[str, Any]
    device: str
    say: Callable[[str], None]
    started: float
    retries: int = 3

    def __post_init__(self) -> None:
        self.before = float(self.document["spent"])
        self.running: dict[str, Plan] = {}
        self.stopped: dict[str, str] = {}
        self.pending = [self._plan(one) for one in self.document["pending"]]

    @property
    def spent(self) -> float:
        return self.before + time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds for more trainings."""
        budget = self.race.budget
        return budget - max(RESERVE * budget, REPORT) - self.spent

    def run(self, name: str, workers: int, address: str, resources: Any) -> None:
        engine = kit.open_engine(name, workers, address)
        engine.check()
        self.needs = zoo.Resources.of(resources)
        self.save()
        try:
            for outcome in engine.run(self.pull):
                plan = self.running.pop(outcome.piece.key)
                if outcome.state == "failed" and not isinstance(outcome.value, zoo.WorkerDied):
                    raise outcome.value
                told = outcome.value
                if not isinstance(told, Told):
                    told = Told("failed", str(told))
                self.end(plan, told)
        except (zoo.Interrupted, KeyboardInterrupt) as error:
            self.document["status"] = "interrupted"
            self.save()
            hint = f"the same command with --name {self.folder.name} goes on"
            raise zoo.Interrupted("the pick was stopped, and saved", hint) from error
        finally:
            shut()

    def pull(self) -> zoo.Piece | None:
        """The next piece for an engine."""
        left = self.left
        if left <= END:
            return None
        plan = self.pending.pop(0) if self.pending else self.race.next(left, self.running)
        if plan is None:
            return None
        plan = replace(plan, limit=min(plan.limit, left))
        self.running[plan.key] = plan
        self.save()
        images, facts = self.document["images"], self.document
        settings = {"validation_fraction": facts["validation_fraction"], "seed": 0}
        settings |= {**self.settings, **plan.settings}
        given = Given(
            plan.candidate.model, facts["reference"], plan.candidate.recipe, settings, plan.learn,
            plan.epochs, images["learn"], images["judge"],
            self._place(plan), self.device, plan.limit,
        )  # fmt: skip
        target = "zoo_pick.work:work"
        return zoo.Piece(plan.key, target, given, self.needs, self.retries)

    def _place(self, plan: Plan) -> Path:
        """Of its runs: the same plan goes on where it was."""
        own = f"{plan.candidate.name}-{plan.learn}-{plan.epochs}"
        return (self.folder / "trials" / re.sub("[:/]", "-", own)).absolute()

    def end(self, plan: Plan, told: Told) -> None:
        """Keep what came of a plan, and say it."""
        if told.state == "late" and self.left <= END:
            self.stopped[plan.candidate.name] = "the time was over before its training was"
            self.pending.append(plan)  # with a larger budget it goes on
            self.save()
            return
        record = Record(
            plan.candidate.name, plan.rung, told.state, told.why, plan.learn, plan.epochs,
            dict(plan.settings), plan.share, plan.estimate, told.seconds, told.found or {},
        )  # fmt: skip
        self.race.records.append(record)
        lines = (json.dumps(asdict(one)) + "\n" for one in self.race.records)
        with kit.atomic_write(self.folder / "trials.jsonl") as temporary:
            temporary.write_text("".join(lines), "utf-8")
        self.save()
        for file in self._place(plan).rglob("model.safetensors"):
            file.unlink()  # nobody uses them, and twenty of them take room
        self.say(f"[{clock(self.spent)} of {clock(self.race.budget)}] {line_of(self.race, record)}")

    def left_out(self) -> dict[str, str]:
        """Candidates that never trained, and why; one line where all recipes have one reason."""
        found, whys = {}, dict[str, set[str]]()
        for candidate in self.race.candidates:
            why = ""
            if not self.race.best(candidate):
                why = self.race.reason(candidate) or self._no_time(candidate)
                found[candidate.name] = why
            whys.setdefault(candidate.model, set()).add(why)
        return {
            name.partition(":")[0] if len(whys[candidate.model]) == 1 else name: found[name]
            for candidate in self.race.candidates
            if (name := candidate.name) in found
        }

    def _no_time(self, candidate: Candidate) -> str:
        if candidate.name in self.stopped:
            return self.stopped[candidate.name]
        every = self.race.of(candidate.name)
        if every and every[-1].state == "late":
            return every[-1].why
        if not every:
            return "no time was left to measure it"
        seconds = self.race.seconds(candidate, *self._whole(candidate))
        return f"no time was left for its training, which takes about {clock(seconds)}"

    def _whole(self, candidate: Candidate) -> tuple[int, int]:
        return self.race.images, self.race.whole(candidate)[0]

    def save(self) -> None:
        self.document["spent"] = round(self.spent, 1)
        plans = self.running.values()
        told = [{**vars(one), "candidate": one.candidate.name} for one in (*plans, *self.pending)]
        self.document["pending"] = told
        kit.write_document(self.folder / "pick.json", self.document)

    def _plan(self, told: Mapping[str, Any]) -> Plan:
        """A plan that was at work when the pick was stopped."""
        named = {candidate.name: candidate for candidate in self.race.candidates}
        most = max(told["limit"], limit(told["estimate"], self.left))
        return Plan(**{**told, "candidate": named[told["candidate"]], "limit": most})
