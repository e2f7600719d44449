"""The schemas of tools and outputs as a model takes them.

Agents show the same few schemas at every step, and rewriting one takes longer than all the rest of
a call; so what was rewritten is remembered, by what it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import JsonSchemaTransformer
from pydantic_ai.tools import ToolDefinition

_MOST_REMEMBERED = 2048
_Key = tuple[type[JsonSchemaTransformer], bool | None, bytes]
_remembered: dict[_Key, tuple[dict[str, Any], bool]] = {}

# Whoever asks often asks with the same object. It is kept here, too: its id stays its own.
_MOST_REMEMBERED_WHOLE = 256
_remembered_whole: dict[
    tuple[int, type[JsonSchemaTransformer]], tuple[ModelRequestParameters, ModelRequestParameters]
] = {}


def fitted(
    params: ModelRequestParameters, transformer: type[JsonSchemaTransformer]
) -> ModelRequestParameters:
    """The parameters with every schema rewritten for the model."""
    key = (id(params), transformer)
    known = _remembered_whole.get(key)
    if known is None:
        if len(_remembered_whole) >= _MOST_REMEMBERED_WHOLE:
            _remembered_whole.clear()
        known = _remembered_whole[key] = (params, _fitted_whole(params, transformer))
    return known[1]


def _fitted_whole(
    params: ModelRequestParameters, transformer: type[JsonSchemaTransformer]
) -> ModelRequestParameters:
    output = params.output_object
    if output is None and not params.function_tools and not params.output_tools:
        return params
    return replace(
        params,
        function_tools=[_fitted_tool(tool, transformer) for tool in params.function_tools],
        output_tools=[_fitted_tool(tool, transformer) for tool in params.output_tools],
        output_object=None if output is None else _fitted_output(output, params, transformer),
    )


def _fitted_tool(tool: ToolDefinition, transformer: type[JsonSchemaTransformer]) -> ToolDefinition:
    schema, strict = _fitted(tool.parameters_json_schema, tool.strict, transformer)
    return replace(
        tool,
        parameters_json_schema=schema,
        strict=strict if tool.strict is None else tool.strict,
    )


def _fitted_output(
    output: OutputObjectDefinition,
    params: ModelRequestParameters,
    transformer: type[JsonSchemaTransformer],
) -> OutputObjectDefinition:
    asked = output.strict
    if transformer is ClaudeSchema and params.output_mode in ("native", "auto"):
        # Anthropic knows no output of a schema that is not strict.
        asked = True
    schema, strict = _fitted(output.json_schema, asked, transformer)
    return replace(output, json_schema=schema, strict=strict if asked is None else asked)


def _fitted(
    schema: dict[str, Any], strict: bool | None, transformer: type[JsonSchemaTransformer]
) -> tuple[dict[str, Any], bool]:
    key = (transformer, strict, msgspec.json.encode(schema))
    known = _remembered.get(key)
    if known is None:
        walker = transformer(schema, strict=strict)
        known = (walker.walk(), walker.is_strict_compatible)
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = known
    return known


# What Anthropic's strict schemas may say; the rest is told to the model in words.
_COMMON = {"$ref", "$defs", "type", "description", "default", "enum", "const", "anyOf", "allOf"}
_OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems"},
    "string": {"format"},
}
_FORMATS = {
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "uri", "ipv4", "ipv6", "uuid"),
}


class ClaudeSchema(JsonSchemaTransformer):
    """A schema as Anthropic takes it: strict only if that was asked for, as it may lose rules."""

    def walk(self) -> dict[str, Any]:
        self.is_strict_compatible = self.strict is True
        return super().walk()

    def transform(self, schema: dict[str, Any]) -> dict[str, Any]:
        schema.pop("title", None)
        schema.pop("$schema", None)
        return _strict(schema) if self.strict is True else schema


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "oneOf" in schema:
        schema["anyOf"] = schema.pop("oneOf")
    allowed = _COMMON | _OF_TYPE.get(str(schema.get("type")), set())
    kept = {name: value for name, value in schema.items() if name in allowed}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    if kept.get("minItems") not in (0, 1):
        kept.pop("minItems", None)
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    lost = {
        name: value
        for name, value in schema.items()
        if name not in kept and name not in ("additionalProperties", "discriminator")
    }
    if lost:
        rules = ", ".join(f"{name}: {value}" for name, value in lost.items())
        kept["description"] = "\n\n".join(filter(None, [kept.get("description"), f"{{{rules}}}"]))
    return kept
