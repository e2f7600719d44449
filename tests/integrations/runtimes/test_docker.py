"""Teams in containers of a real engine."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.integrations.runtimes.conformance import RuntimeConformance
from tests.integrations.runtimes.engine import DockerEngine
from tests.integrations.runtimes.teams import PATIENCE, RESOURCES, ROOT, Team, Teams

from agentos.integrations.runtimes import containers
from agentos.integrations.runtimes.base import AGENTS_DIRECTORY, RuntimeMissing
from agentos.integrations.runtimes.containers import MountInvalid
from agentos.integrations.runtimes.docker import Docker, Volume


@pytest.fixture
async def docker(engine: DockerEngine) -> AsyncIterator[Docker]:
    docker = Docker(engine.url, engine.image, str(uuid4()), engine.mounts)
    yield docker
    await docker.sweep(frozenset())
    await docker.close()


class TestDocker(RuntimeConformance):
    @pytest.fixture
    def runtime(self, docker: Docker) -> Docker:
        return docker


def _things(engine: DockerEngine, team_id: UUID) -> tuple[list[str], list[str]]:
    """The names of the containers and networks of a team."""
    wanted = f"label=agentos.team={team_id}"
    listed = engine.docker("ps", "-a", "--filter", wanted, "--format", "{{.Names}}")
    networks = engine.docker("network", "ls", "--filter", wanted, "--format", "{{.Name}}")
    return listed.split(), networks.split()


def _inspected(engine: DockerEngine, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(engine.docker("inspect", name))
    return found[0]


async def test_everything_is_labelled_and_goes_in_the_end(
    docker: Docker, engine: DockerEngine, teams: Teams
) -> None:
    team = teams()
    async with team.running(docker):
        listed, networks = _things(engine, team.team_id)
        assert listed == networks
        (name,) = listed
        assert name.startswith(f"agentos-{str(team.tenant_id)[:8]}-{str(team.team_id)[:8]}-")
        labels = _inspected(engine, name)["Config"]["Labels"]
        assert labels["agentos.tenant"] == str(team.tenant_id)
        assert labels["agentos.team"] == str(team.team_id)
    assert _things(engine, team.team_id) == ([], [])


async def test_the_container_is_hardened(
    docker: Docker, engine: DockerEngine, teams: Teams
) -> None:
    team = teams()
    async with team.running(docker):
        (name,), _ = _things(engine, team.team_id)
        config = _inspected(engine, name)["HostConfig"]
    assert config["ReadonlyRootfs"]
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert config["Memory"] == config["MemorySwap"] == RESOURCES.memory_bytes
    assert config["NanoCpus"] == 1_000_000_000
    assert config["PidsLimit"] == RESOURCES.processes
    assert not config["Privileged"]
    assert not config["PortBindings"]


def test_names_of_teams_that_were_made_together() -> None:
    """Ids of one millisecond begin alike."""
    tenant = uuid4()
    first = UUID("0192f0c1-0000-7000-8000-000000000001")
    second = UUID("0192f0c1-0000-7000-8000-000000000002")
    assert containers.name("a", tenant, first) != containers.name("a", tenant, second)
    assert containers.name("a", tenant, first) != containers.name("b", tenant, first)
    assert len(containers.name("a", tenant, first)) <= 63


async def test_what_a_dead_worker_left_is_removed_first(
    docker: Docker, engine: DockerEngine, teams: Teams
) -> None:
    team = teams()
    another = Docker(engine.url, engine.image, docker._installation, engine.mounts)
    await another.start(team.place(argv=("/bin/sleep", "600")))
    await another.close()
    before, _ = _things(engine, team.team_id)
    async with team.running(docker) as (_, inside):
        assert await inside("result = 1 + 1") == 2
        assert _things(engine, team.team_id) == (before, before)


async def test_other_installations_are_left_alone(
    docker: Docker, engine: DockerEngine, teams: Teams
) -> None:
    other = Docker(engine.url, engine.image, str(uuid4()), engine.mounts)
    team = teams()
    async with team.running(other) as (_, inside):
        await docker.sweep(frozenset())
        assert await inside("result = 1 + 1") == 2
    await other.close()


async def test_removed_by_somebody_else(docker: Docker, engine: DockerEngine, teams: Teams) -> None:
    team = teams()
    async with team.running(docker) as (running, _):
        (name,), _ = _things(engine, team.team_id)
        engine.docker("rm", "-f", name)
        async with asyncio.timeout(PATIENCE):
            ended = await running.ended()
    assert ended.reason


async def test_no_engine(teams: Teams, place: Path) -> None:
    docker = Docker(f"unix://{place}/none.sock", "some-image", "here")
    for attempt in (docker.check(), docker.start(teams().place()), docker.sweep(frozenset())):
        with pytest.raises(RuntimeMissing, match="There is no Docker engine") as caught:
            await attempt
        assert caught.value.advice is not None
        assert "DOCKER_HOST" in caught.value.advice
    await docker.close()


async def test_an_engine_that_may_not_be_used(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = Docker(engine.url, engine.image, "here")

    async def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refused)
    with pytest.raises(RuntimeMissing, match="may not use") as caught:
        await docker.check()
    assert caught.value.advice is not None
    assert "group docker" in caught.value.advice
    await docker.close()


async def test_no_image(engine: DockerEngine, teams: Teams) -> None:
    docker = Docker(engine.url, "agentos-no-such-image", "here", engine.mounts)
    team = teams()
    for attempt in (docker.check(), docker.start(team.place())):
        with pytest.raises(RuntimeMissing, match="no image agentos-no-such-image") as caught:
            await attempt
        assert caught.value.advice is not None
        assert "deploy/" in caught.value.advice
    assert _things(engine, team.team_id) == ([], [])
    await docker.close()


async def test_a_program_that_is_not_there(
    docker: Docker, engine: DockerEngine, teams: Teams
) -> None:
    team = teams()
    running = await docker.start(team.place(argv=("/no/such/program",)))
    ended = await running.ended()
    assert ended.exit_code == 127
    assert "/no/such/program" in ended.output
    assert _things(engine, team.team_id) == ([], [])


async def test_a_start_that_is_cancelled_leaves_nothing(
    docker: Docker, engine: DockerEngine, teams: Teams, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = teams()
    reached = asyncio.Event()
    real = docker._make_network

    async def made(config: dict[str, Any]) -> Any:
        network = await real(config)
        reached.set()
        return network

    monkeypatch.setattr(docker, "_make_network", made)
    starting = asyncio.create_task(docker.start(team.place()))
    await reached.wait()
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    assert _things(engine, team.team_id) == ([], [])


async def test_agents_of_the_image(docker: Docker, teams: Teams) -> None:
    """Where this machine has none, nothing is put over them."""
    team = teams()
    async with team.running(docker, agents=team.home / "none") as (_, inside):
        assert not await inside("import os; result = os.path.exists('/opt/agents')")


async def test_never_as_root(docker: Docker, teams: Teams) -> None:
    with pytest.raises(RuntimeMissing, match="not run as root"):
        await docker.start(replace(teams().place(), uid=0))


@pytest.mark.parametrize("mount", ["", "/usr", "usr:/usr", "/usr:usr", "/usr:/usr:rw"])
def test_mounts_that_make_no_sense(mount: str) -> None:
    with pytest.raises(MountInvalid) as caught:
        Docker("unix:///none", "image", "here", [mount])
    assert caught.value.advice is not None


async def test_the_account_has_a_name(docker: Docker, teams: Teams) -> None:
    team = teams()
    outside = team.home / "outside"
    outside.write_text("untouched")
    (team.run_directory / "passwd").symlink_to(outside)
    async with team.running(docker) as (_, inside):
        found = await inside("import os, pwd; result = pwd.getpwuid(os.getuid())[:]")
    assert found[0] == "agent"
    assert found[5] == "/workspace"
    assert outside.read_text() == "untouched"


async def test_files_on_a_volume_of_the_engine(engine: DockerEngine) -> None:
    """As for a worker in a container, that sees the volume elsewhere than the engine does."""
    name = f"aos-{uuid4()}"
    engine.docker("volume", "create", name)
    real = Path(json.loads(engine.docker("volume", "inspect", name))[0]["Mountpoint"])
    uid = 50_000_000 + os.getpid() if ROOT else None
    made = Team(real / "team", uuid4(), uid)
    docker = Docker(
        engine.url, engine.image, str(uuid4()), engine.mounts, Volume(name, Path("/elsewhere"))
    )
    shown = [
        containers.Shown("/elsewhere/team/workspace", "/workspace"),
        containers.Shown("/usr", "/usr"),
    ]
    sources = [each.source for each in await docker._seen_by_engine(shown)]
    assert sources == [str(made.workspace), "/usr"]
    await docker.close()
    shutil.rmtree(made.home)
    engine.docker("volume", "rm", name)


def test_agents_of_the_image_are_not_hidden_by_none(teams: Teams) -> None:
    team = teams()

    def targets() -> list[str]:
        return [each.target for each in containers.shown(team.place())]

    assert AGENTS_DIRECTORY in targets()
    for each in team.agents.iterdir():
        each.unlink()
    assert AGENTS_DIRECTORY not in targets()
    team.agents.rmdir()
    assert AGENTS_DIRECTORY not in targets()
