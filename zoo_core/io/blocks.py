"""The block store: one large file of equal rows, filled block by block, killed at any time.

A block of rows is forced to the disk before it is counted: what is counted is never lost. Several
processes may fill one store together: each claims blocks, and one that dies loses its last one.

    with BlockStore(path).writing(layout) as writer:
        for block in writer:  # claimed; ends when every block is there, in whichever process
            writer.commit(block, np.square(np.array(writer.rows(block))))

On the disk, for NAME.bin:

    NAME.json         the key, the digest of each block that counts, in the end that of the file
    NAME.bin.part     the rows, until all of them are there; then it is called NAME.bin
    .NAME.lock        held for a moment by a process that reads or changes these
    .NAME.7.claim     held by the process that computes block 7; the system lets go when it dies
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

from filelock import FileLock, Timeout
from msgspec import Meta, convert

from zoo_core.io.documents import document_digest, strict_loads
from zoo_core.io.errors import DataError, UsageError
from zoo_core.io.files import atomic_write, digest_of, file_digest, locked

BLOCK = 256  # rows that are committed together: some seconds of work
Digest = Annotated[str, Meta(max_length=64)]
RECORD = {  # what NAME.json must say, and how much of it
    "key": dict[str, Any],
    "rows": Annotated[int, Meta(ge=0, le=10**9)],
    "blocks": Annotated[list[Digest], Meta(max_length=10**7)],
    "seconds": Annotated[float, Meta(ge=0, le=1e12)],
    "sha256": Digest,
}
POLL_SECONDS = 0.2  # between looks at what other processes have committed

# What this process has read in full: a search that opens a file 70 times hashes it once.
_verified: set[tuple[object, ...]] = set()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a store will hold, known before the first row is."""

    key: Mapping[str, Any]  # JSON: all that decides the content; another key means starting anew
    rows: int
    row_bytes: int | Sequence[int]  # several: of arrays that stand one after another in the file
    before: bytes = b""  # what the file begins and ends with: a header, labels
    after: bytes = b""
    about: Mapping[str, Any] = field(default_factory=dict)  # JSON for people; decides nothing
    trusted: bool = False  # of a complete file only the size is checked; `verify` hashes it
    # Large files: their sha256 is made from those of the beginning, the blocks and the end, so that
    # what was hashed block by block is not read again when the last one is there.
    by_blocks: bool = False

    @property
    def bytes(self) -> int:
        """Of the complete file."""
        return sum(self.places(range(self.rows))[-1]) + len(self.after)

    def describes(self, progress: Progress) -> bool:
        """Whether what has begun is this."""
        wanted, found = [self.key, self.rows], [progress.key, progress.rows]
        return document_digest(wanted) == document_digest(found)

    def places(self, rows: range) -> list[tuple[int, int]]:
        """Where these rows begin in the file, and their bytes, in each array."""
        return _places(len(self.before), self.row_bytes, self.rows, rows)


