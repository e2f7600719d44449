"""One model call: attempts until one delivers, then its answer, and its end in the books."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.directory import FallbackChain, TenantModels
from agentos.integrations.models.exchanges import (
    Exchange,
    check_json,
    class_of,
    failure_of,
    refusal,
)
from agentos.integrations.models.failures import ErrorClass, Failure, ModelCallFailed
from agentos.integrations.models.passage import Passage, passage
from agentos.integrations.models.prices import Rates
from agentos.integrations.models.providers.asking import masked
from agentos.integrations.models.routing import FaceNotServed, Target, targets, way
from agentos.integrations.models.upstream import UpstreamAnswer, UpstreamLost, UpstreamTimeout
from agentos.integrations.models.wires.base import MalformedAnswer, Wire, WireName
from agentos.integrations.models.wires.registry import TRANSLATING
from agentos.kernel import metrics
from agentos.kernel.redaction import MASK
from agentos.tenancy.ledger.calls import FinishedCall, Reservation
from agentos.tenancy.rate_limits import RateLimited

if TYPE_CHECKING:
    from agentos.integrations.models.router import ModelRequest, ModelRouter

_MOST_ANSWER = 64 * 1024 * 1024
# How long the opening of a stream may be held back while it can still be started elsewhere.
_HOLD_SECONDS = 2.0
_BYTES_PER_TOKEN = 4
# A call that uses more than this is a provider's mistake: the largest windows have a hundredth.
_MOST_TOKENS = 1_000_000_000

Outcome = Literal["answered", "cancelled", "failed"]


class OpenCall:
    """One call. `whole` is the answer, or None if `chunks()` has to be read."""

    def __init__(self, router: ModelRouter, request: ModelRequest):
        self._router = router
        self._request = request
        self._started = time.perf_counter()
        self._deadline = self._started + router.settings.queue_seconds
        self._first_byte: float | None = None
        self._models: TenantModels
        self._failed: list[tuple[str, Failure]] = []
        self._rates: Rates | None = None
        self._reservation: Reservation | None = None
        self._exchange: Exchange | None = None
        self._source: AsyncIterator[bytes] | None = None
        self._passage: Passage | None = None
        self._held: list[bytes] = []
        self._sent = False
        self._key: bytes | None = None
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
                carried = passage.carry(self._without_key(data))
                if passage.ended and self._reservation is not None:
                    # Before its last byte goes out: an answered call is a booked call.
                    self._settle_stream(passage)
                if carried:
                    yield carried
        except (UpstreamTimeout, UpstreamLost, MalformedAnswer) as error:
            if not passage.ended:
                yield self._broke_off(failure_of(error))
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
            self._failed.append((target.name, failure))
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
        key = target.provider.connection.key
        self._key = key.encode() if key else None
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
            failure = failure_of(error)
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
        self._exchange = exchange = Exchange(
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
            return await refusal(wire, answer, connection.key)
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
            check_json(data)
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
                return Failure(class_of(broken.kind), self._masked(broken.message))
            if (
                carried.delivered
                or carried.ended
                or time.perf_counter() - self._first_byte > _HOLD_SECONDS
            ):
                self._held = [part for part in held if part]
                return None
        return Failure(ErrorClass.OVERLOAD, "the stream was cut before it said anything")

    def _without_key(self, data: bytes) -> bytes:
        """A stream that passes through may hold an error that quotes the key."""
        if self._key is None or self._key not in data:
            return data
        return data.replace(self._key, MASK.encode())

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
            self._settle("failed", None, class_of(broken.kind))

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
        try:
            if self._exchange is not None:
                with suppress(UpstreamLost, UpstreamTimeout):
                    await self._exchange.close()
        finally:
            self._end_reservation(error)

    def _end_reservation(self, error: BaseException | None) -> None:
        if self._reservation is None:
            return
        if not self._sent:
            self._router.escrow.release(self._take_reservation(), "not sent")
        elif isinstance(error, Exception):
            self._settle("failed", None, ErrorClass.OVERLOAD)
        elif self._passage is not None and self._passage.broken() is not None:
            # The caller stopped reading because the provider had said that it failed.
            self._settle_stream(self._passage)
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


def _credible(usage: Usage) -> bool:
    """Whether a call can have used this; the books have no room for what it cannot."""
    counts: tuple[int, ...] = msgspec.structs.astuple(usage)
    return min(counts) >= 0 and max(counts) <= _MOST_TOKENS
