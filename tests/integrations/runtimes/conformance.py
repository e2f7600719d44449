"""What holds for each runtime. A test file per runtime takes these as its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from tests.conftest import Engines
from tests.integrations.runtimes.stand_in import BYE
from tests.integrations.runtimes.teams import MIB, PATIENCE, RESOURCES, ROOT, Teams

from agentos.integrations.runtimes.base import Runtime, StartFailed

SEEN = """
import os
def read(path):
    with open(path) as file:
        return file.read()
result = {
    "agent": os.popen("/opt/agents/an-agent").read(),
    "cwd": os.getcwd(),
    "env": dict(os.environ),
    "run": sorted(os.listdir("/run/agentos")),
    "uid": os.getuid(),
    "capabilities": [l.split()[1] for l in read("/proc/self/status").splitlines() if l.startswith("Cap")],
}
"""

WRITABLE = """
import os
result = []
for path in ("/", "/usr", "/opt/agents", "/opt/sidecar", "/run/agentos", "/etc", "/workspace", "/tmp"):
    try:
        with open(path + "/made", "w") as file:
            file.write("x")
        result.append(path)
    except OSError:
        pass
"""

# Whether a connection comes about. Answers that only say "nobody listens" are no connection either.
CONNECTS = """
import socket
result = []
for host, port in {targets!r}:
    try:
        socket.create_connection((host, port), timeout=1).close()
        result.append([host, port])
    except OSError:
        pass
"""

SERVE = """
import socket, sys
sys.kept = socket.create_server(("0.0.0.0", 18080))
result = None
"""

# Its own addresses, as it sees them.
ADDRESSES = r"""
import re
with open("/proc/net/fib_trie") as file:
    found = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", file.read())
result = sorted(set(found))
"""

# Who could be asked to pass something on: routers, and the first address of each network.
ROUTERS = """
import socket
result = []
with open("/proc/net/route") as file:
    for line in file.read().splitlines()[1:]:
        network, router = (bytes.fromhex(word)[::-1] for word in line.split()[1:3])
        first = int.from_bytes(network, "big") + 1
        result += [socket.inet_ntoa(router), socket.inet_ntoa(first.to_bytes(4, "big"))]
"""

PROCESSES = """
import os
result = []
for pid in os.listdir("/proc"):
    if pid.isdigit():
        with open("/proc/" + pid + "/cmdline") as file:
            result.append(file.read())
"""

EAT = """
held = bytearray(600 << 20)
held[::4096] = b"x" * len(held[::4096])
"""


class RuntimeConformance:
    """The suite. `runtime` is a fixture of the file that takes it."""

    async def test_it_can_run_here(self, runtime: Runtime) -> None:
        await runtime.check()

    async def test_what_is_seen_inside(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        (team.run_directory / "spec.json").write_text("{}")
        async with team.running(runtime) as (_, inside):
            seen = await inside(SEEN)
        assert seen["agent"] == "an agent\n"
        assert seen["cwd"] == "/workspace"
        assert {"spec.json", "test.sock"} <= set(seen["run"])
        assert seen["uid"] != 0
        assert {int(mask, 16) for mask in seen["capabilities"]} == {0}

    async def test_the_environment_is_its_own(
        self, runtime: Runtime, teams: Teams, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENTOS_SECRET_KEY", "of the worker")
        async with teams().running(runtime) as (_, inside):
            env = (await inside(SEEN))["env"]
        assert env["FLAVOUR"] == "vanilla"
        assert env["HOME"] == "/workspace"
        assert "of the worker" not in env.values()
        assert set(env) <= {"FLAVOUR", "HOME", "HOSTNAME", "LANG", "LC_CTYPE", "PATH", "PWD"}

    async def test_only_the_workspace_can_be_written(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        async with team.running(runtime) as (_, inside):
            assert await inside(WRITABLE) == ["/workspace", "/tmp"]
        assert (team.workspace / "made").read_text() == "x"
        if ROOT:
            assert (team.workspace / "made").stat().st_uid == team.uid

    async def test_how_it_ended(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, inside):
            waiting = asyncio.create_task(running.ended())
            cancelled = asyncio.create_task(running.ended())
            inside.send("import os; print('last words', flush=True); os._exit(3)")
            cancelled.cancel()
            ended = await waiting
            assert ended.exit_code == 3
            assert "exit code 3" in ended.reason
            assert ended.output.splitlines() == ["the stand-in has begun", "last words"]
            assert await running.ended() == ended

    async def test_much_output_leaves_the_last_of_it(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, inside):
            inside.send("import sys\nfor n in range(9000): print('line', n)\nsys.exit(0)")
            ended = await running.ended()
        lines = ended.output.splitlines()
        assert lines[-2:] == ["line 8998", "line 8999"]
        assert len(lines) == 50

    async def test_stopped_politely(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, _):
            await running.stop(PATIENCE)
            ended = await running.ended()
            assert ended.exit_code == BYE
            assert "stopped" in ended.reason
            assert "asked to leave" in ended.output
            await running.stop(PATIENCE)

    async def test_stopped_although_it_will_not(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, inside):
            await inside("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
            await running.stop(1)
            ended = await running.ended()
        assert "stopped" in ended.reason
        assert "asked to leave" not in ended.output

    async def test_stopped_at_once(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, _):
            await running.stop(0)
            assert "stopped" in (await running.ended()).reason
            assert await running.memory_bytes() is None

    async def test_nothing_is_left_of_what_it_started(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        async with team.running(runtime) as (running, inside):
            await inside(
                "import subprocess\n"
                "subprocess.Popen(['/bin/sh', '-c', 'setsid sleep 98765 & sleep 98765'])"
            )
            await running.stop(0)
        assert not [line for line in _command_lines() if b"98765" in line]

    async def test_memory_is_told(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, inside):
            before = await running.memory_bytes()
            await inside("import sys; sys.held = bytearray(b'x' * (96 << 20))")
            after = await running.memory_bytes()
        assert before is not None
        assert after is not None
        assert 64 * MIB < after - before < 160 * MIB

    async def test_memory_runs_out(self, runtime: Runtime, teams: Teams) -> None:
        async with teams().running(runtime) as (running, inside):
            inside.send(EAT)
            ended = await running.ended()
        assert ended.exit_code == 128 + signal.SIGKILL
        assert "ran out of memory" in ended.reason
        assert "256 MiB" in ended.reason

    async def test_too_many_processes(self, runtime: Runtime, teams: Teams) -> None:
        bomb = """
