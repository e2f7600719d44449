"""Field types shared by the request and response bodies of all slices."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


class Body(BaseModel):
    """A request body: unknown fields are refused, so that a typing error cannot pass silently."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


def _plain(value: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("must not contain control characters")
    return value


def _email(value: str) -> str:
    local, at, domain = value.lower().rpartition("@")
    if not at or not local or "." not in domain.strip(".") or " " in value:
        raise ValueError("must be an e-mail address")
    return value.lower()


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, strip_whitespace=True),
    AfterValidator(_plain),
]
Email = Annotated[
    str,
    StringConstraints(min_length=3, max_length=254, strip_whitespace=True),
    AfterValidator(_plain),
    AfterValidator(_email),
]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Password = Annotated[str, StringConstraints(min_length=10, max_length=200, strip_whitespace=False)]
