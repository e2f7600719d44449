from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Kind, SetupError


class SecretDamaged(AgentOSError):
    """What is stored does not decrypt: it was changed, or moved from where it belongs."""

    code = "secret_damaged"
    kind = Kind.INTERNAL
    hint = "Store the value again, or restore the database from a backup."


class SecretTooLarge(AgentOSError):
    """The value is larger than 64 KiB."""

    code = "secret_too_large"
    kind = Kind.TOO_LARGE
    hint = "Keep large files as objects and store only the key to them here."


class KekMissing(SetupError):
    """The vault's key-encryption key is not configured."""

    code = "kek_missing"
