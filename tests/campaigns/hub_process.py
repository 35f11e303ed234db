"""The loopback hub in a process of its own: it has threads, and who forks must not have any."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from campaigns.scenes import TOKEN


class HubProcess:
    """`with HubProcess({NAME: folder with files}) as url`: serves, and ends with the block."""

    def __init__(self, repositories: dict[str, Path]) -> None:
        self._repositories = repositories

    def __enter__(self) -> str:
        reads, writes = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                self._serve(writes)
            finally:
                os._exit(1)
        os.close(writes)
        with open(reads) as told:  # noqa: PTH123
            return told.readline().strip()

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _serve(self, writes: int) -> None:
        from hub.loopback import Hub

        hub = Hub(TOKEN)
        for name, folder in self._repositories.items():
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            hub.add(
                name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
            )
        os.write(writes, f"{hub.url}\n".encode())
        os.close(writes)
        hub.serve_forever()
