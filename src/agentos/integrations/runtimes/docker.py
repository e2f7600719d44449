"""Teams in containers of a Docker engine: a container for the leader, in a network of its own.

The network leads nowhere; the keeper's unix sockets are the only way out, so the engine runs on the
machine of the worker. Everything carries the labels of installation, tenant and team, and is removed
with the team's end; what a dead worker left is found by them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.networks import DockerNetwork

from agentos.integrations.runtimes import containers
from agentos.integrations.runtimes.base import Ended, Place, RuntimeMissing, StartFailed
from agentos.integrations.runtimes.endings import TAIL_LINES, Ending, Tail
from agentos.kernel.errors import AgentOSError

_T = TypeVar("_T")
_UNIX = "unix://"
_AWAY = 900  # what the client says for an engine that it cannot reach
_MISSING, _CONFLICT = 404, 409
# A start takes a third of a second; a busy engine may take its time, a hanging one may not.
_PATIENCE = 60.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Volume:
    """A volume of the engine that holds our data: for a worker that itself runs in a container."""

    name: str
    # Where this process sees it.
    directory: Path


class Docker:
    """Runs teams in containers. To be closed in the end."""

    def __init__(
        self,
        url: str,
        image: str,
        installation: str,
        mounts: list[str] | None = None,
        volume: Volume | None = None,
    ) -> None:
        """`mounts` are shown to all containers, read-only, as `host:container`."""
        self._url = url
        self._image = image
        self._installation = installation
        self._mounts = containers.parse_mounts(mounts or [])
        self._volume = volume
        self._opened: aiodocker.Docker | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        return "docker"

    async def close(self) -> None:
        """Containers go on without us."""
        for task in [*self._tasks]:
            task.cancel()
            await asyncio.wait({task})
        if self._opened is not None:
            await self._opened.close()
            await self._opened.session.close()
            self._opened = None

    async def check(self) -> None:
        async with self.asking():
            await self._client.version()
            try:
                await self._client.images.inspect(self._image)
            except aiodocker.DockerError as error:
                raise self._without_image(error) from error

    async def start(self, place: Place) -> _Container:
        marks = containers.labels(self._installation, place.tenant_id, place.team_id)
        called = containers.name(self._installation, place.tenant_id, place.team_id)
        async with self.asking():
            await self._remove(containers.TEAM, str(place.team_id))
            starting = self._task(self._start(place, called, marks))
            try:
                started = await asyncio.shield(starting)
            except BaseException:
                await asyncio.shield(self._task(self._undo(starting, place.team_id)))
                raise
        running = _Container(self, started, place)
        self._follow(running.watching)
        return running

    async def sweep(self, kept: frozenset[UUID]) -> None:
        names = {str(team_id) for team_id in kept}
        async with self.asking():
            found = await self._labelled(containers.INSTALLATION, self._installation)
            for team in {team for team, _ in found} - names:
                await self._remove(containers.TEAM, team)

    def _task(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Goes on when whoever waits for it is cancelled; not when this runtime is closed."""
        return self._follow(asyncio.create_task(work))

    def _follow(self, task: asyncio.Task[_T]) -> asyncio.Task[_T]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _undo(self, starting: asyncio.Task[list[_Thing]], team_id: UUID) -> None:
        """Remove what a start that failed or was cancelled has made."""
        # What the engine was asked for it does, also when nobody waits for the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(starting, return_exceptions=True)
        # What cannot be removed now is found by its labels: by the next start, or a sweep.
        with contextlib.suppress(aiodocker.DockerError, aiohttp.ClientError):
            await self._remove(containers.TEAM, str(team_id))

    async def _start(self, place: Place, called: str, marks: dict[str, str]) -> list[_Thing]:
        await asyncio.to_thread(containers.name_account, place)
        mounts = [*self._mounts, *await self._seen_by_engine(containers.shown(place))]
        network = await self._make_network(containers.network(called, marks))
        config = containers.container(
            place, image=self._image, network=called, mounts=mounts, marks=marks
        )
        try:
            made = await self._client.containers.create(config, name=called)
        except aiodocker.DockerError as error:
            raise self._without_image(error) from error
        await made.start()
        return [_Thing(self._client, made.id), _Thing(self._client, network.id, last=True)]

    async def _make_network(self, config: dict[str, Any]) -> DockerNetwork:
        try:
            return await self._client.networks.create(config)
        except aiodocker.DockerError as error:
            if error.status == _AWAY:
                raise
            raise StartFailed(
                f"Docker could not make a network: {error.message}",
                hint="An engine has addresses for about 30 networks, unless `default-address-pools`"
                " in its daemon.json says otherwise. See deploy/README.md.",
            ) from error

    async def _seen_by_engine(self, shown: list[containers.Shown]) -> list[containers.Shown]:
        """The same files under the paths that they have on the engine's machine."""
        if self._volume is None:
            return shown
        named = await self._client.volumes.get(self._volume.name)  # type: ignore[no-untyped-call]
        volume = await named.show()
        ours = self._volume.directory.resolve()
        return [
            replace(
                each, source=str(Path(volume["Mountpoint"], Path(each.source).relative_to(ours)))
            )
            if Path(each.source).is_relative_to(ours)
            else each
            for each in shown
        ]

    async def _remove(self, label: str, value: str) -> None:
        # A network can be removed once no container is in it.
        for _, thing in sorted(await self._labelled(label, value), key=lambda found: found[1].last):
            await thing.remove()

    async def _labelled(self, label: str, value: str) -> list[tuple[str, _Thing]]:
        """What has this label, and is of this installation, each with its team."""
        marks = [f"{containers.INSTALLATION}={self._installation}", f"{label}={value}"]
        filters = {"label": marks}
        listed = await self._client.containers.list(all=True, filters=json.dumps(filters))
        networks = await self._client.networks.list(filters=filters)
        return [
            *((c["Labels"][containers.TEAM], _Thing(self._client, c.id)) for c in listed),
            *(
                (n["Labels"][containers.TEAM], _Thing(self._client, n["Id"], last=True))
                for n in networks
            ),
        ]

    @property
    def _client(self) -> aiodocker.Docker:
        if self._opened is None:
            self._opened = _client(self._url)
        return self._opened

    @asynccontextmanager
    async def asking(self, seconds: float = _PATIENCE) -> AsyncIterator[None]:
        """Within, the engine's errors become ours."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except aiodocker.DockerError as error:
            raise self._told(error) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            raise StartFailed(f"The Docker engine at {self._url} does not answer.") from error

    def _without_image(self, error: aiodocker.DockerError) -> AgentOSError:
        if error.status != _MISSING:
            return self._told(error)
        return RuntimeMissing(
            f"The Docker engine has no image {self._image}.",
            hint=f"Build it: docker build -t {self._image} -f deploy/agent.Dockerfile deploy",
        )

    def _told(self, error: aiodocker.DockerError) -> AgentOSError:
        if error.status != _AWAY:
            return StartFailed(f"Docker could not do it: {error.message}")
        cause = error.__context__
        if isinstance(cause, aiohttp.ClientConnectorError) and isinstance(
            cause.os_error, PermissionError
        ):
            return RuntimeMissing(
                f"This account may not use the Docker engine at {self._url}.",
                hint="Add it to the group docker, or run the worker as root.",
            )
        return RuntimeMissing(
            f"There is no Docker engine at {self._url}.",
            hint="Start Docker, or say with DOCKER_HOST where it is.",
        )


@dataclass(frozen=True)
class _Thing:
    """A container or a network, to remove."""

    client: aiodocker.Docker
    id: str
    last: bool = False

    async def remove(self) -> None:
        try:
            if self.last:
                await (await self.client.networks.get(self.id)).delete()
            else:
                await self._remove_container()
        except aiodocker.DockerError as error:
            if error.status != _MISSING:
                raise

    @property
    def container(self) -> DockerContainer:
        return self.client.containers.container(self.id)

    async def _remove_container(self) -> None:
        try:
            await self.container.delete(force=True, v=True)
        except aiodocker.DockerError as error:
            # Somebody else is at it.
            if error.status != _CONFLICT:
                raise
            await self.container.wait(condition="removed")


class _Container:
    """A team's container. It is removed as soon as it has ended and told how."""

    def __init__(self, docker: Docker, things: list[_Thing], place: Place) -> None:
        self._docker = docker
        self._things = things
        self._container = things[0].container
        self._place = place
        self._stopped = False
        self.watching = asyncio.create_task(self._watch())

    async def ended(self) -> Ended:
        return await asyncio.shield(self.watching)

    async def stop(self, seconds: float) -> None:
        self._stopped = True
        if not self.watching.done():
            async with self._docker.asking(_PATIENCE + seconds):
                await self._end(seconds)
            await asyncio.shield(self.watching)

    async def memory_bytes(self) -> int | None:
        if self.watching.done():
            return None
        async with self._docker.asking():
            samples = await self._container.stats(stream=False)
        used = samples[-1].get("memory_stats", {})
        if "usage" not in used:
            return None
        counted = used.get("stats", {})
        # Without what was only read from files and can be dropped; each version has its own name.
        idle = counted.get("total_inactive_file", counted.get("inactive_file", 0))
        return max(0, int(used["usage"]) - int(idle))

    async def _end(self, seconds: float) -> None:
        try:
            if seconds > 0:
                await self._container.stop(t=math.ceil(seconds))
            else:
                await self._container.kill()
        except aiodocker.DockerError as error:
            # It has ended by itself meanwhile.
            if error.status not in (_MISSING, _CONFLICT):
                raise

    async def _watch(self) -> Ended:
        while True:
            try:
                return await self._to_the_end()
            except aiohttp.ClientError:
                pass
            except aiodocker.DockerError as error:
                if error.status == _MISSING:
                    return Ended(None, "Its container was removed.", "")
            # The engine is away, or starts anew; until it is back, nobody knows.
            await asyncio.sleep(_RETRY_SECONDS)

    async def _to_the_end(self) -> Ended:
        await self._container.wait()
        state: dict[str, Any] = (await self._container.show())["State"]
        tail = Tail()
        for line in await self._container.log(stdout=True, stderr=True, tail=TAIL_LINES):
            tail.add(line.encode())
        await self._remove()
        ending = Ending(
            exit_code=state["ExitCode"],
            memory_ran_out=state["OOMKilled"],
            memory_bytes=self._place.resources.memory_bytes,
            stopped=self._stopped,
        )
        return ending.told(tail.text())

    async def _remove(self) -> None:
        with contextlib.suppress(AgentOSError):
            async with self._docker.asking():
                for thing in self._things:
                    await thing.remove()


def _client(url: str) -> aiodocker.Docker:
    if not url.startswith(_UNIX):
        return aiodocker.Docker(url)
    # Each container that is waited for has a connection; by default there are no more than 100.
    connector = aiohttp.UnixConnector(url.removeprefix(_UNIX), limit=0)
    session = aiohttp.ClientSession(connector=connector)
    return aiodocker.Docker(f"{_UNIX}localhost", connector=connector, session=session)
