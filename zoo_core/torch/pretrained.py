"""Third parties' weights that a model starts from: found or fetched, checked, kept as safetensors.

This is the one place that reads somebody else's `.pth`. Such a file is a pickle, so it is opened
only after its digest was found to be the pinned one, and with torch's restricted unpickler.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from zoo_core.io.errors import HubError, SourceUnavailable, WeightsError, ZooError
from zoo_core.io.files import atomic_write, cache_dir, file_digest
from zoo_core.io.net import download
from zoo_core.io.targets import describe
from zoo_core.io.tensors import write
from zoo_core.weights.repository import HuggingFace
from zoo_core.weights.verify import read_tensors


@dataclass(frozen=True)
class Pretrained:
    """Weights that somebody published, and the ways to them."""

    name: str  # in words, for messages
    url: str = ""  # of a .pth file
    sha256: str = ""  # of that file: 64 digits, or the 8 in its name where nobody publishes more
    package: str = ""  # an installed package that brings the file along: its module,
    inside: str = ""  # and where it is in there
    hub: str = ""  # a repository of the Hugging Face Hub that has a model.safetensors
    option: str = "weights"  # of the model: takes a file instead

    @property
    def file(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def kept(self) -> Path:
        """Where the converted file is, once it was fetched."""
        name = self.sha256 if len(self.sha256) == 64 else self.file or self.hub.replace("/", "--")
        return cache_dir("weights") / "pretrained" / f"{name}.safetensors"

    def matches(self, digest: str) -> bool:
        return bool(self.sha256) and digest.startswith(self.sha256)

    @property
    def ways(self) -> str:
        """All that a person can do to provide them."""
        option = f"--set model.{self.option}=PATH"
        ways = [f"pip install {self.package.replace('_', '-')}"] if self.package else []
        if origin := self.url or (self.hub and f"model.safetensors of hf:{self.hub}"):
            ways.append(f"bring {origin} here by other means, and give its path: {option}")
        else:
            ways.append(f"give the path of a file: {option}")
        return ", or ".join(ways)


def pretrained_tensors(
    source: Pretrained, path: str = "", say: Callable[[str], None] = lambda _: None
) -> dict[str, np.ndarray]:
    """The tensors of `source`: from the file that the user names, or else the cache, an installed
    package, what torch has downloaded before, its host, the hub, whichever has them first."""
    if path:
        return _read_named(Path(path).expanduser(), source)
    if (tensors := _read_kept(source.kept)) is not None:
        return tensors
    tensors = _obtain(source, say)
    digest = write(source.kept, tensors)
    with atomic_write(source.kept.with_suffix(".sha256")) as temporary:
        temporary.write_text(digest)
    return tensors


def _obtain(source: Pretrained, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    for found in (_packaged(source), _torch_hub() / source.file if source.url else None):
        if found and found.is_file() and source.matches(file_digest(found)):
            return _convert(found)
    reasons: list[str] = []
    if source.url:
        say(f"Fetching {source.name} from {source.url}")
        try:
            with tempfile.TemporaryDirectory() as folder:
                return _convert(_fetch(source, Path(folder)))
        except (OSError, SourceUnavailable) as error:  # URLError is an OSError
            reasons.append(str(error) if isinstance(error, SourceUnavailable) else describe(error))
    if source.hub:
        say(f"Fetching {source.name} from hf:{source.hub}")
        try:
            return _from_hub(source.hub)
        except HubError as error:
            reasons.append(str(error))
    reason = "; ".join(reasons) or f"{source.package} is not installed"
    raise WeightsError(f"the weights {source.name} could not be fetched: {reason}", source.ways)


def _packaged(source: Pretrained) -> Path | None:
    """The file inside an installed package, none of whose code is run."""
    spec = importlib.util.find_spec(source.package) if source.package else None
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((Path(folder) / source.inside for folder in folders), None)


def _from_hub(name: str) -> dict[str, np.ndarray]:
    """The newest model.safetensors of a repository; the hub's own record says its digest."""
    repository = HuggingFace(name)
    commit = repository.resolve("")
    sha256, size = repository.stored(commit, "model.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        path = repository.fetch(commit, "model.safetensors", Path(folder))
        tensors = read_tensors(path, sha256=sha256, size=size)
        return {key: array.copy() for key, array in tensors.items()}


def _read_named(path: Path, source: Pretrained) -> dict[str, np.ndarray]:
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ZooError(f"{path} {what}", f"the published file is {source.url}")
    if path.suffix == ".safetensors":
        return read_tensors(path)
    digest = file_digest(path)
    if not source.matches(digest):
        raise ZooError(
            f"{path} is not {source.name}: its sha256 is {digest[:12]}..., "
            f"not {source.sha256[:12] or 'known'}...",
            "other weights must be a .safetensors file, which runs no code when it is opened",
        )
    return _convert(path)


def _read_kept(path: Path) -> dict[str, np.ndarray] | None:
    """What was converted before, unless it has changed since."""
    try:
        digest = path.with_suffix(".sha256").read_text()
        return read_tensors(path, sha256=digest)
    except (OSError, ZooError):
        pass
    return None


def _fetch(source: Pretrained, folder: Path) -> Path:
    """Download into the folder; the digest decides whether it is what was asked for."""
    path = folder / source.file
    download(source.url, path)
    digest = file_digest(path)
    if not source.matches(digest):
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


def _torch_hub() -> Path:
    """Where torch keeps what it downloaded: most people have ImageNet weights there already."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME") or f"{cache}/torch"
    return Path(home).expanduser() / "hub" / "checkpoints"
