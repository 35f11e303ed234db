"""Checks of a plugin as a whole: it is found, light, speaks this API, and collides with nobody.

Nothing here needs torch. Each check takes the id of a plugin and raises a Finding.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

from zoo_core.io.errors import Finding, ZooError, did_you_mean
from zoo_core.io.targets import resolve
from zoo_core.publish.ship import MANIFEST
from zoo_core.spec import hooks as hookspecs
from zoo_core.spec.entries import PluginRecord
from zoo_core.spec.plugins import SLOW, load_plugins
from zoo_core.spec.registry import registry
from zoo_core.weights.manifest import Listed, package_folder, read
from zoo_core.weights.store import packaged_file

HEAVY = (
    "torch", "torchvision", "timm", "numpy", "PIL", "matplotlib", "scipy", "sklearn", "pandas",
    "tensorflow", "jax", "keras", "safetensors", "huggingface_hub", "transformers",
)  # fmt: skip
HOOKS = [name for name in dir(hookspecs) if name.startswith("zoo_")]


def check_loads(plugin: str) -> None:
    """It is installed, can be imported, and what its hooks return is valid."""
    known = {record.id: record for record in load_plugins().records}
    if plugin not in known:
        raise Finding(
            f"no installed package has an entry point {plugin!r} in the group 'zoo'",
            "the zoo finds plugins by that group alone",
            "write [project.entry-points.zoo] into pyproject.toml, and install the package again",
        )
    record = known[plugin]
    if record.state != "ok":
        raise Finding(
            f"plugin {plugin!r} is {record.state}: {record.reason}",
            "the zoo goes on without it: nothing that it provides can be used",
            _mend(record),
        )


def check_hooks(plugin: str) -> None:
    """Every function that looks like a hook is one, and the plugin has some."""
    record, module = _loaded(plugin)
    if not record.hooks:
        raise Finding(
            f"plugin {plugin!r} implements no hook",
            "it is loaded at every start and contributes nothing",
            "mark a function of hookspecs.py, zoo_models for example, with @zoo.hookimpl",
        )
    for name, value in vars(module).items():
        if name.startswith("zoo_") and callable(value) and name not in record.hooks:
            hint = did_you_mean(name, HOOKS)
            raise Finding(
                f"{record.value}.{name} looks like a hook and is never called",
                "the zoo calls functions that are marked and have the name of a hook",
                f"mark it with @zoo.hookimpl{f' ({hint})' if hint else ''}, or rename it",
            )


def check_version(plugin: str) -> None:
    """It says which version of the hooks it was written for."""
    record, module = _loaded(plugin)
    if getattr(module, "ZOO_API", None) is None:
        raise Finding(
            f"{record.value} does not say which version of the zoo's hooks it was written for",
            "a later zoo with other hooks could only guess whether it fits",
            f"write ZOO_API = {hookspecs.API} into it",
        )


def check_light(plugin: str) -> None:
    """Importing it costs next to nothing, measured in a process of its own."""
    record, _ = _loaded(plugin)
    code = (
        "import sys, time, zoo, pluggy; zoo.hookimpl, zoo.ModelEntry, zoo.Recipe; "
        f"start = time.perf_counter(); import {record.value.partition(':')[0]}; "
        "print(time.perf_counter() - start, *sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, *modules = done.stdout.splitlines()[-1].split()
    heavy = [name for name in HEAVY if name in modules]
    if heavy:
        raise Finding(
            f"importing {record.value} imports {', '.join(heavy)} ({float(seconds):.1f} s)",
            "everybody's `zoo list` imports it, whatever they came for",
            "import such packages in the module that the target names, not in the plugin's own "
            "(and not in the __init__.py of its package)",
        )
    if float(seconds) > SLOW:
        raise Finding(
            f"importing {record.value} takes {float(seconds):.2f} s",
            "everybody's `zoo list` waits for it",
            f"find out what is slow: python -X importtime -c 'import {record.value}'",
        )


def check_names(plugin: str) -> None:
    """No other plugin that is installed here uses one of its names."""
    record, _ = _loaded(plugin)
    for other in load_plugins().records:
        for sort in ("models", "datasets", "trainers"):
            mine = {entry.name for entry in getattr(record, sort)}
            shared = sorted(mine & {entry.name for entry in getattr(other, sort)})
            if other.id != plugin and shared:
                raise Finding(
                    f"{other.distribution} has {sort} of the same name: {', '.join(shared)}",
                    "neither wins: people would have to write "
                    f"{plugin}/{shared[0]} as soon as both are installed",
                    "choose another name, with your family's in front for example",
                )


def check_targets(plugin: str) -> None:
    """Everything that its entries name exists."""
    record, _ = _loaded(plugin)
    found = registry()
    targets = [(f"{entry.name}", entry.target) for sort in ("models", "datasets", "trainers")
               for entry in getattr(record, sort)]  # fmt: skip
    for entry in record.models:
        targets += [(f"{entry.name}, {name}", to) for name, to in entry.capabilities.items()]
        targets += [(f"{entry.name}, task", entry.task)] * (entry.task != "classification")
        for sort, name in (("dataset", entry.dataset), ("trainer", entry.trainer)):
            if name not in getattr(found, f"{sort}s"):
                raise Finding(
                    f"model {entry.name!r} names the {sort} {name!r}, which nobody provides here",
                    f"`zoo train {entry.name}` would stop with that sentence",
                    "correct the name, or add the plugin that provides it to the dependencies",
                )
    for what, target in targets:
        try:
            resolve(target, what)
        except ZooError as error:
            raise Finding(
                str(error),
                "it is imported when somebody uses it, so it would fail then",
                "correct the target ('package.module:name'), or add what is missing to the "
                "dependencies of the package",
            ) from error


def check_weights(plugin: str) -> None:
    """The lists of weights that it ships can be read, and the files in its package are intact."""
    from zoo_core.weights.references import find
    from zoo_core.weights.verify import check

    record, _ = _loaded(plugin)
    own = record.value.partition(":")[0].partition(".")[0]
    if f"{own}:{MANIFEST}" not in record.manifests and (package_folder(own) / MANIFEST).exists():
        raise Finding(
            f"{own} ships {MANIFEST}, and no hook names it",
            "the weights travel in the wheel, and nobody can load them",
            f'let zoo_manifests return ["{own}:{MANIFEST}"]',
        )
    for target in record.manifests:
        package, _, name = target.partition(":")
        try:
            for weights in read(package_folder(package) / name).weights:
                if packaged_file(Listed(weights, "", package)):
                    check(find(f"{weights.plugin}/{weights.name}", fetch=False))
                elif all(source.startswith("package:") for source in weights.sources):
                    raise ZooError(f"{weights.file} of {weights.name} is not in the package")
        except ZooError as error:
            raise Finding(
                f"{target}: {error}",
                "`zoo list --weights` warns of it, or zoo.load refuses these weights",
                "publish the run again, and see that the wheel contains the list and the files",
            ) from error


CHECKS = (check_loads, check_hooks, check_version, check_light, check_names, check_targets,
          check_weights)  # fmt: skip


def _loaded(plugin: str) -> tuple[PluginRecord, ModuleType]:
    plugins = load_plugins()
    return next(r for r in plugins.records if r.id == plugin), plugins.objects[plugin]


def _mend(record: PluginRecord) -> str:
    if record.state == "conflict":
        return "choose another name for the entry point: the family's, not the architecture's"
    if record.state == "incompatible":
        return "install the zoo-core that it needs, or write it for this one"
    if "ModuleNotFoundError" in record.reason or "AttributeError" in record.reason:
        return (
            f"the entry point says {record.value!r}: it must be a module that is in the package, "
            "and that module may import zoo and light things only"
        )
    return f"correct it; `zoo plugins {record.id} --traceback` shows where it happens"
