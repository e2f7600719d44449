"""One AgentOS per data directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from agentos.kernel.errors import SetupError


class DataDirectoryInUse(SetupError):
    """Another AgentOS is running on this data directory."""

    code = "data_directory_in_use"


class DataDirectoryLock:
    """Holds `<data_dir>/agentos.lock` from enter to exit; the kernel frees it if we are killed."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "agentos.lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode().strip()
            os.close(descriptor)
            raise self._in_use(holder) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is None:
            return
        # The file stays: removing it would let a waiting process lock a name that is gone.
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _in_use(self, holder: str) -> DataDirectoryInUse:
        who = f"process {holder}" if holder else "another process"
        how = f"with `kill {holder}`" if holder else "first"
        return DataDirectoryInUse(
            f"AgentOS is already running on {self.path.parent} ({who}).",
            hint=f"Use that one, stop it {how}, or choose another data directory.",
        )
