"""All checks of a package: of its wheel, then of its plugins in a process that has that wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zoo_core.errors import UnknownName, did_you_mean
from zoo_core.plugins import BUILTIN, load_plugins
from zoo_core.testing import wheel
from zoo_core.testing.finding import Finding
from zoo_core.testing.suite import Outcome


def check_folder(folder: Path, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Check what the package in a folder would publish. It need not be installed."""
    folder = folder.resolve()
    project = wheel.read_project(folder)
    name = project.get("project", {}).get("name", folder.name)
    with tempfile.TemporaryDirectory() as temporary:
        site = Path(temporary) / "site"
        built: list[Any] = []

        def build() -> None:
            wheel.unpack(wheel.build_wheel(folder, Path(temporary)), site)
            built.append(site)

        ids: list[str] = []
        yield _outcome(name, "entry_points", lambda: ids.extend(wheel.plugin_ids(project)))
        yield _outcome(name, "metadata", lambda: wheel.check_metadata(project))
        yield _outcome(name, "wheel", build)
        if not built:
            return
        yield _outcome(name, "contents", lambda: wheel.check_contents(folder, site))
        for plugin in ids:
            yield from _in_process(plugin, options, site)


def check_installed(name: str, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Check the plugins of an installed package, by its name or a plugin's id."""
    records = [r for r in load_plugins().records if r.id != BUILTIN]
    found = list(dict.fromkeys(r.id for r in records if name in (r.id, r.distribution)))
    if not found:
        known = [word for record in records for word in (record.id, record.distribution)]
        raise UnknownName(
            f"no plugin {name!r} is installed, and there is no such folder",
            did_you_mean(name, known, "zoo plugins lists them; a folder is written ./folder"),
        )
    for plugin in found:
        yield from _in_process(plugin, options, None)


def _outcome(of: str, check: str, call: Callable[[], Any]) -> Outcome:
    started = time.perf_counter()
    try:
        call()
        said, state = ("", "", ""), "ok"
    except Finding as finding:
        said, state = (finding.what, finding.why, finding.fix), "found"
    return Outcome(of, check, state, *said, seconds=round(time.perf_counter() - started, 3))


def _in_process(plugin: str, options: Sequence[str], site: Path | None) -> Iterator[Outcome]:
    """In a process of its own: a model that crashes or hangs takes nothing else with it."""
    environment = os.environ | {"ZOO_DISABLE_PLUGINS": "", "ZOO_PLUGINS": "", "ZOO_STRICT": ""}
    if site is not None:  # before everything else, an editable installation of the same package too
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(site), os.environ.get("PYTHONPATH", "")])
        )
    with tempfile.TemporaryDirectory() as elsewhere, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "zoo_core.testing.suite", plugin, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=elsewhere,  # the folder itself must not stand in for what the wheel lacks
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield Outcome(**json.loads(line))
        finally:
            process.kill() if process.poll() is None and sys.exc_info()[0] else process.wait()
        if process.returncode:
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:]
            yield Outcome(
                plugin,
                "process",
                "found",
                f"the process that checked it ended with {process.returncode}: {' '.join(last)}",
                "whoever uses it would lose their work with it",
                f"run it by hand: python -m zoo_core.testing.suite {plugin}",
            )
