from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from tests.conftest import TenantWork

from agentos.kernel.database import Database
from agentos.tenancy.audit.endpoints import router
from agentos.tenancy.work import Work


@dataclass
class OneWork:
    """A request's unit of work, without the gateway around it."""

    current: Work

    async def work(self) -> Work:
        return self.current


@pytest.fixture
async def api(tenant_work: TenantWork, db: Database) -> AsyncIterator[httpx.AsyncClient]:
    """The audit routes for a tenant with five entries."""
    app = FastAPI()
    app.include_router(router)
    app.state.parts = SimpleNamespace(db=db)
    async with tenant_work() as work:
        tenant = work.tenant_id
        for number in range(5):
            await work.record("thing.changed", target=("thing", number))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async with tenant_work(tenant=tenant) as work:
            scope["state"] = {"unit": OneWork(work)}
            await app(scope, receive, send)

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(serve), base_url="http://agentos.test"
    ) as client:
        yield client


async def test_cursors_lead_through_the_list(api: httpx.AsyncClient) -> None:
    first = (await api.get("/api/audit?limit=3")).json()
    rest = (await api.get("/api/audit?limit=3", params={"cursor": first["next_cursor"]})).json()

    targets = [item["target_id"] for item in first["items"] + rest["items"]]
    assert targets == ["4", "3", "2", "1", "0"]
    assert rest["next_cursor"] is None


async def test_filters_come_from_the_query(api: httpx.AsyncClient) -> None:
    one = await api.get("/api/audit?target_kind=thing&target_id=2&since=2020-01-01T00:00:00Z")
    none = await api.get("/api/audit?until=2020-01-01T00:00:00Z")

    assert [item["target_id"] for item in one.json()["items"]] == ["2"]
    assert none.json()["items"] == []


@pytest.mark.parametrize("query", ["action=%00", "since=2020-01-01T00:00:00", "since=x", "action="])
async def test_a_bad_query_is_refused(api: httpx.AsyncClient, query: str) -> None:
    assert (await api.get(f"/api/audit?{query}")).status_code == 422


async def test_exports_are_files(api: httpx.AsyncClient) -> None:
    lines = await api.get("/api/audit/export?format=ndjson")
    table = await api.get("/api/audit/export?format=csv&target_id=1")

    assert lines.headers["content-type"] == "application/x-ndjson"
    assert lines.headers["content-disposition"].startswith('attachment; filename="audit-')
    assert [json.loads(line)["target_id"] for line in lines.text.splitlines()] == list("43210")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert [row["target_id"] for row in csv.DictReader(io.StringIO(table.text))] == ["1"]
    assert (await api.get("/api/audit/export?format=xml")).status_code == 422
