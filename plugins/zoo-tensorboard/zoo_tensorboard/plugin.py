"""Writes every run as TensorBoard events, beside its metrics.jsonl. Light until a run starts."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zoo

ZOO_API = 1
_writers: dict[Path, Any] = {}  # by the path of the run


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="tensorboard",
            target="zoo_tensorboard.command:tensorboard_command",
            help="Show the curves of all runs in TensorBoard.",
        )
    ]


@zoo.hookimpl
def zoo_run_started(run: Any) -> None:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    _writers[run.path] = EventFileWriter(str(run.path / "tensorboard"))


@zoo.hookimpl
def zoo_epoch_ended(run: Any, epoch: int, metrics: Mapping[str, float]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = []
    for name, value in metrics.items():
        # test_loss becomes loss/test: one chart for each figure, with all splits in it.
        split, _, figure = name.partition("_")
        known = split in ("train", "validation", "test")
        tag = f"{figure}/{split}" if known else name
        values.append(Summary.Value(tag=tag, simple_value=value))
    writer = _writers[run.path]
    writer.add_event(Event(wall_time=time.time(), step=epoch, summary=Summary(value=values)))
    writer.flush()


@zoo.hookimpl
def zoo_run_ended(run: Any) -> None:
    _writers.pop(run.path).close()


@zoo.hookimpl
def zoo_run_failed(run: Any) -> None:
    _writers.pop(run.path).close()
