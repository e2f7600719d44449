"""Random tokens that name their tenant: API keys, invitations, socket tickets.

A token is `prefix_` + tenant id + 32 random bytes, in hexadecimal. Because it says which tenant it
belongs to, it is looked up under that tenant's row-level security: authentication needs no role
that can see across tenants.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from uuid import UUID

from agentos.kernel.crypto import digest
from agentos.kernel.ids import TenantId

_SHAPE = re.compile(r"(?P<prefix>[a-z]{2,4})_(?P<tenant>[0-9a-f]{32})[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class OpaqueToken:
    prefix: str
    tenant_id: TenantId
    text: str = field(repr=False)

    @property
    def digest(self) -> bytes:
        return digest(self.text)

    @property
    def last_four(self) -> str:
        return self.text[-4:]


def new_token(prefix: str, tenant_id: TenantId) -> OpaqueToken:
    return token_from(prefix, tenant_id, secrets.token_bytes(32))


def token_from(prefix: str, tenant_id: TenantId, entropy: bytes) -> OpaqueToken:
    """A token made of given random bytes."""
    return OpaqueToken(prefix, tenant_id, f"{prefix}_{tenant_id.hex}{entropy.hex()}")


def parse_token(prefix: str, text: str) -> OpaqueToken | None:
    """The token in `text`, or None if it does not have the shape of one."""
    match = _SHAPE.fullmatch(text)
    if match is None or match["prefix"] != prefix:
        return None
    return OpaqueToken(prefix, TenantId(UUID(hex=match["tenant"])), text)
