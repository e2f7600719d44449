"""Key derivation and random tokens. Everything an installation keeps secret grows from one key."""

from __future__ import annotations

import base64
import hashlib
import secrets

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def derive(master: bytes, purpose: str, length: int = 32) -> bytes:
    """A key for one purpose; knowing it tells nothing about the master or its siblings."""
    return HKDF(
        algorithm=hashes.SHA256(), length=length, salt=b"agentos", info=purpose.encode()
    ).derive(master)


def derive_password(master: bytes, purpose: str) -> str:
    return base64.urlsafe_b64encode(derive(master, purpose, 24)).decode()


def digest(token: str) -> bytes:
    """How a high-entropy token is stored. Plain SHA-256: there is nothing to guess."""
    return hashlib.sha256(token.encode()).digest()


def random_nonce() -> bytes:
    """96 random bits, as AES-GCM takes them."""
    return secrets.token_bytes(12)
