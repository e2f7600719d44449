"""Where the key-encryption keys come from. An external KMS is one more class and one more entry.

A key-encryption key (KEK) wraps the data keys of all tenants and never touches a secret itself.
Several may be known at once: the newest wraps, all of them unwrap.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentos.kernel.errors import SetupError
from agentos.kernel.settings import Settings, parse_key
from agentos.tenancy.vault.envelope import new_key, seal, unseal
from agentos.tenancy.vault.errors import KekMissing

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)


class KeyEncryption(Protocol):
    """Wraps and unwraps data keys. Asynchronous, because a KMS is across the network."""

    @property
    def current_id(self) -> str:
        """The id of the key that `wrap` uses now."""
        ...

    async def wrap(self, key: bytes, aad: bytes) -> tuple[str, bytes]:
        """The wrapped key, and the id of the KEK that `unwrap` will need."""
        ...

    async def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        """Raises KekMissing for an unknown id and SecretDamaged for a wrong key or place."""
        ...


@dataclass(frozen=True)
class LocalKeys:
    """Keys held in this process, newest first."""

    source: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def parse(cls, source: str, entries: list[str]) -> LocalKeys:
        """Reads `id:64hex` entries; an error names the entry by position, never by content."""
        keys: dict[str, bytes] = {}
        for position, entry in enumerate(entries, 1):
            kek_id, colon, digits = entry.strip().partition(":")
            if not colon or not _ID.fullmatch(kek_id) or kek_id in keys:
                raise SetupError(
                    f"{source}: entry {position} has no id of its own.",
                    hint="Write each key as id:64hex, each id once, the newest key first.",
                )
            try:
                keys[kek_id] = parse_key(digits)
            except ValueError as error:
                raise SetupError(f"{source}: the key {kek_id} {error}.") from None
        if not keys:
            raise SetupError(f"{source} holds no key.")
        return cls(source, keys)

    @property
    def current_id(self) -> str:
        return next(iter(self.keys))

    def wrap(self, key: bytes, aad: bytes) -> tuple[str, bytes]:
        kek_id = self.current_id
        return kek_id, seal(self.keys[kek_id], key, aad)

    def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        kek = self.keys.get(kek_id)
        if kek is None:
            raise KekMissing(
                f"The vault needs the key-encryption key {kek_id}, which {self.source} does not hold.",
                hint=f"Put {kek_id} back behind the newest key in {self.source}; "
                "it may go only after all keys have been rewrapped.",
                kek_id=kek_id,
            )
        return unseal(kek, wrapped, aad)


class EnvironmentKeyring:
    """Keys from AGENTOS_KEK: `id:64hex[,id:64hex…]`, newest first."""

    def __init__(self, text: str):
        self._keys = LocalKeys.parse("AGENTOS_KEK", text.split(","))

    @property
    def current_id(self) -> str:
        return self._keys.current_id

    async def wrap(self, key: bytes, aad: bytes) -> tuple[str, bytes]:
        return self._keys.wrap(key, aad)

    async def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._keys.unwrap(kek_id, wrapped, aad)


class FileKeyring:
    """Keys from a private file, one `id:64hex` a line, newest first; made on first use.

    The file is looked at before each use, so that a key added by the CLI works at once in the
    processes that are running.
    """

    def __init__(self, path: Path):
        self._path = path
        self._known: LocalKeys | None = None
        self._stamp: tuple[int, ...] = ()

    @property
    def current_id(self) -> str:
        return self._keys().current_id

    async def wrap(self, key: bytes, aad: bytes) -> tuple[str, bytes]:
        return self._keys().wrap(key, aad)

    async def unwrap(self, kek_id: str, wrapped: bytes, aad: bytes) -> bytes:
        return self._keys().unwrap(kek_id, wrapped, aad)

    def add_key(self) -> str:
        """Makes a new newest key and returns its id. Rewrap the data keys afterwards."""
        self._keys()  # makes the first key if there is none yet
        with self._locked():
            kek_id, line = _new_entry()
            self._replace(line + self._read())
        return kek_id

    def _keys(self) -> LocalKeys:
        try:
            stamp = _stamp(self._path.stat())
        except FileNotFoundError:
            if self._known is not None:
                # Making a new one now would hide the loss of the keys that all secrets hang on.
                raise SetupError(
                    f"The vault's key file {self._path} is gone.",
                    hint="Restore it from a backup before the server is stopped or restarted.",
                ) from None
            self._create()
            stamp = ()
        if self._known is None or stamp != self._stamp:
            text = self._read()
            self._known = LocalKeys.parse(str(self._path), text.splitlines())
        return self._known

    def _create(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked():
            if not self._path.exists():
                self._replace(_new_entry()[1])

    def _read(self) -> str:
        try:
            with self._path.open() as file:
                status = os.fstat(file.fileno())
                if status.st_mode & 0o077:
                    raise SetupError(
                        f"The vault's key file {self._path} can be read by other users.",
                        hint=f"Run: chmod 600 {self._path}",
                    )
                self._stamp = _stamp(status)
                return file.read()
        except PermissionError:
            raise SetupError(
                f"The vault's key file {self._path} cannot be read by this user.",
                hint="Run AgentOS as the user that owns its data directory.",
            ) from None

    def _replace(self, text: str) -> None:
        """All of the new file or all of the old one, whenever the machine stops."""
        beside = self._path.with_name(self._path.name + ".new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two who add a key at once must not lose one of them. The lock file stays."""
        lock = self._path.with_name(self._path.name + ".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # ctime also moves with chmod, so that a file opened up later is noticed.
    return (status.st_ino, status.st_size, status.st_ctime_ns)


def _new_entry() -> tuple[str, str]:
    # Random, not counted: after a restored backup, one id must not mean two keys.
    kek_id = f"kek-{secrets.token_hex(4)}"
    return kek_id, f"{kek_id}:{new_key().hex()}\n"


def _environment(settings: Settings) -> KeyEncryption:
    assert settings.kek is not None
    return EnvironmentKeyring(settings.kek.get_secret_value())


def _file(settings: Settings) -> KeyEncryption:
    path = settings.data_dir / "vault.keys"
    if not settings.embedded_postgres and not path.exists():
        # Each machine would make its own, and could not read what the others wrote.
        raise SetupError(
            "AGENTOS_KEK is not set, and an external database is shared by several machines.",
            hint="Make one with `echo k1:$(openssl rand -hex 32)` and give the same to every "
            f"process, or copy the installation's key file to {path}.",
        )
    return FileKeyring(path)


KEYRINGS: dict[str, Callable[[Settings], KeyEncryption]] = {
    "environment": _environment,
    "file": _file,
}


def open_keyring(settings: Settings) -> KeyEncryption:
    """The keyring this installation uses. A wrong setting is reported now, not at first use."""
    keyring = KEYRINGS["file" if settings.kek is None else "environment"](settings)
    assert keyring.current_id
    return keyring
