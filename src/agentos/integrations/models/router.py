"""The router: one model call from the caller's bytes to the provider's, metered and escrowed.

Both faces use it: the HTTP proxy and native agents. What a call may cost is reserved before each
attempt; what it did cost is settled before its last byte is handed on. An attempt that fails
before anything was delivered may be followed by one at the next target of the chain; once text
has gone out, a call is never started again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Literal

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.directory import Directory, FallbackChain, TenantModels
from agentos.integrations.models.failures import ErrorClass, Failure
from agentos.integrations.models.health import Health
from agentos.integrations.models.passage import Passage, passage
from agentos.integrations.models.prices import Catalogue, Rates, may_carry_sound
from agentos.integrations.models.providers.asking import masked
from agentos.integrations.models.providers.demo import CONTEXT_WINDOW as DEMO_WINDOW
from agentos.integrations.models.routing import FaceNotServed, Target, targets, way
from agentos.integrations.models.upstream import (
    Upstream,
    UpstreamAnswer,
    UpstreamLost,
    UpstreamTimeout,
)
from agentos.integrations.models.wires.base import Glance, MalformedAnswer, Wire, WireName
from agentos.integrations.models.wires.registry import TRANSLATING
from agentos.kernel import metrics
from agentos.kernel.clock import Clock
from agentos.kernel.errors import AgentOSError, Kind
from agentos.tenancy.ledger.calls import Amount, FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.escrow import Escrow
from agentos.tenancy.rate_limits import RateLimited, RateLimiter

_MOST_ANSWER = 64 * 1024 * 1024
_MOST_ERROR = 64 * 1024
# How long the opening of a stream may be held back while it can still be started elsewhere.
_HOLD_SECONDS = 2.0
# What a model may write or read at most when nobody knows: no model in the catalogue does more.
_UNKNOWN_OUTPUT = 131_072
_UNKNOWN_WINDOW = 1_000_000
_BYTES_PER_TOKEN = 4
# A call that uses more than this is a provider's mistake: the largest windows have a hundredth.
_MOST_TOKENS = 1_000_000_000
_FREE = Rates(input=0, output=0, cache_read=0, cache_write=0, cache_write_long=0)

Outcome = Literal["answered", "cancelled", "failed"]


class ModelCallFailed(AgentOSError):
    """No provider could answer this call."""

    code = "model_call_failed"

    def __init__(self, failed: list[tuple[Target, Failure]]):
        last = failed[-1][1]
        self.error_class = last.error_class
        self.provider_status = last.status
        waits = [f.retry_after for _, f in failed if f.retry_after is not None]
        self.retry_after = min(waits) if waits else None
        told = "; ".join(f"{target.name}: {failure.message}" for target, failure in failed)
        super().__init__(told, hint=_ADVICE.get(last.error_class))

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return _KINDS[self.error_class]


_KINDS = {
    ErrorClass.OVERLOAD: Kind.TRANSIENT,
    ErrorClass.TIMEOUT: Kind.TRANSIENT,
    ErrorClass.RATE_LIMIT: Kind.LIMITED,
    ErrorClass.AUTH: Kind.FORBIDDEN,
    ErrorClass.NOT_FOUND: Kind.NOT_FOUND,
    ErrorClass.CONTEXT_LENGTH: Kind.INVALID,
    ErrorClass.INVALID: Kind.INVALID,
}
_ADVICE = {
    ErrorClass.OVERLOAD: "Try again, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.TIMEOUT: "Try again, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.RATE_LIMIT: "Wait, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.AUTH: "Give the provider a working key: `agentos models providers update`.",
    ErrorClass.NOT_FOUND: "`agentos models list` shows the models there are.",
    ErrorClass.CONTEXT_LENGTH: "Send less, or use a model with a larger context.",
}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A call as it came: the bytes, the wire they are written in, and who pays."""

    face: Wire
    body: bytes
    glance: Glance
    spender: Spender
    principal_kind: str
    principal_id: str
    # Headers that belong to the face's wire, such as its version: for providers that speak it.
    forwarded: Mapping[str, str] = field(default_factory=dict)
    # Takes over from Escrow.settle, for callers that book in a transaction of their own.
    book: Callable[[Reservation, FinishedCall], None] | None = None


