"""Peer: the same list the usual way, with FastAPI, SQLAlchemy's ORM and a response model."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from sqlalchemy import ARRAY, Text, select, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class ApiKey(Base):
    __tablename__ = "api_keys"
    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    last_four: Mapped[str]
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class ApiKeyRead(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    name: str
    last_four: str
    scopes: list[str]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class Page(BaseModel):
    items: list[ApiKeyRead]
    next_cursor: str | None


engine = create_async_engine(
    os.environ["DSN"].replace("postgresql://", "postgresql+asyncpg://"), pool_size=16
)
sessions = async_sessionmaker(engine)
app = FastAPI()


@app.get("/api/keys")
async def keys() -> Page:
    tenant = os.environ["TENANT"]
    async with sessions() as session, session.begin():
        await session.execute(text("select set_config('app.tenant_id', :t, true)"), {"t": tenant})
        query = select(ApiKey).where(ApiKey.tenant_id == UUID(tenant)).order_by(ApiKey.id).limit(51)
        found: Any = (await session.scalars(query)).all()
        return Page(
            items=[ApiKeyRead.model_validate(key) for key in found[:50]],
            next_cursor=str(found[49].id),
        )


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
