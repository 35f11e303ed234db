"""weights_manifest.json: every published weight file, its digest, and what it scored.

Reads, validates, merges and writes such lists; docs/weights.md describes the format. There are
three kinds: the zoo's own, those of plugins (`zoo_manifests`), and the user's, which `zoo publish`
writes to. verify.py decides whether a file is what its entry says.
"""

from __future__ import annotations

import gc
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from zoo_core.io.console import UNPRINTABLE
from zoo_core.io.documents import reason, strict_loads
from zoo_core.io.errors import ManifestError, UnknownName, os_errors
from zoo_core.io.files import atomic_write, locked, read_bytes, user_manifest
from zoo_core.io.tensors import FLOATS
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.recipe import DIGEST, NAME
from zoo_core.spec.registry import how_to_get, registry

VERSION = 1
LARGEST = 64 << 20  # bytes of a manifest; 10,000 entries are about 11 MB
LARGEST_ENTRY = 1 << 20  # of one entry on its own, a hub's config.json
USERS, CORE = "your manifest", "zoo-core"  # who lists an entry, in words

COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
UNUSABLE = re.compile(r"[\x00-\x1f\x7f\\:]")  # in a path that has to work everywhere

# What strangers may say, and how much: in manifests, in config.json, and in what a weight file says
# of itself. How deep a value can be nested is part of its type. docs/weights.md has the limits.
MOST, MANY = Meta(max_length=65_536), Meta(max_length=1000)  # classes; options, metrics
Name = Annotated[str, Meta(max_length=500)]  # of a class, a dataset, a metric
Text = Annotated[str, Meta(max_length=4096)]  # an option: a path, say
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Plain = Text | bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Number | None
Value = Plain | Annotated[list[Plain | Annotated[list[Plain], MANY]], MOST]
Options = Annotated[dict[Name, Value], MANY]
Names = Annotated[tuple[Name, ...], MOST]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Weights(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):  # gc=False: entries hold no cycles, and 10,000 of them are read twice as fast
    """One published weight file, as a list describes it; the last two fields are optional."""

    name: Name  # model.tag
    model: Name  # a name of the registry, never an import path
    plugin: Name  # that provides the model
    distribution: Name  # what pip calls that plugin
    config: Options  # all options of the model
    dataset: Name  # that it was trained on
    classes: Names
    preprocess: Options
    file: Name  # in a repository; a `package:` source says itself where the file is
    sha256: str
    bytes: Count
    dtype: str  # of all floats in the file
    parameters: Count
    metrics: Annotated[dict[Name, Number], MANY]  # test_accuracy, ...: as in metrics.jsonl
    recipe: Options  # what differs from a plain Recipe(), as one types it after --set
    license: Name
    sources: Annotated[tuple[Text, ...], MANY]  # tried in order
    # Where one image has several classes, or numbers: see Targets. Left out where it has one class.
    targets: Options = msgspec.field(default_factory=dict)
    # What logits are divided by before softmax. Left out where nothing decided one.
    temperature: Annotated[float, Meta(ge=0.01, le=100)] = 1.0

    def __post_init__(self) -> None:
        model, _, tag = self.name.partition(".")
        inside = is_inside(self.file) and self.file.endswith(".safetensors")
        for field, ok, wanted in (
            ("name", model == self.model and NAME.fullmatch(tag), "model.tag"),
            ("model", NAME.fullmatch(self.model), "the name of a model"),
            ("plugin", NAME.fullmatch(self.plugin), "a plugin's id"),
            ("distribution", DISTRIBUTION.fullmatch(self.distribution), "a package's name"),
            ("sha256", DIGEST.fullmatch(self.sha256), "64 hexadecimal digits"),
            ("dtype", self.dtype in FLOATS, "float64, float32, float16 or bfloat16"),
            ("file", inside, "a path inside the repository that ends in .safetensors"),
            ("sources", all(map(_is_source, self.sources)),
             "package:PATH, file:/DIR@REVISION or hf:ORG/NAME@REVISION each"),
        ):  # fmt: skip
            if not ok:  # ValueErrors become msgspec's own, with the place in the document added
                raise ValueError(f"{field} must be {wanted}, not {getattr(self, field)!r}")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    version: int
    weights: list[Weights]

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, the one known here, not {self.version!r}")
        if len({weights.name for weights in self.weights}) < len(self.weights):
            raise ValueError("a name occurs twice in it")


Listed = tuple[str, Weights]  # who lists an entry, in words, and the entry
T = TypeVar("T", Weights, Manifest)


