"""Brings agent CLIs onto this machine with npm, so that half of one is never seen."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agentos.integrations.agents.errors import InstallFailed, NpmMissing
from agentos.integrations.agents.packages import Package, packages

# Half a gigabyte has to come through a slow line.
_NPM_SECONDS = 1800.0
_LOCK_PAUSE = 0.2
_TAIL_LINES = 8
_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")

Say = Callable[[str], None]


async def install(names: Iterable[str], directory: Path, say: Say) -> None:
    """Installs what is missing of these agent CLIs, in the versions that are pinned.

    Others may do the same at the same time. Raises UnknownAgent, UnsupportedMachine, NpmMissing,
    InstallFailed.
    """
    wanted = packages(names)
    if all(package.installed(directory) for package in wanted.values()):
        return
    try:
        _make_readable(directory)
        async with _alone(directory, say):
            missing = {n: p for n, p in wanted.items() if not p.installed(directory)}
            if missing:
                await _bring(missing, directory, say)
    except OSError as error:
        raise InstallFailed(
            f"Agent CLIs cannot be installed in {directory}: {error.strerror or error}.",
            hint="Set AGENTOS_AGENTS_DIR to a directory that this account may write, on a disk with 1 GB free.",
        ) from error


async def _bring(missing: dict[str, Package], directory: Path, say: Say) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NpmMissing()
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=directory))
    try:
        for name, package in missing.items():
            say(f"Installing {name} {package.version}")
        await _run_npm(npm, staging, [package.npm_spec for package in missing.values()])
        for name, package in missing.items():
            # npm leaves out what is not for this machine, and says nothing.
            if not package.installed(staging):
                raise _failed([package.npm_spec], f"npm ended well, but {name} is not there.")
        for package in missing.values():
            _put_in_place(package, staging, directory)
    finally:
        await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)


async def _run_npm(npm: str, staging: Path, specs: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        npm,
        *("install", *_OPTIONS, "--prefix", str(staging), *specs),
        cwd=staging,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_NPM_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise _failed(specs, f"npm was not done after {_NPM_SECONDS:.0f} seconds.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        tail = "\n".join(output.decode(errors="replace").splitlines()[-_TAIL_LINES:])
        raise _failed(specs, f"npm ended with exit code {process.returncode}:\n{tail}")


def _failed(specs: list[str], why: str) -> InstallFailed:
    by_hand = shlex.join(["npm", "install", "--ignore-scripts", *specs])
    return InstallFailed(why, hint=f"See what it says by hand: `cd $(mktemp -d) && {by_hand}`.")


def _put_in_place(package: Package, staging: Path, directory: Path) -> None:
    """Moves a package where it belongs; one that is there gives way.

    A program that runs keeps the file it was started from.
    """
    source, target = package.folder(staging), package.folder(directory)
    _let_others_read(source)
    for folder in reversed([f for f in target.parents if f.is_relative_to(directory)]):
        _make_readable(folder)
    if target.exists():
        target.rename(staging / "former")
        source.rename(target)
        shutil.rmtree(staging / "former", ignore_errors=True)
    else:
        source.rename(target)


def _let_others_read(folder: Path) -> None:
    """Whatever the umask and the package say: teams run under accounts of their own."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def _make_readable(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != 0o755:
        folder.chmod(0o755)


@asynccontextmanager
async def _alone(directory: Path, say: Say) -> AsyncIterator[None]:
    """Waits until no other process installs there."""
    handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(handle):
            say("Waiting for another installation to end")
            while not _taken(handle):  # noqa: ASYNC110 -- another process has it
                await asyncio.sleep(_LOCK_PAUSE)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True
