"""Password hashing with argon2id."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's second configuration: 19 MiB, two passes. Two at a time, so that a flood of sign-ins
# can take neither all the memory nor all the threads.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_at_once = asyncio.Semaphore(2)

# Verified when there is no such user, so that the answer takes as long.
_NOBODY = _hasher.hash("nobody has this password")


async def hash_password(password: str) -> str:
    async with _at_once:
        return await asyncio.to_thread(_hasher.hash, password)


async def verify_password(stored: str | None, password: str) -> bool:
    async with _at_once:
        matches = await asyncio.to_thread(_verify, stored or _NOBODY, password)
    return matches and stored is not None


def _verify(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
