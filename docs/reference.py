"""Write docs/reference: a page for each public class, from the code itself. Run it with make docs.

Functions, zoo.testing and the types that signatures use have a page each.

python docs/reference.py            write the pages
python docs/reference.py --check    exit with 1 if a page is not what the code says
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import zoo
from zoo import kit, testing

FOLDER = Path(__file__).parent / "reference"
GROUPS = {  # in the order in which somebody who writes a package meets them
    "What a plugin contributes": "ModelEntry DatasetEntry ReaderEntry TrainerEntry "
    "AugmentationEntry CommandEntry EngineEntry Recipe",
    "Write a trainer": "Framework Trainer Description Job Fitted Loop Learner Position Batch "
    "Result Run",
    "Write a task for torch": "Task Classification Update SumOver Targets Figure Answers "
    "ClassAnswers ClassesAnswers NumberAnswers",
    "Write a dataset": "Source Kept Originals LeftOut Dataset Split Preprocess",
    "Write an augmentation": "Augmentation Draws Ops",
    "Use pretrained weights, generate samples": "Pretrained FrozenModel Generator Predicted",
    "Write an engine": "Engine Piece Resources Outcome WorkerDied",
    "Errors": "ZooError UsageError OptionError DataError SourceUnavailable WeightsError "
    "TrainingError Interrupted",
}
FUNCTIONS = (
    "compare create disable_plugin enable_plugin evaluate "
    "features features_of generate info list_models list_weights load open_dataset "
    "plugins predict predict_many pretrained_tensors publish publish_all pull report reproduce "
    "resume runs train"
)
HOOKIMPL = "Marks a function as a hook: `@zoo.hookimpl`. [hooks.md](../hooks.md) lists the hooks."
TESTING = "checks_of Check Finding Skipped check_export job_of main"
TYPES = {  # what signatures use and neither zoo nor zoo.kit has: where its definition stands
    "zoo_core.spec.framework": "Config Tensors Shape TensorSpec",
    "zoo_core.io.engine": "Arrays Told",
    "zoo_core.train.job": "Say SEARCHED APPLIED Events",
    "zoo_core.train.checkpoint": "State",
    "zoo_core.train.display": "Display",
    "zoo_core.spec.answers": "LOSS SHARE ERROR Weighted",
    "zoo_core.spec.recipe": "FrozenDict",
    "zoo_core.runs.run": "Inside",
    "zoo_core.data.datasets": "Report",
    "zoo_core.data.ops": "MovePlan",
    "zoo_core.io.errors": "MissingDependency",
    "zoo_tune.tuning": "SearchResult",
    "zoo_core.use.predict": "Prediction Predictions",
    "zoo_core.weights.statements": "Statement",
    "zoo_core.report.compared": "Compared",
    "zoo_core.report.write": "Report",
    "zoo_core.runs.summary": "Summary",
    "zoo_core.spec.entries": "Provider PluginRecord",
}


def page_of(name: str) -> str:
    """The page of a class of zoo or zoo.kit, or of a name for a type."""
    home = zoo if name in zoo.__all__ else kit
    value = getattr(home, name)
    if not inspect.isclass(value):
        return f"# zoo.{name}\n\nA type: `{value}`.\n"
    return "\n".join(class_lines(value, f"{home.__name__}.{name}")).rstrip() + "\n"


def class_lines(value: type, title: str, level: str = "#") -> list[str]:
    """Docstring, attributes and methods of a class, as its source has them."""
    tree = _parsed(value)
    bases = [ast.unparse(base) for base in tree.bases]
    known = [f"[{base}]({base}.md)" for base in bases if base in zoo.__all__]
    lines = [f"{level} {title}", ""]
    lines += [f"A {' and '.join(known)}.", ""] if known else []
    lines += [inspect.cleandoc(value.__doc__ or ""), ""]
    private = [base for base in value.__mro__[1:] if base.__module__.startswith("zoo_core")]
    private = [base for base in private if base.__name__ not in zoo.__all__]
    attributes: dict[str, list[str]] = {}
    for base in (*reversed(private), value):
        attributes |= _attributes(base)
    if declared := [line for given in attributes.values() for line in given]:
        lines += [f"{level}# Attributes", "", "```python", *declared, "```", ""]
    methods = [
        node for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and (not node.name.startswith("_") or (node.name == "__init__" and ast.get_docstring(node))
             or (node.name == "__init__" and level != "#"))
    ]  # fmt: skip
    own = {node.name for node in methods}
    methods += [
        node for base in private for node in _parsed(base).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        and node.name not in own and (ast.get_docstring(node) or "property" in _marks(node))
    ]  # fmt: skip
    if methods:
        lines += [f"{level}# Methods", ""]
    for node in methods:
        marks = _marks(node)
        prefix = "".join(f"{mark} " for mark in ("classmethod", "property") if mark in marks)
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        lines += [f"{level}## `{prefix}{node.name}({ast.unparse(node.args)}){returns}`", ""]
        lines += ["**You must write it.**", ""] if "abstractmethod" in marks else []
        lines += [ast.get_docstring(node) or "", ""]
    return lines


def function_lines(value: Any, title: str) -> list[str]:
    """Signature and docstring of a function, as its source has them."""
    source = textwrap.dedent(inspect.getsource(value)).splitlines()
    node = ast.parse("\n".join(source)).body[0]
    assert isinstance(node, ast.FunctionDef)
    signature = source[node.lineno - 1 : node.body[0].lineno - 1]
    shown = ["```python", *signature, "```"]
    return [f"## {title}", "", *shown, "", inspect.cleandoc(value.__doc__ or ""), ""]


def type_lines(name: str, module: str) -> list[str]:
    """The lines that define a name for a type; of a class, what it is and what it holds."""
    home = importlib.import_module(module)
    value = getattr(home, name)
    if inspect.isclass(value) and value.__module__ == module:
        first = inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
        fields = ", ".join(f"`{field}`" for field in getattr(value, "__dataclass_fields__", ()))
        return [f"A class. {first}{f' It has {fields}.' if fields else ''}"]
    if isinstance(value, dict):
        return ["```python", f"{name} = {value!r}", "```"]
    source = inspect.getsource(home).splitlines()
    for node in ast.parse("\n".join(source)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ["```python", *source[node.lineno - 1 : node.end_lineno], "```"]
    raise LookupError(f"{module} does not define {name}")


def _parsed(value: type) -> ast.ClassDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return tree


def _marks(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(mark) for mark in node.decorator_list}


def _attributes(value: type) -> dict[str, list[str]]:
    """The lines of its source that declare each public attribute, with their comments."""
    text = textwrap.dedent(inspect.getsource(value))
    source, found = text.splitlines(), dict[str, list[str]]()
    for node in ast.parse(text).body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id != "rules":
            first = node.lineno - 1
            while source[first - 1].strip().startswith("#"):
                first -= 1
            found[target.id] = [line[4:] for line in source[first : node.end_lineno]]
    return found


def _functions_page() -> list[str]:
    lines = ["# Functions of zoo", "", "What the command line does, from Python.", ""]
    for name in FUNCTIONS.split():
        lines += function_lines(getattr(zoo, name), f"zoo.{name}")
    return [*lines, "## zoo.hookimpl", "", HOOKIMPL]


def _testing_page() -> list[str]:
    lines = ["# zoo.testing", "", "For tests of a plugin: [plugins.md](../plugins.md#4-check).", ""]
    for name in TESTING.split():
        value = getattr(testing, name)
        title, is_class = f"zoo.testing.{name}", inspect.isclass(value)
        lines += class_lines(value, title, "##") if is_class else function_lines(value, title)
    return lines


def _types_page() -> list[str]:
    lines = ["# Types", "", "Signatures use these names. A plugin need not import them.", ""]
    homes = {name: module for module, names in TYPES.items() for name in names.split()}
    for name in sorted(homes):
        lines += [f"## {name}", "", *type_lines(name, homes[name]), ""]
    return lines


def pages() -> dict[str, str]:
    index = ["# Reference", "", "Made from the code by `make docs`; a test compares them.", ""]
    made = {}
    for title, names in GROUPS.items():
        index += [f"## {title}", ""]
        for name in names.split():
            made[f"{name}.md"] = page_of(name)
            value = getattr(zoo if name in zoo.__all__ else kit, name)
            what = (value.__doc__ or "").partition("\n")[0] if inspect.isclass(value) else "A type."
            index.append(f"- [{name}]({name}.md): {what}")
        index.append("")
    index += ["## Functions, tests, types", ""]
    for name, what, lines in (
        ("functions", f"{FUNCTIONS.replace(' ', ', ')}, hookimpl.", _functions_page()),
        ("testing", f"`zoo.testing`: {TESTING.replace(' ', ', ')}.", _testing_page()),
        ("types", "names that signatures use.", _types_page()),
    ):
        made[f"{name}.md"] = "\n".join(lines).rstrip() + "\n"
        index.append(f"- [{name}]({name}.md): {what}")
    rest = "`zoo.kit` has a page of its own, [kit.md](../kit.md), and so have the hooks: "
    return {"README.md": "\n".join([*index, "", f"{rest}[hooks.md](../hooks.md)."]) + "\n", **made}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if "--check" in sys.argv:
        differ = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
        sys.exit(f"not what the code says: {', '.join(differ)}; run make docs" if differ else 0)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
