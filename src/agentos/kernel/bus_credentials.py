"""Who may do what on the bus: every NATS key and JWT, derived from one secret.

Nothing here talks to a server. Processes and machines that share the secret derive the same
operator, accounts and user keys, so they trust each other's credentials without coordination,
and a new team needs no change on the server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nkeys

from agentos.kernel.errors import Invalid, SetupError

MAX_PAYLOAD = 1024 * 1024

# No credential of a team lives longer.
TEAM_LIFE = timedelta(hours=1)
# How long a team's key stays revoked. More than a life: clocks differ, and a worker that was stopped
# while it lost the team may mint once more.
REVOKED_FOR = 2 * TEAM_LIFE
# As many as fit into the claims of an account, which have to fit into one message.
MOST_REVOCATIONS = 10_000

# Claims that change only with the secret carry one fixed issue time, so that every machine
# renders the same server configuration, byte for byte.
_ISSUED_AT = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())

# Ids become subject tokens and template tags: a wildcard or a dot in one would widen the grant
# to other teams, a colon or an underscore would make two teams share a tag or an inbox.
_ID = re.compile(r"[a-z0-9-]{1,63}")

_UNLIMITED = {
    "subs": -1,
    "data": -1,
    "payload": -1,
    "imports": -1,
    "exports": -1,
    "wildcards": True,
    "conn": -1,
    "leaf": 0,
}
_JETSTREAM = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


class BadBusId(Invalid):
    """A tenant or team id on the bus is 1 to 63 of a-z, 0-9 and '-'."""

    code = "bad_bus_id"


@dataclass(frozen=True, slots=True)
class BusCredentials:
    """What one client needs to connect: its JWT, the key that proves it, and its own inbox."""

    public_key: str
    inbox_prefix: str
    expires_at: datetime | None
    jwt: str = field(repr=False)
    seed: str = field(repr=False)

    def sign(self, nonce: str) -> bytes:
        """The server's challenge, signed, in the form CONNECT carries."""
        return base64.b64encode(nkeys.from_seed(self.seed.encode()).sign(nonce.encode()))


class BusAuthority:
    """Mints every credential of the bus from one 32-byte secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise SetupError("The bus secret must be exactly 32 bytes.")
        self._secret = secret
        self._operator = self._derive("operator", nkeys.PREFIX_BYTE_OPERATOR)
        self._system = self._derive("account/system", nkeys.PREFIX_BYTE_ACCOUNT)
        self._platform = self._derive("account/platform", nkeys.PREFIX_BYTE_ACCOUNT)
        self._team_signer = self._derive("signer/team", nkeys.PREFIX_BYTE_ACCOUNT)

    @property
    def account_id(self) -> str:
        """The public key of the PLATFORM account."""
        return _public(self._platform)

    def server_config(
        self,
        *,
        host: str,
        port: int,
        monitor_port: int,
        store_dir: Path,
        revocations: Mapping[str, int] | None = None,
    ) -> str:
        """A complete nats-server configuration for one embedded server."""
        return f"""\
server_name: agentos
listen: {json.dumps(f"{host}:{port}")}
http: "127.0.0.1:{monitor_port}"
max_payload: {MAX_PAYLOAD}
write_deadline: "10s"
jetstream {{
  store_dir: {json.dumps(str(store_dir))}
  # The default acknowledges up to two minutes before the disk has the message.
  sync_interval: always
}}
{self.cluster_config(revocations)}"""

    def cluster_config(self, revocations: Mapping[str, int] | None = None) -> str:
        """The trust part alone, to paste into the configuration of an external NATS."""
        operator = _public(self._operator)
        system = _public(self._system)
        operator_jwt = _encode(
            self._operator,
            subject=operator,
            name="agentos",
            claims={"type": "operator", "system_account": system},
        )
        return f"""\
