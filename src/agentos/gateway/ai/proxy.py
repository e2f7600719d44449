"""The AI proxy: `/api/ai/openai/v1/…` and `/api/ai/anthropic/v1/…`, for any SDK of either."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from uuid import UUID

from starlette.types import Receive, Scope, Send

from agentos.gateway.admission import Admission
from agentos.gateway.ai.errors import speak, speak_in_stream
from agentos.gateway.ai.exchange import AiExchange, CallerGone
from agentos.gateway.ai.models import ModelLists
from agentos.gateway.authentication import Identity
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.headers import Headers
from agentos.integrations.models.open_call import OpenCall
from agentos.integrations.models.router import ModelRequest, ModelRouter
from agentos.integrations.models.wires.base import WIRE_HEADERS, Wire, WireName
from agentos.integrations.models.wires.registry import WIRES
from agentos.kernel import metrics
from agentos.kernel.errors import AgentOSError, Invalid, NotFound
from agentos.kernel.logs import bind_context, clear_context, get_logger
from agentos.kernel.tracing import span
from agentos.tenancy.ledger.calls import Spender
from agentos.tenancy.principals import Principal
from agentos.tenancy.principals import Scope as Grant
from agentos.tenancy.tokens import Unauthenticated

log = get_logger(__name__)

PREFIX = "/api/ai/"
_OPENAI = f"{PREFIX}openai/v1"
_ANTHROPIC = f"{PREFIX}anthropic/v1"
_FACES: dict[str, Wire] = {
    f"{_OPENAI}/chat/completions": WIRES[WireName.CHAT],
    f"{_OPENAI}/responses": WIRES[WireName.RESPONSES],
    f"{_OPENAI}/embeddings": WIRES[WireName.EMBEDDINGS],
    f"{_ANTHROPIC}/messages": WIRES[WireName.MESSAGES],
    f"{_ANTHROPIC}/messages/count_tokens": WIRES[WireName.COUNT_TOKENS],
}
_FORWARDED = tuple(name.encode() for name in WIRE_HEADERS)
_JSON = (b"content-type", b"application/json")
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Proxies that collect answers before passing them on would hold back every word.
    (b"x-accel-buffering", b"no"),
]


_CLOSE_SECONDS = 2.0


class NoSuchPath(NotFound):
    """There is no such path in the AI proxy."""

    code = "no_such_route"
    hint = "docs/models.md lists the paths there are."


class AiProxy:
    def __init__(
        self,
        router: ModelRouter,
        lists: ModelLists,
        admission: Admission,
        watch: CredentialWatch,
        *,
        max_request_bytes: int,
    ):
        self._router = router
        self._lists = lists
        self._admission = admission
        self._watch = watch
        self._max_request_bytes = max_request_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        exchange = AiExchange(scope, receive, send)
        path = scope["path"]
        clear_context()
        with span(
            "http.request", traceparent=exchange.headers.get(b"traceparent"), method=scope["method"]
        ):
            bind_context(request_id=exchange.request_id)
            face = _FACES.get(path)
            # Whose dialect errors are said in, also for paths that are not there.
            dialect = (
                face
                or _FACES[
                    f"{_ANTHROPIC}/messages"
                    if path.startswith(_ANTHROPIC)
                    else f"{_OPENAI}/chat/completions"
                ]
            )
            try:
                await self._serve(exchange, face)
            except CallerGone:
                exchange.status = exchange.status or 499
            except Exception as error:  # noqa: BLE001 - the edge of the process; it is logged there
                await _fail(exchange, dialect, error)
        _observe(exchange, path if face else f"{PREFIX}…", time.perf_counter() - started)

    async def _serve(self, exchange: AiExchange, face: Wire | None) -> None:
        credential, identity = await self._admit(exchange)
        scope = exchange.scope
        if face is not None and scope["method"] == "POST":
            await self._call(exchange, face, credential, identity.principal)
            return
        if scope["method"] == "GET":
            body = await self._lists.answer(scope["path"], identity.principal)
            if body is not None:
                await exchange.answer(200, [_JSON], body)
                return
        raise NoSuchPath()

    async def _admit(self, exchange: AiExchange) -> tuple[str, Identity]:
        admission, headers = self._admission, exchange.headers
        credential = (
            headers.get(b"x-api-key")
            or headers.bearer()
            or admission.cookie(headers, harmless=exchange.scope["method"] == "GET")
        )
        if not credential:
            raise Unauthenticated(
                hint="Send an AgentOS API key, as the SDK sends its provider's: "
                "`agentos keys create` makes one."
            )
        identity = await admission.identify(credential, exchange.scope, headers)
        bind_context(tenant_id=str(identity.principal.tenant_id))
        await admission.count(identity)
        return credential, identity

    async def _call(
        self, exchange: AiExchange, face: Wire, credential: str, principal: Principal
    ) -> None:
        principal.require(Grant.MODELS_USE)
        body = await exchange.body(self._max_request_bytes)
        request = ModelRequest(
            face=face,
            body=body,
            glance=face.glance(body),
            spender=_spender(exchange, principal),
            principal_kind=principal.kind,
            principal_id=principal.id,
            forwarded=_forwarded(exchange.headers),
        )
        with exchange.stoppable():
            if request.glance.stream:
                with self._watch.watching(credential, Grant.MODELS_USE, exchange.stop):
                    await self._answer(exchange, request)
            else:
                await self._answer(exchange, request)

    async def _answer(self, exchange: AiExchange, request: ModelRequest) -> None:
        async with self._router.open(request) as call:
            if call.whole is not None:
                await exchange.answer(200, [_JSON, *_served_by(call)], call.whole)
                return
            await exchange.begin(200, [*_EVENT_STREAM, *_served_by(call)])
            async for chunk in call.chunks():
                await exchange.write(chunk)
        await exchange.finish()


async def _fail(exchange: AiExchange, dialect: Wire, error: Exception) -> None:
    if not exchange.begun:
        spoken = speak(dialect, error)
        await exchange.answer(spoken.status, spoken.headers, spoken.body)
        return
    last = speak_in_stream(dialect, error) if isinstance(error, AgentOSError) else b""
    if not last:
        speak(dialect, error)  # logs it
    # A caller that does not read does not see why, either.
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await exchange.finish(last)


def _served_by(call: OpenCall) -> list[tuple[bytes, bytes]]:
    """Which provider answered: a caller with a fallback chain wants to know."""
    return [
        (b"x-agentos-provider", call.target.provider.name.encode()),
        (b"x-agentos-model", call.target.model.encode("ascii", "replace")),
        (b"x-agentos-attempts", str(call.attempts).encode()),
    ]


def _spender(exchange: AiExchange, principal: Principal) -> Spender:
    """Who pays. A credential that was made for a team or session cannot book elsewhere."""
    bound = principal.team_id is not None or principal.session_id is not None
    return Spender(
        principal.tenant_id,
        principal.team_id if bound else _id(exchange, b"x-agentos-team"),
        principal.session_id if bound else _id(exchange, b"x-agentos-session"),
    )


def _forwarded(headers: Headers) -> dict[str, str]:
    return {name.decode(): value for name in _FORWARDED if (value := headers.get(name)) is not None}


def _id(exchange: AiExchange, header: bytes) -> UUID | None:
    text = exchange.headers.get(header)
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"{header.decode()} must be a UUID.") from None


def _observe(exchange: AiExchange, path: str, seconds: float) -> None:
    method = exchange.scope["method"]
    metrics.observe_request(method, path, exchange.status, seconds)
    log.debug(
        "request", method=method, path=path, status=exchange.status, ms=round(seconds * 1000, 1)
    )
