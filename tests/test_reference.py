"""The pages of docs/reference say what the code says."""

import builtins
import collections.abc
import inspect
import re
import runpy
import sys
import typing

import pytest
from support import ROOT

import zoo
from zoo import kit, testing

REFERENCE = ROOT / "docs" / "reference"
TOGETHER = {"README", "functions", "testing", "types"}  # pages about more than one name
FOREIGN = {"np", "ndarray", "Path", "nn", "torch", "Tensor", "Module", "Parameter", "Optimizer"}


def test_every_page_is_what_the_code_says(monkeypatch):
    """Signatures, attributes and docstrings: `make docs` writes them."""
    script = str(ROOT / "docs" / "reference.py")
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    with pytest.raises(SystemExit) as ended:  # here, where torch is imported already
        runpy.run_path(script, run_name="__main__")
    assert not ended.value.code


def test_every_public_class_has_a_page_and_a_docstring():
    pages = {path.stem for path in REFERENCE.glob("*.md")} - TOGETHER
    classes = {name for name in zoo.__all__ if inspect.isclass(getattr(zoo, name))}
    assert classes <= pages <= {*zoo.__all__, "Run"}
    assert all(len(getattr(zoo, name).__doc__.split()) > 3 for name in classes)


@pytest.mark.parametrize("module", [zoo, testing], ids=["zoo", "testing"])
def test_every_public_function_is_on_a_page_and_has_a_docstring(module):
    """Classes of zoo have pages of their own; zoo.testing is one page."""
    page, prefix = ("functions", "zoo") if module is zoo else ("testing", "zoo.testing")
    headings = re.findall(rf"^## {prefix}\.(\w+)$", (REFERENCE / f"{page}.md").read_text(), re.M)
    pages = {path.stem for path in REFERENCE.glob("*.md")}
    assert set(headings) == set(module.__all__) - pages - {"__version__"}
    functions = [getattr(module, name) for name in headings if name != "hookimpl"]
    assert all(len(inspect.getdoc(value).split()) > 3 for value in functions)


def test_every_type_that_a_signature_uses_is_described():
    """On a page of its own, in types.md or kit.md; or it is Python's, NumPy's or torch's."""
    known = {*zoo.__all__, *kit.__all__, *testing.__all__, *dir(builtins), *dir(typing), *FOREIGN}
    known |= {*dir(collections.abc)}
    known |= set(re.findall(r"^## (\w+)$", (REFERENCE / "types.md").read_text(), re.MULTILINE))
    for path in REFERENCE.glob("*.md"):
        text = path.read_text()
        lines = re.findall(r"^#+ `(.*)`$", text, re.MULTILINE)
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            lines += [line.partition("  #")[0] for line in block.splitlines()]
        plain = (re.sub(r"\"[^\"]*\"|'[^']*'", "", line) for line in lines if line[:1] != "#")
        used = {name for line in plain for name in re.findall(r"\b[A-Z]\w+", line)}
        assert used <= known, f"{path.name}: {used - known}"