def is_inside(path: str) -> bool:
    """Whether a path stays in the folder that it is relative to, on every platform."""
    return not UNUSABLE.search(path) and not {"", ".", ".."}.intersection(path.split("/"))


def _is_source(source: str) -> bool:
    scheme, _, rest = source.partition(":")
    if scheme == "package":
        package, colon, path = rest.rpartition(":")
        return is_inside(path) and package.isidentifier() == bool(colon)
    place, _, revision = rest.rpartition("@")
    if COMMIT.fullmatch(revision) is None:
        return False
    if scheme == "hf":
        return REPOSITORY.fullmatch(place) is not None and ".." not in place
    absolute = PurePosixPath(place).is_absolute() or PureWindowsPath(place).is_absolute()
    climbs = ".." in re.split(r"[/\\]", place)
    return scheme == "file" and absolute and not climbs and not UNPRINTABLE.search(place)


def is_packaged(source: str) -> bool:
    return source.startswith("package:")


def packaged_file(weights: Weights) -> Path | None:
    """The copy that an installed plugin ships."""
    for source in filter(is_packaged, weights.sources):
        package, _, path = source.removeprefix("package:").rpartition(":")
        if package and (file := package_folder(package) / path).is_file():
            return file
    return None


def package_folder(package: str) -> Path:
    """Where an installed package is, without importing it."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else Path(f"{package} is not a package")


def backbone_of(weights: Weights) -> str | None:
    """The frozen backbone that a file leaves out, as `sha256:DIGEST` in one of its options.

    "" where it is inside the file, None for a model without one.
    """
    options = (value for value in weights.config.values() if isinstance(value, str))
    named = next((value for value in options if value.startswith("sha256:")), "")
    model, models = f"{weights.plugin}/{weights.model}", registry().models
    frozen = model in models and "backbone" in models.get(model).capabilities
    return named if named or frozen else None


# ---------------------------------------------------------------- reading


def parse(data: bytes, kind: type[T], where: str) -> T:
    """A manifest, or one entry, from its JSON."""
    largest = LARGEST if kind is Manifest else LARGEST_ENTRY
    if len(data) > largest:
        raise ManifestError(f"{where} has {len(data):,} bytes; {largest:,} are allowed")
    collecting = gc.isenabled()
    gc.disable()  # looking for cycles in what is decoded would take as long as decoding it
    try:
        found = msgspec.json.decode(data, type=kind)
        if not _surely_unique(data, found):
            strict_loads(data)
        if not data.isascii() or b"\\" in data or b"\x7f" in data:  # otherwise there is none
            _refuse_unprintable(msgspec.to_builtins(found))
    except RecursionError:
        raise ManifestError(f"{where} is nested too deeply") from None
    except ValueError as error:  # msgspec's errors are ValueErrors
        what = "is not a list of weights" if kind is Manifest else "does not describe weights"
        raise ManifestError(f"{where} {what}: {reason(error)}", "see docs/weights.md") from error
    finally:
        if collecting:
            gc.enable()
    return found


def _refuse_unprintable(value: object) -> None:
    """Refuse texts that a person could not see as they are."""
    if isinstance(value, str) and UNPRINTABLE.search(value):
        raise ValueError(f"texts must be without control characters, not {value[:100]!a}")
    if isinstance(value, dict | list | tuple):
        for inside in (*value, *(value.values() if isinstance(value, dict) else ())):
            _refuse_unprintable(inside)


def _surely_unique(data: bytes, found: Weights | Manifest) -> bool:
    """Whether no key occurs twice; msgspec would take the last one. It saves a second parse.

    All fields but two are required, so without those the number of different keys is known. Without
    backslashes and without blanks before a colon, the text has a `":` for each key: as many, and
    none is twice.
    """
    optional = b'"targets":' in data or b'"temperature":' in data
    if b"\\" in data or optional or re.search(rb'"[ \t\r\n]+:', data):
        return False
    entries = [found] if isinstance(found, Weights) else found.weights
    keys = 0 if isinstance(found, Weights) else len(Manifest.__struct_fields__)
    for entry in entries:
        keys += len(entry.config) + len(entry.preprocess) + len(entry.metrics) + len(entry.recipe)
    return data.count(b'":') == keys + len(entries) * (len(Weights.__struct_fields__) - 2)


def read(path: Path, package: str = "") -> list[Weights]:
    """The entries of a list; those of a package's list get its name into each `package:PATH`."""
    with os_errors(f"{path} cannot be read", ManifestError):
        data = read_bytes(path, LARGEST)
    entries = parse(data, Manifest, str(path)).weights
    if not package:
        return entries
    bare, named = re.compile(r"package:(?=[^:]*$)"), f"package:{package}:"
    return [replace(w, sources=tuple(bare.sub(named, s) for s in w.sources)) for w in entries]