operator: {operator_jwt}
system_account: {system}
resolver: MEMORY
resolver_preload {{
  {system}: {self._system_jwt()}
  {self.account_id}: {self.account_jwt(revocations)}
}}
"""

    def account_jwt(self, revocations: Mapping[str, int] | None = None) -> str:
        """The PLATFORM account's claims: limits, the team scope and who is revoked.

        `revocations` maps a user's public key to the Unix time up to which (inclusive) JWTs
        issued to it are refused. It replaces the list the server has; an entry may be dropped
        once every credential issued up to its time has expired.
        """
        revoked = dict(revocations or {})
        claims = {
            "type": "account",
            "limits": {**_UNLIMITED, **_JETSTREAM},
            "signing_keys": [self._team_scope()],
            "default_permissions": {"pub": {}, "sub": {}},
            "revocations": revoked,
        }
        # A directory resolver keeps the newer of two claims, so a revocation must age the JWT.
        return _encode(
            self._operator,
            subject=self.account_id,
            name="PLATFORM",
            claims=claims,
            issued_at=max([_ISSUED_AT, *revoked.values()]),
        )

    def platform_credentials(self) -> BusCredentials:
        """Full rights within the PLATFORM account; they last as long as the secret."""
        return self._account_user(self._platform, "platform")

    def system_credentials(self) -> BusCredentials:
        """Administration of the server itself; only revoking needs it."""
        return self._account_user(self._system, "system")

    def team_credentials(self, tenant: str, team: str, ttl: timedelta) -> BusCredentials:
        """One team's rights on the bus, for `ttl`: its own subjects and its own inbox.

        A team keeps one user key, so revoking the team needs no record of what was minted.
        """
        if ttl > TEAM_LIFE:
            raise Invalid("A team's credentials on the bus may not live that long.")
        user = self._team_user(tenant, team)
        # The server refuses what was issued at or before the revocation, in whole seconds.
        issued_at = int(time.time())
        expires = issued_at + int(ttl.total_seconds())
        jwt = _encode(
            self._team_signer,
            subject=_public(user),
            name=f"{tenant}/{team}",
            claims={
                "type": "user",
                "issuer_account": self.account_id,
                "tags": [f"tenant:{tenant}", f"team:{team}"],
            },
            issued_at=issued_at,
            expires=expires,
        )
        return BusCredentials(
            public_key=_public(user),
            inbox_prefix=f"_INBOX_{tenant}_{team}",
            expires_at=datetime.fromtimestamp(expires, UTC),
            jwt=jwt,
            seed=user.seed.decode(),
        )

    def team_public_key(self, tenant: str, team: str) -> str:
        """The key under which a team's credentials are revoked."""
        return _public(self._team_user(tenant, team))

    def _team_user(self, tenant: str, team: str) -> Any:
        for value in (tenant, team):
            if not _ID.fullmatch(value):
                raise BadBusId
        return self._derive(f"user/team/{tenant}/{team}", nkeys.PREFIX_BYTE_USER)

    def _team_scope(self) -> dict[str, Any]:
        # Never add `resp` (allow_responses): a team could send itself a message whose reply
        # subject belongs to another team, and answering it would cross the border.
        subjects = [
            "tenant.{{tag(tenant)}}.team.{{tag(team)}}.>",
            "_INBOX_{{tag(tenant)}}_{{tag(team)}}.>",
        ]
        return {
            "kind": "user_scope",
            "key": _public(self._team_signer),
            "role": "team",
            "template": {
                "pub": {"allow": subjects},
                "sub": {"allow": subjects},
                "subs": 1024,
                "data": -1,
                "payload": MAX_PAYLOAD,
                "allowed_connection_types": ["STANDARD", "WEBSOCKET"],
            },
        }

    def _system_jwt(self) -> str:
        return _encode(
            self._operator,
            subject=_public(self._system),
            name="SYS",
            claims={"type": "account", "limits": _UNLIMITED},
        )

    def _account_user(self, account: Any, name: str) -> BusCredentials:
        user = self._derive(f"user/{name}", nkeys.PREFIX_BYTE_USER)
        jwt = _encode(
            account,
            subject=_public(user),
            name=name,
            claims={"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1},
        )
        return BusCredentials(
            public_key=_public(user),
            inbox_prefix=f"_INBOX_{name}",
            expires_at=None,
            jwt=jwt,
            seed=user.seed.decode(),
        )

    def _derive(self, purpose: str, prefix: int) -> Any:
        # Here, not above: a sidecar only uses credentials, and would carry 10 MB for nothing.
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"agentos/bus/1/{purpose}".encode()
        raw = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)
        return nkeys.from_seed(nkeys.encode_seed(raw, prefix))


def _public(key: Any) -> str:
    return str(key.public_key.decode())


def _encode(
    signer: Any,
    *,
    subject: str,
    name: str,
    claims: dict[str, Any],
    issued_at: int = _ISSUED_AT,
    expires: int | None = None,
) -> str:
    """A NATS JWT, version 2: a compact JWS whose algorithm is Ed25519 over nkeys."""
    body: dict[str, Any] = {
        "iat": issued_at,
        "iss": _public(signer),
        "name": name,
        "sub": subject,
        "nats": {**claims, "version": 2},
    }
    if expires is not None:
        body["exp"] = expires
    digest = hashlib.new("sha512_256", _json(body)).digest()
    body["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    signed = b".".join(_b64(_json(part)) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
    return (signed + b"." + _b64(signer.sign(signed))).decode()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _b64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
