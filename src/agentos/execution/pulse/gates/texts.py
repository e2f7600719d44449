"""Texts for verdicts: read by people, by the agent that has to put it right, and kept in rows."""

from __future__ import annotations

from typing import Any

MOST_OUTPUT = 4_000


def end_of(data: bytes, most: int = MOST_OUTPUT) -> str:
    """An output as text; of a long one the end, which says how it went."""
    text = storable(data.decode(errors="replace")).strip("\n")
    if len(text) <= most:
        return text
    return f"[{len(text) - most} characters before this were left out.]\n{text[-most:]}"


def beginning_of(text: str, most: int) -> str:
    """The beginning of a text that may be long."""
    text = storable(text)
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters more.]"


def storable(text: str) -> str:
    """The text without what Postgres has no place for."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def storable_value(value: Any) -> Any:
    """The same for a JSON value, wherever a text is in it."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable_value(item) for item in value]
    return value