@dataclass
class Progress:
    """What NAME.json says."""

    key: Mapping[str, Any]
    rows: int
    blocks: list[str] = field(default_factory=list)  # sha256 of each; "" until it is committed
    seconds: float = 0.0  # of computing, over all resumes and writers
    sha256: str = ""  # of the whole file, once it is complete
    about: Mapping[str, Any] = field(default_factory=dict)  # what else is in the document
    block_rows: int = BLOCK

    def __post_init__(self) -> None:
        count = -(-self.rows // self.block_rows)
        self.blocks += [""] * (count - len(self.blocks))

    def rows_of(self, block: int) -> range:
        return range(block * self.block_rows, min((block + 1) * self.block_rows, self.rows))

    @property
    def missing(self) -> list[int]:
        """The blocks that are not committed."""
        return [block for block, digest in enumerate(self.blocks) if not digest]

    @property
    def done(self) -> int:
        """The number of rows that are committed."""
        return self.rows - sum(len(self.rows_of(block)) for block in self.missing)


class BlockStore:
    """The files of one store. `open` gives the content if it is complete; `writing` makes it so."""

    def __init__(self, path: Path, block_rows: int = BLOCK) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.record = path.with_suffix(".json")
        self.block_rows = block_rows

    def progress(self) -> Progress | None:
        """How far it is; None where nothing is there that can be understood."""
        try:
            document = strict_loads(self.record.read_bytes())
            known = {name: convert(document.pop(name), kind) for name, kind in RECORD.items()}
            return Progress(**known, about=document, block_rows=self.block_rows)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def open(self, *, again: bool = False) -> IO[bytes] | None:
        """The complete file, every byte checked, again if this process has done so; or None."""
        progress = self.progress()
        if progress is None or not progress.sha256 or not self.path.exists():
            return None
        file = self.path.open("rb")
        facts = os.fstat(file.fileno())
        seen = (self.path, facts.st_ino, facts.st_size, facts.st_mtime_ns, progress.sha256)
        if again or seen not in _verified:
            try:
                found = _digest(file, progress)
            except OSError as error:
                found = error.strerror or str(error)
            if found != progress.sha256:
                file.close()
                raise DataError(f"{self.path} is damaged: its sha256 is {found[:12]}...")
            _verified.add(seen)
        return file

    @contextmanager
    def writing(
        self, layout: Layout, waiting: Callable[[], None] | None = None
    ) -> Iterator[Writer]:
        """One of perhaps several writers; waiting: called once if others compute what is left."""
        with locked(self.path, waiting):
            self._prepare(layout)
        writer = Writer(self, layout, waiting)
        try:
            yield writer
            writer.settle()
            self._finish(layout)
        finally:
            writer.release()

    def complete(self, layout: Layout) -> bool:
        """Whether all of it is there and sound; asked of a folder that may be read-only."""
        progress = self.progress()
        if not (progress and progress.sha256 and layout.describes(progress) and self.path.exists()):
            return False
        with suppress(DataError):
            if layout.trusted and self.path.stat().st_size == layout.bytes:
                return True
            if file := self.open():
                file.close()
                return True
        return False

    def _prepare(self, layout: Layout) -> None:
        """Make the file ready for blocks, and forget those that are not what they were.

        A writer that joins later does this too and disturbs nobody: it writes the same, and checks
        only blocks that count, which nobody writes any more.
        """
        if self.record.exists():
            self.record.read_bytes()  # do not start anew because a disk cannot be read
        if self.complete(layout):
            return
        progress = self.progress()
        if progress is None or not layout.describes(progress):
            about, size = dict(layout.about), self.block_rows
            if layout.by_blocks:
                about["hashed"] = [len(layout.before), layout.row_bytes]
            progress = Progress(layout.key, layout.rows, about=about, block_rows=size)
            self.part.unlink(missing_ok=True)
        if not self.part.exists() and self.path.exists():
            self.path.replace(self.part)  # damaged: what is sound in it is kept
        with self.part.open("r+b" if self.part.exists() else "w+b") as file:
            # Whatever a kill or a failing disk left of these, they are known beforehand.
            file.write(layout.before)
            file.truncate(layout.bytes)
            file.seek(layout.bytes - len(layout.after))
            file.write(layout.after)
            for block, digest in enumerate(progress.blocks):
                places = layout.places(progress.rows_of(block))
                if digest and _digest_of(file, places) != digest:
                    progress.blocks[block] = ""
        progress.sha256 = ""
        self._save(progress)  # so that it is known what the file will be, before there is a row

    def _finish(self, layout: Layout) -> None:
        with locked(self.path):
            progress = self._begun()
            if progress.missing or not self.part.exists():
                return
            with self.part.open("r+b") as file:
                os.fsync(file.fileno())
            if layout.by_blocks:
                ends = (hashlib.sha256(end).hexdigest() for end in (layout.before, layout.after))
                progress.sha256 = document_digest([*ends, *progress.blocks])
            else:
                progress.sha256 = file_digest(self.part)
            self._save(progress)
            self.part.replace(self.path)
            for claim in self._claims():  # of processes that died
                claim.unlink()

    def _begun(self) -> Progress:
        progress = self.progress()
        if progress is None:
            raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile", str(self.record))
        return progress

    def _save(self, progress: Progress) -> None:
        document = asdict(progress)
        del document["block_rows"]
        document |= document.pop("about")
        with atomic_write(self.record) as temporary:
            temporary.write_text(json.dumps(document), "utf-8")

    def _claims(self) -> list[Path]:
        return list(self.path.parent.glob(f".{self.path.stem}.*.claim"))

    @property
    def bytes(self) -> int:
        """On the disk, where a file that is not complete takes less than its size."""
        used = 0
        for path in (self.path, self.part, self.record):
            with suppress(OSError):
                status = path.stat()
                used += min(status.st_size, 512 * getattr(status, "st_blocks", status.st_size))
        return used

    @property
    def last_used(self) -> float:
        with suppress(OSError):
            return self.record.stat().st_mtime
        return 0.0

    def used(self) -> None:
        """Remember when; what was not used for longest goes first."""
        with suppress(OSError):  # a cache that others share may be read-only
            os.utime(self.record)

    def verify(self) -> str:
        """Read every byte again: "ok", or how much of it there is; DataError: it is damaged."""
        progress = self.progress()
        if progress is None:
            raise DataError(f"{self.record} cannot be read")
        if self.part.exists() or not progress.sha256:
            return f"{progress.done:,} of {progress.rows:,} rows"
        if file := self.open(again=True):
            file.close()
            return "ok"
        raise DataError(f"{self.path} is missing")

    def remove(self) -> int:
        """Delete it, and say how many bytes that were; UsageError while somebody computes it."""
        with locked(self.path):
            if not all(map(_try_claim, self._claims())):
                what = f"{self.path.stem} is being computed by another process"
                raise UsageError(what, "stop that process first")
            used = self.bytes
            for path in (self.path, self.part, self.record, *self._claims()):
                path.unlink(missing_ok=True)
        return used


def kept_stores(folder: Path, suffix: str) -> list[BlockStore]:
    """All stores in a folder, complete or not; those that were used last come first."""
    endings = (".json", suffix, suffix + ".part")
    found = [path.name for path in folder.glob("[!.]*") if path.name.endswith(endings)]
    stores = [BlockStore(folder / (name + suffix)) for name in {n.partition(".")[0] for n in found}]
    return sorted(stores, key=lambda store: (-store.last_used, store.path.name))


class Writer:
    """Fills a store together with others; made by BlockStore.writing."""

    def __init__(
        self, store: BlockStore, layout: Layout, waiting: Callable[[], None] | None
    ) -> None:
        self._store, self._layout, self._waiting = store, layout, waiting
        self._held: dict[int, FileLock] = {}
        self._behind = ThreadPoolExecutor(1)
        self._committing: Future[None] | None = None
        self.progress = store._begun()

    def rows(self, block: int) -> range:
        """The numbers of the rows of a block."""
        return self.progress.rows_of(block)

    def __iter__(self) -> Iterator[int]:
        """Claim block after block, until all are committed by this writer or by others."""
        while self.progress.missing:
            if (block := self.claim()) is not None:
                yield block
            elif self._committing:
                self.settle()
            elif self.progress.missing:
                if self._waiting:
                    self._waiting()
                    self._waiting = None  # said once
                time.sleep(POLL_SECONDS)

    def claim(self) -> int | None:
        """A block that is missing and that nobody else computes; None: all are in work."""
        with locked(self._store.path):
            self.progress = self._store._begun()
            for block in self.progress.missing:
                path = self._store.path
                if lock := _try_claim(path.with_name(f".{path.stem}.{block}.claim")):
                    self._held[block] = lock
                    return block
        return None

    def commit_behind(self, block: int, content: Any) -> None:
        """Commit, but force it to the disk in a thread, while the next block is computed.

        content: as `commit` takes it; pieces are written while the next ones are computed.
        """
        started = time.perf_counter()
        digest = self._write(block, content)
        self.settle()
        seconds = time.perf_counter() - started
        self._committing = self._behind.submit(self._count, block, digest, seconds)

    def settle(self) -> None:
        """Wait for what is being committed; an error of it is raised here."""
        committing, self._committing = self._committing, None
        if committing:
            committing.result()

    def commit(self, block: int, content: Any, seconds: float = 0.0) -> None:
        """Keep the rows of a claimed block: save, then count.

        content: bytes, an array in C order, or an iterator over such pieces of the block, in the
        order of the file: all of the first array, then all of the second.
        """
        self._count(block, self._write(block, content), seconds)

    def _write(self, block: int, content: Any) -> str:
        """Write a block; its digest. Without the lock: blocks do not overlap."""
        rows, digest, given = self.rows(block), hashlib.sha256(), 0
        pieces = content if isinstance(content, Iterator) else iter((content,))
        with self._store.part.open("r+b") as file:
            for start, left in self._layout.places(rows):
                file.seek(start)
                while left:
                    data = memoryview(next(pieces, b"")).cast("B")
                    given += len(data)
                    if not 0 < len(data) <= left:
                        what = f"{given} bytes are not {len(rows)} rows"
                        raise ValueError(f"{what} of {self._layout.row_bytes} bytes")
                    left -= file.write(data)
                    digest.update(data)
        return digest.hexdigest()

    def _count(self, block: int, digest: str, seconds: float) -> None:
        """What is counted is on the disk; writers wait for each other here only."""
        with self._store.part.open("r+b") as file:
            os.fsync(file.fileno())
        with locked(self._store.path):
            self.progress = self._store._begun()
            self.progress.blocks[block] = digest
            self.progress.seconds += seconds
            self._store._save(self.progress)
            self._let_go(block)

    def release(self) -> None:
        """Leave what was claimed and not committed to others."""
        self._behind.shutdown()
        if self._held:
            with locked(self._store.path):
                for block in list(self._held):
                    self._let_go(block)

    def _let_go(self, block: int) -> None:
        # Under the lock of the store nobody asks for a claim, so its file can go: deleted at any
        # other time, it could give one block to two writers.
        lock = self._held.pop(block)
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _digest(file: IO[bytes], progress: Progress) -> str:
    """The sha256 of a complete file, as Layout.by_blocks says."""
    if "hashed" not in progress.about:
        return digest_of(file)
    before, row_bytes = progress.about["hashed"]
    place = partial(_places, before, row_bytes, progress.rows)
    found = [_digest_of(file, place(progress.rows_of(b))) for b in range(len(progress.blocks))]
    first = _digest_of(file, [(0, before)])
    last = _digest_of(file, [(sum(place(range(progress.rows))[-1]), -1)])
    file.seek(0)
    return document_digest([first, last, *found])


def _digest_of(file: IO[bytes], places: Sequence[tuple[int, int]]) -> str:
    """The sha256 of what stands there, one after the other."""
    digest = hashlib.sha256()
    for start, size in places:
        file.seek(start)
        digest.update(file.read(size))
    return digest.hexdigest()


def _places(
    begin: int, row_bytes: int | Sequence[int], total: int, rows: range
) -> list[tuple[int, int]]:
    """Of each array of `total` rows: where these rows begin in the file, and their bytes."""
    places = []
    for size in [row_bytes] if isinstance(row_bytes, int) else row_bytes:
        places.append((begin + rows.start * size, len(rows) * size))
        begin += total * size
    return places


def _try_claim(path: Path) -> FileLock | None:
    """The lock of a claim, if no living process has it; asked under the lock of the store only."""
    lock = FileLock(path, thread_local=False)
    with suppress(Timeout):
        lock.acquire(blocking=False)
        return lock
    return None
