"""Text of an agent, made fit for JSON and for the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_DEEP = 20


def clean(text: str) -> str:
    """The same text without what neither can hold: NUL, and lone halves of surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


def shortened(text: str, most: int) -> str:
    """At most so many characters, with a sign that something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def tidy(value: Any, most: int, depth: int = 0) -> Any:
    """JSON with clean texts, each of at most so many characters."""
    if isinstance(value, str):
        return shortened(clean(value), most)
    if depth > _MOST_DEEP:
        return "…"
    if isinstance(value, Mapping):
        return {clean(str(key)): tidy(one, most, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(one, most, depth + 1) for one in value]
    return value
