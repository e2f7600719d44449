from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field


class ObjectRead(BaseModel):
    id: UUID = Field(description="Names these very bytes; another upload to the key has another.")
    key: str = Field(examples=["reports/2030/may.pdf"])
    size: int = Field(description="In bytes.")
    content_type: str
    sha256: str = Field(description="Digest of the bytes in hexadecimal; also the ETag.")
    created_at: datetime = Field(description="When these bytes were uploaded.")


class StorageUsage(BaseModel):
    bytes: int
    objects: int
    allowed: int | None = Field(description="Bytes the plan allows; null: no limit.")
