"""Where a workspace lies on this machine, and whose it is.

    DIRECTORY/<tenant>/<workspace>/files     what the sandbox sees
                                   staging   files on their way in
                                   trash     what is being removed
                                   index     what each file looked like at the last snapshot
                                   clean     which snapshot the files equal, if any

Only `files` is ever open to a sandbox. Above it, directories can be passed through but not listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from agentos.kernel.ids import TenantId

# Accounts 0x40000000 to 0x7fffffff: far above those of people, services and containers, and still
# positive for programs that keep an account in a signed number.
_FIRST_UID, _UID_BITS = 0x40000000, 30


def tenant_uid(tenant_id: TenantId) -> int:
    """The account that owns a tenant's files, the same on each machine, in no password file.

    Two of n tenants share one with a probability of about n²/2³¹; what keeps tenants apart is the
    sandbox, which shows a command the files of its own workspace only.
    """
    digest = sha256(tenant_id.bytes).digest()
    return _FIRST_UID | int.from_bytes(digest[:4]) & ((1 << _UID_BITS) - 1)


def workspace_uid(tenant_id: TenantId) -> int | None:
    """The account for a tenant's files if this process may give files away, else None."""
    return tenant_uid(tenant_id) if os.geteuid() == 0 else None


def boot_id() -> str:
    """Names the time since the machine started: a power cut may undo what was not synced."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Places:
    """The files and directories that belong to one workspace."""

    base: Path

    @classmethod
    def of(cls, directory: Path, tenant_id: TenantId, workspace_id: UUID) -> Places:
        return cls(directory / str(tenant_id) / str(workspace_id))

    @property
    def files(self) -> Path:
        return self.base / "files"

    @property
    def staging(self) -> Path:
        return self.base / "staging"

    @property
    def trash(self) -> Path:
        return self.base / "trash"

    @property
    def index(self) -> Path:
        return self.base / "index"

    @property
    def marker(self) -> Path:
        return self.base / "clean"

    def make(self, uid: int | None) -> None:
        """Makes what is missing, and sets owner and mode of the rest right."""
        passable = 0o700 if uid is None else 0o711
        for place in (self.base.parent.parent, self.base.parent, self.base):
            place.mkdir(mode=passable, parents=True, exist_ok=True)
            place.chmod(passable)
        for place in (self.staging, self.trash, self.files):
            place.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self.files, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if uid is not None:
                os.fchown(handle, uid, uid)
            os.fchmod(handle, 0o700)
        finally:
            os.close(handle)

    def mark_dirty(self) -> None:
        """From here on nobody may believe that the files equal a snapshot."""
        self.marker.unlink(missing_ok=True)

    def mark_clean(self, snapshot_id: UUID | None) -> None:
        """The files equal this snapshot; None: there are none."""
        staged = self.staging / "clean"
        staged.write_text(_mark(snapshot_id))
        staged.rename(self.marker)

    def is_clean(self, snapshot_id: UUID | None) -> bool:
        try:
            return self.marker.read_text() == _mark(snapshot_id)
        except FileNotFoundError:
            return False


def _mark(snapshot_id: UUID | None) -> str:
    return f"{boot_id()} {snapshot_id}"
