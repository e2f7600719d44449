from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response

from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of
from agentos.tenancy.vault import service
from agentos.tenancy.vault.schemas import KeyRotation, SecretName, SecretRead, SecretStore

router = APIRouter(prefix="/api/vault", tags=["vault"])


async def _vault(request: Request) -> service.Vault:
    return cast(service.Vault, request.app.state.vault)


CurrentVault = Annotated[service.Vault, Depends(_vault)]


@router.get("", response_model=Page[SecretRead], openapi_extra=PAGED)
async def list_secrets(work: CurrentWork, request: Request) -> Response:
    """The secrets of this tenant, without their values."""
    return (await service.list_secrets(work, page_of(request))).response()


@router.post("/rotate")
async def rotate_key(work: CurrentWork, vault: CurrentVault) -> KeyRotation:
    """Give this tenant a new encryption key and encrypt all its secrets anew."""
    return await vault.rotate_tenant_key(work)


@router.put("/{name}")
async def store_secret(
    name: SecretName, body: SecretStore, work: CurrentWork, vault: CurrentVault
) -> SecretRead:
    """Store a secret, or replace its value. The value can never be read back."""
    return await vault.store_secret(work, name, body.value.get_secret_value())


@router.get("/{name}")
async def read_secret_info(name: SecretName, work: CurrentWork) -> SecretRead:
    """What is known of a secret, without its value."""
    return await service.read_secret_info(work, name)


@router.delete("/{name}", status_code=204)
async def delete_secret(name: SecretName, work: CurrentWork) -> None:
    """Delete a secret."""
    await service.delete_secret(work, name)
