"""Sign-ins remembered on this machine: one per gateway, in a file only its owner can read."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from agentos.kernel.errors import SetupError


@dataclass(frozen=True, slots=True)
class SignIn:
    """How to get in at one gateway: an API key, or a pair of tokens."""

    api_key: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float = 0.0
    # Named at every refresh, so that the sign-in never moves to another tenant unasked.
    tenant: str | None = None
    email: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """All sign-ins by the address they are for. A credential is never sent to another address."""

    current: str | None = None
    sign_ins: dict[str, SignIn] = field(default_factory=dict)

    def with_sign_in(self, url: str, sign_in: SignIn) -> Profile:
        return Profile(url, {**self.sign_ins, url: sign_in})

    def without(self, url: str) -> Profile:
        left = {where: how for where, how in self.sign_ins.items() if where != url}
        return Profile(self.current if self.current in left else next(iter(left), None), left)


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "agentos" / "credentials.json"


def load() -> Profile:
    place = path()
    try:
        with place.open() as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise SetupError(
                    f"{place} can be read by other users.", hint=f"Run: chmod 600 {place}"
                )
            stored = json.load(file)
        sign_ins = {url: SignIn(**how) for url, how in stored["sign_ins"].items()}
        return Profile(stored["current"], sign_ins)
    except FileNotFoundError:
        return Profile()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SetupError(
            f"{place} cannot be understood.", hint=f"Remove it and sign in again: rm {place}"
        ) from None


def save(profile: Profile) -> None:
    """All of the new file or all of the old one, whenever the machine stops."""
    place = path()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(profile), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(place)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextmanager
def locked() -> Iterator[None]:
    """One process at a time: a refresh token that two use at once ends the sign-in of both."""
    place = path().with_suffix(".lock")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remember(url: str, sign_in: SignIn) -> None:
    with locked():
        save(load().with_sign_in(url, sign_in))


def forget(url: str) -> None:
    with locked():
        save(load().without(url))


def rename_tenant(url: str, slug: str) -> None:
    """Keeps up with a tenant whose slug was changed."""
    with locked():
        profile = load()
        known = profile.sign_ins.get(url)
        if known is not None and known.tenant is not None:
            save(replace(profile, sign_ins={**profile.sign_ins, url: replace(known, tenant=slug)}))
