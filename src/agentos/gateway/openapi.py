"""The OpenAPI document: security schemes, problem answers, headers that every operation has."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong (RFC 9457), with a stable code and how to go on.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:agentos:error:not_found"]},
        "title": {"type": "string", "examples": ["not found"]},
        "status": {"type": "integer", "examples": [404]},
        "code": {"type": "string", "examples": ["not_found"]},
        "detail": {"type": "string", "examples": ["There is no such thing here."]},
        "hint": {"type": "string", "examples": ["Check the id."]},
        "request_id": {"type": "string"},
    },
}

_ANSWERS = {
    "400": "The request cannot be read.",
    "401": "No valid credential.",
    "402": "The plan does not allow more.",
    "403": "The credential may not do this.",
    "404": "There is no such thing here.",
    "409": "The request does not fit the present state.",
    "413": "The body is too large.",
    "422": "The request is not valid.",
    "429": "Too many requests; wait as long as Retry-After says.",
    "503": "A part is not answering; try again.",
}

_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a repeated request safe: the first answer is given again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


def describe(app: FastAPI) -> None:
    """Makes the app answer with the completed document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(
                    title=app.title,
                    version=app.version,
                    openapi_version="3.1.0",
                    summary="The operating system for autonomous AI agents.",
                    description="Errors are problem documents (RFC 9457) with a stable `code`. "
                    "Lists are pages with a cursor. Send an `Idempotency-Key` with anything you "
                    "may have to repeat.",
                    routes=app.routes,
                )
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {})
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An access token from POST /api/auth/token, an API key (`sk_…`), or a "
            "service token.",
        }
    }
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    # FastAPI's own error body; ours is the problem document.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schema["security"] = [{"bearer": []}]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _complete_operation(path, method, operation)
    return schema


def _complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    if not path.startswith("/api/"):
        return
    for status, description in _ANSWERS.items():
        answers.setdefault(
            status,
            {
                "description": description,
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        )
    if method in ("post", "patch", "delete") and operation.get("security") != []:
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
