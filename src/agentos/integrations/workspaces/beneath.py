"""Files beneath a directory that somebody hostile may be changing at the same moment.

Nothing here goes by a path from the root of the machine: the kernel itself resolves each path
beneath an open directory and refuses what leads out of it, at the moment of opening.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_OPENAT2 = 437  # the same on x86_64 and aarch64
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
# The kernel answers EAGAIN when anything was renamed while it walked a `..` of a link.
_ATTEMPTS = 1000


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_How),
    ctypes.c_size_t,
)
_SIZE = ctypes.sizeof(_How)
# A pipe or a terminal in a file's place must neither block the opening nor become ours.
_SAFE = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@lru_cache(maxsize=256)
def _how(flags: int, mode: int, follow: bool) -> _How:
    """How to open; the kernel only reads it, so that one serves all."""
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS)
    extra = os.O_CLOEXEC if flags & os.O_PATH else _SAFE
    return _How(flags | extra, mode, resolve)


def open_beneath(
    directory: int, path: bytes, flags: int, mode: int = 0, *, follow: bool = True
) -> int:
    """Opens `path` beneath `directory`; OSError with EXDEV or ELOOP if it leads out of it.

    Without `follow`, a symbolic link anywhere in the path is an ELOOP.
    """
    how = ctypes.byref(_how(flags, mode, follow))
    for _ in range(_ATTEMPTS):
        handle = _syscall(_OPENAT2, directory, path, how, _SIZE)
        if handle >= 0:
            return int(handle)
        failed = ctypes.get_errno()
        if failed not in (errno.EAGAIN, errno.EINTR):
            raise OSError(failed, os.strerror(failed), os.fsdecode(path))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fsdecode(path))


@contextmanager
def opened(handle: int) -> Iterator[int]:
    """Closes `handle` at the end."""
    try:
        yield handle
    finally:
        os.close(handle)


def directory_beneath(directory: int, path: bytes, *, follow: bool = False) -> int:
    """Opens a directory for listing; links are followed only if told to."""
    return open_beneath(directory, path, os.O_RDONLY | os.O_DIRECTORY, follow=follow)


def open_root(root: os.PathLike[str]) -> int:
    """Opens the root itself. What leads to it belongs to us, so a plain path is safe."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def change_mode(directory: int, name: bytes, mode: int) -> None:
    """Sets the mode of what `name` itself is; a symbolic link in its place is an OSError."""
    handle = open_beneath(directory, name, os.O_PATH | os.O_NOFOLLOW, follow=False)
    with opened(handle):
        # chmod takes no O_PATH handle; this name of it cannot be changed by anyone else.
        os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 - it is no path


def parts_of(path: bytes) -> tuple[bytes, bytes]:
    """The directory that holds `path` (`.` for the root), and its name there."""
    head, _, name = path.rpartition(b"/")
    return head or b".", name
