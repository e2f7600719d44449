"""Teams in the sandbox of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.integrations.runtimes.conformance import EAT, RuntimeConformance
from tests.integrations.runtimes.teams import MIB, PATIENCE, Teams

from agentos.integrations.runtimes.base import Runtime, RuntimeMissing
from agentos.integrations.runtimes.local import Local
from agentos.integrations.sandboxes.base import Mount
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import find_cgroups
from agentos.integrations.sandboxes.choosing import Refusing
from agentos.integrations.sandboxes.landlock import Landlock


@pytest.fixture
def local() -> Local:
    return Local(Bubblewrap(find_cgroups()))


class TestLocal(RuntimeConformance):
    @pytest.fixture
    def runtime(self, local: Local) -> Runtime:
        return local


async def test_nothing_less_than_bubblewrap(teams: Teams) -> None:
    for sandbox in (Landlock(), Refusing("there is none")):
        local = Local(sandbox)
        with pytest.raises(RuntimeMissing, match="need bubblewrap") as caught:
            await local.check()
        assert caught.value.advice is not None
        assert "apt-get install bubblewrap" in caught.value.advice
        with pytest.raises(RuntimeMissing):
            await local.start(teams().place())


async def test_memory_without_control_groups(teams: Teams) -> None:
    """Then each process is limited on its own, and what they take is summed up."""
    async with teams().running(Local(Bubblewrap(None))) as (running, inside):
        before = await running.memory_bytes()
        await inside("import sys; sys.held = bytearray(b'x' * (96 << 20))")
        after = await running.memory_bytes()
        assert before is not None
        assert after is not None
        assert 64 * MIB < after - before < 160 * MIB
        inside.send(EAT)
        ended = await running.ended()
    assert ended.exit_code == 1
    assert "MemoryError" in ended.output


async def test_what_the_interpreter_needs(teams: Teams, place: Path) -> None:
    shown = place / "prefix"
    shown.mkdir(mode=0o755)
    (shown / "here").write_text("seen")
    local = Local(Bubblewrap(find_cgroups()), (Mount(shown, "/opt/some/prefix"),))
    async with teams().running(local) as (_, inside):
        assert await inside("result = open('/opt/some/prefix/here').read()") == "seen"


async def test_a_start_that_is_cancelled_leaves_nothing(local: Local, teams: Teams) -> None:
    team = teams()
    argv = ("/bin/sh", "-c", "sleep 87654")
    for _ in range(5):
        starting = asyncio.create_task(local.start(team.place(argv=argv)))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
    assert not _running(b"87654")


KEPT_BY_A_WORKER = """
import asyncio, sys
sys.path[:0] = {path!r}
from pathlib import Path
from uuid import UUID
from agentos.integrations.runtimes.base import Place, Resources
from agentos.integrations.runtimes.local import Local
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import find_cgroups

async def main():
    home = Path({home!r})
    place = Place(
        UUID(int=1), UUID(int=2), home / "workspace", {uid!r}, home / "run", home / "agents",
        home / "sidecar", ("/bin/sh", "-c", "setsid sleep 76543 & sleep 76543"),
        Resources(256 << 20, 100, 64),
    )
    await Local(Bubblewrap(find_cgroups())).start(place)
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_places_end_with_their_worker(local: Local, teams: Teams) -> None:
    team = teams()
    program = KEPT_BY_A_WORKER.format(path=sys.path, home=str(team.home), uid=team.uid)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await worker.stdout.readline() == b"started\n"
        # The last one may still be on its way.
        while len(_running(b"76543")) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    async with asyncio.timeout(PATIENCE):
        while _running(b"76543"):  # noqa: ASYNC110 - they are nobody's children here
            await asyncio.sleep(0.01)
    await local.sweep(frozenset())
    cgroups = find_cgroups()
    left = [] if cgroups is None else [p for base in cgroups.bases for p in base.place.iterdir()]
    assert not [place for place in left if place.name.startswith(f"{worker.pid}-")]


def _running(word: bytes) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if word in line and int(place.name) != os.getpid() and b"python" not in line:
            found.append(int(place.name))
    return found
