"""The OpenAPI document of a server, for programs and for the page /docs."""

from __future__ import annotations

from typing import Any

import zoo
from zoo import kit
from zoo_web.server.limits import TOP, Limits

REFUSALS = {  # status -> when
    400: "The request is not what this page describes",
    401: "The token is missing or wrong",
    403: "Another name or another site asks",
    408: "The request did not arrive in time",
    413: "Too many bytes, pixels or images",
    415: "Neither JSON nor a form",
    422: "None of the images can be read",
    500: "The model cannot answer",
    503: "Too many requests wait, or the server is stopping; try again",
}


def describe(title: str, targets: zoo.Targets, limits: Limits, token: bool) -> dict[str, Any]:
    """targets: what the model says of an image."""
    text = {"type": "string"}
    most = (
        f"At most {limits.images:,} images, {kit.size(limits.bytes)} and {limits.pixels:,} pixels "
        f"in a request; {limits.waiting:,} requests at a time; {limits.seconds:g} seconds."
    )
    top = {"type": "integer", "minimum": 1, "default": TOP,
           "description": "How many classes of each image."}  # fmt: skip
    seen = {"type": "boolean", "default": False,
            "description": "Whether the answer has each image as the network sees it."}  # fmt: skip
    more = {"top": top, "seen": seen}
    files = {"type": "array", "maxItems": limits.images, "minItems": 1}
    body = {
        "application/json": _object(
            {"images": {**files, "items": {**text, "contentEncoding": "base64"}}, **more},
            ["images"],
        ),
        "multipart/form-data": _object(
            {"image": {**files, "items": {**text, "format": "binary"}}, **more}, ["image"]
        ),
    }
    refusal = _object({"error": text, "hint": text}, ["error"])
    answers: dict[str, Any] = {"200": _answer("An answer for each image", _answers(targets))}
    answers |= {str(code): _answer(when, refusal) for code, when in REFUSALS.items()}
    predict: dict[str, Any] = {
        "summary": "What the model says of images",
        "description": most,
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": schema} for kind, schema in body.items()},
        },
        "responses": answers,
    }
    if token:
        predict["security"] = [{"token": []}]
    health = _object(
        {"status": {"enum": ["ok", "stopping"]}, "model": text, "under_way": {"type": "integer"},
         "images_served": {"type": "integer"}, "batch": {"type": "integer"}},
        ["status", "model"],
    )  # fmt: skip
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": f"It answers: {targets}."},
        "paths": {
            "/predict": {"post": predict},
            "/health": {
                "get": {
                    "summary": "Whether the server takes requests",
                    "responses": {
                        "200": _answer("It does", health), "503": _answer("It is stopping", health)
                    },
                }
            },
        },
    }  # fmt: skip
    if token:
        found["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
    return found


def _answers(targets: zoo.Targets) -> dict[str, Any]:
    """Of /predict, by the kind of the targets."""
    share = {"type": "number", "minimum": 0, "maximum": 1}
    one = _object({"name": {"enum": list(targets.classes)}, "probability": share})
    said: dict[str, Any] = {"classes": {"type": "array", "items": one}}
    if targets.kind == "classes":  # all that are above their thresholds
        said["chosen"] = {"type": "array", "items": {"enum": list(targets.classes)}}
    if not targets.classes:
        value = {"name": {"enum": list(targets.names)}, "value": {"type": "number"}}
        unit = {"unit": {"type": "string"}}
        said = {"numbers": {"type": "array", "items": _object(value | unit)}}
    words = {"words": {"type": "array", "items": {"type": "string"}}}
    image = {"image": {"type": "string"}, "error": {"type": "string"}}
    seen = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
    image["seen"] = seen
    every = {"type": "array", "items": _object(image | said | words, ["image"])}
    model = {"model": {"type": "string"}, "milliseconds": {"type": "number"}}
    return _object(model | {"predictions": every}, ["model", "predictions", "milliseconds"])


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or list(properties)}


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
