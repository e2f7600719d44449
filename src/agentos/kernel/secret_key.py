"""The one key an installation grows from."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from agentos.kernel.errors import SetupError
from agentos.kernel.redaction import register_secret
from agentos.kernel.settings import Settings, parse_key


def load_secret_key(settings: Settings) -> bytes:
    """The key from AGENTOS_SECRET_KEY, else from the data directory, made there at first use."""
    if settings.secret_key is not None:
        text = settings.secret_key.get_secret_value()
    elif settings.embedded_postgres:
        text = read_or_create(settings.data_dir / "secrets" / "secret_key")
    else:
        raise SetupError(
            "AGENTOS_SECRET_KEY is not set, and an external database is shared by several processes.",
            hint="Make one with `openssl rand -hex 32` and give the same to every process.",
        )
    register_secret(text)
    return parse_key(text)


def read_or_create(path: Path) -> str:
    """A key in a file of its own that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_private(path)
    with os.fdopen(descriptor, "w") as file:
        text = secrets.token_hex(32)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return text


def _read_private(path: Path) -> str:
    if path.stat().st_mode & 0o077:
        raise SetupError(
            f"{path} can be read by others.", hint=f"Make it private again: chmod 600 {path}"
        )
    text = path.read_text().strip()
    try:
        parse_key(text)
    except ValueError as error:
        raise SetupError(
            f"{path} does not hold a key: it {error}.",
            hint="Restore it from a backup; without it the data cannot be decrypted.",
        ) from None
    return text
