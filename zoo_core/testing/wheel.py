"""What a package would publish: its wheel, built, unpacked and compared with the folder."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from zoo_core.errors import UsageError, ZooError
from zoo_core.testing.finding import Finding

LARGEST = 100 << 20  # bytes of a file that PyPI takes without asking
LEFT_OUT = {"__pycache__", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def read_project(folder: Path) -> dict[str, Any]:
    """The pyproject.toml of a folder."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        raise UsageError(
            f"{folder} has no pyproject.toml, so it is no package",
            "zoo plugin new NAME makes one",
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error


def plugin_ids(project: dict[str, Any]) -> list[str]:
    """The names of its entry points in the group `zoo`."""
    points = project.get("project", {}).get("entry-points", {}).get("zoo", {})
    if not points:
        raise Finding(
            "pyproject.toml has no entry point in the group 'zoo'",
            "the zoo finds plugins by that group alone: pip install would change nothing",
            'write [project.entry-points.zoo] and below it: my-plugin = "my_package.plugin"',
        )
    return list(points)


def build_wheel(folder: Path, to: Path) -> Path:
    """Build the wheel as `pip install` would, and unpack nothing."""
    backend = read_project(folder).get("build-system", {}).get("build-backend", "setuptools")
    here = importlib.util.find_spec(backend.partition(".")[0].partition(":")[0]) is not None
    isolated = ["--no-build-isolation"] if here else []  # then no network is needed
    if uv := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)):
        command = [uv, "build", "--wheel", "--quiet", *isolated, "--python", sys.executable]
        command += ["--out-dir", str(to), str(folder)]
    elif importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", *isolated]
        command += ["--disable-pip-version-check", "--wheel-dir", str(to), str(folder)]
    else:
        raise ZooError("building a wheel needs pip or uv", "pip install uv")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    built = sorted(to.glob("*.whl"))
    if done.returncode or not built:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Finding(
            f"the wheel cannot be built: {' '.join(last)}",
            "nobody could install the package",
            f"build it by hand to see why: {' '.join(command)}",
        )
    return built[0]


def unpack(wheel: Path, to: Path) -> None:
    """A folder that can be put on Python's path: the package as its users get it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(to)


def check_contents(folder: Path, site: Path) -> None:
    """Everything in the folders of its packages is in the wheel, and nothing that should not be."""
    packages = [p for p in site.iterdir() if p.is_dir() and not p.name.endswith(".dist-info")]
    for package in packages:
        source = next((p for p in (folder / package.name, folder / "src" / package.name)
                       if p.is_dir()), None)  # fmt: skip
        if package.name in ("tests", "test", "docs"):
            raise Finding(
                f"the wheel contains a folder {package.name!r} at the top",
                "it would lie beside everybody's packages, and collide with the next such one",
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


def check_metadata(project: dict[str, Any]) -> None:
    """It asks for zoo-core, up to the next major version."""
    wanted = [
        text for text in project.get("project", {}).get("dependencies", [])
        if text.replace("_", "-").lower().startswith("zoo-core")
    ]  # fmt: skip
    if not wanted:
        raise Finding(
            "the package does not depend on zoo-core",
            "pip would install it where it cannot work",
            'add "zoo-core[torch]>=0.1,<1" to dependencies',
        )
    if "<" not in wanted[0] and "~" not in wanted[0] and "==" not in wanted[0]:
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
