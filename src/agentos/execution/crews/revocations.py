"""Tells the bus whose credentials are void: those of deleted teams, until they have expired.

Every worker does it, for what it says is always all there is: saying it twice changes nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.execution.crews.hints import REVOKED_SUBJECT
from agentos.kernel.bus import Bus, Message, push_revocations
from agentos.kernel.bus_credentials import MOST_REVOCATIONS, BusAuthority
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

_LOCK = 0x7265766F6B65  # "revoke"
# A hint that got lost delays a revocation by this much at most.
_LOOK_SECONDS = 5.0
# What the server may not know yet is told again so soon.
_SOON_SECONDS = 0.5
# A server of a cluster may restart, or read its configuration again, without our noticing.
_REPEAT_SECONDS = 60.0
_AGAIN_SECONDS = 1.0
# The database is held meanwhile.
_ANSWER_SECONDS = 2.0

# Should there be too many, then without those that expire first.
_IN_FORCE = """
select tenant_id, team_id, until from bus_revocations where until > $1 order by until desc limit $2
"""

Team = tuple[UUID, UUID]
Revoked = dict[Team, datetime]


class Revoker:
    def __init__(
        self,
        platform_db: Database,
        bus: Bus,
        bus_url: str,
        authority: BusAuthority,
        clock: Clock,
        embedded: EmbeddedNats | None = None,
    ):
        """Hints come over `bus`; what is told needs a connection of its own, of the system's.

        An `embedded` server is told what to begin with, too, after its next restart.
        """
        self._db = platform_db
        self._hints = bus
        self._url = bus_url
        self._authority = authority
        self._clock = clock
        self._embedded = embedded
        self._keys: dict[Team, str] = {}
        # What the server was told, and on which of our connections to it.
        self._told: tuple[int, Revoked] | None = None
        self._connects = 0
        self._repeat_at = 0.0
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Keeps the bus informed until cancelled; whatever fails is tried again."""
        subscription = await self._hints.subscribe(REVOKED_SUBJECT, self._revoked)
        try:
            while True:
                try:
                    await self._keep_telling()
                except (AgentOSError, asyncpg.PostgresError, OSError) as error:
                    log.warning("credentials cannot be revoked right now", error=repr(error))
                await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            with suppress(AgentOSError):
                await subscription.unsubscribe()

    async def _revoked(self, _: Message) -> None:
        self._woken.set()

    async def _keep_telling(self) -> None:
        """On one connection, for as long as that comes back."""
        system = self._authority.system_credentials()
        bus = await Bus.connect(self._url, system, name="agentos-revoker", on_state=self._heard)
        try:
            while not bus.is_closed:
                self._woken.clear()
                if bus.is_connected:
                    await self.look(bus)
                pause = _SOON_SECONDS if self._told is None else _LOOK_SECONDS
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
        finally:
            await bus.close()

    def _heard(self, state: str) -> None:
        if state == "connected":
            # It may be another server, or have forgotten.
            self._connects += 1
            self._woken.set()

    async def look(self, bus: Bus) -> None:
        """One round: tells the server what is revoked, unless it knows, and forgets what is over."""
        rows = await self._db.fetch(_IN_FORCE, self._clock.now(), MOST_REVOCATIONS)
        revoked = _in_force(rows)
        repeat = revoked and asyncio.get_running_loop().time() >= self._repeat_at
        if repeat or self._told != (self._connects, revoked):
            await self._tell(bus)

    async def _tell(self, bus: Bus) -> None:
        connects = self._connects
        async with self._db.transaction() as tx:
            # One at a time, with what it reads then: an older list would take a newer one's place.
            # Whoever has to stand back looks again in a moment.
            if not await tx.value("select pg_try_advisory_xact_lock($1)", _LOCK):
                self._told = None
                return
            now = self._clock.now()
            await tx.execute("delete from bus_revocations where until <= $1", now)
            revoked = _in_force(await tx.fetch(_IN_FORCE, now, MOST_REVOCATIONS))
            # Beside the loop: each new key takes a third of a millisecond.
            by_key = await asyncio.to_thread(self._by_key, revoked)
            # Before: a server that is killed right after it was told shall not forget.
            self._remember(by_key)
            heard = await push_revocations(bus, self._authority, by_key, timeout=_ANSWER_SECONDS)
        # Nothing is revoked where nothing was heard.
        self._told = (connects, revoked) if heard or not revoked else None
        self._repeat_at = asyncio.get_running_loop().time() + _REPEAT_SECONDS

    def _remember(self, by_key: dict[str, int]) -> None:
        if self._embedded is None:
            return
        try:
            self._embedded.keep_revocations(by_key)
        except OSError as error:
            # The one that runs is told all the same.
            log.warning("revocations cannot be kept for the next start", error=repr(error))

    def _by_key(self, revoked: Revoked) -> dict[str, int]:
        """As the bus knows teams."""
        known, self._keys = self._keys, {}
        for tenant_id, team_id in revoked:
            team = tenant_id, team_id
            self._keys[team] = known.get(team) or self._authority.team_public_key(
                str(tenant_id), str(team_id)
            )
        return {key: int(revoked[team].timestamp()) for team, key in self._keys.items()}


def _in_force(rows: list[asyncpg.Record]) -> Revoked:
    return {(row["tenant_id"], row["team_id"]): row["until"] for row in rows}
