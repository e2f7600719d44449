"""Cursor pages, the same for every list."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

import asyncpg
import msgspec
from fastapi import Request, Response
from pydantic import BaseModel, Field

from agentos.kernel.errors import Invalid

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Page(BaseModel, Generic[T]):
    """One page of a list. Ask for the next with `?cursor=next_cursor` until it is null."""

    items: list[T]
    next_cursor: str | None = Field(None, description="Null on the last page.")


class BadCursor(Invalid):
    """The cursor is not one this list handed out."""

    code = "bad_cursor"
    hint = "Start again without a cursor."


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int
    after: str | None

    @property
    def after_id(self) -> UUID:
        """The id to go on after; on the first page one that is before all others."""
        if self.after is None:
            return UUID(int=0)
        try:
            return UUID(self.after)
        except ValueError:
            raise BadCursor() from None

    def of(self, kind: type[M], rows: Sequence[asyncpg.Record], key: str = "id") -> RowPage[M]:
        """Makes a page of `rows`, fetched with `limit + 1` to see whether more follow."""
        more = len(rows) > self.limit
        shown = rows[: self.limit]
        return RowPage(kind, shown, encode_cursor(str(shown[-1][key])) if more else None)


@dataclass(frozen=True, slots=True)
class RowPage(Generic[M]):
    """A page as the database gave it.

    The answer is encoded straight from the rows: making models of them only to take them apart
    again is a fifth of the cost of a list. Of each row it shows what the model names, nothing else.
    """

    kind: type[M]
    rows: Sequence[asyncpg.Record]
    next_cursor: str | None

    @property
    def items(self) -> list[M]:
        return [self.kind(**row) for row in self.rows]

    def response(self) -> Response:
        """The page as `Page[kind]` describes it."""
        names = tuple(self.kind.model_fields)
        if self.rows and tuple(self.rows[0].keys()) == names:
            items = [dict(row) for row in self.rows]  # the same, faster
        else:
            items = [{name: row[name] for name in names} for row in self.rows]
        body = msgspec.json.encode({"items": items, "next_cursor": self.next_cursor})
        return Response(body, media_type="application/json")


def encode_cursor(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


_MOST = 200
_DEFAULT = 50
_LONGEST_CURSOR = 1000

# Documents `limit` and `cursor` at a route that calls `page_of`.
PAGED: dict[str, Any] = {
    "parameters": [
        {
            "name": "limit",
            "in": "query",
            "required": False,
            "description": "Items per page.",
            "schema": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _DEFAULT},
        },
        {
            "name": "cursor",
            "in": "query",
            "required": False,
            "description": "`next_cursor` of the page before.",
            "schema": {"type": "string", "maxLength": _LONGEST_CURSOR},
        },
    ]
}


class BadLimit(Invalid):
    """limit must be a whole number from 1 to 200."""

    code = "bad_limit"


def page_of(request: Request) -> PageRequest:
    """The page a request asks for.

    Read by hand: declared to the framework, two parameters cost as much as the rest of the edge.
    """
    given = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return PageRequest(_limit(given.get("limit")), _position(given.get("cursor")))


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= _MOST):
        raise BadLimit()
    return int(text)


def _position(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    if len(cursor) > _LONGEST_CURSOR:
        raise BadCursor()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return base64.b64decode(padded, b"-_", validate=True).decode()
    except ValueError:
        raise BadCursor() from None
