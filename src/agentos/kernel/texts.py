"""Text that PostgreSQL can hold."""

from __future__ import annotations

from typing import TypeVar, cast

V = TypeVar("V")


def storable(value: V) -> V:
    """A text or JSON value without zero bytes and lone surrogates, which no row has a place for."""
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        text = value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        return cast(V, text)
    if isinstance(value, dict):
        return cast(V, {storable(key): storable(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return cast(V, [storable(item) for item in value])
    return value
