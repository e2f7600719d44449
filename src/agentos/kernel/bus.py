"""The bus: NATS with one place that knows its client's sharp edges.

Postgres remembers, NATS carries: nothing here is the only copy of anything. Durable messages
go to one JetStream stream, deduplicated by id, so the outbox may send again whenever in doubt.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats.errors
import nats.js.errors
from nats.aio.client import DEFAULT_BUFFER_SIZE, Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.aio.transport import TcpTransport
from nats.js.api import (
    DiscardPolicy,
    Header,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from agentos.kernel.bus_credentials import BusAuthority, BusCredentials
from agentos.kernel.errors import AgentOSError, Invalid, Kind, SetupError, Unavailable

EVENTS_STREAM = "EVENTS"

_log = logging.getLogger(__name__)

_RECONNECT_WAIT = 0.25  # seconds; with a restart under a second, clients are back within one
_PING_INTERVAL = 10  # seconds; two unanswered pings mean a black hole, not an idle line
_STREAM_NAME_IN_USE = 10058  # JetStream's error code: the stream exists with another config
_TEAM_SUBJECT = re.compile(r"tenant\.([^.]+)\.team\.([^.]+)\.")
_EVENT_PREFIX = re.compile(r"[a-z0-9_-]+")

CredentialsSource = BusCredentials | Callable[[], BusCredentials]


class MessageTooLarge(AgentOSError):
    """The message is larger than the bus carries."""

    code = "message_too_large"
    kind = Kind.TOO_LARGE


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it arrived. Answer it with `Bus.respond`, which checks where it goes."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Durable:
    """A message to be stored; one with a `dedupe_id` that was there already is not stored again."""

    subject: str
    data: bytes
    dedupe_id: str


Handler = Callable[[Message], Awaitable[None]]


class Subscription:
    """Interest in a subject; messages are handled one at a time, in order."""

    def __init__(self, inner: NatsSubscription, forget: Callable[[], None]) -> None:
        self._inner = inner
        self._forget = forget

    async def unsubscribe(self) -> None:
        """Stop receiving; harmless when the connection is gone already."""
        self._forget()
        try:
            await self._inner.unsubscribe()
        except (nats.errors.ConnectionClosedError, nats.errors.BadSubscriptionError):
            return


class Bus:
    """A connection that comes back by itself. Create it with `Bus.connect`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._jetstream = client.jetstream()
        self._here: dict[str, Handler] = {}

    @classmethod
    async def connect(
        cls,
        url: str,
        credentials: CredentialsSource,
        *,
        name: str,
        on_state: Callable[[str], None] | None = None,
        socket: Path | None = None,
        timeout: float = 15.0,
    ) -> Bus:
        """Connected, or `Unavailable` after `timeout` seconds of trying.

        `url` may list several servers, separated by commas; with a unix `socket`, that leads to
        the server, whatever its address. A callable gives fresh credentials
        at every connect, which lets a connection outlive its JWT. `on_state` hears
        "connected", "disconnected" and "closed" (for good: revoked, expired or closed by us).
        Neither may block or raise: both run inside the client's reconnect loop.
        """
        identity = _Identity(credentials)
        client = _Client(renewable=callable(credentials), socket=socket)
        tell = on_state or (lambda _state: None)

        async def connected() -> None:
            tell("connected")

        async def disconnected() -> None:
            tell("disconnected")

        async def closed() -> None:
            tell("closed")

        attempt = asyncio.create_task(
            client.connect(
                servers=[part.strip() for part in url.split(",")],
                name=name,
                signature_cb=identity.sign,
                user_jwt_cb=identity.jwt,
                inbox_prefix=identity.credentials.inbox_prefix,
                error_cb=_log_error,
                reconnected_cb=connected,
                disconnected_cb=disconnected,
                closed_cb=closed,
                connect_timeout=2,
                # The client declares whole seconds and sleeps for whatever it is given.
                reconnect_time_wait=_RECONNECT_WAIT,  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                ping_interval=_PING_INTERVAL,
                drain_timeout=5,
            )
        )
        try:
            await asyncio.wait({attempt}, timeout=timeout)
        finally:
            if not attempt.done():
                await _abandon(attempt, client)
        if attempt.cancelled():
            where = ", ".join(
                urlsplit(part.strip()).netloc.rpartition("@")[2] for part in url.split(",")
            )
            raise Unavailable(
                f"The bus at {where} did not accept the connection: {client.last_error}"
            )
        attempt.result()
        tell("connected")
        return cls(client)

    @property
    def is_connected(self) -> bool:
        return bool(self._client.is_connected)

    @property
    def is_closed(self) -> bool:
        return bool(self._client.is_closed)

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Hand a message to whoever listens now; while disconnected a small buffer holds it."""
        with _translated():
            await self._client.publish(subject, data, headers=dict(headers) if headers else None)

    async def hand(self, subject: str, data: bytes) -> None:
        """Hand a message to the only one who may listen to a subject; if that is on this connection,
        without the way over the server."""
        if (handler := self._here.get(subject)) is not None:
            await handler(Message(subject, data))
        else:
            await self.publish(subject, data)

    async def publish_durable(
        self,
        subject: str,
        data: bytes,
        *,
        dedupe_id: str,
        headers: Mapping[str, str] | None = None,
        timeout: float = 5.0,
    ) -> bool:
        """Stored on disk when this returns: True if new, False if `dedupe_id` was there already.

        Safe to call concurrently and to repeat. `Unavailable` means "not known to be stored".
        """
        all_headers = {**(headers or {}), Header.MSG_ID.value: dedupe_id}
        with _translated():
            ack = await self._jetstream.publish(subject, data, timeout=timeout, headers=all_headers)
        return not ack.duplicate

    async def publish_together(
        self, messages: Sequence[Durable], *, batch_id: str, timeout: float = 5.0
    ) -> bool:
        """All of them on disk, in this order, when this is True: one acknowledgement for all.

        False: none of them, or nobody knows. The server may not be able to do it, or have some of
        them already; publish each by itself then. At most 1,000 at a time.
        """
        # Gathered: that knows it was cancelled, also if the client swallows it while it flushes.
        (stored,) = await asyncio.gather(self._publish_batch(messages, batch_id, timeout))
        return stored

    async def _publish_batch(
        self, messages: Sequence[Durable], batch_id: str, timeout: float
    ) -> bool:
        headers = {Header.BATCH_ID.value: batch_id}
        *others, last = messages
        with _translated():
            for number, each in enumerate(others, 1):
                headers[Header.BATCH_SEQUENCE.value] = str(number)
                headers[Header.MSG_ID.value] = each.dedupe_id
                await self._client.publish(each.subject, each.data, headers=headers)
            headers[Header.BATCH_SEQUENCE.value] = str(len(messages))
            headers[Header.MSG_ID.value] = last.dedupe_id
            headers[Header.BATCH_COMMIT.value] = "1"
            try:
                ack = await self._jetstream.publish(
                    last.subject, last.data, timeout=timeout, headers=headers
                )
            except nats.js.errors.BadRequestError:
                return False
        # A server that has never heard of batches acknowledges the last message, and only that.
        return ack.batch_size == len(messages)

    async def subscribe(self, subject: str, callback: Handler, queue: str = "") -> Subscription:
        """Call `callback` for each message; with a `queue` name, one member of it gets each."""

        async def handle(msg: Msg) -> None:
            await callback(Message(msg.subject, msg.data, msg.reply, msg.headers or {}))

        with _translated():
            inner = await self._client.subscribe(subject, queue=queue, cb=handle)
        self._here[subject] = callback
        return Subscription(inner, lambda: self._forget(subject, callback))

    def _forget(self, subject: str, callback: Handler) -> None:
        if self._here.get(subject) is callback:
            del self._here[subject]

    async def respond(self, message: Message, data: bytes) -> None:
        """Answer a message, but never on behalf of a team outside that team.

        A team chooses the reply subject of what it sends. Answering blindly with the platform's
        rights would let it write to another team, or call the JetStream API, through us.
        """
        if not message.reply:
            raise Invalid("The message asks for no answer.")
        if match := _TEAM_SUBJECT.match(message.subject):
            tenant, team = match.groups()
            own = (f"_INBOX_{tenant}_{team}.", f"tenant.{tenant}.team.{team}.")
            if not message.reply.startswith(own):
                raise Invalid("The message asks for an answer outside its own team.")
        await self.publish(message.reply, data)

    async def ensure_events_stream(
        self, event_prefixes: Sequence[str], *, replicas: int = 1
    ) -> None:
        """The stream EVENTS holds a day of `tenant.*.{prefix}.>`, created or brought up to date.

        Prefixes are listed because JetStream cannot exclude: a stream over `tenant.*.>` would
        also store team chat and acknowledge it to whatever reply subject a team chose.
        """
        for prefix in event_prefixes:
            if prefix == "team" or not _EVENT_PREFIX.fullmatch(prefix):
                raise Invalid(f"'{prefix}' cannot be an event prefix.")
        config = StreamConfig(
            name=EVENTS_STREAM,
            subjects=[f"tenant.*.{prefix}.>" for prefix in sorted(set(event_prefixes))],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_age=24 * 3600,
            max_bytes=1024**3,
            duplicate_window=120,
            num_replicas=replicas,
            allow_atomic=True,
        )
        with _translated():
            try:
                await self._jetstream.add_stream(config)
            except nats.js.errors.BadRequestError as error:
                if error.err_code != _STREAM_NAME_IN_USE:
                    raise
                await self._jetstream.update_stream(config)

    async def flush(self, timeout: float = 5.0) -> None:
        """Return once the server has seen everything sent so far."""
        with _translated():
            # The client declares whole seconds and waits for whatever it is given.
            await self._client.flush(timeout)  # type: ignore[arg-type]

    async def drain(self) -> None:
        """Finish the messages in hand, send what is buffered, then close."""
        try:
            await self._client.drain()
        except nats.errors.Error:
            # Reconnecting or closed: there is nobody to drain to.
            await self.close()

    async def close(self) -> None:
        await self._client.close()


class _Identity:
    """What CONNECT carries. The client asks for the signature first, then for the JWT."""

    def __init__(self, source: CredentialsSource) -> None:
        self._source = source
        self.credentials = source() if callable(source) else source

    def sign(self, nonce: str) -> bytes:
        if callable(self._source):
            self.credentials = self._source()
        return self.credentials.sign(nonce)

    def jwt(self) -> bytes:
        return self.credentials.jwt.encode()


class _Client(Client):
    """nats-py closes for good on any -ERR; most of them only mean "connect again"."""

    def __init__(self, *, renewable: bool, socket: Path | None = None) -> None:
        super().__init__()
        self._renewable = renewable
        self._socket = socket

    async def _connect_to_server(self, s: Srv) -> None:
        if self._socket is None:
            await super()._connect_to_server(s)
            return
        s.last_attempt = time.monotonic()
        transport = self._transport = _UnixTransport(self._socket)
        await transport.connect(s.uri, DEFAULT_BUFFER_SIZE, self.options["connect_timeout"])

    async def _process_err(self, err_msg: str) -> None:
        # The protocol has no error codes; these are its fixed phrases, lower-cased by the parser.
        denied = "permissions violation" in err_msg
        revoked = "revoked" in err_msg or "authorization violation" in err_msg
        expired = "expired" in err_msg and not self._renewable
        if denied or revoked or expired:
            await super()._process_err(err_msg)
        else:
            await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))


class _UnixTransport(TcpTransport):
    """Reaches the server through a unix socket that leads to it."""

    def __init__(self, socket: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._socket = socket

    async def connect(self, uri: object, buffer_size: int, connect_timeout: int) -> None:  # noqa: ARG002 - the client's signature
        async with asyncio.timeout(connect_timeout):
            reader, writer = await asyncio.open_unix_connection(self._socket, limit=buffer_size)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer


class _translated:  # noqa: N801 - reads as a verb where it is used, like contextlib.suppress
    """Turns the client's errors into ours, by who has to react."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        match error:
            case nats.errors.MaxPayloadError():
                raise MessageTooLarge from error
            case nats.errors.BadSubjectError():
                raise Invalid("That is not a valid subject.") from error
            case nats.js.errors.BadRequestError():
                raise SetupError(f"JetStream refused: {error.description}") from error
            case nats.errors.Error():
                raise Unavailable(f"The bus is not answering: {error}") from error


