"""weights_manifest.json: every published weight file, what it must hash to, what it scored.

Reads, validates and writes such files; docs/weights.md describes the format. There are three sorts:
the zoo's own, those of plugins (`zoo_manifests`), and the user's, which `zoo publish` writes to.
Whether the weights themselves are what an entry says is the business of zoo_core.hub.
"""

from __future__ import annotations

import gc
import importlib.util
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from zoo_core.io.documents import strict_loads
from zoo_core.io.errors import AmbiguousName, ManifestError, UnknownName, did_you_mean
from zoo_core.io.files import atomic_write, locked, read_bytes, user_manifest
from zoo_core.io.tensors import FLOATS
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.recipe import DIGEST, NAME

VERSION = 1
LARGEST = 64 << 20  # bytes of a manifest; 10,000 entries are about 11 MB
LARGEST_ENTRY = 1 << 20  # of one entry on its own, a hub's config.json

COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
UNUSABLE = re.compile(r"[\x00-\x1f\x7f\\:]")  # in a path that has to work everywhere

# How deep a value can be nested is part of its type, so that a manifest cannot be deeper.
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Plain = str | bool | int | Number | None
Value = Plain | list[Plain | list[Plain]]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Weights(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False
):  # gc=False: entries hold no cycles, and 10,000 of them are read twice as fast
    """One published weight file. All fields must be there."""

    name: str  # model.tag
    model: str  # a name of the registry, never an import path
    plugin: str  # that provides the model
    distribution: str  # what pip calls that plugin
    config: dict[str, Value]  # all options of the model
    dataset: str  # that it was trained on
    classes: tuple[str, ...]
    preprocess: dict[str, Value]
    file: str  # in the repository
    sha256: str
    bytes: Count
    dtype: str  # of all floats in the file
    parameters: Count
    metrics: dict[str, Number]  # test_accuracy, ...: as in metrics.jsonl
    recipe: dict[str, Value]  # what differs from a plain Recipe(), as one types it after --set
    license: str
    sources: tuple[str, ...]  # tried in order

    def __post_init__(self) -> None:
        # ValueErrors become msgspec's own, with the place in the document added.
        model, _, tag = self.name.partition(".")
        _need(model == self.model and NAME.fullmatch(tag), "name", self.name, "model.tag")
        _need(NAME.fullmatch(self.model), "model", self.model, "the name of a model")
        _need(NAME.fullmatch(self.plugin), "plugin", self.plugin, "a plugin's id")
        _need(DISTRIBUTION.fullmatch(self.distribution), "distribution", self.distribution,
              "a package's name")  # fmt: skip
        _need(DIGEST.fullmatch(self.sha256), "sha256", self.sha256, "64 hexadecimal digits")
        _need(self.dtype in FLOATS, "dtype", self.dtype, "float64, float32, float16 or bfloat16")
        _need(is_inside(self.file) and self.file.endswith(".safetensors"), "file", self.file,
              "a path inside the repository that ends in .safetensors")  # fmt: skip
        for source in self.sources:
            _need(_is_source(source), "sources", source,
                  "package:PATH, file:/DIR@REVISION or hf:ORG/NAME@REVISION")  # fmt: skip

    @property
    def backbone(self) -> str | None:
        """Of a frozen model: the digest of the backbone that is not in the file, or "" where it is.

        None for all other models.
        """
        told = self.config.get("backbone_weights")
        return None if told is None else str(told)

    @property
    def tag(self) -> str:
        return self.name.partition(".")[2]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    version: int
    weights: list[Weights]

    def __post_init__(self) -> None:
        _need(self.version == VERSION, "version", self.version, f"{VERSION}, the one known here")
        names = {weights.name for weights in self.weights}
        if len(names) < len(self.weights):
            raise ValueError("a name occurs twice in it")


class Listed(NamedTuple):
    """An entry and the manifest that lists it."""

    weights: Weights
    manifest: str  # in words
    package: str  # that `package:` sources are inside of

    @property
    def is_packaged(self) -> bool:
        return any(source.startswith("package:") for source in self.weights.sources)


