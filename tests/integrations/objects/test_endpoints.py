from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.types import Message, Receive, Scope, Send
from tests.integrations.objects.conftest import MAX_BYTES, Tenant

from agentos.gateway import problems
from agentos.integrations.objects.endpoints import router
from agentos.kernel.errors import AgentOSError
from agentos.tenancy.work import Work

HTML = b"<script>alert(document.domain)</script>"


@pytest.fixture
async def api(tenant: Tenant) -> AsyncIterator[httpx.AsyncClient]:
    """The object routes for one tenant; like the gateway, it commits as the answer starts."""
    app = FastAPI()
    app.include_router(router)
    for kind in (AgentOSError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, lambda request, error: problems.answer(error, "test"))
    app.state.parts = SimpleNamespace(db=tenant.uploads.database)
    app.state.objects = tenant.uploads.store
    app.state.settings = SimpleNamespace(max_object_bytes=MAX_BYTES)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:

            async def work() -> Work:
                return await stack.enter_async_context(tenant.work())

            async def committing(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await stack.aclose()
                await send(message)

            unit = SimpleNamespace(work=work)
            scope["state"] = {"unit": unit, "principal": tenant.principal, "request_id": "test"}
            await app(scope, receive, committing)

    transport = httpx.ASGITransport(serve)
    async with httpx.AsyncClient(transport=transport, base_url="http://agentos.test") as client:
        yield client


async def test_an_upload_says_whether_the_key_is_new(api: httpx.AsyncClient) -> None:
    first = await api.put("/api/objects/a/b.txt", content=b"one")
    again = await api.put(
        "/api/objects/a/b.txt", content=b"two!", headers={"content-type": "text/plain"}
    )
    assert (first.status_code, again.status_code) == (201, 200)
    body = again.json()
    assert (body["key"], body["size"], body["content_type"]) == ("a/b.txt", 4, "text/plain")
    assert body["sha256"] == hashlib.sha256(b"two!").hexdigest()
    assert again.headers["etag"] == f'"{body["sha256"]}"'


async def test_what_was_uploaded_can_never_run_in_our_origin(api: httpx.AsyncClient) -> None:
    await api.put('/api/objects/x/é ".html', content=HTML, headers={"content-type": "text/html"})
    got = await api.get('/api/objects/x/é ".html')
    assert got.content == HTML
    assert got.headers["content-type"] == "text/html"
    assert got.headers["content-length"] == str(len(HTML))
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A9%20%22.html"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"].startswith("sandbox;")


async def test_a_known_etag_needs_no_bytes(api: httpx.AsyncClient) -> None:
    etag = (await api.put("/api/objects/a", content=b"x")).headers["etag"]
    for known in (etag, f'"other", W/{etag}', "*"):
        got = await api.get("/api/objects/a", headers={"if-none-match": known})
        assert (got.status_code, got.content, got.headers["etag"]) == (304, b"", etag)
    other = await api.get("/api/objects/a", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, b"x")


async def test_the_life_of_an_object(api: httpx.AsyncClient) -> None:
    for key in ("a/1", "a/2", "b"):
        await api.put(f"/api/objects/{key}", content=key.encode())
    first = (await api.get("/api/objects?prefix=a/&limit=1")).json()
    rest = await api.get(f"/api/objects?prefix=a/&cursor={first['next_cursor']}")
    assert [item["key"] for item in first["items"]] == ["a/1"]
    assert [item["key"] for item in rest.json()["items"]] == ["a/2"]
    assert (await api.get("/api/usage/storage")).json() == {
        "bytes": 7,
        "objects": 3,
        "allowed": 1_000_000_000,
    }
    assert (await api.delete("/api/objects/a/1")).status_code == 204
    assert (await api.get("/api/objects/a/1")).status_code == 404
    assert (await api.delete("/api/objects/a/1")).status_code == 404


async def test_limits_have_their_status(api: httpx.AsyncClient, tenant: Tenant) -> None:
    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(MAX_BYTES // 2)

    announced = await api.put("/api/objects/a", content=bytes(MAX_BYTES + 1))
    streamed = await api.put("/api/objects/a", content=unannounced())
    assert (announced.status_code, streamed.status_code) == (413, 413)
    assert announced.json()["code"] == streamed.json()["code"] == "object_too_large"
    await tenant.limit(3)
    beyond = await api.put("/api/objects/a", content=b"four")
    assert beyond.json()["code"] == "plan_limit_reached"
    assert (await api.get("/api/objects/a")).status_code == 404


@pytest.mark.parametrize(
    "path", ["%2e%2e/x", "a/%2e%2e/x", "a%00b", "a//b", "a/", "%5c", "", "a%7f", "%2fetc/passwd"]
)
async def test_bad_keys_are_refused(api: httpx.AsyncClient, path: str) -> None:
    for method in ("PUT", "GET", "DELETE"):
        got = await api.request(method, f"/api/objects/{path}")
        assert got.status_code == 422, got.text
        assert got.json()["code"] == "bad_object_name"


async def test_the_longest_key_has_a_cursor(api: httpx.AsyncClient) -> None:
    for last in "12":
        await api.put(f"/api/objects/{'x' * 511}{last}", content=b"")
    first = (await api.get("/api/objects?limit=1")).json()
    rest = await api.get("/api/objects", params={"cursor": first["next_cursor"]})
    assert rest.status_code == 200, rest.text
    assert [item["key"][-1] for item in rest.json()["items"]] == ["2"]
