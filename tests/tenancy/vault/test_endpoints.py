from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from tests.conftest import TenantWork

from agentos.kernel.errors import NotFound
from agentos.tenancy.vault.endpoints import router
from agentos.tenancy.vault.keyring import EnvironmentKeyring
from agentos.tenancy.vault.service import Vault
from agentos.tenancy.work import Work

CANARY = "canary-55c1e0-do-not-leak\n"


@dataclass
class OneWork:
    """A request's unit of work, without the gateway around it."""

    current: Work

    async def work(self) -> Work:
        return self.current


@pytest.fixture
async def api(tenant_work: TenantWork) -> AsyncIterator[httpx.AsyncClient]:
    """The vault's routes for one new tenant; each request is one transaction."""
    app = FastAPI()
    app.include_router(router)
    app.state.vault = Vault(EnvironmentKeyring("k1:" + "a" * 64))
    tenant: UUID | None = None

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal tenant
        async with tenant_work(tenant=tenant) as work:
            tenant = work.tenant_id
            scope["state"] = {"unit": OneWork(work)}
            await app(scope, receive, send)

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(serve), base_url="http://agentos.test"
    ) as client:
        yield client


async def test_the_life_of_a_secret(api: httpx.AsyncClient) -> None:
    stored = await api.put("/api/vault/OPENAI_KEY", json={"value": CANARY})
    read = await api.get("/api/vault/OPENAI_KEY")
    listed = await api.get("/api/vault")
    rotated = await api.post("/api/vault/rotate")
    deleted = await api.delete("/api/vault/OPENAI_KEY")

    assert stored.status_code == read.status_code == 200
    assert stored.json() == read.json()
    assert stored.json()["last_four"] == ""  # it ends in a line break, which is kept
    assert set(stored.json()) == {
        "id",
        "name",
        "version",
        "last_four",
        "created_at",
        "updated_at",
    }
    assert listed.json() == {"items": [stored.json()], "next_cursor": None}
    assert (rotated.status_code, rotated.json()) == (200, {"version": 2, "reencrypted": 1})
    assert (deleted.status_code, deleted.content) == (204, b"")
    with pytest.raises(NotFound):
        await api.get("/api/vault/OPENAI_KEY")


async def test_a_secret_may_be_named_rotate(api: httpx.AsyncClient) -> None:
    await api.put("/api/vault/rotate", json={"value": "value"})
    assert (await api.get("/api/vault/rotate")).json()["name"] == "rotate"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("-bad", {"value": CANARY}),
        ("KEY%0A", {"value": CANARY}),
        ("KEY", {"value": ""}),
        ("KEY", {"value": "x" * 65_537}),
        ("KEY", {"value": CANARY, "extra": 1}),
        ("KEY", {}),
        ("KEY", {"value": 5}),
    ],
)
async def test_a_bad_request_is_refused(
    api: httpx.AsyncClient, name: str, body: dict[str, object]
) -> None:
    assert (await api.put(f"/api/vault/{name}", json=body)).status_code == 422


def test_no_answer_has_a_value() -> None:
    app = FastAPI()
    app.include_router(router)
    described = app.openapi()
    answers = str(
        [
            operation["responses"]
            for path in described["paths"].values()
            for operation in path.values()
        ]
    )
    assert "SecretStore" not in answers
    assert "value" not in described["components"]["schemas"]["SecretRead"]["properties"]
    assert described["components"]["schemas"]["SecretStore"]["properties"]["value"]["writeOnly"]
