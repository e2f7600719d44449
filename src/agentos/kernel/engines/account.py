"""The system account the engines run as. PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from agentos.kernel.errors import SetupError

_ACCOUNT = "agentos"
_FALLBACK = "nobody"
_USERADD = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _ACCOUNT)
# Another process may hold the lock on /etc/passwd while it creates the same account.
_CREATE_PATIENCE = 5.0


class DataDirectoryUnusable(SetupError):
    """The data directory cannot be used."""

    code = "data_directory_unusable"


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int


def engine_account() -> Account | None:
    """The account engines must be started as; None when our own will do."""
    if os.geteuid() != 0:
        return None
    return _find(_ACCOUNT) or _create() or _fallback()


def can_reach(path: Path, account: Account | None) -> bool:
    """Whether `account` may search every directory on the way to `path`."""
    return blocked_by(path, account) is None


def blocked_by(path: Path, account: Account | None) -> Path | None:
    """The first directory on the way to `path` that `account` may not search."""
    if account is None or account.uid == os.geteuid():
        return None
    real = path.resolve()
    for place in [*reversed(real.parents), real]:
        if place.is_dir() and not _may_search(place.stat(), account):
            return place
    return None


def create_data_directory(data_dir: Path, account: Account | None) -> Path:
    """Make `data_dir` unless it exists, check that the engines can use it, return its real path.

    Directories that exist keep their mode: they are the user's, not ours.
    """
    real = data_dir.expanduser().resolve()
    if not real.is_dir():
        try:
            real.parent.mkdir(parents=True, exist_ok=True)
            make_directory(real, mode=0o700 if account is None else 0o711)
        except OSError as error:
            raise DataDirectoryUnusable(
                f"The data directory {real} cannot be created: {error.strerror}.",
                hint="Choose a directory you may write to, or create it first.",
            ) from error
    _check_usable(real, account)
    return real


def make_directory(path: Path, *, mode: int, owner: Account | None = None) -> None:
    """Create one directory of ours with exactly this mode, whatever the umask; keep an old one."""
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        return
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)


def _check_usable(data_dir: Path, account: Account | None) -> None:
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise DataDirectoryUnusable(
            f"The data directory {data_dir} is not writable for you.",
            hint="Run as the user who created it, or choose another data directory.",
        )
    blocker = blocked_by(data_dir, account)
    if account is not None and blocker is not None:
        raise DataDirectoryUnusable(
            f"The engines run as the account {account.name} (PostgreSQL refuses to run as root), "
            f"which may not enter {blocker} on the way to the data directory {data_dir}.",
            hint=f"Choose a data directory elsewhere, such as /var/lib/agentos, run as an "
            f"ordinary user, or allow passage with `chmod o+x {blocker}`.",
        )


def _may_search(info: os.stat_result, account: Account) -> bool:
    if info.st_uid == account.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == account.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)


def _find(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _create() -> Account | None:
    if shutil.which(_USERADD[0]) is None:
        return None
    give_up = time.monotonic() + _CREATE_PATIENCE
    while True:
        outcome = subprocess.run(_USERADD, capture_output=True, check=False)
        account = _find(_ACCOUNT)
        # Failure with the account present means that another process was faster.
        if account is not None or outcome.returncode == 0 or time.monotonic() > give_up:
            return account
        time.sleep(0.1)


def _fallback() -> Account:
    account = _find(_FALLBACK)
    if account is None:
        raise SetupError(
            "PostgreSQL refuses to run as root, and there is no other account to run it as.",
            hint=f"Create one with `{' '.join(_USERADD)}`, or run AgentOS as an ordinary user.",
        )
    return account
