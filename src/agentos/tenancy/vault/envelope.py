"""AES-256-GCM with the place of a value bound to it, so that it decrypts only there."""

from __future__ import annotations

import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentos.tenancy.vault.errors import SecretDamaged

KEY_BYTES = 32
# 96 random bits: safe for some 2^32 values under one key, far beyond what one tenant stores
# between two rotations.
_NONCE_BYTES = 12
_TAG_BYTES = 16


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def seal(key: bytes, plaintext: bytes, aad: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)


def unseal(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    """What was sealed under this key and for this place; anything else is SecretDamaged."""
    if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        raise SecretDamaged()
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except InvalidTag:
        raise SecretDamaged() from None


def secret_place(tenant_id: UUID, secret_id: UUID, version: int) -> bytes:
    return f"{tenant_id}|{secret_id}|{version}".encode()


def key_place(tenant_id: UUID, version: int) -> bytes:
    return f"{tenant_id}|{version}".encode()
