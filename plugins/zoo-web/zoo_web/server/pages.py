"""The pages of a server: the box, computing there, and what its OpenAPI document says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from zoo_web.pages import STATIC, page

if TYPE_CHECKING:
    from zoo_web.server.app import Service

FILES = ("box.js", "icon.svg", "serve.js", "style.css")


def start(service: Service) -> str:
    """The box."""
    about = service.asked.model.zoo
    targets = service.asked.answers.targets
    facts = {
        "answers": str(targets) if len(targets.names) <= 20 else f"{len(targets.names):,} classes",
        "trained on": about.dataset,
        "weights": f"sha256 {about.digest[:16]}" if about.digest else "",
        "images": f"{about.preprocess.size} x {about.preprocess.size} pixels for the network",
    }
    return page(
        "serve.html",
        title=service.title,
        scripts=["serve.js"],
        summary=about.entry.summary,
        facts={name: value for name, value in facts.items() if value},
        given={"title": service.title, "token": service.token, "top": len(targets.names)},
    )


def docs(service: Service, here: str) -> str:
    """The OpenAPI document, for people; here: the address of the server."""
    operations = []
    for path, methods in service.api["paths"].items():
        for method, said in methods.items():
            bodies = (said.get("requestBody") or {}).get("content") or {}
            operations.append(
                {
                    "name": f"{method.upper()} {path}",
                    "summary": said["summary"],
                    "description": said.get("description", ""),
                    "bodies": {kind: _fields(one["schema"]) for kind, one in bodies.items()},
                    "responses": said["responses"],
                    "answer": _text(said["responses"]["200"]["content"]["application/json"]),
                }
            )
    title = f"{service.title}: how to ask"
    return page(
        "serve_docs.html", title=title, operations=operations, token=service.token, here=here
    )


def _fields(schema: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, _text(one) + (", required" if name in schema["required"] else ""))
        for name, one in schema["properties"].items()
    ]


def _text(schema: dict[str, Any]) -> str:
    """A schema in one line: `{"images": ["BASE64"], "top": 3}` as far as that can be."""
    if "schema" in schema:
        return json.dumps(_example(schema["schema"]), indent=2, ensure_ascii=False)
    of = schema.get("items") or schema
    kind = of.get("contentEncoding") or of.get("format") or of.get("type", "text")
    words = f"list of {kind}" if "items" in schema else kind
    return f"{words}, {json.dumps(schema['default'])} if left out" if "default" in schema else words


def _example(schema: dict[str, Any]) -> Any:
    """A value that the schema allows."""
    kind = schema.get("type")
    if kind == "object":
        known = {k: _example(one) for k, one in schema["properties"].items() if k != "error"}
        return known
    if kind == "array":
        return [_example(schema["items"])]
    if "enum" in schema:
        return schema["enum"][0]
    return {"number": 0.5, "integer": 1}.get(str(kind), "...")


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in FILES:
        raise HTTPException(404)
    kind = {"js": "text/javascript", "css": "text/css"}.get(
        name.rpartition(".")[2], "image/svg+xml"
    )
    return FileResponse(STATIC / name, media_type=kind)
