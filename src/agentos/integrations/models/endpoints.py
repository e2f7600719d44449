from __future__ import annotations

from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from agentos.integrations.models import service
from agentos.integrations.models.listing import Listing
from agentos.integrations.models.schemas import (
    ChainPut,
    ChainRead,
    DetectedProviders,
    Estimate,
    EstimateAsk,
    ModelList,
    PricePut,
    PriceRead,
    ProviderCreate,
    ProviderRead,
    ProviderTest,
    ProviderUpdate,
)
from agentos.kernel.settings import Settings
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of
from agentos.tenancy.principals import Principal
from agentos.tenancy.tokens import Unauthenticated

router = APIRouter(prefix="/api/models", tags=["models"])


async def _principal(request: Request) -> Principal:
    principal = cast(Principal | None, request.state.principal)
    if principal is None:
        raise Unauthenticated()
    return principal


async def _listing(request: Request) -> Listing:
    return cast(Listing, request.app.state.listing)


async def _settings(request: Request) -> Settings:
    return cast(Settings, request.app.state.settings)


async def _model_settings(request: Request) -> service.ModelSettings:
    state = request.app.state
    settings: Settings = state.settings
    return service.ModelSettings(
        state.vault, state.directory, settings.model_hosts, settings.ollama_url
    )


# Not CurrentWork: where a provider is asked, no transaction may wait for it.
Caller = Annotated[Principal, Depends(_principal)]
CurrentListing = Annotated[Listing, Depends(_listing)]
CurrentModelSettings = Annotated[service.ModelSettings, Depends(_model_settings)]


@router.get("")
async def list_models(caller: Caller, listing: CurrentListing) -> ModelList:
    """Every model this tenant can use now, with its price."""
    return await listing.all_models(caller)


@router.post("/estimate")
async def estimate_cost(body: EstimateAsk, caller: Caller, listing: CurrentListing) -> Estimate:
    """What a call would cost, before it is made."""
    return await listing.estimate(caller, body)


# Providers


@router.get("/providers", response_model=Page[ProviderRead], openapi_extra=PAGED)
async def list_providers(work: CurrentWork, request: Request) -> Response:
    """The providers this tenant has connected, without their keys."""
    return (await service.list_providers(work, page_of(request))).response()


@router.post("/providers", status_code=201)
async def connect_provider(
    body: ProviderCreate, work: CurrentWork, settings: CurrentModelSettings
) -> ProviderRead:
    """Connect a provider. Its key goes to the vault and can never be read back."""
    return await settings.connect_provider(work, body)


@router.get("/providers/detected")
async def detect_providers(
    caller: Caller, listing: CurrentListing, settings: Annotated[Settings, Depends(_settings)]
) -> DetectedProviders:
    """Providers found on the gateway's machine that could be connected: a local Ollama."""
    return await listing.detected(caller, settings.ollama_url, settings.model_hosts)


@router.get("/providers/{provider_id}")
async def read_provider(provider_id: UUID, work: CurrentWork) -> ProviderRead:
    """One provider, without its key."""
    return await service.read_provider(work, provider_id)


@router.patch("/providers/{provider_id}")
async def update_provider(
    provider_id: UUID, body: ProviderUpdate, work: CurrentWork, settings: CurrentModelSettings
) -> ProviderRead:
    """Replace a provider's key, or change its address or limit. A new address needs the key again."""
    return await settings.update_provider(work, provider_id, body)


@router.delete("/providers/{provider_id}", status_code=204)
async def remove_provider(
    provider_id: UUID, work: CurrentWork, settings: CurrentModelSettings
) -> None:
    """Remove a provider, its key and its prices. Refused while the fallback chain names it."""
    await settings.remove_provider(work, provider_id)


@router.post("/providers/{provider_id}/test")
async def try_provider(provider_id: UUID, caller: Caller, listing: CurrentListing) -> ProviderTest:
    """Try whether a provider answers and takes its key. Costs nothing; a failure is an answer, too."""
    return await listing.test(caller, provider_id)


@router.get("/providers/{provider_id}/models")
async def list_provider_models(
    provider_id: UUID, caller: Caller, listing: CurrentListing
) -> ModelList:
    """The models of one provider."""
    return await listing.models_of(caller, provider_id)


# The fallback chain


@router.get("/fallback-chain")
async def read_chain(work: CurrentWork) -> ChainRead:
    """Where a call goes when its first choice fails."""
    return await service.read_chain(work)


@router.put("/fallback-chain")
async def set_chain(body: ChainPut, work: CurrentWork, settings: CurrentModelSettings) -> ChainRead:
    """Set where a call goes when its first choice fails, and after which failures."""
    return await settings.set_chain(work, body)


@router.delete("/fallback-chain", status_code=204)
async def clear_chain(work: CurrentWork, settings: CurrentModelSettings) -> None:
    """Remove the fallback chain, if there is one."""
    await settings.clear_chain(work)


# Prices


@router.get("/prices", response_model=Page[PriceRead], openapi_extra=PAGED)
async def list_prices(work: CurrentWork, request: Request) -> Response:
    """The tenant's own prices; they win over the catalogue's."""
    return (await service.list_prices(work, page_of(request))).response()


@router.put("/prices")
async def set_price(body: PricePut, work: CurrentWork, settings: CurrentModelSettings) -> PriceRead:
    """Set what a model costs this tenant, in micro-dollars for a million tokens."""
    return await settings.set_price(work, body)


@router.delete("/prices/{price_id}", status_code=204)
async def remove_price(price_id: UUID, work: CurrentWork, settings: CurrentModelSettings) -> None:
    """Remove a price of the tenant's own; the catalogue's holds again."""
    await settings.remove_price(work, price_id)
