"""The parts of the OpenAPI document that FastAPI cannot see: bodies that are read by hand."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from piaa.serve.bodies import FORM, JSON, Expected
from piaa.serve.limits import Limits
from piaa.serve.problems import KINDS, MEDIA_TYPE
from piaa.serve.schemas import ClassesRequest, HeatmapRequest, Problem, TagsRequest

_REF: Final = "#/components/schemas/{model}"
_REQUESTS: Final = (TagsRequest, ClassesRequest, HeatmapRequest)


def request_body(expected: Expected[Any], limits: Limits) -> dict[str, Any]:
    """The two forms of a body, for `openapi_extra`."""
    form = expected.options.model_json_schema(ref_template=_REF)
    picture = {"type": "string", "format": "binary", "description": "A picture's file."}
    many = {"type": "array", "items": picture, "minItems": 1}
    form["properties"][expected.field] = many if expected.field == "images" else picture
    form["required"] = [*form.get("required", []), expected.field]
    form["title"] = f"{expected.wire.__name__}Form"
    for name, schema in form["properties"].items():
        form["properties"][name] = _without_null(schema)  # a form has no null
    _bound(form, limits)
    return {
        "requestBody": {
            "required": True,
            "content": {
                FORM.decode(): {
                    "schema": form,
                    "encoding": {expected.field: {"contentType": "image/*"}},
                },
                JSON.decode(): {"schema": {"$ref": _REF.format(model=expected.wire.__name__)}},
            },
        }
    }


def problem_responses(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """The problems an operation may answer with, by status."""
    responses: dict[int | str, dict[str, Any]] = {}
    for slug in slugs:
        kind = KINDS[slug]
        told = responses.setdefault(
            kind.status,
            {
                "description": "",
                "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=Problem.__name__)}}},
            },
        )
        told["description"] = f"{told['description']} {kind.title}.".strip()
        if slug == "busy":
            told["headers"] = {
                "Retry-After": {
                    "required": True,
                    "schema": {"type": "integer", "minimum": 1},
                    "description": "Seconds.",
                }
            }
    return responses


def document(app: FastAPI, limits: Limits, *, token: bool) -> dict[str, Any]:
    """The whole document."""
    whole = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in (*_REQUESTS, Problem)], ref_template=_REF
    )
    schemas = whole.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    for model in _REQUESTS:
        _bound(schemas[model.__name__], limits)
    # FastAPI's own form of errors, which this API never sends.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    if token:
        whole["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        whole["security"] = [{"token": []}]
    return whole


def _bound(schema: dict[str, Any], limits: Limits) -> None:
    """Write this service's own limits into the schema of a body."""
    properties = schema["properties"]
    if "images" in properties:
        properties["images"]["maxItems"] = limits.images
    if "classes" in properties:
        for option in (properties["classes"], *properties["classes"].get("anyOf", ())):
            if option.get("type") == "array":
                option["maxItems"] = limits.classes
                option["items"]["maxLength"] = limits.name_length


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**rest, **options[0]}
