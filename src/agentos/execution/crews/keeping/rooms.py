"""A team's run directory: what its sidecar is told, and the sockets that lead out of the sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agentos.contracts.crew import SidecarCredentials, TeamSpec
from agentos.execution.crews.keeping.claims import Claim
from agentos.execution.crews.keeping.links import addresses_of, link
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.tools.egress import egress_at
from agentos.integrations.tools.routes import session_routes
from agentos.kernel.bus_credentials import TEAM_LIFE
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

_RENEWED_AFTER = 20 * 60.0


@dataclass(frozen=True)
class Room:
    """The run directory of one team, while it is kept."""

    directory: Path
    uid: int | None
    parts: CrewParts
    claim: Claim

    def tell(self, spec: TeamSpec) -> None:
        """Writes what the sidecar works by; it may hold secrets of MCP servers."""
        self._write("spec.json", msgspec.json.encode(spec))

    def let_in(self) -> None:
        """Writes fresh rights on the bus."""
        minted = self.parts.authority.team_credentials(
            str(self.claim.tenant_id), str(self.claim.team_id), TEAM_LIFE
        )
        credentials = SidecarCredentials(
            jwt=minted.jwt,
            seed=minted.seed,
            inbox_prefix=minted.inbox_prefix,
            public_key=minted.public_key,
        )
        self._write("credentials.json", msgspec.json.encode(credentials))

    def _write(self, name: str, data: bytes) -> None:
        staged = self.directory / f".{name}"
        staged.unlink(missing_ok=True)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            if self.uid is not None:
                os.fchown(handle, self.uid, -1)
            file.write(data)
        staged.rename(self.directory / name)


@asynccontextmanager
async def opened(
    parts: CrewParts, claim: Claim, uid: int | None, allowed_hosts: Sequence[str]
) -> AsyncIterator[Room]:
    """The run directory with its sockets, for as long as the block lasts."""
    base = parts.settings.data_dir / "rooms"
    base.mkdir(exist_ok=True)
    base.chmod(0o711)
    directory = _emptied(base, claim)
    directory.mkdir(mode=0o700)
    room = Room(directory, uid, parts, claim)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if uid is not None:
            os.chown(directory, uid, -1)
        bus, gateway = addresses_of(parts.bus_url), addresses_of(parts.gateway_url)
        await stack.enter_async_context(link(directory / "bus.sock", bus, uid))
        await stack.enter_async_context(link(directory / "gateway.sock", gateway, uid))
        if allowed_hosts:
            routes = session_routes(tuple(allowed_hosts), parts.settings.tool_hosts)
            await stack.enter_async_context(egress_at(directory / "egress.sock", routes, uid))
        room.let_in()
        renewing = asyncio.create_task(_renew(room))
        stack.callback(renewing.cancel)
        yield room


def _emptied(base: Path, claim: Claim) -> Path:
    """The directory of this claim, with what earlier ones left removed.

    Each claim has its own: a worker that has lost the team may still be about to remove its.
    """
    for old in base.glob(f"{claim.team_id.hex}-*"):
        if int(old.name.rpartition("-")[2]) <= claim.fence:
            shutil.rmtree(old, ignore_errors=True)
    return base / f"{claim.team_id.hex}-{claim.fence}"


async def _renew(room: Room) -> None:
    while True:
        await asyncio.sleep(_RENEWED_AFTER)
        try:
            room.let_in()
        except OSError as error:
            # The old ones are good for two more times.
            log.warning("credentials cannot be renewed", error=repr(error))
