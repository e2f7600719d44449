"""The smallest JSON that a schema allows, for the features that schemas of tools really use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from agentos.integrations.models.demo.patterns import text_for

_FORMATS = {
    "date-time": "2000-01-01T00:00:00Z",
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "demo@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "uri-reference": "https://example.com",
    "url": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# Schemas may refer to themselves; beyond this depth the way out is looked for.
_DEEP = 6
_DEEPEST = 24
# A schema cannot make the model write more than this.
_MOST_ITEMS = 64
_MOST_LETTERS = 4096


def instance(schema: object) -> Any:
    """A value for the schema. What it does not understand of a schema it leaves out."""
    return _instance(schema, _Work(schema if isinstance(schema, dict) else {}), 0)


@dataclass(slots=True)
class _Work:
    """The schema that references lead into, and how many more steps may be taken."""

    root: dict[str, Any]
    left: int = 4096

    def step(self) -> bool:
        self.left -= 1
        return self.left > 0


def _instance(schema: object, work: _Work, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST or not work.step():
        return None
    schema = _resolved(schema, work)
    if "const" in schema:
        return schema["const"]
    for listed in ("enum", "examples"):
        if isinstance(schema.get(listed), list) and schema[listed]:
            return schema[listed][0]
    if "default" in schema:
        return schema["default"]
    kind = _kind(schema, depth)
    if kind == "object":
        return _object(schema, work, depth)
    if kind == "array":
        return _array(schema, work, depth)
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    return False if kind == "boolean" else None


def _resolved(schema: dict[str, Any], work: _Work, depth: int = 0) -> dict[str, Any]:
    """The schema with its reference followed, its choice made and its parts put together."""
    if depth > _DEEP or not work.step():
        return {}
    whole = {key: value for key, value in schema.items() if key not in _COMBINED}
    parts: list[object] = []
    if isinstance(schema.get("$ref"), str):
        parts.append(_referred(schema["$ref"], work))
    if isinstance(schema.get("allOf"), list):
        parts += schema["allOf"]
    for choice in ("anyOf", "oneOf"):
        options = schema.get(choice)
        if isinstance(options, list) and options:
            parts.append(min(options, key=lambda option: _weight(option, work)))
    for part in parts:
        if isinstance(part, dict):
            whole = _merged(whole, _resolved(part, work, depth + 1))
    return whole


_COMBINED = ("$ref", "allOf", "anyOf", "oneOf")


def _referred(reference: str, work: _Work) -> object:
    found: Any = work.root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**other, **one}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        merged["properties"] = {**other["properties"], **one["properties"]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*one["required"], *other["required"]]
    return merged


def _weight(option: object, work: _Work) -> int:
    """Plain values before structures, so that a schema that holds itself comes to an end."""
    if not isinstance(option, dict):
        return 3
    if "$ref" in option:
        target = _referred(option["$ref"], work) if isinstance(option["$ref"], str) else None
        option = target if isinstance(target, dict) else option
    kind = _kind(option, 0)
    if kind == "null":
        return 1
    return 2 if kind in ("object", "array") else 0


def _kind(schema: dict[str, Any], depth: int) -> str:
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        kind = "null" if depth > _DEEP and "null" in kind else kind[0]
    if isinstance(kind, str):
        return kind
    if "const" in schema or "enum" in schema:
        return "string"
    for kind, keys in _TELLING.items():
        if any(key in schema for key in keys):
            return kind
    return "null" if schema.keys() & set(_COMBINED) else "string"


_TELLING = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def _object(schema: dict[str, Any], work: _Work, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )
    least = _whole(schema.get("minProperties"), 0, _MOST_ITEMS)
    names += [name for name in properties if name not in names][: max(0, least - len(names))]
    more = schema.get("additionalProperties")
    names += [f"key{number}" for number in range(len(set(names)), least)]
    return {
        name: _instance(
            properties.get(name, more if isinstance(more, dict) else {}), work, depth + 1
        )
        for name in dict.fromkeys(names)
    }


def _array(schema: dict[str, Any], work: _Work, depth: int) -> list[Any]:
    least = _whole(schema.get("minItems"), 0, _MOST_ITEMS)
    first = schema.get("prefixItems")
    items = [_instance(each, work, depth + 1) for each in first] if isinstance(first, list) else []
    each = schema.get("items", {})
    while len(items) < least:
        items.append(_instance(each, work, depth + 1))
    return _distinct(items, each) if schema.get("uniqueItems") else items


def _distinct(items: list[Any], schema: object) -> list[Any]:
    allowed = schema.get("enum") if isinstance(schema, dict) else None
    if isinstance(allowed, list):
        return allowed[: len(items)]
    if all(isinstance(item, str) for item in items):
        return [f"{item}{number or ''}" for number, item in enumerate(items)]
    if all(isinstance(item, int) for item in items):
        return [item + number for number, item in enumerate(items)]
    return items


def _string(schema: dict[str, Any]) -> str:
    least = _whole(schema.get("minLength"), 0, _MOST_LETTERS)
    if isinstance(schema.get("pattern"), str):
        text = text_for(schema["pattern"], least)
        if text is not None:
            return text
    text = _FORMATS.get(str(schema.get("format")), "demo")
    most = _whole(schema.get("maxLength"), max(least, len(text)), _MOST_LETTERS)
    return text.ljust(least, "x")[: max(least, most)]


def _number(schema: dict[str, Any], *, whole: bool) -> float | int:
    step = _finite(schema.get("multipleOf"))
    step = step if step and step > 0 else None
    low, high = _finite(schema.get("minimum")), _finite(schema.get("maximum"))
    above, below = _finite(schema.get("exclusiveMinimum")), _finite(schema.get("exclusiveMaximum"))
    grain = step or (1 if whole else _grain(above, below))
    if above is not None and (low is None or above >= low):
        low = (math.floor(above / grain) + 1) * grain
    if below is not None and (high is None or below <= high):
        high = (math.ceil(below / grain) - 1) * grain
    value: float = 0
    if low is not None and low > 0:
        value = math.ceil(low / grain) * grain if step or whole else low
    elif high is not None and high < 0:
        value = math.floor(high / grain) * grain if step or whole else high
    return int(value) if value == int(value) else value


def _grain(above: float | None, below: float | None) -> float:
    if above is not None and below is not None and 0 < below - above <= 2:
        return (below - above) / 4
    return 1


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        return None
    return value if math.isfinite(value) else None


def _whole(value: object, otherwise: int, most: int) -> int:
    number = _finite(value)
    return otherwise if number is None else max(0, min(most, int(number)))
