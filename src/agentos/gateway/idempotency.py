"""Idempotency-Key: the first result is kept and given again; two at once have one effect."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

import asyncpg
import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentos.kernel.crypto import derive, random_nonce
from agentos.kernel.errors import Conflict, Invalid
from agentos.tenancy.work import Work

METHODS = frozenset({"POST", "PATCH", "DELETE"})

# How long a duplicate waits for the first to finish before it is told to come back.
_WAIT = "10s"


class BadIdempotencyKey(Invalid):
    """An Idempotency-Key has 1 to 255 printable ASCII characters."""

    code = "bad_idempotency_key"
    hint = "Use a random UUID."


class IdempotencyKeyReused(Invalid):
    """This Idempotency-Key was used for another request."""

    code = "idempotency_key_reused"
    hint = "Use a new key for a new request; the same key only for the very same one."


class StillRunning(Conflict):
    """The first request with this Idempotency-Key is still running."""

    code = "idempotency_in_progress"
    hint = "Try again in a few seconds with the same key."


class StoredResponse(Exception):
    """The answer that the first request got."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes):
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class Idempotency:
    """Remembers answers, encrypted: some of them hold a key that is shown only once."""

    def __init__(self, secret_key: bytes, life: timedelta):
        self._cipher = AESGCM(derive(secret_key, "idempotency"))
        self._fingerprint_key = derive(secret_key, "idempotency fingerprint")
        self._life = life

    def fingerprint(self, method: str, path: bytes, query: bytes, body: bytes) -> bytes:
        """Tells requests apart. Keyed, because a body may hold a password worth guessing."""
        text = b"\n".join((method.encode(), path, query, body))
        return hmac.digest(self._fingerprint_key, text, "sha256")

    async def begin(self, work: Work, key: str, fingerprint: bytes) -> bytes:
        """Claims the key for this work, or raises StoredResponse with what the first got."""
        # With the kind: who issues a service token chooses its id, which may be a person's.
        owner = f"{work.principal.kind}\n{work.principal.id}"
        row_key = hashlib.sha256(f"{owner}\n{key}".encode()).digest()
        await work.tx.set("lock_timeout", _WAIT)
        try:
            claimed = await work.tx.execute(
                """insert into idempotency_keys as k (tenant_id, key, fingerprint, created_at)
                   values ($1, $2, $3, $4)
                   on conflict (tenant_id, key) do update
                   set fingerprint = excluded.fingerprint, created_at = excluded.created_at,
                       status = null, response = null
                   where k.created_at < $5""",
                work.tenant_id,
                row_key,
                fingerprint,
                work.now(),
                work.now() - self._life,
            )
        except asyncpg.LockNotAvailableError:
            raise StillRunning() from None
        await work.tx.set("lock_timeout", "0")
        if not claimed:
            await self._replay(work, row_key, fingerprint)
        return row_key

    async def _replay(self, work: Work, row_key: bytes, fingerprint: bytes) -> None:
        row = await work.tx.row(
            "select fingerprint, status, response from idempotency_keys where tenant_id = $1 and key = $2",
            work.tenant_id,
            row_key,
        )
        assert row is not None, "a key that conflicts is there"
        if row["fingerprint"] != fingerprint:
            raise IdempotencyKeyReused()
        sealed: bytes = row["response"]
        opened = self._cipher.decrypt(sealed[:12], sealed[12:], row_key)
        headers, body = msgspec.msgpack.decode(opened, type=tuple[list[tuple[bytes, bytes]], bytes])
        raise StoredResponse(row["status"], headers, body)

    async def keep(
        self,
        work: Work,
        row_key: bytes,
        status: int,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        nonce = random_nonce()
        sealed = nonce + self._cipher.encrypt(
            nonce, msgspec.msgpack.encode((headers, body)), row_key
        )
        await work.tx.execute(
            "update idempotency_keys set status = $3, response = $4 where tenant_id = $1 and key = $2",
            work.tenant_id,
            row_key,
            status,
            sealed,
        )


def check_key(key: str) -> str:
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise BadIdempotencyKey()
    return key
