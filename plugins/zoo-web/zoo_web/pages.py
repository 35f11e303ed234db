"""How a page is made: a template of Jinja, in which every value is escaped, in the shared frame.

A page of a site links its files relatively, so that it works below any path of any host. A page
that is one file has everything inside: page(..., inline=True). Both may send requests nowhere but
to where they came from: their Content-Security-Policy says so.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent
STATIC = HERE / "static"
# wasm-unsafe-eval: WebAssembly may be compiled; it allows no eval of JavaScript.
POLICY = {
    "default-src": "'none'",
    "script-src": "'self' 'wasm-unsafe-eval'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
}


@functools.cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # a name that nobody gave is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"percent": percent, "size": size, "count": "{:,}".format}
    return found


def page(
    template: str,
    *,
    title: str,
    root: str = "",
    inline: bool = False,
    scripts: Sequence[str] = (),
    **values: Any,
) -> str:
    """A whole page as HTML.

    template: a file of templates/, which extends base.html. root: the way from the page to the
    top of its site, "" or "../". scripts: modules of static/ that the page runs; where the page is
    one file they are inside, and import nothing. values: what the template shows, all escaped;
    give data to a script with `{{ values | tojson }}` in a <script type="application/json">.
    """
    inside = {"style": "", "scripts": [""]}
    policy = dict(POLICY)
    if inline:
        style = static("style.css")
        code = [static(name) for name in scripts]
        policy["script-src"] = " ".join(map(_allowed, code)) or "'none'"
        policy["style-src"] = _allowed(style)
        policy["connect-src"] = "'none'"
        # Neither can be escaped inside its tags; both are ours.
        inside = {"style": Markup(style), "scripts": [Markup(one) for one in code]}
    return _templates().get_template(template).render(
        title=title, root=root, inline=inline, inside=inside, scripts=scripts,
        policy="; ".join(f"{name} {what}" for name, what in policy.items()), **values,
    )  # fmt: skip


def static(name: str) -> str:
    """A file of static/ as text."""
    return (STATIC / name).read_text(encoding="utf-8")


def _allowed(code: str) -> str:
    """What the policy says to allow exactly this text inside a tag."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def percent(value: float, digits: int = 2) -> str:
    """0.8658 as 86.58 %."""
    return f"{100 * value:.{digits}f} %"


def size(bytes_: int) -> str:
    """A number of bytes as people read it."""
    from zoo import kit

    return kit.size(bytes_)
