"""A server with nothing but the event routes behind the real edge, and a relay that can misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import msgspec
import pytest
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect

from agentos.contracts.events import Envelope, subject
from agentos.gateway.admission import Admission, AdmissionSettings
from agentos.gateway.app import Gateway, Routes
from agentos.gateway.authentication import Authenticator
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.edge import Edge, EdgeSettings
from agentos.gateway.events.endpoints import Streams, mount, router
from agentos.gateway.events.hub import EventHub
from agentos.gateway.events.mailbox import Limits
from agentos.gateway.idempotency import Idempotency
from agentos.gateway.server import Server
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.opaque_tokens import new_token
from agentos.tenancy.principals import Scope
from agentos.tenancy.rate_limits import RateLimiter
from agentos.tenancy.tokens import Tokens

SECRET_KEY = bytes(range(32))
ALLOWED_ORIGIN = "https://app.example"


class Relay:
    """Writes history as the relay does; what reaches the bus, and how often, is up to the test."""

    def __init__(self, platform_db: Database, bus: Bus):
        self._db = platform_db
        self._bus = bus

    async def record(
        self, tenant_id: UUID, count: int = 1, event_type: str = "session.started", size: int = 0
    ) -> list[Envelope]:
        """Commits events without a word to the bus."""
        async with self._db.transaction() as tx:
            last: int = await tx.value(
                """insert into event_counters as c values ($1, $2)
                   on conflict (tenant_id) do update set last_seq = c.last_seq + $2
                   returning last_seq""",
                tenant_id,
                count,
            )
            rows = await tx.fetch(
                """insert into events (tenant_id, seq, id, type, data, at)
                   select $1, seq, gen_random_uuid(), $4, $5, now() from generate_series($2::bigint, $3) seq
                   returning seq, id, type, at, data::text as data""",
                tenant_id,
                last - count + 1,
                last,
                event_type,
                {"session_id": str(uuid7()), "filler": "x" * size},
            )
        return [
            Envelope(
                seq=row["seq"],
                id=row["id"],
                type=row["type"],
                tenant_id=tenant_id,
                at=row["at"],
                data=msgspec.Raw(row["data"].encode()),
            )
            for row in rows
        ]

    async def publish(self, *events: Envelope) -> None:
        for event in events:
            await self._bus.publish(
                subject(event.tenant_id, event.type), msgspec.json.encode(event)
            )

    async def announce(
        self, tenant_id: UUID, count: int = 1, event_type: str = "session.started", size: int = 0
    ) -> list[Envelope]:
        events = await self.record(tenant_id, count, event_type, size)
        await self.publish(*events)
        return events


@dataclass
class Listener:
    """A client of the event socket that tells events from control frames."""

    socket: ClientConnection
    controls: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    _waiting: list[dict[str, Any]] = field(default_factory=list)

    async def next(self, within: float = 10) -> dict[str, Any]:
        async with asyncio.timeout(within):
            while not self._waiting:
                message = await self.socket.recv()
                assert isinstance(message, str)
                self.messages += 1
                for line in message.split("\n"):
                    document = msgspec.json.decode(line)
                    (self._waiting if "seq" in document else self.controls).append(document)
        return self._waiting.pop(0)

    async def seqs(self, count: int, within: float = 10) -> list[int]:
        return [(await self.next(within))["seq"] for _ in range(count)]

    async def live(self) -> dict[str, Any]:
        """Waits until the server says that everything from now on arrives as it happens."""
        async with asyncio.timeout(10):
            while not self.controls or self.controls[-1]["type"] != "stream.live":
                message = await self.socket.recv()
                assert isinstance(message, str)
                for line in message.split("\n"):
                    document = msgspec.json.decode(line)
                    (self._waiting if "seq" in document else self.controls).append(document)
        return self.controls[-1]


@dataclass
class Rig:
    port: int
    hub: EventHub
    streams: Streams
    relay: Relay
    tokens: Tokens
    clock: MovableClock
    _superuser: asyncpg.Connection[Any]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def tenant(self) -> TenantId:
        tenant_id = TenantId(uuid7())
        await self._superuser.execute(
            "insert into tenants (id, name, slug, plan) values ($1, 'T', $2, 'enterprise')",
            tenant_id,
            f"t-{tenant_id.hex}",
        )
        return tenant_id

    async def key(self, tenant_id: TenantId, *scopes: Scope) -> str:
        token = new_token("sk", tenant_id)
        await self._superuser.execute(
            """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
               values ($1, $2, 'k', 'xxxx', $3, $4, 'test')""",
            tenant_id,
            uuid7(),
            token.digest,
            list(scopes or (Scope.EVENTS_READ,)),
        )
        return token.text

    async def revoke(self, tenant_id: TenantId) -> None:
        await self._superuser.execute(
            "update api_keys set revoked_at = now() where tenant_id = $1", tenant_id
        )

    async def forget_before(self, tenant_id: TenantId, seq: int) -> None:
        """What retention does."""
        await self._superuser.execute(
            "delete from events where tenant_id = $1 and seq < $2", tenant_id, seq
        )

    @asynccontextmanager
    async def listen(
        self, credential: str | None, query: str = "", **options: Any
    ) -> AsyncIterator[Listener]:
        headers = dict(options.pop("headers", {}))
        if credential is not None:
            headers["Authorization"] = f"Bearer {credential}"
        async with connect(
            f"ws://127.0.0.1:{self.port}/api/events{query}",
            additional_headers=headers,
            compression=None,
            proxy=None,
            **options,
        ) as socket:
            yield Listener(socket)

    def http(self, credential: str) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {credential}"}, timeout=20
        )


@pytest.fixture
def limits() -> Limits:
    """Of the mailboxes; a test of slow clients overrides this."""
    return Limits()


@pytest.fixture
async def hub(db: Database, bus: Bus, limits: Limits) -> AsyncIterator[EventHub]:
    hub = EventHub(db, bus, limits=limits, linger_seconds=0.2, check_seconds=0.5)
    yield hub
    await hub.close()


@pytest.fixture
async def rig(
    hub: EventHub,
    db: Database,
    platform_db: Database,
    bus: Bus,
    clock: MovableClock,
    superuser: asyncpg.Connection[Any],
) -> AsyncIterator[Rig]:
    tokens = Tokens(SECRET_KEY, clock, timedelta(minutes=15))
    authenticator = Authenticator(db, tokens, clock)
    app = FastAPI()
    app.include_router(router)
    admission = Admission(
        authenticator,
        RateLimiter(db),
        AdmissionSettings(
            anonymous_per_minute=1000,
            trusted_proxies=frozenset(),
            own_origins=frozenset({ALLOWED_ORIGIN}),
        ),
    )
    edge = Edge(
        Routes(app),
        db=db,
        platform_db=platform_db,
        outbox=Outbox(lambda: None),
        clock=clock,
        admission=admission,
        idempotency=Idempotency(SECRET_KEY, timedelta(hours=1)),
        public_paths=[],
        settings=EdgeSettings(
            max_request_bytes=1_000_000,
            max_object_bytes=1_000_000,
        ),
    )
    watch = CredentialWatch(authenticator)
    streams = mount(app, hub=hub, db=db, clock=clock, admission=admission, watch=watch)
    server = Server("127.0.0.1", 0)
    async with server.running(Gateway(edge, streams, watch)):
        yield Rig(server.port, hub, streams, Relay(platform_db, bus), tokens, clock, superuser)
