"""Write docs/reference: a page for each public class, from the code itself. Run it with make docs.

python docs/reference.py            write the pages
python docs/reference.py --check    exit with 1 if a page is not what the code says
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path

import zoo

FOLDER = Path(__file__).parent / "reference"
GROUPS = {  # in the order in which somebody who writes a package meets them
    "What a plugin contributes": "ModelEntry DatasetEntry TrainerEntry CommandEntry EngineEntry "
    "Recipe",
    "Write a trainer": "Framework Trainer Description Job Fitted Loop Learner Position Batch "
    "Result",
    "Write a task for torch": "Task Update SumOver",
    "Write a dataset": "Source Dataset Split Preprocess",
    "Use pretrained weights, generate samples": "Pretrained FrozenModel Generator",
    "Write an engine": "Engine Piece Resources Outcome WorkerDied",
    "Errors": "ZooError UsageError OptionError DataError SourceUnavailable WeightsError "
    "TrainingError Interrupted",
}


def page_of(name: str) -> str:
    """Docstring, attributes and methods of a class, as its source has them."""
    value = getattr(zoo, name)
    if not inspect.isclass(value):  # a name for a type
        return f"# zoo.{name}\n\nA type: `{value}`.\n"
    tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(tree, ast.ClassDef)
    bases = [ast.unparse(base) for base in tree.bases]
    known = [f"[{base}]({base}.md)" for base in bases if base in zoo.__all__]
    lines = [f"# zoo.{name}", ""]
    lines += [f"A {' and '.join(known)}.", ""] if known else []
    lines += [inspect.cleandoc(value.__doc__ or ""), ""]
    private = [base for base in value.__mro__[1:] if base.__module__.startswith("zoo_core")]
    private = [base for base in private if base.__name__ not in zoo.__all__]
    if attributes := [line for base in (*reversed(private), value) for line in _attributes(base)]:
        lines += ["## Attributes", "", "```python", *attributes, "```", ""]
    methods = [
        node for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and (not node.name.startswith("_") or (node.name == "__init__" and ast.get_docstring(node)))
    ]  # fmt: skip
    if methods:
        lines += ["## Methods", ""]
    for node in methods:
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        prefix = "".join(f"{mark} " for mark in ("classmethod", "property") if mark in marks)
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        lines += [f"### `{prefix}{node.name}({ast.unparse(node.args)}){returns}`", ""]
        lines += ["**You must write it.**", ""] if "abstractmethod" in marks else []
        lines += [ast.get_docstring(node) or "", ""]
    return "\n".join(lines).rstrip() + "\n"


def _attributes(value: type) -> list[str]:
    """The lines of its source that declare public attributes, with their comments."""
    text = textwrap.dedent(inspect.getsource(value))
    source, found = text.splitlines(), list[str]()
    for node in ast.parse(text).body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id != "rules":
            first = node.lineno - 1
            while source[first - 1].strip().startswith("#"):
                first -= 1
            found += [line[4:] for line in source[first : node.end_lineno]]
    return found


def pages() -> dict[str, str]:
    index = ["# Reference", "", "Made from the code by `make docs`; a test compares them.", ""]
    made = {}
    for title, names in GROUPS.items():
        index += [f"## {title}", ""]
        for name in names.split():
            made[f"{name}.md"] = page_of(name)
            value = getattr(zoo, name)
            what = (value.__doc__ or "").partition("\n")[0] if inspect.isclass(value) else "A type."
            index.append(f"- [{name}]({name}.md): {what}")
        index.append("")
    rest = "Functions and the other page of names: [kit.md](../kit.md), [hooks.md](../hooks.md)."
    return {"README.md": "\n".join([*index, rest]) + "\n", **made}


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
