"""Service tokens: short-lived, scoped credentials for workers and sidecars."""

from __future__ import annotations

from datetime import timedelta

from agentos.control.service_tokens.schemas import ServiceTokenCreate, ServiceTokenCreated
from agentos.tenancy.principals import Forbidden, PrincipalKind, Scope
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.work import Work


async def issue_token(work: Work, tokens: Tokens, body: ServiceTokenCreate) -> ServiceTokenCreated:
    """A token that does no more than its issuer could."""
    work.require(Scope.KEYS_WRITE)
    if work.principal.kind is PrincipalKind.SERVICE:
        # Otherwise a leaked one could renew itself for ever.
        raise Forbidden("A service token cannot issue another.")
    scopes = frozenset(body.scopes)
    work.principal.require_all(scopes)
    life = timedelta(seconds=body.seconds)
    await work.record(
        "service_token.issued",
        target=("service_token", body.subject),
        after={"scopes": sorted(scopes), "seconds": body.seconds},
    )
    token = tokens.service(work.tenant_id, body.subject, scopes, life)
    return ServiceTokenCreated(token=token, expires_at=work.now() + life)