import os, signal
result = 0
children = []
try:
    while result < 500:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
        result += 1
except OSError:
    pass
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
"""
        resources = replace(RESOURCES, processes=20)
        async with teams().running(runtime, resources=resources) as (_, inside):
            assert 5 <= await inside(bomb) <= 20

    async def test_the_workspace_survives(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        async with team.running(runtime) as (running, inside):
            await inside("open('/workspace/note', 'w').write('kept')")
            await running.stop(PATIENCE)
        async with team.running(runtime) as (_, inside):
            assert await inside("result = open('/workspace/note').read()") == "kept"

    async def test_a_start_ends_the_earlier_one(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        async with team.running(runtime) as (first, _), team.running(runtime) as (_, inside):
            assert await inside("result = 1 + 1") == 2
            async with asyncio.timeout(PATIENCE):
                await first.ended()

    async def test_what_cannot_be_started(self, runtime: Runtime, teams: Teams) -> None:
        team = teams()
        missing = team.home / "missing"
        with pytest.raises(StartFailed):
            await runtime.start(team.place(sidecar=missing))
        async with team.running(runtime) as (_, inside):
            assert await inside("result = 1 + 1") == 2

    async def test_two_tenants_side_by_side(self, runtime: Runtime, teams: Teams) -> None:
        ours, theirs = teams(), teams()
        (theirs.workspace / "secret").write_text("theirs")
        async with ours.running(runtime) as (_, inside), theirs.running(runtime) as (_, other):
            addresses = await other(ADDRESSES)
            await other(SERVE)
            targets = [(address, 18080) for address in [*addresses, "127.0.0.1"]]
            assert await inside(CONNECTS.format(targets=targets)) == []
            assert await other(CONNECTS.format(targets=targets[-1:])) == [["127.0.0.1", 18080]]
            assert sum("/opt/sidecar" in line for line in await inside(PROCESSES)) <= 2
            paths = [str(theirs.workspace / "secret"), str(theirs.run_directory)]
            assert await inside(f"import os; result = [os.path.exists(p) for p in {paths}]") == [
                False,
                False,
            ]

    async def test_two_teams_of_one_tenant(self, runtime: Runtime, teams: Teams) -> None:
        tenant = uuid4()
        ours, theirs = teams(tenant), teams(tenant)
        async with ours.running(runtime) as (_, inside), theirs.running(runtime) as (_, other):
            await other("open('/workspace/secret', 'w').write('theirs')")
            assert await inside("import os; result = os.listdir('/workspace')") == []

    async def test_this_machine_cannot_be_reached(
        self, runtime: Runtime, teams: Teams, engines: Engines
    ) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as loopback,
            socket.create_server(("0.0.0.0", 0)) as everywhere,
        ):
            ports = [s.getsockname()[1] for s in (loopback, everywhere)]
            ports.append(urlsplit(engines.nats.url).port)
            async with teams().running(runtime) as (_, inside):
                hosts = {"127.0.0.1", *_addresses(), *await inside(ROUTERS)}
                targets = [(host, port) for host in hosts for port in ports]
                assert await inside(CONNECTS.format(targets=targets)) == []
                postgres = str(engines.postgres.socket_dir)
                assert not await inside(f"import os; result = os.path.exists({postgres!r})")

    async def test_sweeping(self, runtime: Runtime, teams: Teams) -> None:
        ours, forgotten = teams(), teams()
        async with ours.running(runtime) as (_, inside), forgotten.running(runtime) as (other, _):
            await runtime.sweep(frozenset({ours.team_id}))
            async with asyncio.timeout(PATIENCE):
                await other.ended()
            assert await inside("result = 1 + 1") == 2


def _addresses() -> list[str]:
    """How this machine is known to others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def _command_lines() -> list[bytes]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(place.read_bytes())
    return found
