"""Signed tokens: short-lived access, rotating refresh, and service tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import jwt

from agentos.kernel.clock import Clock
from agentos.kernel.crypto import derive
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.ids import LoginId, TenantId, UserId, uuid7
from agentos.tenancy.principals import Scope, known_scopes


class Unauthenticated(AgentOSError):
    """This needs a valid credential."""

    code = "unauthenticated"
    kind = Kind.UNAUTHENTICATED
    hint = "Send `Authorization: Bearer …` with an access token or an API key."


class TokenExpired(Unauthenticated):
    """The token has expired."""

    code = "token_expired"
    hint = "Refresh it with POST /api/auth/refresh, or sign in again."


class TokenInvalid(Unauthenticated):
    """The token is not valid."""

    code = "token_invalid"


class Use(StrEnum):
    ACCESS = "access"
    REFRESH = "refresh"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class AccessClaims:
    user_id: UserId
    tenant_id: TenantId
    login_id: LoginId
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RefreshClaims:
    user_id: UserId
    tenant_id: TenantId
    login_id: LoginId
    generation: int


@dataclass(frozen=True, slots=True)
class ServiceClaims:
    """What a worker or sidecar may do for one tenant."""

    tenant_id: TenantId
    subject: str
    scopes: frozenset[Scope]
    expires_at: datetime
    team_id: UUID | None = None
    session_id: UUID | None = None


class Tokens:
    def __init__(self, secret_key: bytes, clock: Clock, access_life: timedelta):
        self._key = derive(secret_key, "token signing")
        self._clock = clock
        self.access_life = access_life

    def access(self, user_id: UserId, tenant_id: TenantId, login_id: LoginId) -> str:
        claims = {"sub": str(user_id), "tid": str(tenant_id), "sid": str(login_id)}
        return self._sign(Use.ACCESS, claims, self.access_life)

    def refresh(
        self,
        user_id: UserId,
        tenant_id: TenantId,
        login_id: LoginId,
        generation: int,
        expires_at: datetime,
    ) -> str:
        claims = {
            "sub": str(user_id),
            "tid": str(tenant_id),
            "sid": str(login_id),
            "gen": generation,
        }
        return self._sign(Use.REFRESH, claims, expires_at - self._clock.now())

    def service(
        self,
        tenant_id: TenantId,
        subject: str,
        scopes: frozenset[Scope],
        life: timedelta,
        *,
        team_id: UUID | None = None,
        session_id: UUID | None = None,
    ) -> str:
        """A token for a worker or sidecar; what it spends is booked on its team and session."""
        claims: dict[str, Any] = {"sub": subject, "tid": str(tenant_id), "scp": sorted(scopes)}
        if team_id is not None:
            claims["team"] = str(team_id)
        if session_id is not None:
            claims["session"] = str(session_id)
        return self._sign(Use.SERVICE, claims, life)

    def read_access(self, token: str) -> AccessClaims:
        claims = self._read(Use.ACCESS, token)
        return AccessClaims(
            UserId(UUID(claims["sub"])),
            TenantId(UUID(claims["tid"])),
            LoginId(UUID(claims["sid"])),
            _moment(claims["exp"]),
        )

    def read_refresh(self, token: str) -> RefreshClaims:
        claims = self._read(Use.REFRESH, token)
        return RefreshClaims(
            UserId(UUID(claims["sub"])),
            TenantId(UUID(claims["tid"])),
            LoginId(UUID(claims["sid"])),
            int(claims["gen"]),
        )

    def read_service(self, token: str) -> ServiceClaims:
        claims = self._read(Use.SERVICE, token)
        return ServiceClaims(
            TenantId(UUID(claims["tid"])),
            claims["sub"],
            known_scopes(claims["scp"]),
            _moment(claims["exp"]),
            team_id=_optional_id(claims.get("team")),
            session_id=_optional_id(claims.get("session")),
        )

    def use_of(self, token: str) -> str | None:
        """What an unverified token claims to be for; only to pick the reader."""
        try:
            use: str | None = jwt.get_unverified_header(token).get("typ")
        except jwt.PyJWTError:
            return None
        return use

    def _sign(self, use: Use, claims: dict[str, Any], life: timedelta) -> str:
        now = self._clock.now()
        stamped = claims | {"iat": int(now.timestamp()), "exp": int((now + life).timestamp())}
        # jti: two tokens of one second differ, so that a reused one can be told from its successor.
        return jwt.encode(stamped | {"jti": str(uuid7())}, self._key, "HS256", {"typ": use})

    def _read(self, use: Use, token: str) -> dict[str, Any]:
        try:
            decoded = jwt.decode_complete(
                token,
                self._key,
                algorithms=["HS256"],
                # Expiry is checked below, against the clock that tests can move.
                options={"verify_exp": False, "verify_iat": False, "require": ["exp", "sub"]},
            )
        except jwt.PyJWTError:
            raise TokenInvalid() from None
        if decoded["header"].get("typ") != use:
            raise TokenInvalid(f"This is not a token for {use}.")
        claims: dict[str, Any] = decoded["payload"]
        if self._clock.now() >= _moment(claims["exp"]):
            raise TokenExpired()
        return claims


def _optional_id(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def _moment(timestamp: int) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)
