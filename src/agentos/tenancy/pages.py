"""Cursor pages, the same for every list."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar
from uuid import UUID

import asyncpg
import msgspec
from fastapi import Depends, Query, Response
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
        names = self.kind.model_fields
        items = [{name: row[name] for name in names} for row in self.rows]
        body = msgspec.json.encode({"items": items, "next_cursor": self.next_cursor})
        return Response(body, media_type="application/json")


def encode_cursor(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


async def _page_request(
    limit: Annotated[int, Query(ge=1, le=200, description="Items per page.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=1000, description="`next_cursor` of the page before.")
    ] = None,
) -> PageRequest:
    if cursor is None:
        return PageRequest(limit=limit, after=None)
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return PageRequest(
            limit=limit, after=base64.b64decode(padded, b"-_", validate=True).decode()
        )
    except ValueError:
        raise BadCursor() from None


Paging = Annotated[PageRequest, Depends(_page_request)]
