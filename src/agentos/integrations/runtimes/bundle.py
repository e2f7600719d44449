"""The sidecar with all it needs, in one directory that every account can read.

AgentOS may be installed where a team's account cannot go, such as below /root, and has far more in
it than a sandbox should. So the sidecar's own modules and the few distributions that they import
are copied out; the directory is named by a hash of its content, and made once.
"""

from __future__ import annotations

import asyncio
import compileall
import fcntl
import os
import py_compile
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agentos.integrations.runtimes.base import SIDECAR_DIRECTORY, RuntimeMissing
from agentos.integrations.runtimes.parts import needed_files
from agentos.integrations.sandboxes.base import Mount

_STAGING = ".new-"
_MAIN = """import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Interpreter:
    """A Python that fits the compiled parts of the bundle, and can be run inside."""

    program: str
    # What of this machine it needs inside, beyond /usr.
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """A bundle in use: it is not removed before it is closed, or this process ends."""

    path: Path
    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]
    _handle: int

    def close(self) -> None:
        os.close(self._handle)


async def sidecar_bundle(directory: Path, entry: str = "agentos.sidecar.main:main") -> Bundle:
    """The bundle of this version in `directory`, made unless it is there; others that nobody uses
    are removed. Raises RuntimeMissing."""
    return await asyncio.to_thread(_bundle, directory, entry)


def _bundle(directory: Path, entry: str) -> Bundle:
    interpreter = find_interpreter()
    files = _contents(entry)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    with _locked(directory):
        path = directory / _name(files)
        if not path.is_dir():
            _make(directory, path, files)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_SH)
        _remove_unused(directory)
    # Apart from the system's packages, and from every variable that could lead it astray.
    argv = (interpreter.program, "-I", "-S", SIDECAR_DIRECTORY)
    return Bundle(path, argv, interpreter.mounts, handle)


def _contents(entry: str) -> dict[str, bytes]:
    module, _, function = entry.partition(":")
    files = {n: p.read_bytes() for n, p in needed_files(module.rpartition(".")[0]).items()}
    return files | {"__main__.py": _MAIN.format(module=module, function=function).encode()}


def _name(files: dict[str, bytes]) -> str:
    digest = sha256(_VERSION.encode())
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:32]


def _make(directory: Path, path: Path, files: dict[str, bytes]) -> None:
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=directory))
    for name, data in files.items():
        place = staging / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    compileall.compile_dir(
        staging,
        quiet=2,
        # Where it will be seen, for messages of errors.
        ddir=SIDECAR_DIRECTORY,
        # What never changes need not be compared with its source.
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for place in [staging, *staging.rglob("*")]:
        place.chmod(0o755 if place.is_dir() else 0o644)
    staging.rename(path)


def _remove_unused(directory: Path) -> None:
    """What no process holds. Whoever holds one took hold of it under the same lock as ours."""
    for path in directory.iterdir():
        if not path.is_dir():
            continue
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(handle)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time; the lock ends with the process."""
    handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def find_interpreter(system: Path = Path("/usr/bin"), prefix: Path | None = None) -> Interpreter:
    """The system's Python of our version, or else our own, where all accounts can reach it."""
    program = system / f"python{_VERSION}"
    if program.exists():
        return Interpreter(str(program))
    own = Path(sys.base_prefix if prefix is None else prefix)
    program = own / "bin" / f"python{_VERSION}"
    if not program.exists() or not _reachable(own):
        raise RuntimeMissing(
            f"There is no Python {_VERSION} that a team's account can run.",
            hint=f"Install python{_VERSION} with this system's package manager.",
        )
    inside = own.is_relative_to("/usr")
    return Interpreter(str(program), () if inside else (Mount(own, str(own)),))


def _reachable(path: Path) -> bool:
    """Whether every account may look into it."""
    real = path.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in [real, *real.parents])
