"""A plugin loaded in a process of its own, which it may end or hang: what `zoo doctor` asks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from zoo_core.io.console import warn
from zoo_core.io.files import temporary_folder
from zoo_core.spec.discovery import find_plugins
from zoo_core.spec.entries import PluginRecord
from zoo_core.spec.guard import PATIENCE, time_limit
from zoo_core.spec.plugins import in_words, load

AT_EASE = 2.0  # seconds that a process gets to say where it stood
# What faulthandler writes: the innermost line of a module, or of a hook.
LINE = re.compile(r'File "(.+)", line (\d+) in (?:<module>|zoo_\w+)')


class Probed(NamedTuple):
    words: str  # what is wrong with it, or ""
    deadly: bool = False  # it ends or hangs the process that loads it


def probe(record: PluginRecord) -> Probed:
    """Load one plugin elsewhere, and say what came of it."""
    limit = time_limit()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
        "ZOO_PLUGINS": record.id,
        "ZOO_DISABLE_PLUGINS": "",
        "ZOO_PLUGIN_TIMEOUT": "86400",  # this process ends it, and learns where it stood
    }
    with temporary_folder() as folder:
        answer, errors = folder / "answer.json", folder / "errors.txt"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-X", "faulthandler", "-m", __name__, record.id, answer],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        try:
            in_time = _ended(process, min(PATIENCE, limit))
            if not in_time and limit > PATIENCE:
                warn(f"waiting for plugin {in_words(record)} to load")
                in_time = _ended(process, limit - PATIENCE)
        finally:
            _end(process)
        facts: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            facts = json.loads(answer.read_text(encoding="utf-8"))
        dump = errors.read_text(encoding="utf-8", errors="replace")
    line = LINE.search(dump.rpartition("Current thread")[2]) if "Current thread" in dump else None
    code = process.returncode
    ended = f"exit code {code}" if code >= 0 else f"the signal {signal.Signals(-code).name}"
    if not facts:
        at = f", at line {line[2]} of {line[1]}" if line else ""
        words = f"ends the process with {ended}" if in_time else f"does not end within {limit:g} s"
        return Probed(f"loading it {words}{at}", deadly=True)
    if not in_time or code:
        words = f"ends with {ended}" if in_time else f"does not end within {limit:g} s"
        return Probed(f"a process that has loaded it {words}", deadly=True)
    return Probed(f"it is {facts['state']}: {facts['reason']}" if facts["reason"] else "")


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started; before that, have it write down where it stands."""
    if os.name != "posix":
        process.kill()
    elif not _ended(process, 0):
        process.send_signal(signal.SIGABRT)
        _ended(process, AT_EASE)
    with suppress(OSError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    plugin, file = sys.argv[1:]
    (found, *_) = load([r for r in find_plugins() if r.id == plugin], note=False).records
    told = {"state": found.state, "reason": found.reason}
    Path(file).write_text(json.dumps(told), encoding="utf-8")
