"""JSON as agents write it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from agentos.sidecar.texts import clean


class NotJson(ValueError):
    """What came is not JSON."""


def read_json(data: bytes) -> Any:
    """What the JSON says. JavaScript lets halves of surrogate pairs through: they are replaced.
    Raises NotJson."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        if b"\\ud" not in data.lower():
            raise NotJson(str(error)) from error
    try:
        return _cleaned(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(each) for key, each in value.items()}
    return value
