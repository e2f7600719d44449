"""Who is asking, and what they may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.ids import TenantId, uuid7


class Role(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class Scope(StrEnum):
    """What a credential may do. `read` never changes anything; `write` includes no `read`."""

    TENANT_READ = "tenant:read"
    TENANT_WRITE = "tenant:write"
    MEMBERS_READ = "members:read"
    MEMBERS_WRITE = "members:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    VAULT_READ = "vault:read"
    VAULT_WRITE = "vault:write"
    AUDIT_READ = "audit:read"
    EVENTS_READ = "events:read"
    OBJECTS_READ = "objects:read"
    OBJECTS_WRITE = "objects:write"
    MODELS_USE = "models:use"
    MODELS_READ = "models:read"
    MODELS_WRITE = "models:write"
    USAGE_READ = "usage:read"
    BUDGETS_WRITE = "budgets:write"
    SESSIONS_READ = "sessions:read"
    SESSIONS_WRITE = "sessions:write"
    APPROVALS_WRITE = "approvals:write"
    TOOLS_READ = "tools:read"
    TOOLS_WRITE = "tools:write"
    TEAMS_READ = "teams:read"
    TEAMS_WRITE = "teams:write"
    MESSAGES_READ = "messages:read"
    MESSAGES_WRITE = "messages:write"
    SCHEDULES_READ = "schedules:read"
    SCHEDULES_WRITE = "schedules:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """The scopes among stored names. One that has since been retired grants nothing."""
    return frozenset(_BY_NAME[name] for name in names if name in _BY_NAME)


_BY_NAME = {scope.value: scope for scope in Scope}

ROLE_SCOPES: dict[Role, frozenset[Scope]] = {
    Role.OWNER: frozenset(Scope),
    Role.ADMIN: frozenset(Scope) - {Scope.TENANT_WRITE},
    Role.MEMBER: frozenset(
        {
            Scope.TENANT_READ,
            Scope.MEMBERS_READ,
            Scope.VAULT_READ,
            Scope.EVENTS_READ,
            Scope.OBJECTS_READ,
            Scope.OBJECTS_WRITE,
            Scope.MODELS_USE,
            Scope.MODELS_READ,
            Scope.USAGE_READ,
            Scope.SESSIONS_READ,
            Scope.SESSIONS_WRITE,
            Scope.APPROVALS_WRITE,
            Scope.TOOLS_READ,
            Scope.TEAMS_READ,
            Scope.MESSAGES_READ,
            Scope.MESSAGES_WRITE,
            Scope.SCHEDULES_READ,
            Scope.WEBHOOKS_READ,
        }
    ),
}


class PrincipalKind(StrEnum):
    USER = "user"
    API_KEY = "api_key"
    SERVICE = "service"
    PLATFORM = "platform"
    # Whoever knows the address of a webhook: it fires that one, and does nothing else.
    WEBHOOK = "webhook"


class Forbidden(AgentOSError):
    """You may not do this."""

    code = "forbidden"
    kind = Kind.FORBIDDEN


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller, bound to one tenant."""

    kind: PrincipalKind
    id: str
    name: str
    tenant_id: TenantId
    scopes: frozenset[Scope]
    plan: str
    user_id: UUID | None = None
    login_id: UUID | None = None
    role: Role | None = None
    platform_admin: bool = False
    # What a credential was issued for: its model calls count there, whatever the caller says.
    team_id: UUID | None = None
    session_id: UUID | None = None

    def require_all(self, scopes: frozenset[Scope]) -> None:
        """Raises Forbidden if a credential with these scopes could do more than this one."""
        beyond = scopes - self.scopes
        if beyond:
            raise Forbidden(f"You cannot give what you do not have: {', '.join(sorted(beyond))}.")

    def require(self, scope: Scope) -> None:
        if scope not in self.scopes:
            raise Forbidden(
                f"This needs the scope {scope}.",
                hint=f"Use a credential with {scope}, or ask an owner of the tenant for it.",
                scope=scope,
            )


def platform_principal(principal_id: str, name: str) -> Principal:
    """Who acts for the platform itself. It belongs to no tenant, so it is given a fresh id."""
    return Principal(
        kind=PrincipalKind.PLATFORM,
        id=principal_id,
        name=name,
        tenant_id=TenantId(uuid7()),
        scopes=frozenset(Scope),
        plan="enterprise",
    )
