"""Third parties' weights that a model starts from: found or fetched, checked, kept as safetensors.

This is the one place that reads somebody else's `.pth`. Such a file is a pickle, so it is opened
only after its digest was found to be the pinned one, and with torch's restricted unpickler.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from zoo_core.data.sources import STALL_SECONDS, check_reachable
from zoo_core.errors import SourceUnavailable, WeightsError, ZooError
from zoo_core.files import atomic_write
from zoo_core.hub.verify import check_tensors, open_weights
from zoo_core.paths import cache_dir
from zoo_core.progress import progress
from zoo_core.targets import describe
from zoo_core.tensors import to_bytes

CHUNK = 1 << 20


@dataclass(frozen=True)
class Pretrained:
    """A file of weights that somebody published."""

    name: str  # in words, for messages
    url: str
    sha256: str

    @property
    def file(self) -> str:
        return PurePosixPath(self.url).name


def pretrained_tensors(
    source: Pretrained, path: str = "", say: Callable[[str], None] = lambda _: None
) -> dict[str, np.ndarray]:
    """The tensors of `source`, from the file that the user names, the cache, or its host."""
    if path:
        return _read_named(Path(path).expanduser(), source)
    kept = cache_dir("weights") / "pretrained" / f"{source.sha256}.safetensors"
    if (tensors := _read_kept(kept)) is not None:
        return tensors
    found = _torch_hub() / source.file
    if found.is_file() and _digest(found) == source.sha256:
        tensors = _convert(found)
    else:
        say(f"Fetching {source.name} from {source.url}")
        with tempfile.TemporaryDirectory() as folder:
            tensors = _convert(_fetch(source, Path(folder)))
    content = to_bytes(tensors)
    with atomic_write(kept) as temporary:
        temporary.write_bytes(content)
    with atomic_write(kept.with_suffix(".sha256")) as temporary:
        temporary.write_text(hashlib.sha256(content).hexdigest())
    return tensors


def _read_named(path: Path, source: Pretrained) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise ZooError(f"there is no file {path}", f"it can be fetched from {source.url}")
    if path.suffix == ".safetensors":
        return check_tensors(open_weights(path), None)
    digest = _digest(path)
    if digest != source.sha256:
        raise ZooError(
            f"{path} is not {source.name}: its sha256 is {digest[:12]}..., "
            f"not {source.sha256[:12]}...",
            "other weights must be a .safetensors file, which runs no code when it is opened",
        )
    return _convert(path)


def _read_kept(path: Path) -> dict[str, np.ndarray] | None:
    """What was converted before, unless it has changed since."""
    try:
        digest = path.with_suffix(".sha256").read_text()
        return check_tensors(open_weights(path, sha256=digest), None)
    except (OSError, ZooError):
        pass
    return None


def _fetch(source: Pretrained, folder: Path) -> Path:
    """Download into the folder; the digest decides whether it is what was asked for."""
    path = folder / source.file
    try:
        check_reachable(source.url)
        with urllib.request.urlopen(source.url, timeout=STALL_SECONDS) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            measure = lambda: path.stat().st_size if path.exists() else 0  # noqa: E731
            with progress(source.file, size, measure=measure), path.open("wb") as file:
                while block := answer.read(CHUNK):
                    file.write(block)
    except (OSError, SourceUnavailable) as error:  # URLError is an OSError
        reason = str(error) if isinstance(error, SourceUnavailable) else describe(error)
        raise WeightsError(
            f"the weights {source.name} could not be fetched: {reason}",
            f"bring {source.url} here by other means, and give its path: --set model.weights=PATH",
        ) from error
    digest = _digest(path)
    if digest != source.sha256:
        raise ZooError(
            f"what {source.url} gave is not {source.name}: its sha256 is {digest[:12]}..., "
            f"not {source.sha256[:12]}...",
            "nothing was kept; a proxy may have answered in its place",
        )
    return path


def _convert(path: Path) -> dict[str, np.ndarray]:
    """A checked `.pth` as arrays."""
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.detach().contiguous().numpy() for name, tensor in state.items()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _torch_hub() -> Path:
    """Where torch keeps what it downloaded: most people have ImageNet weights there already."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME") or f"{cache}/torch"
    return Path(home).expanduser() / "hub" / "checkpoints"
