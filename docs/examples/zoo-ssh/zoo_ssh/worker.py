"""One worker on a host, python -m zoo_ssh.worker: pieces on stdin, messages on stdout."""

from __future__ import annotations

import os
import queue
import sys
import threading
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from zoo import kit


def main() -> None:
    incoming = Connection(os.dup(0), writable=False)
    outgoing = Connection(os.dup(1), readable=False)
    sys.stdout = sys.stderr  # what a model prints must not mix with the messages
    arrays = incoming.recv()
    pieces: queue.Queue[Any] = queue.Queue()

    def listen() -> None:
        """In a thread, so that a worker that computes notices when nobody wants it any more."""
        try:
            while True:
                pieces.put(incoming.recv())
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()

    def send(state: str, value: Any) -> None:
        outgoing.send((state, value))

    while True:
        piece = pieces.get()
        try:
            run = kit.resolve(piece.target, "a piece of work")
            send("done", run(piece.given, arrays, partial(send, "progress")))
        except Exception as error:
            send("failed", error)


if __name__ == "__main__":
    main()
