"""All checks of a package: of its wheel, then of its plugins in a process that has that wheel."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from zoo import UsageError, ZooError, __version__
from zoo.kit import did_you_mean, load_plugins, temporary_folder
from zoo.testing import Finding
from zoo_author.checks import BUILTIN
from zoo_author.suite import DECISIVE, Check, Outcome, outcomes

LARGEST = 100 << 20  # bytes of a file that PyPI takes without asking
REQUIREMENT = re.compile(r" *([\w.-]*) *(?:\[([^]]*)\])?")  # its name and its extras
LEFT_OUT = {"__pycache__", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def check_entry_points(plugins: Sequence[str], groups: Sequence[str] = ()) -> None:
    """It has one in the group `zoo`. groups: those that it has."""
    if not plugins:
        others = f", only in {', '.join(map(repr, groups))}" if groups else ""
        raise Finding(
            f"the package has no entry point in the group 'zoo'{others}",
            "the zoo finds plugins by that group alone: pip install would change nothing",
            'write [project.entry-points.zoo] and below it: my-plugin = "my_package.plugin"',
        )


def check_wheel(folder: Path, backend: str, site: Path) -> None:
    """The wheel can be built as `pip install` would; `site` becomes what its users get."""
    here = importlib.util.find_spec(backend.partition(".")[0].partition(":")[0]) is not None
    isolated = ["--no-build-isolation"] if here else []  # then no network is needed
    to = site.parent
    if uv := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)):
        command = [uv, "build", "--wheel", "--quiet", *isolated, "--python", sys.executable]
        command += ["--out-dir", str(to), str(folder)]
    elif importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", *isolated]
        command += ["--disable-pip-version-check", "--wheel-dir", str(to), str(folder)]
    else:
        raise Finding(
            "building a wheel needs pip or uv",
            "what people install is the wheel, so that is what is checked",
            "pip install uv",
        )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    built = sorted(to.glob("*.whl"))
    if done.returncode or not built:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Finding(
            f"the wheel cannot be built: {' '.join(last)}",
            "nobody could install the package",
            f"build it by hand to see why: {' '.join(command)}",
        )
    with zipfile.ZipFile(built[0]) as archive:
        archive.extractall(site)


def check_contents(folder: Path, site: Path) -> None:
    """Everything in the folders of its packages is in the wheel, and nothing that should not be."""
    packages = [p for p in site.iterdir() if p.is_dir() and not p.name.endswith(".dist-info")]
    for package in packages:
        homes = (folder / package.name, folder / "src" / package.name)
        source = next(filter(Path.is_dir, homes), None)
        if package.name in ("tests", "test", "docs"):
            raise Finding(
                f"the wheel contains a folder {package.name!r} at the top",
                "it would lie beside everybody's packages, and collide with theirs",
                "name the packages to include in pyproject.toml",
            )
        lost = sorted(_files(source) - _files(package)) if source else []
        if lost:
            raise Finding(
                f"{package.name} has files that the wheel lacks: {', '.join(lost[:5])}",
                "they are there for you, and missing for everybody who installs the package",
                "include them as package data in pyproject.toml; hatchling also leaves out what "
                ".gitignore names",
            )
    beside = {p.stem for p in folder.glob("*.py")} - {p.stem for p in site.iterdir()}
    for name, where, _ in _imports(packages):
        if name in beside:
            raise Finding(
                f"{where} imports {name}, a file beside the package that is not in the wheel",
                "you have it in your folder, and nobody who installs the package has it",
                f"move {name}.py into the package, and import it from there",
            )
    for path in site.rglob("*"):
        if path.is_file() and path.stat().st_size > LARGEST:
            raise Finding(
                f"{path.name} has {path.stat().st_size >> 20} MB",
                "PyPI refuses files above 100 MB, and everybody downloads it with the code",
                "publish weights with `zoo publish --to hf:...` and ship the list of them",
            )


def check_metadata(dependencies: Sequence[str]) -> None:
    """It asks for zoo-core, up to the next major version."""
    wanted = [w for w in dependencies if w.replace("_", "-").lower().startswith("zoo-core")]
    if not wanted:
        raise Finding(
            "the package does not depend on zoo-core",
            "pip would install it where it cannot work",
            'add "zoo-core[torch]>=0.1,<1" to dependencies',
        )
    if not any(bound in wanted[0] for bound in ("<", "~", "==")):
        raise Finding(
            f"{wanted[0]!r} accepts any later zoo-core",
            "a major version may change the hooks, and pip would install it all the same",
            'set a bound: "zoo-core[torch]>=0.1,<1"',
        )
    lowest = re.search(r"[>~=]= *([0-9.]+)", wanted[0])
    asked, here = (re.findall(r"\d+", v) for v in (lowest[1] if lowest else "", __version__))
    if list(map(int, asked)) > list(map(int, here)):
        raise Finding(
            f"{wanted[0]!r} asks for a later zoo-core than {__version__}, which checks it here",
            "pip would refuse the package beside this zoo-core",
            f"ask for {__version__}, or check it with the version that it needs",
        )


def check_imports(code: Sequence[Path]) -> None:
    """It imports the public pages of the zoo, not what is behind them."""
    private = [(name, where) for name, where, _ in _imports(code) if _top(name) == "zoo_core"]
    if private:
        places = "; ".join(f"{where} imports {name}" for name, where in private[:5])
        raise Finding(
            places + f"; and {len(private) - 5} more" * (len(private) > 5),
            "zoo_core may change with any version; zoo, zoo.kit and zoo.testing do not",
            "import the name from zoo or zoo.kit, which docs/kit.md describes",
        )


def check_dependencies(code: Sequence[Path], requirements: Sequence[str]) -> None:
    """A dependency brings each package that it cannot do without."""
    brought, providers = _brought_by(requirements), importlib.metadata.packages_distributions()
    for name, where, needed in _imports(code):
        owners = sorted(map(_normal, providers.get(_top(name), ())))
        ours = _top(name) in {"zoo", "zoo_core", *(path.stem for path in code)}
        if needed and owners and not ours and not brought & set(owners):
            raise Finding(
                f"{where} imports {name}, and no dependency brings {owners[0]}",
                "you have it; others who install the package may not",
                f'add "{owners[0]}" to dependencies in pyproject.toml',
            )


def _imports(code: Sequence[Path]) -> Iterator[tuple[str, str, bool]]:
    """Every module that files and folders import, where, and whether they cannot do without."""
    for root in code:
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue  # check_loads or check_targets says so
            spare: set[int] = set()  # inside `try:` and `if TYPE_CHECKING:`
            for node in ast.walk(tree):
                if isinstance(node, ast.Try) or (
                    isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
                ):
                    spare |= {id(inner) for part in node.body for inner in ast.walk(part)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names = [one.name for one in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                else:
                    continue
                where = f"{path.relative_to(root.parent).as_posix()}, line {node.lineno}"
                yield from ((name, where, id(node) not in spare) for name in names)


def _brought_by(requirements: Sequence[str]) -> set[str]:
    """The distributions that pip installs for these requirements, as far as they are here."""
    found: set[tuple[str, str]] = set()
    waiting = list(requirements)
    while waiting:
        match = REQUIREMENT.match(waiting.pop())
        name, extras = match.groups("") if match else ("", "")
        if name and (_normal(name), extras) not in found:
            found.add((_normal(name), extras))
            with suppress(importlib.metadata.PackageNotFoundError):
                for text in importlib.metadata.requires(name) or ():
                    extra = re.search(r"extra *== *['\"]([^'\"]+)", text)
                    waiting += [text] * (extra is None or extra[1] in extras.split(","))
    return {name for name, _ in found}


def _top(module: str) -> str:
    return module.partition(".")[0]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not LEFT_OUT & set(path.parts) and path.suffix != ".pyc"
    }


def check_folder(folder: Path, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Check what the package in a folder would publish. It need not be installed."""
    folder = folder.resolve()
    path = folder / "pyproject.toml"
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", "zoo plugin new NAME makes a package")
    if not path.is_file():
        what = f"{folder} has no pyproject.toml, so it is not a package"
        raise UsageError(what, "zoo plugin new NAME makes one")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error
    project = document.get("project", {})
    name = project.get("name", folder.name)
    plugins = list(project.get("entry-points", {}).get("zoo", {}))
    backend = document.get("build-system", {}).get("build-backend", "setuptools")
    with temporary_folder() as temporary:
        site = temporary / "site"
        checks = (
            Check.by(check_entry_points, name, plugins, list(project.get("entry-points", {}))),
            Check.by(check_metadata, name, project.get("dependencies", [])),
            Check.by(check_wheel, name, folder, backend, site),
            Check.by(check_contents, name, folder, site),
        )
        for outcome in outcomes(checks):
            yield outcome
            if outcome.state == "found" and outcome.check in DECISIVE:
                return
        extras = project.get("optional-dependencies", {}).values()
        wanted = [*project.get("dependencies", []), *chain.from_iterable(extras)]
        code = [path for path in site.iterdir() if path.suffix in ("", ".py")]
        yield from outcomes(_of_code(name, code, wanted))
        for plugin in plugins:
            yield from _in_process(plugin, options, site)


