"""A real Docker engine for the tests: Debian's, started by hand, shared by all test processes.

No image is needed: an empty one is enough where the containers see this machine's /usr.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

IMAGE = "agentos-test-empty"
_HOME = Path(tempfile.gettempdir(), f"aos-docker-{os.getuid()}")
_SETUP = Path(__file__).parents[3] / "tools" / "setup_docker.py"
_PATIENCE = 60.0


@dataclass(frozen=True)
class DockerEngine:
    url: str
    image: str
    mounts: list[str]

    def docker(self, *arguments: str) -> str:
        """What the engine's own command line says."""
        done = subprocess.run(
            ["docker", "-H", self.url, *arguments],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout


@contextmanager
def docker_engine() -> Iterator[DockerEngine]:
    _install()
    _HOME.mkdir(mode=0o700, exist_ok=True)
    engine = DockerEngine(f"unix://{_HOME}/docker.sock", IMAGE, _system())
    with (_HOME / "users").open("w") as users:
        with _alone():
            if not _answers(engine):
                _start(engine)
            # As long as one process holds this, nobody stops the engine.
            fcntl.flock(users, fcntl.LOCK_SH)
        yield engine
        with _alone():
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            _stop()


def _install() -> None:
    subprocess.run([sys.executable, str(_SETUP)], check=True)
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        reason = "there is no Docker engine that could be started"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def _system() -> list[str]:
    """This machine's programs, which live below /usr. Docker puts its own into /sbin."""
    links = [n for n in ("/bin", "/lib", "/lib64") if Path(n).exists()]
    return ["/usr:/usr", *(f"{Path(name).resolve()}:{name}" for name in links)]


@contextmanager
def _alone() -> Iterator[None]:
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(engine: DockerEngine) -> None:
    options = {
        "--storage-driver": "overlay2",
        "--data-root": _HOME / "data",
        "--exec-root": _HOME / "exec",
        "--pidfile": _HOME / "pid",
        "-H": engine.url,
    }
    (_HOME / "pid").unlink(missing_ok=True)
    with (_HOME / "log").open("wb") as log:
        # Not a child of this process: the last one to need it ends it.
        subprocess.run(
            ["setsid", "--fork", "dockerd", *(str(w) for pair in options.items() for w in pair)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + _PATIENCE
    while not _answers(engine):
        if time.monotonic() > deadline:
            pytest.fail(f"dockerd does not start: {(_HOME / 'log').read_text()[-2000:]}")
        time.sleep(0.1)
    with tempfile.NamedTemporaryFile(suffix=".tar") as empty:
        subprocess.run(["tar", "-cf", empty.name, "-T", "/dev/null"], check=True)
        engine.docker("import", empty.name, IMAGE)


def _answers(engine: DockerEngine) -> bool:
    try:
        engine.docker("version")
    except subprocess.CalledProcessError:
        return False
    return True


def _stop() -> None:
    pid = int((_HOME / "pid").read_text())
    ended = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        os.close(ended)
    shutil.rmtree(_HOME / "data", ignore_errors=True)
