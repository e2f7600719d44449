"""The embedded nats-server: started, killed, moved, started twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from agentos.kernel.bus import Bus, assert_sync_always
from agentos.kernel.bus_credentials import TEAM_LIFE, BusAuthority, BusCredentials
from agentos.kernel.engines import nats as engine
from agentos.kernel.engines.account import Account, engine_account
from agentos.kernel.engines.nats import BusAlreadyRunning, EmbeddedNats
from agentos.kernel.errors import Unavailable

AUTHORITY = BusAuthority(b"n" * 32)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Under /tmp and passable, because the engine runs as another account when we are root."""
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def embedded(data_dir: Path, notices: list[str] | None = None) -> EmbeddedNats:
    heard = notices if notices is not None else []
    return EmbeddedNats(data_dir, AUTHORITY, account=engine_account(), on_notice=heard.append)


@pytest.fixture
async def server(data_dir: Path) -> AsyncIterator[EmbeddedNats]:
    nats = embedded(data_dir)
    await nats.start()
    yield nats
    await nats.stop()


async def connect(server: EmbeddedNats, on_state: Callable[[str], None] | None = None) -> Bus:
    platform = AUTHORITY.platform_credentials()
    return await Bus.connect(server.url, platform, name="test", on_state=on_state)


async def test_starts_on_loopback_with_sync_always(server: EmbeddedNats) -> None:
    assert server.url.startswith("nats://127.0.0.1:")
    await assert_sync_always(server.monitor_url)
    bus = await connect(server)
    assert bus.is_connected
    await bus.close()


async def test_config_is_private_to_the_account(server: EmbeddedNats, data_dir: Path) -> None:
    info = (data_dir / "nats" / "server.conf").stat()
    assert stat.S_IMODE(info.st_mode) == 0o600
    account = engine_account()
    assert info.st_uid == (account.uid if account else os.geteuid())


async def test_survives_kill_9_with_the_same_url(server: EmbeddedNats) -> None:
    back = asyncio.Event()
    bus = await connect(server, lambda state: back.set() if state == "connected" else None)
    back.clear()
    await bus.ensure_events_stream(["session"])
    url = server.url
    stored = [f"e{n}" for n in range(50)]
    await asyncio.gather(
        *(bus.publish_durable("tenant.t1.session.created", b"x", dedupe_id=i) for i in stored)
    )
    pid = server.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        await back.wait()
    assert server.url == url
    assert server.process.pid != pid
    # Still stored: every id is known as a duplicate, so nothing is new.
    again = await asyncio.gather(
        *(bus.publish_durable("tenant.t1.session.created", b"x", dedupe_id=i) for i in stored)
    )
    assert not any(again)
    await bus.close()


async def test_ports_are_kept_for_the_next_run_unless_taken(data_dir: Path) -> None:
    first = embedded(data_dir)
    await first.start()
    await first.stop()
    second = embedded(data_dir)
    await second.start()
    await second.stop()
    assert (second.url, second.monitor_url) == (first.url, first.monitor_url)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", int(first.url.rpartition(":")[2])))
        thief.listen()
        third = embedded(data_dir)
        await third.start()
        await third.stop()
    assert third.url != first.url
    ports = json.loads((data_dir / "nats" / "ports.json").read_text())
    assert third.url.endswith(str(ports["client"]))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"client": 99999, "monitor": -1}', "\x00"])
async def test_a_broken_ports_file_is_replaced(data_dir: Path, content: str) -> None:
    (data_dir / "nats").mkdir()
    (data_dir / "nats" / "ports.json").write_text(content)
    account = engine_account()
    if account:
        os.chown(data_dir / "nats", account.uid, account.gid)
    nats = embedded(data_dir)
    await nats.start()
    await nats.stop()


async def test_two_servers_never_share_a_store(
    server: EmbeddedNats, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_PREDECESSOR_PATIENCE", 0.2)
    with pytest.raises(BusAlreadyRunning):
        await embedded(data_dir).start()


async def test_waits_for_a_predecessor_that_is_going(server: EmbeddedNats, data_dir: Path) -> None:
    successor = embedded(data_dir)
    starting = asyncio.create_task(successor.start())
    await asyncio.sleep(0.1)
    assert not starting.done()
    await server.stop()
    await starting
    assert successor.url == server.url
    await successor.stop()


async def test_binary_is_copied_where_the_account_cannot_reach_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(path: Path, account: Account | None) -> bool:
        return False

    monkeypatch.setattr(engine, "can_reach", unreachable)
    for _ in range(2):
        nats = embedded(data_dir)
        await nats.start()
        assert nats.process.argv[0] == str(data_dir / "engines" / "nats-server")
        await nats.stop()
    assert [file.name for file in (data_dir / "engines").iterdir()] == ["nats-server"]


async def test_revocations_are_in_force_after_a_restart(data_dir: Path) -> None:
    nats = embedded(data_dir)
    await nats.start()
    nats.keep_revocations({AUTHORITY.team_public_key("t1", "red"): 2_000_000_000})
    red = AUTHORITY.team_credentials("t1", "red", TEAM_LIFE)
    blue = AUTHORITY.team_credentials("t1", "blue", TEAM_LIFE)
    # It was told nothing while it ran.
    await (await Bus.connect(nats.url, red, name="red", timeout=5)).close()
    pid = nats.process.pid
    assert pid is not None
    back = asyncio.Event()
    bus = await connect(nats, lambda state: back.set() if state == "connected" else None)
    back.clear()
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        await back.wait()
    await bus.close()
    await refused(nats, red)
    await nats.stop()
    # By whoever starts it next, before anybody could tell it.
    successor = embedded(data_dir)
    await successor.start()
    await refused(successor, red)
    await (await Bus.connect(successor.url, blue, name="blue", timeout=5)).close()
    successor.keep_revocations({})
    await successor.stop()
    await successor.start()
    await (await Bus.connect(successor.url, red, name="red", timeout=5)).close()
    await successor.stop()


async def refused(server: EmbeddedNats, credentials: BusCredentials) -> None:
    with pytest.raises(Unavailable, match="Authorization Violation"):
        await Bus.connect(server.url, credentials, name="refused", timeout=1)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"U": "soon"}', '{"U": null}', "7"])
async def test_broken_revocations_do_not_keep_it_from_starting(
    data_dir: Path, content: str
) -> None:
    (data_dir / "nats").mkdir()
    (data_dir / "nats" / "revocations.json").write_text(content)
    account = engine_account()
    if account:
        os.chown(data_dir / "nats", account.uid, account.gid)
    nats = embedded(data_dir)
    await nats.start()
    await nats.stop()


async def test_stop_without_start_is_harmless(data_dir: Path) -> None:
    await embedded(data_dir).stop()
