"""Pieces of work as tasks of Ray, on this machine or a cluster; nothing else imports ray."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import zoo
from zoo import kit

SECONDS = 10  # that a cluster has to answer
LOOK = 0.5  # seconds between two looks at what was reported
PATIENCE = 60  # seconds for pieces that are told to end: a training saves a checkpoint
NAMES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}  # ours, and those of Ray


class RayEngine(zoo.Engine):
    """Ray decides where a piece runs; pieces of one run share the arrays in its object store."""

    def __init__(self, workers: int = 1, address: str = "") -> None:
        super().__init__(workers, address)
        self._ours = False  # whether this engine started or joined Ray, and so leaves it again
        self._tasks: dict[Any, zoo.Piece] = {}  # by Ray's reference
        self._ended: list[zoo.Outcome] = []
        self._warned = False

    def check(self) -> None:
        """Start a Ray on this machine with as many workers as asked for, or join the cluster."""
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        where: dict[str, Any] = {"address": "local", "num_cpus": self.workers}
        failed = "Ray cannot be started"
        hint = "without --engine ray, --workers runs in processes of this machine"
        if self.address:
            where = {"address": self.address}
            failed = f"Ray at {self.address} cannot be reached"
            hint = "does it run there, and is its token in RAY_AUTH_TOKEN? Without --address a Ray "
            hint += "is started on this machine"
        try:
            if host_port := re.fullmatch(r"(?:ray://)?(.+):(\d+)", self.address):
                # Ray itself would go on trying for minutes.
                socket.create_connection((host_port[1], int(host_port[2])), SECONDS).close()
            ray.init(
                **where, include_dashboard=False if not self.address else None,
                log_to_driver=False, configure_logging=False,
            )  # fmt: skip
        except Exception as error:
            raise zoo.ZooError(f"{failed}: {kit.describe(error)}", hint) from error
        self._ours = True

    def start(self, arrays: Mapping[str, Any], told: Any) -> None:
        self.check()
        self._told, self._kept = told, ExitStack()
        if self._ours:  # Ray prints what happens to its nodes where a command prints its result
            self._kept.enter_context(redirect_stdout(sys.stderr))
        self._arrays = ray.put(dict(arrays))
        # Here: any other machine may be taken away.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        post = ray.remote(num_cpus=0, scheduling_strategy=here)(Mailbox)
        self._mailbox = post.remote()

    def submit(self, piece: zoo.Piece) -> None:
        asked = asdict(piece.resources)
        if problem := self._lacks(asked):
            if not self.address:
                self._ended.append(zoo.Outcome(piece, "failed", zoo.OptionError(problem)))
                return
            if not self._warned:
                kit.warn(f"{problem} now; waiting until one has, which an autoscaler may add")
            self._warned = True
        task = ray.remote(work).options(
            num_cpus=asked["cpus"] or 1,
            num_gpus=asked["gpus"] or None,
            memory=asked["memory"] or None,
            max_retries=0,  # `run` decides that, for every engine
        )
        self._tasks[task.remote(piece, self._arrays, self._mailbox)] = piece

    def wait(self) -> Sequence[zoo.Outcome]:
        told: list[tuple[Any, Any]] = []
        while not (self._ended or told):
            ready, _ = ray.wait([*self._tasks], num_returns=1, timeout=LOOK)
            told = ray.get(self._mailbox.take.remote())
            for key, value in told:
                for piece in [one for one in self._tasks.values() if one.key == key]:
                    self._told(piece, value)
            self._ended += [self._end(task) for task in ready]
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        tasks = [*self._tasks]
        self._tasks.clear()
        try:
            for task in tasks:
                ray.cancel(task)  # as Ctrl-C: a training saves what it has
            if tasks:
                ray.wait(tasks, num_returns=len(tasks), timeout=PATIENCE)
        finally:
            for task in tasks:
                ray.cancel(task, force=True)
            if self._ours:
                ray.shutdown()
                self._ours = False
            self._kept.close()

    def _lacks(self, asked: Mapping[str, float]) -> str:
        """What no machine of the cluster has; "": one has it all."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {name: amount for name, amount in asked.items() if amount}
        if any(all(a <= one.get(NAMES[n], 0) for n, a in wanted.items()) for one in nodes):
            return ""
        words = " and ".join(f"{amount:g} {name}" for name, amount in wanted.items())
        return f"a piece of work asks for {words}, and no machine of the cluster has that"

    def _end(self, task: Any) -> zoo.Outcome:
        piece = self._tasks.pop(task)
        try:
            return zoo.Outcome(piece, "done", ray.get(task))
        except RayTaskError as error:
            failure: BaseException = error.cause
        except RayError as error:  # the worker or its machine is gone
            failure = zoo.WorkerDied(f"a worker of Ray died: {kit.describe(error)}")
        return zoo.Outcome(piece, "failed", failure)


class Mailbox:
    """What pieces have reported and nobody has read yet; an actor of Ray."""

    def __init__(self) -> None:
        self.messages: list[tuple[Any, Any]] = []

    def put(self, key: Any, value: Any) -> None:
        self.messages.append((key, value))

    def take(self) -> list[tuple[Any, Any]]:
        taken, self.messages = self.messages, []
        return taken


def work(piece: zoo.Piece, arrays: Mapping[str, Any], mailbox: Any) -> Any:
    """A piece, on a worker of Ray."""

    def report(value: Any) -> None:
        ray.get(mailbox.put.remote(piece.key, value))  # so that no report comes after the end

    return kit.resolve(piece.target, "a piece of work")(piece.given, arrays, report)
