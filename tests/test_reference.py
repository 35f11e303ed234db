"""The pages of docs/reference say what the code says."""

import inspect
import subprocess
import sys

from support import ROOT, environment

import zoo


def test_every_page_is_what_the_code_says():
    """Signatures, attributes and docstrings: `make docs` writes them."""
    script = ROOT / "docs" / "reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr


def test_every_public_class_has_a_page_and_a_docstring():
    pages = {path.stem for path in (ROOT / "docs" / "reference").glob("*.md")} - {"README"}
    classes = {name for name in zoo.__all__ if inspect.isclass(getattr(zoo, name))}
    assert classes <= pages <= set(zoo.__all__)
    assert all(len(getattr(zoo, name).__doc__.split()) > 3 for name in classes)