def core_manifest() -> Path:
    """The zoo's own: inside the installed package, or at the root of a clone."""
    package = Path(__file__).parents[1]
    inside = package / "weights_manifest.json"
    return inside if inside.exists() else package.parent / "weights_manifest.json"


def all_weights() -> tuple[list[Listed], dict[str, ManifestError]]:
    """Every entry of every list, and what is wrong with a list, by whose it is.

    The same file under the same name is one entry, with the sources of all lists that have it.
    """
    merged: dict[tuple[str, str, str], Listed] = {}
    problems: dict[str, ManifestError] = {}
    user, core = user_manifest(), core_manifest()
    lists = [(USERS, "", user), *([(CORE, "", core)] if core != user else []), *of_plugins()]
    for who, package, path in lists:
        try:
            entries = read(path, package) if path.exists() else []
        except ManifestError as error:
            problems[who] = error
            continue
        for weights in entries:
            key, one = (weights.plugin, weights.name, weights.sha256), (who, weights)
            merged[key] = _together(merged[key], one) if key in merged else one
    # A plugin can be newer than the zoo's own list: of its own weights it knows better.
    own = {key[:2] for key, (who, _) in merged.items() if who == f"plugin {key[0]!r}"}
    return [one for key, one in merged.items() if one[0] != CORE or key[:2] not in own], problems


def of_plugins() -> Iterator[tuple[str, str, Path]]:
    """Whose list it is, in words, the package that it is in, and where it is."""
    for record in load_plugins().records:
        for target in record.entries("manifests") if record.state == "ok" else ():
            package, _, name = target.partition(":")
            yield f"plugin {record.id!r}", package, package_folder(package) / name


def _together(one: Listed, other: Listed) -> Listed:
    """Two entries of one file as one; the copy in a package needs no network and comes first."""
    (who, first), (_, second) = sorted((one, other), key=lambda pair: pair[0] in (USERS, CORE))
    both = (first, second)
    online = (each.file for each in both if not all(map(is_packaged, each.sources)))
    file = next(online, first.file)
    every = dict.fromkeys(source for each in both for source in each.sources)
    usable = {source for each in both if each.file == file for source in each.sources}
    packaged = [source for source in every if is_packaged(source)]
    others = [source for source in every if source in usable and not is_packaged(source)]
    return who, replace(first, file=file, sources=(*packaged, *others))


def find_model(name: str) -> ModelEntry:
    """A model of the registry; if it is not installed, the error names a package that has it."""
    try:
        return registry().models.get(name)
    except UnknownName as error:
        plugin, _, model = name.rpartition("/")
        for _, one in all_weights()[0]:
            if one.model == model and plugin in ("", one.plugin):
                raise UnknownName(str(error), how_to_get(one.distribution)) from error
        raise


def labels(entries: Sequence[Weights]) -> list[str]:
    """For each entry the shortest reference that finds it among all of them.

    `name`, or `plugin/name` where two plugins have that name, or `plugin/name@DIGEST` where two
    lists mean different files by it.
    """
    names = Counter(one.name for one in entries)
    owned = Counter((one.plugin, one.name) for one in entries)
    return [
        one.name * (names[one.name] == 1)
        or f"{one.plugin}/{one.name}" + f"@{one.sha256[:12]}" * (owned[one.plugin, one.name] > 1)
        for one in entries
    ]


# ---------------------------------------------------------------- writing


def write(path: Path, weights: Iterable[Weights]) -> None:
    manifest = Manifest(version=VERSION, weights=sorted(weights, key=lambda one: one.name))
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    parse(text, Manifest, str(path))  # msgspec checks what it reads, not what it is given
    with os_errors(f"{path} could not be written", ManifestError), atomic_write(path) as temporary:
        temporary.write_bytes(text)


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Weights]]:
    """The entries of a list by name, to be changed; written back when the block ends well."""
    with ExitStack() as held:
        with os_errors(f"{path} could not be written", ManifestError):
            held.enter_context(locked(path))
        # A list that cannot be read is never overwritten: it may hold the only copy.
        before = read(path) if path.exists() else []
        entries = {weights.name: weights for weights in before}
        yield entries
        if list(entries.values()) != before:
            write(path, entries.values())
