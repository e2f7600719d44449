from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from agentos.tenancy.schemas import Body

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
MAX_VALUE_BYTES = 65_536

SecretName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, strip_whitespace=False)]


class SecretStore(Body):
    # A key file ends in a line break that belongs to it.
    model_config = ConfigDict(str_strip_whitespace=False)

    value: SecretStr = Field(
        min_length=1,
        max_length=MAX_VALUE_BYTES,
        description="The secret itself, at most 64 KiB. It can be replaced but never read back.",
        examples=["example-value-4f1c"],
    )


class SecretRead(BaseModel):
    id: UUID
    name: str
    version: int = Field(description="Counts how often a value was stored under this name.")
    last_four: str = Field(
        description="The end of the value, to recognise it by; empty for values under 12 characters."
    )
    created_at: datetime
    updated_at: datetime


class KeyRotation(BaseModel):
    version: int = Field(description="The version of the tenant's key that is now in use.")
    reencrypted: int = Field(description="How many secrets were encrypted anew.")