T = TypeVar("T", Weights, Manifest)


def _need(ok: object, field: str, value: object, wanted: str) -> None:
    if not ok:
        raise ValueError(f"{field} must be {wanted}, not {value!r}")


def is_inside(path: str) -> bool:
    """Whether a path stays in the folder that it is relative to, on every platform."""
    if UNUSABLE.search(path):
        return False
    return not {"", ".", ".."}.intersection(path.split("/"))


def _is_source(source: str) -> bool:
    scheme, _, rest = source.partition(":")
    if scheme == "package":
        return is_inside(rest)
    place, _, revision = rest.rpartition("@")
    if COMMIT.fullmatch(revision) is None:
        return False
    if scheme == "hf":
        return REPOSITORY.fullmatch(place) is not None and ".." not in place
    absolute = PurePosixPath(place).is_absolute() or PureWindowsPath(place).is_absolute()
    climbs = ".." in re.split(r"[/\\]", place)
    return scheme == "file" and absolute and not climbs and not UNPRINTABLE.search(place)


# ---------------------------------------------------------------- reading


def parse(data: bytes, kind: type[T], where: str) -> T:
    """A manifest, or one entry, from its JSON."""
    largest = LARGEST if kind is Manifest else LARGEST_ENTRY
    if len(data) > largest:
        raise ManifestError(f"{where} has {len(data):,} bytes; {largest:,} are allowed")
    try:
        with _without_collector():
            found = msgspec.json.decode(data, type=kind)
        if not _surely_unique(data, found):
            strict_loads(data)
    except RecursionError:
        raise ManifestError(f"{where} is nested too deeply") from None
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise ManifestError(
            f"{where} is not a list of weights: {error}"
            if kind is Manifest
            else f"{where} does not describe weights: {error}",
            "docs/weights.md describes the format",
        ) from error
    return found


def _surely_unique(data: bytes, found: Weights | Manifest) -> bool:
    """Whether no key occurs twice, without reading 11 MB once more as Python objects.

    msgspec takes the last of two equal keys. All fields are required, so the number of different
    keys is known. Without backslashes and without blanks before a colon, every key is a quote and a
    colon in the text; when there are no more of these than different keys, no key is there twice.
    """
    if b"\\" in data or re.search(rb'"[ \t\r\n]+:', data):
        return False
    entries = [found] if isinstance(found, Weights) else found.weights
    fields = len(Weights.__struct_fields__)
    keys = 0 if isinstance(found, Weights) else len(Manifest.__struct_fields__)
    for entry in entries:
        keys += fields + len(entry.config) + len(entry.preprocess)
        keys += len(entry.metrics) + len(entry.recipe)
    return data.count(b'":') == keys


@contextmanager
def _without_collector() -> Iterator[None]:
    """Looking for cycles in what is being decoded would take as long as decoding it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read(path: Path) -> Manifest:
    """The manifest in a file."""
    try:
        data = read_bytes(path, LARGEST)
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}") from error
    return parse(data, Manifest, str(path))


def core_manifest() -> Path:
    """The zoo's own: inside the installed package, or at the root of a clone."""
    package = Path(__file__).parents[1]
    inside = package / "weights_manifest.json"
    return inside if inside.exists() else package.parent / "weights_manifest.json"


def all_weights() -> tuple[list[Listed], list[str]]:
    """Every entry of every manifest, and a sentence for each manifest that cannot be read."""
    listed: list[Listed] = []
    problems: list[str] = []
    for words, package, path in _manifests():
        try:
            found = read(path).weights if path.exists() else []
            listed += [Listed(weights, words, package) for weights in found]
        except ManifestError as error:
            problems.append(str(error))
    return listed, problems


def _manifests() -> Iterator[tuple[str, str, Path]]:
    yield "your manifest", "", user_manifest()
    if core_manifest() != user_manifest():
        yield "zoo-core", "zoo_core", core_manifest()
    yield from _of_plugins()


