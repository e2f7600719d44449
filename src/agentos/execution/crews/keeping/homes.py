"""Where a kept team lives: its workspace, its run directory, and its place in a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg

from agentos.execution.crews import repository
from agentos.execution.crews.keeping import claims, rooms
from agentos.execution.crews.keeping.claims import Claim, Lost, Wanted
from agentos.execution.crews.keeping.rooms import Room
from agentos.execution.crews.layouts.applying import apply
from agentos.execution.crews.layouts.rendering import render
from agentos.execution.crews.layouts.spec import secrets_of, spec_of
from agentos.execution.crews.parts import CrewParts
from agentos.execution.crews.repository import Definition
from agentos.integrations.runtimes.base import Place, Resources, Running
from agentos.integrations.workspaces.errors import BadPath, FileMissing, NotADirectory
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.database import Transaction
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger
from agentos.tenancy.plans import plan_for

log = get_logger(__name__)

_MIB = 1024 * 1024
_STOP_SECONDS = 5.0
# Beside the files of a workspace: the fence of the keeper that had them last on this machine.
_MARK = "kept"
# In the workspace; see agentos/sidecar/places.py.
_OF_THE_AGENT = (".agentos/home", ".agentos/conversation")


@dataclass
class Home:
    """A team that is running."""

    parts: CrewParts
    claim: Claim
    workspace: Workspace
    room: Room
    running: Running
    # By what it was started and furnished.
    definition: Definition
    _keeping: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        return self.definition.version

    async def refresh(self, want: Wanted) -> bool:
        """Brings the files of a running team up to date. False: that takes a restart."""
        definition = await _definition(self.parts, self.claim)
        before = self.definition
        if (definition.allowed_hosts, definition.provider) != (
            before.allowed_hosts,
            before.provider,
        ):
            return False
        await _furnish(self.parts, self.claim, self.workspace, self.room, definition, want)
        self.definition = definition
        return True

    def keep_files_soon(self) -> None:
        """Begins to keep the files while the team runs; what changes meanwhile is kept next time."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(
                keep_files(self.parts, self.claim, self.workspace, running=True)
            )

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)


@asynccontextmanager
async def at_home(
    parts: CrewParts, claim: Claim, want: Wanted, *, anew: bool = False
) -> AsyncIterator[Home]:
    """A team's place, started; and stopped, with its files kept, when the block ends.

    `anew`: without what its agent keeps for itself. Raises Lost, and what keeps it from starting.
    """
    runtime = await parts.runtimes.get(
        want.runtime, lambda: claims.kept_elsewhere(parts.platform_db)
    )
    await runtime.check()
    bundle = await parts.runtimes.bundle()
    definition = await _definition(parts, claim)
    workspace = await _moved_in(parts, claim, want)
    uid = workspace.uid
    try:
        async with rooms.opened(parts, claim, uid, definition.allowed_hosts) as room:
            await _furnish(parts, claim, workspace, room, definition, want)
            if anew:
                await _forget(workspace)
            place = Place(
                tenant_id=claim.tenant_id,
                team_id=claim.team_id,
                workspace=workspace.root,
                uid=uid,
                run_directory=room.directory,
                agents=parts.settings.cli_agents_dir,
                sidecar=bundle.path,
                argv=bundle.argv,
                resources=await _resources(parts, claim),
            )
            running = await runtime.start(place)
            home = Home(parts, claim, workspace, room, running, definition)
            try:
                yield home
            finally:
                await running.stop(_STOP_SECONDS)
                await home.close()
    finally:
        await keep_files(parts, claim, workspace)


async def _definition(parts: CrewParts, claim: Claim) -> Definition:
    async with parts.db.transaction(tenant_id=claim.tenant_id) as tx:
        definition = await repository.definition(tx, claim.tenant_id, claim.team_id)
    if definition is None:
        raise Lost
    return definition


async def _moved_in(parts: CrewParts, claim: Claim, want: Wanted) -> Workspace:
    """The workspace with the team's newest files: those on this machine if it was here last."""
    workspace = await parts.workspaces.open(claim.tenant_id, claim.team_id)
    mark = workspace.places.base / _MARK
    # Each keeper adds one to the fence; a life of the same keeper keeps it.
    here = mark.exists() and mark.read_text() in (str(claim.fence - 1), str(claim.fence))
    if not here:
        await parts.workspaces.bring(workspace, want.snapshot_id)
    mark.write_text(str(claim.fence))
    parts.workspaces.begin_change(workspace)
    return workspace


async def _furnish(
    parts: CrewParts,
    claim: Claim,
    workspace: Workspace,
    room: Room,
    definition: Definition,
    want: Wanted,
) -> None:
    """Writes what the agent works by: its layout in the workspace, its spec in the run directory."""
    await apply(workspace, render(definition, definition.provider))
    async with parts.db.transaction(tenant_id=claim.tenant_id) as tx:
        secrets = await _secrets(parts, tx, claim, definition)
    room.tell(spec_of(definition, definition.version, want.conversation, secrets))


async def _forget(workspace: Workspace) -> None:
    """Removes what an agent keeps for itself: its own files, and what it resumes."""
    for path in _OF_THE_AGENT:
        with suppress(FileMissing, NotADirectory, BadPath):
            await workspace.remove(path)


async def _secrets(
    parts: CrewParts, tx: Transaction, claim: Claim, definition: Definition
) -> dict[str, str]:
    names = sorted(secrets_of(definition))
    return {name: await parts.vault.reveal(tx, claim.tenant_id, name) for name in names}


async def _resources(parts: CrewParts, claim: Claim) -> Resources:
    async with parts.db.transaction(tenant_id=claim.tenant_id) as tx:
        row = await tx.row("select plan, limits from tenants where id = $1", claim.tenant_id)
    if row is None:
        raise Lost
    plan = plan_for(row["plan"], row["limits"])
    return Resources(plan.team_memory_mb * _MIB, plan.team_cpu_percent, plan.team_processes)


async def keep_files(
    parts: CrewParts, claim: Claim, workspace: Workspace, *, running: bool = False
) -> None:
    """Keeps the files in the object store, so that another machine can go on with them.

    If that is not possible they stay on this machine, which is enough for it to go on. Raises Lost.
    """
    try:
        await _snapshot(parts, claim, workspace, running=running)
    except (AgentOSError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        log.warning("files are not kept", team=str(claim.team_id), error=repr(error))


async def _snapshot(parts: CrewParts, claim: Claim, workspace: Workspace, *, running: bool) -> None:
    async with parts.db.transaction(tenant_id=claim.tenant_id) as tx:
        want = await claims.wanted(tx, claim)
    snapshot = await parts.workspaces.snapshot(workspace, want.snapshot_id)
    async with parts.db.transaction(tenant_id=claim.tenant_id) as tx:
        await claims.hold(tx, claim)
        await parts.workspaces.record(tx, snapshot)
        await tx.execute(
            "update teams set snapshot_id = $3 where tenant_id = $1 and id = $2",
            claim.tenant_id,
            claim.team_id,
            snapshot.id,
        )
    if not running:
        parts.workspaces.settled(workspace, snapshot.id)