@dataclass(frozen=True)
class RouterSettings:
    timeout_seconds: float
    queue_seconds: float


class ModelRouter:
    def __init__(
        self,
        *,
        directory: Directory,
        catalogue: Catalogue,
        escrow: Escrow,
        upstream: Upstream,
        limiter: RateLimiter,
        clock: Clock,
        settings: RouterSettings,
    ):
        self.directory = directory
        self.catalogue = catalogue
        self.escrow = escrow
        self.upstream = upstream
        self.limiter = limiter
        self.clock = clock
        self.settings = settings
        self.health = Health()

    def open(self, request: ModelRequest) -> OpenCall:
        """A call that begins when the block is entered and is settled when it ends.

        Entering raises ModelNotFound, FaceNotServed, ModelCallFailed and what Escrow.reserve does.
        """
        return OpenCall(self, request)

    def rates(self, models: TenantModels, request: ModelRequest, target: Target) -> Rates | None:
        """What a target charges; None if nobody knows."""
        own = models.prices.get((target.provider.name, target.model))
        if own is not None:
            return own
        provider = target.provider.provider
        if provider.free:
            return _FREE
        return self.catalogue.rates(
            provider.price_ids,
            target.model,
            request.glance.service_tier,
            sound=request.glance.open_ended or may_carry_sound(request.body),
        )

    def worst(self, request: ModelRequest, target: Target, rates: Rates | None) -> Amount:
        """The most a call can take: a token is at least a byte, and no model reads more than its
        window.
        """
        provider = target.provider.provider
        window = (
            DEMO_WINDOW
            if provider.kind == "demo"
            else self.catalogue.context_window(provider.price_ids, target.model)
        )
        glance = request.glance
        read = len(request.body)
        if glance.open_ended:
            read = max(read, window or _UNKNOWN_WINDOW)
        elif window is not None:
            read = min(read, window)
        written = glance.max_output
        if written is None:
            written = min(window or _UNKNOWN_OUTPUT, _UNKNOWN_OUTPUT)
        micros = None if rates is None else rates.worst(read, written)
        return Amount(micros, read + written)


