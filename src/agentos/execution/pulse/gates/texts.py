"""Texts for verdicts: read by people, by the agent that has to put it right, and kept in rows."""

from __future__ import annotations

from agentos.kernel.texts import storable

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
