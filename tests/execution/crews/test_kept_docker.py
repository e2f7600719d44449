"""Teams of the real Claude Code in containers of a real Docker engine, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.conftest import Engines
from tests.execution.crews.kept_lab import CLAUDE_CODE, Crew, open_lab
from tests.integrations.runtimes.engine import DockerEngine, docker_engine
from tests.sidecar.agents import installed_agents

KIT = CLAUDE_CODE
# Whether a TCP port answers, as the agent's shell sees it.
_REACHES = (
    "python3 -c 'import socket,sys; s=socket.socket(); s.settimeout(2); "
    'print("reached" if s.connect_ex((sys.argv[1], int(sys.argv[2]))) == 0 else "closed")\' '
)


@pytest.fixture(scope="module")
def engine() -> Iterator[DockerEngine]:
    with docker_engine() as engine:
        yield engine


@pytest.fixture(scope="module", autouse=True)
def agents() -> None:
    installed_agents("claude-code")


async def test_two_tenants_teams_of_one_name_side_by_side(
    engines: Engines, engine: DockerEngine
) -> None:
    async with open_lab(engines) as lab:
        lab.settings.docker_host = engine.url
        lab.settings.docker_image = engine.image
        lab.settings.docker_mounts = engine.mounts
        async with lab.worker():
            crews = [await lab.crew(KIT, runtime="docker") for _ in range(2)]
            for each in crews:
                await each.until("running")
            await _answer_side_by_side(crews)
            ours, theirs = crews
            listed = engine.docker("ps", "--no-trunc", "--format", "{{.Labels}}")
            assert str(ours.id) in listed
            assert str(theirs.id) in listed
            assert await _shown(ours, "ls") == "ours.txt"
            other = _address(engine, theirs)
            gateway_port = lab.gateway.url.rpartition(":")[2]
            nats_port = lab.engines.nats.url.rpartition(":")[2]
            for host, port in (
                ("127.0.0.1", gateway_port),
                ("172.17.0.1", gateway_port),
                ("172.17.0.1", nats_port),
                (other, "1"),
            ):
                assert await _shown(ours, f"{_REACHES}{host} {port}") == "closed", (host, port)
            await ours.call("POST", "/stop")
            await ours.until("stopped")
            assert str(ours.id) not in engine.docker("ps", "-a", "--format", "{{.Labels}}")
            await ours.call("POST", "/deploy")
            await ours.until("running")
            # The workspace and the conversation have survived.
            assert await _shown(ours, "ls") == "ours.txt"
    assert str(theirs.id) not in engine.docker("ps", "-a", "--format", "{{.Labels}}")


async def _answer_side_by_side(crews: list[Crew]) -> None:
    answers = await asyncio.gather(
        *(
            crew.answer(KIT.shell(f"echo x > {name}.txt"), f"say {name}")
            for crew, name in zip(crews, ("ours", "theirs"), strict=True)
        )
    )
    assert answers == ["ours", "theirs"]


async def _shown(crew: Crew, command: str) -> str:
    """What a command prints that the agent runs."""
    await crew.answer(KIT.shell(f"{command} > .agentos/shown 2>&1"), "say done")
    return (crew.workspace / ".agentos/shown").read_text().strip()


def _address(engine: DockerEngine, crew: Crew) -> str:
    found = engine.docker("ps", "-q", "--filter", f"label=agentos.team={crew.id}").split()
    shown = engine.docker(
        "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", found[0]
    )
    return shown.strip() or "172.18.0.2"
