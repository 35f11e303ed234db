"""All checks of a package: of its wheel, then of its plugins in a process that has that wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo_core.io.errors import Finding, UnknownName, UsageError, ZooError, did_you_mean
from zoo_core.spec.plugins import BUILTIN, load_plugins
from zoo_core.testing.suite import Check, Outcome, outcomes

LARGEST = 100 << 20  # bytes of a file that PyPI takes without asking
LEFT_OUT = {"__pycache__", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def check_entry_points(plugins: Sequence[str]) -> None:
    """It has one in the group `zoo`."""
    if not plugins:
        raise Finding(
            "pyproject.toml has no entry point in the group 'zoo'",
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
    if not packages and not list(site.glob("*.py")):
        raise Finding(
            "the wheel contains no Python at all",
            "there is nothing to import after pip install",
            "name the packages to include in pyproject.toml",
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
    with tempfile.TemporaryDirectory() as temporary:
        site = Path(temporary) / "site"
        checks = (
            Check.by(check_entry_points, name, plugins),
            Check.by(check_metadata, name, project.get("dependencies", [])),
            Check.by(check_wheel, name, folder, backend, site),
            Check.by(check_contents, name, folder, site),
        )
        yield from outcomes(checks)
        for plugin in plugins if site.exists() else ():
            yield from _in_process(plugin, options, site)


def check_installed(name: str, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Check the plugins of an installed package, by its name or a plugin's id."""
    records = [r for r in load_plugins().records if r.id != BUILTIN]
    found = list(dict.fromkeys(r.id for r in records if name in (r.id, r.distribution)))
    if not found:
        known = [word for record in records for word in (record.id, record.distribution)]
        raise UnknownName(
            f"no plugin {name!r} is installed, and there is no such folder",
            did_you_mean(name, known, "zoo plugins lists them; a folder is written ./folder"),
        )
    for plugin in found:
        yield from _in_process(plugin, options)


def _in_process(plugin: str, options: Sequence[str], *before: Path) -> Iterator[Outcome]:
    """In a process of its own: a model that crashes or hangs takes nothing else with it. before:
    folders to import from first, even if the same package is installed."""
    path = [*map(str, before), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"ZOO_DISABLE_PLUGINS": "", "ZOO_PLUGINS": "", "ZOO_STRICT": ""}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "zoo_core.testing.suite", plugin, *options],
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
            fix = f"run it by hand: python -m zoo_core.testing.suite {plugin}"
            yield Outcome(plugin, "process", "found", what, why, fix)
