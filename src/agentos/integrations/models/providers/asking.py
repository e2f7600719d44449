"""Asks a provider for a document of its own, such as the list of its models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from agentos.integrations.models.failures import ErrorClass, Failure
from agentos.integrations.models.providers.base import Connection, ProviderFailed
from agentos.integrations.models.upstream import Upstream, UpstreamLost, UpstreamTimeout
from agentos.integrations.models.wires.base import Wire
from agentos.kernel.redaction import MASK

# All of it: a person is waiting for the answer.
TIMEOUT_SECONDS = 10.0
# The longest list there is (OpenRouter's) has half a megabyte.
_MOST_BYTES = 8 * 1024 * 1024
# A list that goes on after this many pages has no end.
MOST_PAGES = 20


async def ask(
    upstream: Upstream, url: str, headers: Mapping[str, str], connection: Connection, wire: Wire
) -> dict[str, Any]:
    """The JSON object at `url`. Raises ProviderFailed, with the error read as `wire` words it."""
    try:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            upstream.send("GET", url, headers=headers, timeout=TIMEOUT_SECONDS) as answer,
        ):
            status, body = answer.status, await answer.body(_MOST_BYTES)
            retry_after = answer.header("retry-after")
    except (UpstreamTimeout, TimeoutError):
        raise _failed(ErrorClass.TIMEOUT, "It did not answer in time.") from None
    except UpstreamLost as error:
        reason = f" ({error})" if str(error) else ""
        raise _failed(ErrorClass.OVERLOAD, f"It could not be reached{reason}.") from None
    if status != 200:
        error_class, message = wire.error_class(status, body)
        raise ProviderFailed(
            Failure(error_class, masked(message, connection.key), status, _seconds(retry_after))
        )
    return _document(body)


def listed(document: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """The objects in a field of an answer. Raises ProviderFailed if it holds anything else."""
    # Ollama and others say null where they have none.
    found = document.get(field, []) or []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise not_its_format()
    return found


def text(item: Mapping[str, Any], field: str) -> str:
    """A field that every item of a list has. Raises ProviderFailed if this one has not."""
    found = item.get(field)
    if not isinstance(found, str) or not found:
        raise not_its_format()
    return found


def whole(item: Mapping[str, Any], *fields: str) -> int | None:
    """The first of these fields that holds a positive number."""
    numbers = (item.get(field) for field in fields)
    return next((n for n in numbers if isinstance(n, int) and n > 0), None)


def not_its_format() -> ProviderFailed:
    return _failed(
        ErrorClass.OVERLOAD, "What answered there does not speak this provider's language."
    )


def masked(message: str, key: str | None) -> str:
    """A provider's message without the key, however it quoted it.

    Only this key: masking all secrets this process knows would let one tenant's server find out,
    by what is masked, which secrets other tenants have.
    """
    if not key:
        return message
    for form in (key, json.dumps(key)[1:-1], quote(key, safe="")):
        message = message.replace(form, MASK)
    return message


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise not_its_format() from None
    if not isinstance(document, dict):
        raise not_its_format()
    return document


def _failed(error_class: ErrorClass, message: str) -> ProviderFailed:
    return ProviderFailed(Failure(error_class, message))


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after is not None and retry_after.isdigit() else None
