"""What run.json says when a run starts: the request, the data and the machine."""

from __future__ import annotations

import platform
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.train.job import Job, Trainer, process
from zoo_core.train.run import FORMAT
from zoo_core.types import ModelEntry


def describe_run(
    job: Job, trainer: Trainer, recipe_name: str, reference: str, command: str
) -> dict[str, Any]:
    """The document of a run that has not ended yet."""
    entry, provider = job.entry, job.entry.provider
    described = trainer.describe(trainer.sketch(entry, job.config))
    train, validation = job.parts
    return {
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "model": {
            "name": entry.name,
            "plugin": provider.plugin if provider else "",
            "distribution": provider.distribution if provider else "",
            "version": provider.version if provider else "",
            "trainer": entry.trainer,
            "framework": entry.framework,
            "task": entry.task,
            "kinds": entry.kinds,
            "config": job.config,
        },
        "dataset": {
            "reference": reference,
            "name": job.dataset.name,
            "options": job.recipe.data,
            "digest": job.dataset.digest,
            "classes": job.dataset.classes,
            "train": len(train),
            "validation": len(validation),
            "test": len(job.dataset.test) if job.dataset.test else 0,
        },
        "recipe_name": recipe_name,
        "recipe": asdict(job.recipe),
        "preprocess": job.preprocess.to_dict(),
        "environment": environment(trainer, entry, job.device),
        "parameters": {
            "trainable": described.trainable,
            "total": described.total,
            "bytes": described.bytes,
        },
        "structure": described.structure,
        "result": None,
        "error": "",
    }


def environment(trainer: Trainer, entry: ModelEntry, device: str) -> dict[str, Any]:
    """What the bytes of the result depend on, besides the settings."""
    import zoo

    provider = entry.provider
    return {
        "zoo-core": zoo.__version__,
        **({provider.distribution: provider.version} if provider else {}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        **trainer.environment(device),
        "processes": process()[1],
        "platform": platform.platform(),
        "processor": processor(),
    }


def processor() -> str:
    """The name of the processor, where the platform tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def command_line() -> str:
    """How this process was started, for run.json."""
    return shlex.join(["zoo", *sys.argv[1:]])