class OpenCall:
    """One call. `whole` is the answer, or None if `chunks()` has to be read."""

    def __init__(self, router: ModelRouter, request: ModelRequest):
        self._router = router
        self._request = request
        self._started = time.perf_counter()
        self._deadline = self._started + router.settings.queue_seconds
        self._first_byte: float | None = None
        self._models: TenantModels
        self._failed: list[tuple[Target, Failure]] = []
        self._rates: Rates | None = None
        self._reservation: Reservation | None = None
        self._exchange: _Exchange | None = None
        self._source: AsyncIterator[bytes] | None = None
        self._passage: Passage | None = None
        self._held: list[bytes] = []
        self._sent = False
        self.target: Target
        self.attempts = 0
        self.whole: bytes | None = None

    # The life of a call

    async def __aenter__(self) -> OpenCall:
        try:
            await self._open()
        except BaseException as error:
            await self._end(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The stream in the caller's dialect. An error on the way is said in it, and ends it."""
        passage, source = self._passage, self._source
        assert passage is not None, "whole answers have no chunks"
        assert source is not None
        if passage.ended:
            self._settle_stream(passage)
        for held in self._held:
            yield held
        self._held = []
        try:
            async for data in source:
                carried = passage.carry(data)
                if passage.ended and self._reservation is not None:
                    # Before its last byte goes out: an answered call is a booked call.
                    self._settle_stream(passage)
                if carried:
                    yield carried
        except (UpstreamTimeout, UpstreamLost, MalformedAnswer) as error:
            if not passage.ended:
                yield self._broke_off(_failure_of(error))
            return
        if passage.ended:
            return
        if passage.broken() is not None:
            # The provider said so itself, and the caller has heard it.
            self._settle_stream(passage)
        else:
            yield self._broke_off(Failure(ErrorClass.OVERLOAD, "the stream was cut"))

    # Opening: attempts until one delivers

    async def _open(self) -> None:
        request, router = self._request, self._router
        self._models = await router.directory.of(request.spender.tenant_id)
        ways = self._ways()
        chain = self._models.chain
        for position, (target, wire) in enumerate(ways):
            more = position < len(ways) - 1
            failure = await self._attempt_in_turn(target, wire, chain, more=more)
            if failure is None:
                return
            metrics.model_attempts_failed.labels(
                target.provider.provider.kind, failure.error_class
            ).inc()
            self._failed.append((target, failure))
            if failure.error_class not in chain.fall_back_on:
                break
        raise ModelCallFailed(self._failed)

    def _ways(self) -> list[tuple[Target, Wire]]:
        face = self._request.face
        wanted = targets(self._models, self._request.glance.model)
        ways = [(target, wire) for target in wanted if (wire := way(target, face)) is not None]
        if not ways and face.name is WireName.COUNT_TOKENS:
            # The built-in model counts for those that cannot: an approximation, and free.
            builtin = self._models.providers[-1]
            ways = [(Target(builtin, builtin.provider.kind), face)]
        if not ways:
            raise FaceNotServed(f"{wanted[0].name} cannot be called through {face.name}.")
        return ways

    async def _attempt_in_turn(
        self, target: Target, wire: Wire, chain: FallbackChain, *, more: bool
    ) -> Failure | None:
        """One attempt, when the provider's limits allow it; rather waits than fails if there is
        nowhere else to go.
        """
        health = self._router.health
        while True:
            closed = health.closed(target.provider.id)
            if closed is not None:
                elsewhere = more and closed.error_class in chain.fall_back_on
                if elsewhere or not await self._wait(closed.error_class, closed.seconds):
                    return Failure(
                        closed.error_class,
                        f"left alone for {closed.seconds:.0f} s more after {closed.error_class}",
                        retry_after=closed.seconds,
                    )
                continue
            patient = not (more and ErrorClass.RATE_LIMIT in chain.fall_back_on)
            paced = await self._pace(target, patient=patient)
            if paced is not None:
                # Not the provider's failure: nothing is learnt about its health.
                return paced
            failure = await self._attempt(target, wire)
            if failure is None:
                health.succeeded(target.provider.id)
                return None
            health.failed(target.provider.id, failure)
            elsewhere = more and failure.error_class in chain.fall_back_on
            now_closed = health.closed(target.provider.id)
            if elsewhere or now_closed is None:
                return failure
            if not await self._wait(failure.error_class, now_closed.seconds):
                return failure

    async def _wait(self, error_class: ErrorClass, seconds: float) -> bool:
        """Waits for a rate limit to pass; says whether it did."""
        if error_class is not ErrorClass.RATE_LIMIT:
            return False
        # Not all at once again.
        seconds *= 1 + random.random() / 10  # noqa: S311 - no secret
        if time.perf_counter() + seconds > self._deadline:
            return False
        await asyncio.sleep(seconds)
        return True

    async def _pace(self, target: Target, *, patient: bool) -> Failure | None:
        """Waits until the limit that the tenant set for this provider has room, if patient."""
        per_minute = target.provider.requests_per_minute
        if per_minute is None:
            return None
        bucket = f"{self._request.spender.tenant_id}:provider:{target.provider.id}"
        while True:
            try:
                await self._router.limiter.take(bucket, per_minute)
            except RateLimited:
                seconds = 60 / per_minute
                if not patient or not await self._wait(ErrorClass.RATE_LIMIT, seconds):
                    return Failure(
                        ErrorClass.RATE_LIMIT,
                        f"more than the {per_minute} requests a minute set for it",
                        retry_after=seconds,
                    )
            else:
                return None

    async def _attempt(self, target: Target, wire: Wire) -> Failure | None:
        self.target = target
        self.attempts += 1
        router, request = self._router, self._request
        body = self._body_for(target, wire)
        if request.face.name is not WireName.COUNT_TOKENS:
            self._rates = router.rates(self._models, request, target)
            self._reservation = await router.escrow.reserve(
                request.spender, router.worst(request, target, self._rates)
            )
        try:
            failure = await self._exchange_with(target, wire, body)
        except (UpstreamTimeout, UpstreamLost, MalformedAnswer) as error:
            failure = _failure_of(error)
        if failure is not None:
            await self._give_up(failure)
        return failure

    def _body_for(self, target: Target, wire: Wire) -> bytes:
        face, body = self._request.face, self._request.body
        if wire is face:
            return wire.for_provider(body, self._request.glance, target.model)
        conversation = TRANSLATING[face.name].read_request(body)
        return TRANSLATING[wire.name].write_request(conversation, target.model)

    def _headers(self, target: Target, wire: Wire) -> dict[str, str]:
        headers = target.provider.provider.headers(target.provider.connection)
        headers["content-type"] = "application/json"
        if wire is self._request.face:
            headers.update(self._request.forwarded)
        return headers

    async def _exchange_with(self, target: Target, wire: Wire, body: bytes) -> Failure | None:
        provider, connection = target.provider.provider, target.provider.connection
        glance = self._request.glance
        self._exchange = exchange = _Exchange(
            self._router.upstream.send(
                "POST",
                provider.url(connection, wire.name, target.model, stream=glance.stream),
                headers=self._headers(target, wire),
                body=body,
                timeout=self._router.settings.timeout_seconds,
            )
        )
        self._sent = True
        answer = await exchange.open()
        if answer.status != 200:
            return await _refusal(wire, answer, connection.key)
        if glance.stream:
            return await self._open_stream(wire, answer)
        self._take_whole(wire, await answer.body(_MOST_ANSWER))
        await exchange.close()
        return None

    def _take_whole(self, wire: Wire, data: bytes) -> None:
        self._first_byte = time.perf_counter()
        usage = wire.usage(data)
        face = self._request.face
        if wire is not face:
            data = TRANSLATING[face.name].write_answer(TRANSLATING[wire.name].read_answer(data))
        elif usage is None:
            _check_json(data)
        self.whole = data
        self._settle("answered", usage)

    async def _open_stream(self, wire: Wire, answer: UpstreamAnswer) -> Failure | None:
        """Reads until something is delivered, so that whatever fails before can go elsewhere."""
        self._passage = carried = passage(
            wire, self._request.face, self._request.glance, self._masked
        )
        self._source = source = answer.chunks()
        held: list[bytes] = []
        async for data in source:
            if self._first_byte is None:
                self._first_byte = time.perf_counter()
            held.append(carried.carry(data))
            if not carried.delivered and (broken := carried.broken()) is not None:
                return Failure(_class_of(broken.kind), self._masked(broken.message))
            if (
                carried.delivered
                or carried.ended
                or time.perf_counter() - self._first_byte > _HOLD_SECONDS
            ):
                self._held = [part for part in held if part]
                return None
        return Failure(ErrorClass.OVERLOAD, "the stream was cut before it said anything")

    def _masked(self, message: str) -> str:
        """What a provider says, without the key it was sent."""
        return masked(message, self.target.provider.connection.key)

    # Ending: every reservation is settled or released, once

    async def _give_up(self, failure: Failure) -> None:
        """Ends a failed attempt. What the provider said it used is booked; mostly nothing."""
        if self._exchange is not None:
            await self._exchange.close()
        used = self._passage.usage if self._passage is not None else None
        self._settle("failed", used or Usage(), failure.error_class)
        self._passage = self._source = None
        self._first_byte = None
        self._sent = False

    def _settle_stream(self, passage: Passage) -> None:
        broken = passage.broken()
        if broken is None:
            self._settle("answered", passage.usage)
        else:
            self._settle("failed", None, _class_of(broken.kind))

    def _broke_off(self, failure: Failure) -> bytes:
        """Books a stream that ended before its end, and says so to the caller."""
        self._settle("failed", None, failure.error_class)
        return self._request.face.stream_error(
            failure.error_class,
            "stream_broken",
            f"{self.target.name} broke off in the middle of its answer: {failure.message}. "
            "It was not started again, because a part of it has been delivered.",
        )

    async def _end(self, error: BaseException | None) -> None:
        if self._exchange is not None:
            with suppress(UpstreamLost, UpstreamTimeout):
                await self._exchange.close()
        if self._reservation is None:
            return
        if not self._sent:
            self._router.escrow.release(self._take_reservation(), "not sent")
        elif isinstance(error, Exception):
            self._settle("failed", None, ErrorClass.OVERLOAD)
        else:
            # The caller went away, or stopped reading.
            self._settle("cancelled", None)

    def _take_reservation(self) -> Reservation:
        reservation, self._reservation = self._reservation, None
        assert reservation is not None
        return reservation

    def _settle(
        self, outcome: Outcome, usage: Usage | None, error_class: ErrorClass | None = None
    ) -> None:
        """Books the call, once. Usage that nobody told is estimated, and marked as that."""
        if self._reservation is None:
            return
        reservation = self._take_reservation()
        estimated = usage is None or not _credible(usage)
        if usage is None or estimated:
            usage = self._estimated()
        call = self._finished(usage, reservation.at, outcome, error_class, estimated=estimated)
        (self._request.book or self._router.escrow.settle)(reservation, call)
        metrics.observe_model_call(self.target.provider.provider.kind, outcome)

    def _estimated(self) -> Usage:
        """Usage by length; never more output than was asked for, which is what was reserved."""
        known, output = None, 0
        if self._passage is not None:
            known, output = self._passage.usage, self._passage.estimate()
        elif self.whole is not None:
            output = -(-len(self.whole) // _BYTES_PER_TOKEN)
        limit = self._request.glance.max_output
        if limit is not None:
            output = min(output, limit)
        if known is None or not _credible(known):
            return Usage(input=-(-len(self._request.body) // _BYTES_PER_TOKEN), output=output)
        # The opening of a stream tells what was read; what was written comes at its end.
        return msgspec.structs.replace(known, output=max(output, known.output))

    def _finished(
        self,
        usage: Usage,
        at: datetime,
        outcome: Outcome,
        error_class: ErrorClass | None,
        *,
        estimated: bool,
    ) -> FinishedCall:
        request, started = self._request, self._started
        first = self._first_byte
        return FinishedCall(
            at=at,
            principal_kind=request.principal_kind,
            principal_id=request.principal_id,
            face=request.face.name,
            provider=self.target.provider.name,
            model=self.target.model,
            asked_model=request.glance.model,
            outcome=outcome,
            error_class=error_class,
            streamed=request.glance.stream,
            estimated=estimated,
            attempts=self.attempts,
            input_tokens=usage.input,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            reasoning_tokens=usage.reasoning,
            cost_micros=None if self._rates is None else self._rates.cost(usage),
            duration_ms=int((time.perf_counter() - started) * 1000),
            first_byte_ms=None if first is None else int((first - started) * 1000),
        )


class _Exchange:
    """An upstream exchange that is closed once, by whoever comes first."""

    __slots__ = ("_context",)

    def __init__(self, context: AbstractAsyncContextManager[UpstreamAnswer]):
        self._context: AbstractAsyncContextManager[UpstreamAnswer] | None = context

    async def open(self) -> UpstreamAnswer:
        assert self._context is not None
        return await self._context.__aenter__()

    async def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)


async def _refusal(wire: Wire, answer: UpstreamAnswer, key: str | None) -> Failure:
    body = await answer.body(_MOST_ERROR)
    error_class, message = wire.error_class(answer.status, body)
    told = _seconds(answer.header("retry-after"))
    return Failure(
        error_class,
        masked(message, key),
        status=answer.status,
        retry_after=wire.retry_after(body) if told is None else told,
    )


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, is as good as none to us."""
    if text is None or not text.replace(".", "", 1).isdecimal():
        return None
    return float(text)


def _failure_of(error: UpstreamTimeout | UpstreamLost | MalformedAnswer) -> Failure:
    if isinstance(error, UpstreamTimeout):
        return Failure(ErrorClass.TIMEOUT, "it stayed silent for too long")
    if isinstance(error, MalformedAnswer):
        return Failure(ErrorClass.OVERLOAD, "it answered something that is not its own format")
    return Failure(ErrorClass.OVERLOAD, f"the connection failed ({error})")


def _credible(usage: Usage) -> bool:
    """Whether a call can have used this; the books have no room for what it cannot."""
    counts: tuple[int, ...] = msgspec.structs.astuple(usage)
    return min(counts) >= 0 and max(counts) <= _MOST_TOKENS


def _class_of(kind: str) -> ErrorClass:
    try:
        return ErrorClass(kind)
    except ValueError:
        return ErrorClass.OVERLOAD


def _check_json(data: bytes) -> None:
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise MalformedAnswer("not JSON") from None