def _of_code(name: str, code: Sequence[Path], requirements: Sequence[str]) -> list[Check]:
    """The checks that read what a package imports; it is not run for them."""
    return [
        Check.by(check_imports, name, code),
        Check.by(check_dependencies, name, code, requirements),
    ]


def check_installed(name: str, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Check the plugins of an installed package, by its name or a plugin's id."""
    records = [r for r in load_plugins().records if r.id != BUILTIN and r.value]
    found = list(dict.fromkeys(r.id for r in records if name in (r.id, r.distribution)))
    if not found:
        with suppress(importlib.metadata.PackageNotFoundError):
            groups = importlib.metadata.distribution(name).entry_points.groups
            yield from outcomes([Check.by(check_entry_points, name, (), sorted(groups))])
            return
        known = [word for record in records for word in (record.id, record.distribution)]
        raise UsageError(
            f"no plugin {name!r} is installed, and there is no such folder",
            did_you_mean(name, known, "zoo plugins lists them; a folder is written ./folder"),
        )
    for record in (record for record in records if record.id in found):
        spec = importlib.util.find_spec(_top(record.value.partition(":")[0]))
        places = [*(spec.submodule_search_locations or [spec.origin or ""])] if spec else []
        code = [Path(place) for place in places if place]
        wanted = importlib.metadata.requires(record.distribution) or ()
        yield from outcomes(_of_code(record.distribution, code, wanted))
    for plugin in found:
        yield from _in_process(plugin, options)


def _in_process(plugin: str, options: Sequence[str], *before: Path) -> Iterator[Outcome]:
    """In a process of its own: a model that crashes or hangs takes nothing else with it. before:
    folders to import from first, even if the same package is installed."""
    path = [*map(str, before), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"ZOO_DISABLE_PLUGINS": "", "ZOO_PLUGINS": "", "ZOO_STRICT": ""}
    environment["ZOO_CONFIG"] = os.devnull  # in which nothing is disabled
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    with (
        temporary_folder() as elsewhere,
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "zoo_author.suite", plugin, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=elsewhere,  # the folder itself must not stand in for what the wheel lacks
        ) as process,
    ):
        for line in process.stdout or ():
            yield Outcome(**json.loads(line))
        if process.wait():
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:]
            what = f"the process that checked it ended with {process.returncode}: {' '.join(last)}"
            why = "everybody who uses it would lose their work"
            fix = f"run it by hand: python -m zoo_author.suite {plugin}"
            yield Outcome(plugin, "process", "found", what, why, fix)
