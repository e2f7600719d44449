from __future__ import annotations

import msgspec


def is_json(text: str, kind: type = object) -> bool:
    """Whether a text is JSON, of a certain kind."""
    try:
        return isinstance(msgspec.json.decode(text), kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