async def push_revocations(
    bus: Bus, authority: BusAuthority, revocations: Mapping[str, int], *, timeout: float = 5.0
) -> bool:
    """Make the running servers drop and refuse what `revocations` names (see `account_jwt`).

    `bus` is connected with the authority's system credentials. The list replaces the servers'. One
    that restarts, or reads its configuration again, knows only that: render it with the same list,
    and push again after every reconnect and from time to time.

    False: the one that answered took no notice, because nobody has used the account since its start.
    It will let the next one in by its configuration, so push again.
    """
    claims = authority.account_jwt(revocations).encode()
    subject = f"$SYS.REQ.ACCOUNT.{authority.account_id}.CLAIMS.UPDATE"
    with _translated():
        # Gathered: that knows it was cancelled, also if the client swallows it while it flushes.
        (answer,) = await asyncio.gather(bus._client.request(subject, claims, timeout=timeout))
    body = json.loads(answer.data)
    data = body.get("data", {})
    if data.get("code") != 200:
        reason = body.get("error", {}).get("description", "no reason given")
        raise SetupError(f"The bus refused the account's claims: {reason}")
    # A fixed phrase of the server's, which has no code of its own for it.
    return bool(data.get("message") != "jwt update skipped")


async def assert_sync_always(monitor_url: str) -> None:
    """JetStream acknowledges only what is on disk, or `SetupError` with the line to add."""
    varz = await asyncio.to_thread(_get_json, f"{monitor_url.rstrip('/')}/varz")
    config = varz.get("jetstream", {}).get("config")
    if not config:
        raise SetupError(
            "JetStream is off on the NATS server.",
            hint="Add `jetstream { store_dir: /var/lib/nats, sync_interval: always }` to nats-server.conf.",
        )
    if not config.get("sync_always"):
        raise SetupError(
            "The NATS server acknowledges messages before they are on disk.",
            hint="Add `sync_interval: always` to the `jetstream { … }` block of nats-server.conf and restart it.",
        )


def _get_json(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise Unavailable(f"NATS monitoring answered {response.status}.")
        document: dict[str, Any] = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"NATS monitoring at {parts.netloc} is not answering.") from error
    else:
        return document
    finally:
        connection.close()


async def _log_error(error: Exception) -> None:
    # Handlers' own failures arrive here too; a refused connection is the reconnect loop's routine.
    if isinstance(error, OSError):
        _log.debug("bus connection: %s", error)
    else:
        _log.warning("bus: %r", error)


async def _abandon(attempt: asyncio.Task[None], client: Client) -> None:
    # nats-py swallows a cancellation while it flushes, so one cancel() may not be enough.
    while not attempt.done():
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=0.1)
    await client.close()
