"""What the glances of several wires share."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from agentos.integrations.models.wires.base import MalformedRequest
from agentos.integrations.models.wires.decoding import UNREADABLE

_OPENING_BRACKET = ord("[")
_MOST_TOLD = 200

# An ASCII letter is escaped by no JSON library; where one is, the words looked for may be hidden.
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")

Shape = TypeVar("Shape")


def decode(decoder: msgspec.json.Decoder[Shape], body: bytes) -> Shape:
    """The parts of a request that its shape names. Raises MalformedRequest, never with content."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        # The kind of a part that is not known is named in it, whatever that may be.
        told = str(error)[:_MOST_TOLD]
        raise MalformedRequest(f"The request is not what this API expects: {told}.") from None
    except UNREADABLE as error:
        raise MalformedRequest(f"The request is not JSON: {_reason(error)}.") from None


def named(model: str) -> str:
    """The model's name, if it is one."""
    if not model.strip():
        raise MalformedRequest("`model` is empty: name the model to call.")
    return model


def listed(messages: msgspec.Raw) -> None:
    """Checks that messages are a list, without reading them."""
    if memoryview(messages)[0] != _OPENING_BRACKET:
        raise MalformedRequest("`messages` has to be a list.")


def given(raw: msgspec.Raw) -> bool:
    """Whether a field, whose default is empty, is there and not null."""
    return bytes(raw) not in (b"", b"null")


def limit(value: int | None, field: str, least: int = 1) -> int | None:
    """A limit of tokens or choices, if it is one."""
    if value is not None and value < least:
        raise MalformedRequest(f"`{field}` has to be {least} or more.")
    return value


def refers_outside(body: bytes, *patterns: re.Pattern[bytes]) -> bool:
    """Whether content is named by what the wire's patterns find. In doubt, yes.

    A pattern should begin with plain text: that is found many times faster than a choice.
    """
    return any(pattern.search(body) for pattern in (*patterns, _ESCAPED_LETTER))


def fields(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """The fields of an object, each as its bytes; none if it is not an object.

    Encoded again, every field that was not changed is what it was, byte for byte.
    """
    try:
        return dict(_FIELDS.decode(raw))
    except msgspec.ValidationError:
        return {}
    except RecursionError as error:
        raise MalformedRequest(f"The request is not JSON: {_reason(error)}.") from None


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
