"""Cursor pages, the same for every list."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Generic, TypeVar
from uuid import UUID

import asyncpg
from fastapi import Depends, Query
from pydantic import BaseModel, Field, TypeAdapter

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


class PageRequest(BaseModel):
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

    def of(self, kind: type[M], rows: Sequence[asyncpg.Record], key: str = "id") -> Page[M]:
        """Makes a page of `rows`, fetched with `limit + 1` to see whether more follow."""
        shown = rows[: self.limit]
        more = len(rows) > self.limit
        cursor = encode_cursor(str(shown[-1][key])) if more else None
        # All at once: building fifty models one by one takes three times as long.
        items = _many(kind).validate_python([dict(row) for row in shown])
        return Page.model_construct(items=items, next_cursor=cursor)


@cache
def _many(kind: type[M]) -> TypeAdapter[list[M]]:
    return TypeAdapter(list[kind])  # type: ignore[valid-type]


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
