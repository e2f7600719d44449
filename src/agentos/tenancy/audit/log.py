"""The audit log: one row for every mutation, in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from agentos.kernel.database import Transaction
from agentos.kernel.ids import uuid7

MASK = "•••"

# Never written in clear, whatever slice they come from.
SECRET_FIELDS = frozenset(
    {"password", "password_hash", "token", "token_hash", "secret", "value", "ciphertext", "api_key"}
)


def masked(state: Any) -> Any:
    """The same, with secret fields hidden at any depth."""
    if isinstance(state, Mapping):
        return {
            key: MASK if str(key).lower() in SECRET_FIELDS else masked(value)
            for key, value in state.items()
        }
    if isinstance(state, list | tuple):
        return [masked(value) for value in state]
    return state


async def write(
    tx: Transaction,
    *,
    tenant_id: UUID,
    at: datetime,
    actor: tuple[str, str, str],
    action: str,
    target: tuple[str, str],
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    request_id: str | None,
) -> None:
    await tx.execute(
        """insert into audit_log (tenant_id, id, at, actor_kind, actor_id, actor_name, action,
               target_kind, target_id, before, after, request_id)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)""",
        tenant_id,
        uuid7(),
        at,
        *actor,
        action,
        *target,
        masked(before),
        masked(after),
        request_id,
    )
