from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field


def _hex(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


class ObjectRead(BaseModel):
    id: UUID = Field(description="Names these very bytes; another upload to the key has another.")
    key: str = Field(examples=["reports/2030/may.pdf"])
    size: int = Field(description="In bytes.")
    content_type: str
    sha256: Annotated[str, BeforeValidator(_hex)] = Field(
        description="Digest of the bytes in hexadecimal; also the ETag."
    )
    created_at: datetime = Field(description="When these bytes were uploaded.")


class StorageUsage(BaseModel):
    bytes: int
    objects: int
    allowed: int | None = Field(description="Bytes the plan allows; null: no limit.")
