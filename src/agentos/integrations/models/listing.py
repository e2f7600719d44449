"""What providers say of themselves: their models, whether a key works, what a call would cost.

None of it holds a transaction while a provider is asked: it may take ten seconds to answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.directory import ConnectedProvider, Directory, TenantModels
from agentos.integrations.models.errors import ProviderKeyLost
from agentos.integrations.models.failures import ErrorClass, Failure
from agentos.integrations.models.hosts import Hosts
from agentos.integrations.models.prices import FREE, Catalogue, Rates
from agentos.integrations.models.providers.base import Connection, ModelInfo, ProviderFailed
from agentos.integrations.models.providers.ollama import OLLAMA
from agentos.integrations.models.remembered import Remembered
from agentos.integrations.models.routing import ModelNotFound, Target, targets
from agentos.integrations.models.schemas import (
    DetectedProvider,
    DetectedProviders,
    Estimate,
    EstimateAsk,
    ModelList,
    ModelRead,
    PriceSource,
    ProviderTest,
    UnavailableProvider,
)
from agentos.integrations.models.upstream import Upstream
from agentos.kernel.ids import TenantId
from agentos.tenancy.ledger.rating import rated
from agentos.tenancy.principals import Principal, Scope

_BELIEVED_SECONDS = 60.0
# A provider that failed is asked again soon, but not by everybody who looks at the list.
_FAILURE_SECONDS = 5.0
_MOST_LISTS = 2_000
_DETECT_SECONDS = 1.0
_CHARACTERS_PER_TOKEN = 4

_ADVICE = {
    ErrorClass.OVERLOAD: "Check that its address is right and that it is running, then try again.",
    ErrorClass.TIMEOUT: "Check its address, then try again.",
    ErrorClass.RATE_LIMIT: "Wait a moment, then try again.",
    ErrorClass.AUTH: "Give it a working key: `agentos models providers update NAME`.",
    ErrorClass.NOT_FOUND: "Check its address: there is no list of models there.",
    ErrorClass.INVALID: "Check its kind and its address: it did not understand the question.",
}


class _Asked(NamedTuple):
    """Whom a list was asked of. With the key: a new one may see other models."""

    tenant_id: TenantId
    provider: ConnectedProvider


class _Price(NamedTuple):
    rates: Rates | None
    source: PriceSource | None


class Listing:
    """The lists of models, each remembered for a minute by each process."""

    def __init__(
        self,
        upstream: Upstream,
        directory: Directory,
        catalogue: Catalogue,
        now: Callable[[], float] = time.monotonic,
    ):
        self._upstream = upstream
        self._directory = directory
        self._catalogue = catalogue
        self._lists: Remembered[_Asked, list[ModelInfo] | Failure] = Remembered(
            self._ask, seconds=_trusted_for, most=_MOST_LISTS, now=now
        )
        self._found: Remembered[str, list[ModelInfo] | None] = Remembered(
            self._look, seconds=lambda _: _FAILURE_SECONDS, most=1, now=now
        )

    async def all_models(self, principal: Principal) -> ModelList:
        """Every model the tenant can use now. A provider that fails does not fail the others."""
        # Who may use models may see which there are: every SDK asks for the list.
        if Scope.MODELS_USE not in principal.scopes:
            principal.require(Scope.MODELS_READ)
        models = await self._directory.of(principal.tenant_id)
        lost = [_unavailable(name, _key_lost()) for name in models.keyless]
        listed = await self._list(principal.tenant_id, models, models.providers)
        return ModelList(items=listed.items, unavailable=listed.unavailable + lost)

    async def models_of(self, principal: Principal, provider_id: UUID) -> ModelList:
        """The models of one provider. Raises NotFound."""
        principal.require(Scope.MODELS_READ)
        try:
            provider = await self._directory.provider(principal.tenant_id, provider_id)
        except ProviderKeyLost as error:
            lost = _unavailable(error.details["provider"], _key_lost())
            return ModelList(items=[], unavailable=[lost])
        models = await self._directory.of(principal.tenant_id)
        return await self._list(principal.tenant_id, models, [provider])

    async def test(self, principal: Principal, provider_id: UUID) -> ProviderTest:
        """Asks a provider for its models, which costs nothing. Raises NotFound."""
        principal.require(Scope.MODELS_WRITE)
        started = time.perf_counter()
        try:
            provider = await self._directory.provider(principal.tenant_id, provider_id)
        except ProviderKeyLost:
            return _tested(_key_lost(), started)
        asked = _Asked(principal.tenant_id, provider)
        # Not what was remembered: somebody has just changed something, and wants to know.
        self._lists.forget(asked)
        return _tested(await self._lists.of(asked), started)

    async def detected(self, principal: Principal, url: str, hosts: Hosts) -> DetectedProviders:
        """Providers on this machine that could be connected: an Ollama, if one answers."""
        principal.require(Scope.MODELS_READ)
        found = await self._found.of(url) if hosts == "any" else None
        if found is None:
            return DetectedProviders(items=[])
        names = [info.id for info in found]
        return DetectedProviders(
            items=[DetectedProvider(kind=OLLAMA.kind, base_url=url, models=names)]
        )

    async def estimate(self, principal: Principal, ask: EstimateAsk) -> Estimate:
        """What a call would cost at its first target, before it is made."""
        principal.require(Scope.MODELS_USE)
        models = await self._directory.of(principal.tenant_id)
        try:
            target = targets(models, ask.model)[0]
        except ModelNotFound:
            raise ModelNotFound() from None  # that one repeats what was sent
        await self._catalogue.load()
        price = self._price(models, target)
        tokens = _input_tokens(ask)
        usage = Usage(input=tokens, output=ask.max_tokens)
        cost = None if price.rates is None else price.rates.cost(usage)
        return Estimate(
            model=target.model,
            provider=target.provider.name,
            input_tokens=tokens,
            output_tokens=ask.max_tokens,
            cost_micros=cost,
            rated_micros=rated(cost),
            price_source=price.source,
        )

    async def _list(
        self, tenant_id: TenantId, models: TenantModels, providers: Iterable[ConnectedProvider]
    ) -> ModelList:
        asked = [_Asked(tenant_id, provider) for provider in providers]
        answers = await asyncio.gather(*map(self._lists.of, asked))
        await self._catalogue.load()
        listed = ModelList(items=[], unavailable=[])
        for (_, provider), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Failure):
                listed.unavailable.append(_unavailable(provider.name, answer))
            else:
                listed.items += [self._described(models, provider, info) for info in answer]
        return listed

    def _described(
        self, models: TenantModels, provider: ConnectedProvider, info: ModelInfo
    ) -> ModelRead:
        target = Target(provider, info.id)
        rates, source = self._price(models, target)
        window = info.context_window or self._catalogue.context_window(
            provider.provider.price_ids, info.id
        )
        return ModelRead(
            id=target.name,
            provider=provider.name,
            model=info.id,
            input_price=None if rates is None else rates.input,
            output_price=None if rates is None else rates.output,
            price_source=source,
            context_window=window,
        )

    def _price(self, models: TenantModels, target: Target) -> _Price:
        own = models.prices.get((target.provider.name, target.model))
        if own is not None:
            return _Price(own, "own")
        provider = target.provider.provider
        if provider.free:
            return _Price(FREE, "free")
        rates = self._catalogue.rates(provider.price_ids, target.model, sound=False)
        return _Price(rates, None if rates is None else "catalogue")

    async def _ask(self, asked: _Asked) -> list[ModelInfo] | Failure:
        connected = asked.provider
        try:
            found = await connected.provider.models(self._upstream, connected.connection)
        except ProviderFailed as failed:
            return failed.failure
        return sorted(found, key=lambda info: info.id)

    async def _look(self, url: str) -> list[ModelInfo] | None:
        try:
            # It is on this machine, or it is not there.
            async with asyncio.timeout(_DETECT_SECONDS):
                return await OLLAMA.models(self._upstream, Connection(url.rstrip("/"), None))
        except (ProviderFailed, TimeoutError):
            return None


def _trusted_for(answer: list[ModelInfo] | Failure) -> float:
    return _FAILURE_SECONDS if isinstance(answer, Failure) else _BELIEVED_SECONDS


def _key_lost() -> Failure:
    return Failure(ErrorClass.AUTH, "Its key cannot be read from the vault.")


def _unavailable(name: str, failure: Failure) -> UnavailableProvider:
    return UnavailableProvider(
        provider=name,
        error_class=failure.error_class,
        message=failure.message,
        advice=_ADVICE.get(failure.error_class),
    )


def _tested(answer: list[ModelInfo] | Failure, started: float) -> ProviderTest:
    latency_ms = round((time.perf_counter() - started) * 1000)
    if isinstance(answer, Failure):
        return ProviderTest(
            ok=False,
            models=None,
            latency_ms=latency_ms,
            error_class=answer.error_class,
            message=answer.message,
            advice=_ADVICE.get(answer.error_class),
        )
    return ProviderTest(ok=True, models=len(answer), latency_ms=latency_ms)


def _input_tokens(ask: EstimateAsk) -> int:
    if ask.input_tokens is not None:
        return ask.input_tokens
    return -(-_characters(ask.text or ask.messages) // _CHARACTERS_PER_TOKEN)


def _characters(said: object) -> int:
    """How much text there is in something of any shape."""
    total, waiting = 0, [said]
    while waiting:
        match waiting.pop():
            case str() as text:
                total += len(text)
            case list() as items:
                waiting += items
            case dict() as fields:
                waiting += fields.values()
            case _:
                pass
    return total