def _of_plugins() -> Iterator[tuple[str, str, Path]]:
    for record in load_plugins().records:
        for target in record.manifests if record.state == "ok" else ():
            package, _, name = target.partition(":")
            yield f"plugin {record.id!r}", package, package_folder(package) / name


def package_folder(package: str) -> Path:
    """Where an installed package is, without importing it."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else Path(f"{package} is not a package")


# ---------------------------------------------------------------- looking up


def find_weights(name: str, listed: Iterable[Listed]) -> Listed:
    """The entry called `model.tag` or `plugin/model.tag`."""
    plugin, _, bare = name.rpartition("/")
    named = [o for o in listed if o.weights.name == bare and plugin in ("", o.weights.plugin)]
    different = {one.weights.sha256: one for one in reversed(named)}
    if len(different) > 1:
        places = " and by ".join(
            f"{one.manifest} ({one.weights.plugin}/{bare}, sha256 {one.weights.sha256[:12]})"
            for one in named
        )
        plugins = dict.fromkeys(one.weights.plugin for one in named)
        choices = [f"write {' or '.join(f'{p}/{bare}' for p in plugins)}"] * (len(plugins) > 1)
        if any(one.manifest == "your manifest" for one in named):
            choices.append(f"zoo remove --forget {bare} takes the name out of your manifest")
        raise AmbiguousName(f"weights {name!r} are listed by {places}", "; ".join(choices))
    if not named:
        known = [one.weights.name for one in listed]
        hint = did_you_mean(bare, known, "zoo list --weights shows what there is", most=3)
        raise UnknownName(f"there are no weights {name!r}", hint)
    return together(named)


def together(copies: Iterable[Listed]) -> Listed:
    """The same bytes, listed several times: a package's copy needs no network and comes first."""
    first, *others = sorted(copies, key=lambda one: not one.is_packaged)
    # A `package:` source says itself where the file is; in repositories it is called as `file`.
    file = first.weights.file
    if first.is_packaged:
        file = next((other.weights.file for other in others if not other.is_packaged), file)
    sources = dict.fromkeys(first.weights.sources)
    for other in others:
        if other.weights.file == file and not other.is_packaged:
            sources |= dict.fromkeys(other.weights.sources)
    known = msgspec.structs.replace(first.weights, file=file, sources=tuple(sources))
    return first._replace(weights=known)


def default_weights(
    listed: Iterable[Listed], model: str, plugin: str, dataset: str
) -> Listed | None:
    """What a model's bare name means: those of its own dataset, or the only ones there are."""
    of_model = [o for o in listed if (o.weights.model, o.weights.plugin) == (model, plugin)]
    names = list(dict.fromkeys(one.weights.name for one in of_model))
    name = f"{model}.{dataset}"
    if name not in names:
        if len(names) > 1:
            raise AmbiguousName(
                f"model {model!r} has several weights", f"choose one: {' or '.join(names)}"
            )
        if not names:
            return None
        name = names[0]
    return find_weights(f"{plugin}/{name}", of_model)


# ---------------------------------------------------------------- writing


def write(path: Path, weights: Iterable[Weights]) -> None:
    manifest = Manifest(version=VERSION, weights=sorted(weights, key=lambda one: one.name))
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    parse(text, Manifest, str(path))  # msgspec checks what it reads, not what it is given
    try:
        with atomic_write(path) as temporary:
            temporary.write_bytes(text)
    except OSError as error:
        raise ManifestError(f"{path} could not be written: {error.strerror}") from error


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Weights]]:
    """The entries of a manifest by name, to be changed; written back when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ManifestError(f"{path} could not be written: {error.strerror}") from error
    with locked(path, lambda: None):
        # A manifest that cannot be read is never overwritten: it may hold the only copy.
        before = read(path).weights if path.exists() else []
        entries = {weights.name: weights for weights in before}
        yield entries
        if list(entries.values()) != before:
            write(path, entries.values())
