from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.integrations.models.demo.instances import instance

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value", "next"],
        }
    },
}

SCHEMAS: dict[str, Any] = {
    "anything": {},
    "string": {"type": "string"},
    "long string": {"type": "string", "minLength": 20},
    "short string": {"type": "string", "maxLength": 2},
    "no string": {"type": "string", "maxLength": 0},
    "date-time": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "uuid": {"type": "string", "format": "uuid"},
    "uri": {"type": "string", "format": "uri"},
    "a pattern": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"},
    "choices of a pattern": {"type": "string", "pattern": r"^(?:foo|bar)\.\w{2,}$"},
    "a pattern in the middle": {"type": "string", "pattern": "x[^a-z]?y", "minLength": 5},
    "integer": {"type": "integer"},
    "at least": {"type": "integer", "minimum": 18},
    "at most": {"type": "integer", "maximum": -5},
    "between": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "more than": {"type": "integer", "exclusiveMinimum": 7},
    "less than": {"type": "number", "exclusiveMaximum": -2.5},
    "multiple": {"type": "integer", "minimum": 10, "multipleOf": 7},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "const": {"const": {"a": [1]}},
    "enum": {"enum": ["red", "green"]},
    "several types": {"type": ["integer", "null"]},
    "nullable": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "one of": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    "one of objects": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
        ]
    },
    "all of": {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ],
        "type": "object",
        "properties": {"c": {"type": "boolean"}},
        "required": ["c"],
    },
    "array": {"type": "array", "items": {"type": "string"}},
    "array of two": {"type": "array", "items": {"type": "number"}, "minItems": 2},
    "distinct": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    "distinct choices": {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "minItems": 2,
        "uniqueItems": True,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "items": False,
    },
    "closed object": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "minItems": 1}},
        "required": ["name", "tags"],
        "additionalProperties": False,
    },
    "required but unknown": {"type": "object", "required": ["a"]},
    "map": {
        "type": "object",
        "minProperties": 2,
        "additionalProperties": {"type": "integer", "minimum": 1},
    },
    "no type": {"properties": {"a": {"minimum": 5}}, "required": ["a"]},
    "itself": TREE,
    "reference": {
        "type": "object",
        "properties": {"p": {"$ref": "#/definitions/a~1b"}},
        "required": ["p"],
        "definitions": {"a/b": {"type": "integer", "minimum": 3}},
    },
    "default": {"type": "integer", "default": 4},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_what_is_made_is_valid(schema: dict[str, Any]) -> None:
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(instance(schema))


def test_only_what_is_required_is_made() -> None:
    schema = {
        "type": "object",
        "properties": {"must": {"type": "integer"}, "may": {"type": "string"}},
        "required": ["must"],
    }
    assert instance(schema) == {"must": 0}


def test_a_schema_without_end_comes_to_an_end() -> None:
    endless = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
        "required": ["left", "right"],
    }
    assert set(instance(endless)) == {"left", "right"}
    wide = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 50}}}
    instance(wide)


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("^[a-z][a-z0-9_-]*$", 8),
        (r"^\d{4}-\d{2}-\d{2}$", 0),
        (r"^\+?[1-9]\d{1,14}$", 5),
        (r"^#(?:[0-9a-fA-F]{3}){1,2}$", 0),
        (r"^(?P<major>\d+)\.(\d+)\.(\d+)(?:-\w+)?$", 0),
        (r"^[^\s@]+@[^\s@]+\.[^\s@]+$", 12),
        ("^(GET|POST)$", 0),
        (r"^/[\w./-]*$", 6),
        ("^[]a]+$", 3),
        (r"\bword\b", 0),
        (r"^\x41\u00e9\t$", 0),
        ("a{,2}b", 0),
        ("", 3),
        ("x|y+", 4),
    ],
)
def test_patterns_are_met(pattern: str, least: int) -> None:
    text = instance({"type": "string", "pattern": pattern, "minLength": least})
    assert re.search(pattern, text)
    assert len(text) >= least


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "a{1000000000}",
        "((a{1000}){1000}){1000}",
        "[",
        r"(?=a)b\1",
        r"^(?<n>x)\k<n>$",
        "(" * 900,
        "[a",
        "*",
        "a" * 5_000,
    ],
)
def test_no_pattern_is_too_much(pattern: str) -> None:
    assert len(instance({"type": "string", "pattern": pattern})) <= 5_000


WORDS = """type properties required items enum anyOf allOf $ref minimum exclusiveMinimum multipleOf
minLength minItems uniqueItems pattern format additionalProperties minProperties prefixItems
default const a"""
KEYS = st.sampled_from(WORDS.split())
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["object", "array", "string", "number", "#", "#/a", "[", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(JUNK)
def test_no_schema_is_too_strange(schema: object) -> None:
    instance(schema)
