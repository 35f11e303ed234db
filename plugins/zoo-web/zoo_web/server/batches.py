"""One thread owns the model: whatever waits when it is free is computed together.

Nobody waits for a batch to fill up, so that a request alone is answered as soon as it can be.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

import zoo
from zoo import kit

Rows = list[np.ndarray | zoo.ZooError]
Compute = Callable[[Sequence[np.ndarray]], np.ndarray]
LARGEST = 64  # images of a batch: more gains nothing, and those behind it wait longer
PATIENCE = 0.25  # seconds of a batch after which no larger one is tried: others wait behind it


class Job:
    """The images of one request, and their rows as they come."""

    def __init__(self, images: Sequence[np.ndarray]) -> None:
        self.images = images
        self.rows: Rows = []
        self.begun = 0  # images that were taken
        self.answer: Future[Rows] = Future()


class Batches:
    """Computes images of many requests, `most` at a time, first come, first served."""

    def __init__(self, compute: Compute, most: int) -> None:
        self._compute, self.most = compute, most
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="zoo serve", daemon=True)
        self._thread.start()

    def submit(self, images: Sequence[np.ndarray]) -> Future[Rows]:
        """A row for each image, or the reason why it has none."""
        job = Job(images)
        with self._changed:
            if self._ended:
                raise zoo.ZooError("the server is stopping")
            self._waiting.append(job)
            self._changed.notify()
        return job.answer

    def stop(self) -> None:
        """Finish what waits; the thread then ends."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _work(self) -> None:
        while taken := self._take():
            images = [image for job, some in taken for image in job.images[some]]
            rows = iter(self._rows(images))
            for job, some in taken:
                job.rows += [next(rows) for _ in job.images[some]]
                if len(job.rows) == len(job.images) and not job.answer.done():
                    job.answer.set_result(job.rows)

    def _take(self) -> list[tuple[Job, slice]]:
        """Some images of the jobs that have waited longest; none at the end."""
        taken: list[tuple[Job, slice]] = []
        free = self.most
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            while self._waiting and free:
                job = self._waiting[0]
                end = min(len(job.images), job.begun + free)
                # Nobody waits any more for a job that was cancelled.
                if job.begun == 0 and not job.answer.set_running_or_notify_cancel():
                    self._waiting.popleft()
                    continue
                taken.append((job, slice(job.begun, end)))
                free -= end - job.begun
                job.begun = end
                if end == len(job.images):
                    self._waiting.popleft()
        return taken

    def _rows(self, images: Sequence[np.ndarray]) -> Rows:
        """Where a batch fails, each of its images alone: one must not spoil the others."""
        try:
            return list(self._compute(images))
        except Exception as error:  # a model may be a plugin's code, and raise anything
            if len(images) == 1:
                if isinstance(error, zoo.ZooError):
                    return [error]
                return [zoo.ZooError(kit.describe(error))]
        return [row for image in images for row in self._rows([image])]


def best_size(compute: Compute, image: np.ndarray, most: int) -> int:
    """How many images to compute together, so that each takes the least time."""
    best, size = (float("inf"), 1), 1
    while size <= min(most, LARGEST):
        images = [image] * size
        compute(images)  # the first batch of a size prepares more than the others
        took = min(_seconds(compute, images) for _ in range(3))
        best = min(best, (took / size, size))
        if took > PATIENCE:
            break
        size *= 2
    return best[1]


def _seconds(compute: Compute, images: Sequence[np.ndarray]) -> float:
    start = time.perf_counter()
    compute(images)
    return time.perf_counter() - start
