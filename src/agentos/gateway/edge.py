"""The edge: what happens to every HTTP request before and after its route.

Request id → size limit → authentication → rate limit → one transaction → headers, log, metrics.
Plain ASGI, because this runs for every request and a framework's middleware would cost more than
all the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentos.execution.webhooks.service import PATH as HOOKS
from agentos.gateway.admission import Admission
from agentos.gateway.authentication import Identity
from agentos.gateway.headers import Headers
from agentos.gateway.idempotency import (
    METHODS,
    Idempotency,
    StoredResponse,
    check_key,
)
from agentos.gateway.problems import answer
from agentos.gateway.unit_of_work import KeyedRequest, RequestUnit
from agentos.kernel import metrics
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.ids import uuid7
from agentos.kernel.logs import bind_context, clear_context, get_logger
from agentos.kernel.outbox import Outbox
from agentos.kernel.tracing import span
from agentos.tenancy.principals import Forbidden, PrincipalKind
from agentos.tenancy.rate_limits import Allowance, RateLimited
from agentos.tenancy.tokens import Unauthenticated

log = get_logger(__name__)

SECURITY_HEADERS: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]


class RequestTooLarge(AgentOSError):
    """The request body is too large."""

    code = "request_too_large"
    kind = Kind.TOO_LARGE


@dataclass(frozen=True)
class EdgeSettings:
    max_request_bytes: int
    max_object_bytes: int


class Edge:
    def __init__(
        self,
        routes: ASGIApp,
        *,
        db: Database,
        platform_db: Database,
        outbox: Outbox,
        clock: Clock,
        admission: Admission,
        idempotency: Idempotency,
        public_paths: Iterable[str],
        settings: EdgeSettings,
    ):
        self._routes = routes
        self._db = db
        self._platform_db = platform_db
        self._outbox = outbox
        self._clock = clock
        self._admission = admission
        self._idempotency = idempotency
        self._public = frozenset(public_paths)
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        exchange = _Exchange(scope, receive, send)
        if not scope["path"].startswith("/api/"):
            await self._run_bare(exchange)
            return
        clear_context()
        with span(
            "http.request", traceparent=exchange.headers.get(b"traceparent"), method=scope["method"]
        ):
            bind_context(request_id=exchange.request_id)
            await self._handle(exchange)
        _observe(exchange, time.perf_counter() - started)

    async def _handle(self, exchange: _Exchange) -> None:
        try:
            identity = await self._admit(exchange)
            keyed = await self._keyed_request(exchange, identity)
            unit = RequestUnit(
                self._db,
                self._platform_db,
                self._outbox,
                self._clock,
                self._idempotency,
                identity.principal if identity else None,
                exchange.request_id,
                keyed,
            )
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the edge of the process; it is logged there
            await exchange.fail(error)
            return
        exchange.state["unit"] = unit
        exchange.state["principal"] = identity.principal if identity else None
        await self._run(exchange, unit)

    async def _run(self, exchange: _Exchange, unit: RequestUnit) -> None:
        try:
            await self._routes(exchange.scope, exchange.receive, _CommittingSend(exchange, unit))
        except StoredResponse as stored:
            await unit.end(failed=True)
            await exchange.replay(stored)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the edge of the process; it is logged there
            await self._give_up(exchange, unit, error)
        finally:
            # A client that went away, or a route that never answered.
            await unit.end(failed=True)

    async def _give_up(self, exchange: _Exchange, unit: RequestUnit, error: Exception) -> None:
        try:
            await unit.end(failed=True)
        except AgentOSError as lost:  # what was to be kept despite the error could not be
            error = lost
        await exchange.fail(error)

    async def _run_bare(self, exchange: _Exchange) -> None:
        """Probes and metrics: no tenant, no transaction."""
        try:
            await self._routes(exchange.scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the edge of the process; it is logged there
            await exchange.fail(error)

    async def _admit(self, exchange: _Exchange) -> Identity | None:
        self._check_size(exchange)
        admission, scope, headers = self._admission, exchange.scope, exchange.headers
        if scope["path"] in self._public:
            with exchange.limited_to(admission.anonymous_per_minute):
                exchange.allowance = await admission.count_visitor(scope, headers)
            return None
        harmless = scope["method"] in ("GET", "HEAD")
        token = _webhook_token(scope["path"])
        credential = token or headers.bearer() or admission.cookie(headers, harmless=harmless)
        if credential is None:
            raise Unauthenticated()
        identity = await admission.identify(credential, scope, headers)
        bind_context(tenant_id=str(identity.principal.tenant_id))
        with exchange.limited_to(identity.requests_per_minute):
            exchange.allowance = await admission.count(identity)
        if token is None and identity.principal.kind is PrincipalKind.WEBHOOK:
            raise Forbidden("The token of a webhook fires it, and opens nothing else.")
        return identity

    def _check_size(self, exchange: _Exchange) -> None:
        scope = exchange.scope
        storing = scope["method"] == "PUT" and scope["path"].startswith("/api/objects/")
        limit = self._settings.max_object_bytes if storing else self._settings.max_request_bytes
        exchange.limit_body(limit)

    async def _keyed_request(
        self, exchange: _Exchange, identity: Identity | None
    ) -> KeyedRequest | None:
        key = exchange.headers.get(b"idempotency-key")
        scope = exchange.scope
        if key is None or identity is None or scope["method"] not in METHODS:
            return None
        body = await exchange.read_body()
        return KeyedRequest(
            check_key(key),
            self._idempotency.fingerprint(
                scope["method"], scope["raw_path"], scope["query_string"], body
            ),
        )


def _webhook_token(path: str) -> str | None:
    """The credential in the address of a webhook: who sends to one can often set no header."""
    return path.removeprefix(HOOKS) or None if path.startswith(HOOKS) else None


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send):
        self.scope = scope
        self._receive = receive
        self._send = send
        self.headers = Headers(scope["headers"])
        self._body_limit = 0
        self._received = 0
        self._buffered: bytes | None = None
        self.allowance: Allowance | None = None
        self.status = 0
        self.started = False
        self.request_id = str(uuid7())
        self.state: MutableMapping[str, Any] = scope.setdefault("state", {})
        self.state["request_id"] = self.request_id

    @contextmanager
    def limited_to(self, per_minute: int) -> Iterator[None]:
        """Says in the headers what the limit is, also when it has been reached."""
        try:
            yield
        except RateLimited:
            self.allowance = Allowance(per_minute, 0, 60)
            raise

    def limit_body(self, limit: int) -> None:
        self._body_limit = limit
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise self._too_large()

    def _too_large(self) -> RequestTooLarge:
        return RequestTooLarge(
            f"The request body is larger than {self._body_limit} bytes.",
            hint="Send less at once.",
            limit=self._body_limit,
        )

    async def receive(self) -> Message:
        if self._buffered is not None:
            body, self._buffered = self._buffered, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._body_limit:
                raise self._too_large()
        return message

    async def read_body(self) -> bytes:
        """The whole body; the route reads it again from here."""
        parts: list[bytes] = []
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                # What has come so far may read like a whole request.
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        self._buffered = b"".join(parts)
        return self._buffered

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message = {**message, "headers": self._with_ours(message.get("headers", []))}
        await self._send(message)

    def _with_ours(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        complete = list(headers)
        present = {name for name, _ in complete}
        complete += [item for item in SECURITY_HEADERS if item[0] not in present]
        complete.append((b"x-request-id", self.request_id.encode()))
        if self.allowance is not None:
            complete += [
                (b"ratelimit-limit", b"%d" % self.allowance.limit),
                (b"ratelimit-remaining", b"%d" % self.allowance.remaining),
                (b"ratelimit-reset", b"%d" % self.allowance.reset_seconds),
            ]
        return complete

    async def fail(self, error: Exception) -> None:
        """Answers with a problem, unless an answer has begun."""
        response = answer(error, self.request_id)
        if not self.started:
            await response(self.scope, self.receive, self.send)

    async def replay(self, stored: StoredResponse) -> None:
        headers = [*stored.headers, (b"idempotency-replayed", b"true")]
        await self.send(
            {"type": "http.response.start", "status": stored.status, "headers": headers}
        )
        await self.send({"type": "http.response.body", "body": stored.body})


class _CommittingSend:
    """Ends the transaction before the first byte of the answer leaves."""

    def __init__(self, exchange: _Exchange, unit: RequestUnit):
        self._exchange = exchange
        self._unit = unit
        self._held: Message | None = None
        self._body: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            failed = message["status"] >= 400
            if self._unit.keeps_response and not failed:
                self._held = message
                return
            await self._unit.end(failed=failed)
        elif self._held is not None:
            self._body.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            await self._keep_and_send(self._held)
            return
        await self._exchange.send(message)

    async def _keep_and_send(self, start: Message) -> None:
        body = b"".join(self._body)
        await self._unit.keep_response(start["status"], list(start.get("headers", [])), body)
        await self._unit.end(failed=False)
        await self._exchange.send(start)
        await self._exchange.send({"type": "http.response.body", "body": body})


def _observe(exchange: _Exchange, seconds: float) -> None:
    route = exchange.scope.get("route")
    path = getattr(route, "path", "unmatched")
    method = exchange.scope["method"]
    metrics.observe_request(method, path, exchange.status, seconds)
    log.debug(
        "request",
        method=method,
        # Not as it was sent: it may hold anything, a key pasted into the wrong place as well.
        path=path,
        status=exchange.status,
        ms=round(seconds * 1000, 1),
    )
