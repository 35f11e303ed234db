"""An engine whose workers are Python processes on other machines, reached by ssh."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any

import zoo
from zoo import kit

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")  # no questions


def on(host: str, *arguments: str) -> list[str]:
    """The command that runs Python on a host."""
    return [*SSH, host, os.environ.get("ZOO_SSH_PYTHON", "python3"), *arguments]


class Worker:
    """A process on a host, and the piece that it works on."""

    def __init__(self, host: str, arrays: Mapping[str, Any]) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.host, self.piece = host, None
        self.process = subprocess.Popen(on(host, "-m", "zoo_ssh.worker"), bufsize=0, **pipes)
        self.messages = connection.Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.pieces = connection.Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self.process.stdin.close()
        self.process.stdout.close()
        self.pieces.send(dict(arrays))

    def end(self) -> None:
        """Close the pipe, which ends the worker, whatever it is doing, and then ssh."""
        self.pieces.close()
        self.messages.close()
        self.process.kill()
        self.process.wait()


class SshEngine(zoo.Engine):
    """Workers take turns on the hosts that the address names."""

    def check(self) -> None:
        self.hosts = [host.strip() for host in self.address.split(",") if host.strip()]
        if not self.hosts:
            raise zoo.UsageError("engine 'ssh' needs hosts", "--address alice@one,alice@two")
        for host in self.hosts:
            try:
                done = subprocess.run(
                    on(host, "-c", "'import zoo_ssh'"),
                    capture_output=True, text=True, timeout=60, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                raise zoo.ZooError(f"ssh {host} failed: {kit.describe(error)}") from error
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                hint = f"try it: ssh {host} python3 -c 'import zoo_ssh'"
                raise zoo.ZooError(f"host {host} cannot be used: {why}", hint)

    def start(self, arrays: Mapping[str, Any], told: Any) -> None:
        self.check()
        self._arrays, self._told = arrays, told
        self._turns = itertools.cycle(self.hosts)
        self._workers: list[Worker] = []
        self._ended: list[zoo.Outcome] = []

    def submit(self, piece: zoo.Piece) -> None:
        if piece.resources != zoo.Resources():
            problem = zoo.OptionError("engine 'ssh' counts workers, not resources")
            self._ended.append(zoo.Outcome(piece, "failed", problem))
            return
        worker = next((one for one in self._workers if one.piece is None), None)
        if worker is None:
            worker = Worker(next(self._turns), self._arrays)
            self._workers.append(worker)
        worker.piece = piece
        with suppress(OSError):  # the pipe of a worker that died: `wait` hears of it
            worker.pieces.send(piece)

    def wait(self) -> Sequence[zoo.Outcome]:
        if not self._ended:
            busy = {worker.messages: worker for worker in self._workers if worker.piece}
            for messages in connection.wait(list(busy)):
                self._hear(busy[messages])
        ended, self._ended = self._ended, []
        return ended

    def _hear(self, worker: Worker) -> None:
        piece = worker.piece
        try:
            state, value = worker.messages.recv()
        except (EOFError, OSError):
            worker.end()
            self._workers.remove(worker)
            state, value = "failed", zoo.WorkerDied(f"the worker on {worker.host} died")
        if state == "progress":
            self._told(piece, value)
            return
        worker.piece = None
        self._ended.append(zoo.Outcome(piece, state, value))

    def stop(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
