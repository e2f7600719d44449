from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from starlette.responses import Response

from agentos.gateway.admission import Admission
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.events import repository
from agentos.gateway.events.credentials import Doorkeeper
from agentos.gateway.events.filters import parse_types
from agentos.gateway.events.hub import EventHub
from agentos.gateway.events.schemas import EventPage, TicketRead
from agentos.gateway.events.socket import EventSocket, parse_position
from agentos.gateway.events.stream import EventStream
from agentos.gateway.events.tickets import Tickets, issue_ticket
from agentos.gateway.headers import Headers
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.principals import Principal, Scope

router = APIRouter(prefix="/api/events", tags=["events"])

After = Annotated[
    int | None, Query(ge=0, lt=10**18, description="The `seq` of the last event you have.")
]
Types = Annotated[
    str | None,
    Query(
        max_length=2000,
        description="Only these types: exact ones or a trailing `.*`, separated by commas.",
        examples=["session.*,member.invited"],
    ),
]


Newest = Annotated[
    int | None,
    Query(
        ge=1,
        le=200,
        description="Only so many of the newest, in place of a page; `next_after` goes on from "
        "them.",
    ),
]


@dataclass(frozen=True)
class Streams:
    """What the streaming routes need; `mount` puts it into the application's state."""

    hub: EventHub
    watch: CredentialWatch
    # At `/api/events`; it stands beside the framework, not behind it.
    socket: EventSocket

    async def close(self) -> None:
        """Ends all streams with "restarting". Call it when the server is told to stop."""
        await self.hub.close()


async def _streams(request: Request) -> Streams:
    return cast(Streams, request.app.state.event_streams)


def mount(
    app: FastAPI,
    *,
    hub: EventHub,
    db: Database,
    clock: Clock,
    admission: Admission,
    watch: CredentialWatch,
) -> Streams:
    """Gives the application what `router` needs, and returns it with the event socket."""
    doorkeeper = Doorkeeper(admission, Tickets(db, clock))
    streams = Streams(hub, watch, EventSocket(hub, doorkeeper, watch))
    app.state.event_streams = streams
    return streams


@router.get("", response_model=EventPage)
async def list_events(
    work: CurrentWork,
    after: After = 0,
    types: Types = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Items per page.")] = 50,
    newest: Newest = None,
) -> Response:
    """The history of this tenant's events, oldest first.

    `next_after` is where the next page begins; when nothing is left it is the newest event, so
    the same request later brings what happened since.
    """
    work.require(Scope.EVENTS_READ)
    after = after or 0
    last = await repository.last_seq(work.tx, work.tenant_id)
    frames = await repository.events(
        work.tx,
        work.tenant_id,
        after=after,
        upto=last,
        wanted=parse_types(types),
        limit=newest or limit,
        newest=newest is not None,
    )
    more = newest is None and len(frames) == limit
    next_after = frames[-1].seq if more else max(after, last)
    body = {"items": [msgspec.Raw(frame.data) for frame in frames], "next_after": next_after}
    return Response(msgspec.json.encode(body), media_type="application/json")


@router.post("/ticket", status_code=201)
async def create_ticket(work: CurrentWork, request: Request) -> TicketRead:
    """A ticket for the event socket, for browsers, which cannot send a header with it."""
    return await issue_ticket(work, credential_of(request))


@router.get(
    "/stream",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events; each `data` is an event.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def stream_events(
    request: Request,
    streams: Annotated[Streams, Depends(_streams)],
    after: After = None,
    types: Types = None,
) -> EventStream:
    """Events as they happen, as server-sent events. `Last-Event-ID` goes before `after`."""
    principal: Principal = request.state.principal
    principal.require(Scope.EVENTS_READ)
    resumed = parse_position(request.headers.get("last-event-id") or None)
    return EventStream(
        streams.hub,
        streams.watch,
        tenant_id=principal.tenant_id,
        credential=credential_of(request),
        after=after if resumed is None else resumed,
        wanted=parse_types(types),
    )


def credential_of(request: Request) -> str:
    """What the edge let this request in with."""
    headers = Headers(request.scope["headers"])
    credential = headers.bearer() or headers.cookie()
    assert credential is not None, "the edge refuses requests without a credential"
    return credential
