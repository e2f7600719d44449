"""The dashboard as the gateway serves it, from a small build made here."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import pytest
from tests.gateways import Gateway
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agentos import web_build
from agentos.gateway.edge import SECURITY_HEADERS
from agentos.gateway.ui import load_ui
from agentos.kernel.settings import Settings

INDEX = '<!doctype html><html><head><base href="/" /><title>AgentOS</title></head></html>\n'
SCRIPT = "console.log('dashboard')\n" * 100
SCRIPT_PATH = "/assets/index-Ab12.js"


@pytest.fixture(autouse=True)
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build; beside it a file that is nobody's business."""
    place = tmp_path / "package" / "_ui"
    (place / "assets").mkdir(parents=True)
    (place.parent / "secret.txt").write_text("nobody's business")
    (place / "index.html").write_text(INDEX)
    (place / "theme.js").write_text("theme()")
    (place / ".stamp").write_text("0123")
    script = place / SCRIPT_PATH[1:]
    script.write_text(SCRIPT)
    script.with_name(script.name + ".gz").write_bytes(gzip.compress(SCRIPT.encode(), mtime=0))
    monkeypatch.setattr(web_build, "UI", place)
    return place


@pytest.fixture
async def visitor(gateway: Gateway) -> httpx.AsyncClient:
    """Somebody with a browser and no credential."""
    return await gateway.client()


# Pages ---------------------------------------------------------------------------------------


async def test_the_page_comes_with_its_headers(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get("/")
    assert answer.status_code == 200
    assert answer.text == INDEX.replace('"/" />', '"/">')
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; "
        "base-uri 'self'; frame-ancestors 'none'"
    )
    for name, value in SECURITY_HEADERS:
        if name not in (b"content-security-policy", b"cache-control"):
            assert answer.headers[name.decode()] == value.decode()


@pytest.mark.parametrize("path", ["/sessions", "/sessions/123?step=4", "/apiary", "/healthy"])
async def test_an_address_inside_the_dashboard_gives_the_page(
    visitor: httpx.AsyncClient, path: str
) -> None:
    assert (await visitor.get(path)).text == (await visitor.get("/")).text


@pytest.mark.parametrize(
    "path",
    ["/assets/gone.js", "/assets/gone", "/gone.css", "/.stamp", SCRIPT_PATH + ".gz", "/.env"],
)
async def test_a_missing_file_is_not_a_page(visitor: httpx.AsyncClient, path: str) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "no_such_route"
    assert answer.headers["cache-control"] == "no-store"


async def test_other_methods_find_no_page(visitor: httpx.AsyncClient) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert (await visitor.request(method, "/sessions")).status_code in (404, 405)


async def test_the_servers_own_paths_stay_its_own(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for path in ("/api/nothing", "/api/ai/nothing"):
        answer = await owner.client.get(path)
        assert answer.status_code == 404, path
        assert answer.headers["content-type"].startswith("application/"), path
    for path in ("/api", "/health", "/health/nothing"):
        answer = await owner.client.get(path)
        assert answer.status_code == 404, path
        assert answer.json()["code"] == "no_such_route", path
    assert (await owner.client.get("/health/live")).json() == {"status": "alive"}
    assert "# HELP" in (await owner.client.get("/metrics")).text


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/..%5c..%5csecret.txt",
        "//secret.txt",
        "/secret.txt%00.js",
        "/assets/%2e%2e/%2e%2e/secret.txt",
    ],
)
async def test_no_path_leads_out_of_the_build(gateway: Gateway, path: str) -> None:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        request = client.build_request("GET", "/")
        # As it is: the client would tidy it up.
        request.url = request.url.copy_with(raw_path=path.encode())
        answer = await client.send(request)
    assert answer.status_code == 404
    assert "business" not in answer.text


# Caching and packing -------------------------------------------------------------------------


async def test_assets_are_kept_for_good_and_other_files_asked_for_again(
    visitor: httpx.AsyncClient,
) -> None:
    asset = await visitor.get(SCRIPT_PATH)
    assert asset.headers["content-type"] == "text/javascript; charset=utf-8"
    assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    other = await visitor.get("/theme.js")
    assert other.text == "theme()"
    assert other.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", SCRIPT_PATH, "/theme.js"])
async def test_what_a_browser_has_is_not_sent_again(visitor: httpx.AsyncClient, path: str) -> None:
    first = await visitor.get(path)
    etag = first.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await visitor.get(path, headers={"If-None-Match": known})
        assert again.status_code == 304, known
        assert again.content == b""
        assert again.headers["etag"] == etag
        assert again.headers["cache-control"] == first.headers["cache-control"]
    changed = await visitor.get(path, headers={"If-None-Match": '"other"'})
    assert changed.content == first.content


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip; q=0.0", False),
        ("gzip;q=0", False),
        ("br", False),
        ("", False),
    ],
)
async def test_a_file_is_packed_for_those_who_take_it(
    visitor: httpx.AsyncClient, accepted: str, packed: bool
) -> None:
    for path, text in ((SCRIPT_PATH, SCRIPT), ("/", INDEX.replace('"/" />', '"/">'))):
        answer = await visitor.get(path, headers={"Accept-Encoding": accepted})
        assert (answer.headers.get("content-encoding") == "gzip") == packed
        assert answer.text == text
    small = await visitor.get("/theme.js", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in small.headers


async def test_packed_and_plain_have_tags_of_their_own(visitor: httpx.AsyncClient) -> None:
    plain, packed = [
        (await visitor.get(SCRIPT_PATH, headers={"Accept-Encoding": accepted})).headers["etag"]
        for accepted in ("identity", "gzip")
    ]
    assert plain != packed


@pytest.mark.parametrize("path", ["/", "/sessions", SCRIPT_PATH])
async def test_head_says_what_get_would(visitor: httpx.AsyncClient, path: str) -> None:
    whole, head = await visitor.get(path), await visitor.head(path)
    assert head.status_code == 200
    assert head.content == b""
    differing = {"date"}
    assert {k: v for k, v in head.headers.items() if k not in differing} == {
        k: v for k, v in whole.headers.items() if k not in differing
    }


# Without a build -----------------------------------------------------------------------------


@pytest.mark.parametrize("built", ["nothing", "half"])
async def test_without_a_build_the_page_says_so(ui: Path, built: str) -> None:
    (ui / "index.html").unlink()
    directory = ui if built == "half" else ui / "nowhere"
    dashboard = load_ui("", directory)
    page = dashboard.find({"method": "GET", "path": "/"})
    assert page is not None
    assert b"has no dashboard" in page.plain.content
    assert (b"cache-control", b"no-store") in page.plain.headers
    assert dashboard.find({"method": "GET", "path": "/sessions"}) is None


# Below a path --------------------------------------------------------------------------------


class TestBelowAPath:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"public_url": "https://example.com/agentos"})

    @pytest.mark.parametrize(
        "path", ["/agentos", "/agentos/", "/agentos/sessions", "/", "/sessions"]
    )
    async def test_pages_say_where_they_are(self, visitor: httpx.AsyncClient, path: str) -> None:
        answer = await visitor.get(path)
        assert answer.status_code == 200
        assert '<base href="/agentos/">' in answer.text

    async def test_files_are_found_with_and_without_it(self, visitor: httpx.AsyncClient) -> None:
        for prefix in ("", "/agentos"):
            assert (await visitor.get(prefix + SCRIPT_PATH)).text == SCRIPT
            assert (await visitor.get(prefix + "/assets/gone.js")).status_code == 404
        assert (await visitor.get("/agentosx/theme.js")).status_code == 404

    async def test_so_is_the_api(self, gateway: Gateway) -> None:
        owner = await gateway.tenant()
        for prefix in ("", "/agentos"):
            me = await owner.client.get(f"{prefix}/api/auth/me")
            assert me.json()["email"] == owner.email
            assert (await owner.client.get(f"{prefix}/api/nothing")).status_code == 404
            assert (await owner.client.get(f"{prefix}/health/live")).is_success

    async def test_a_repeated_request_is_the_same_on_both_ways(self, gateway: Gateway) -> None:
        owner = await gateway.tenant()
        headers = {"Idempotency-Key": "once"}
        made = [
            await owner.client.post(f"{prefix}/api/keys", json={"name": "ci"}, headers=headers)
            for prefix in ("", "/agentos")
        ]
        assert [answer.status_code for answer in made] == [201, 201]
        assert made[0].json() == made[1].json()

    async def test_so_is_the_socket(self, gateway: Gateway) -> None:
        owner = await gateway.tenant()
        headers = {"Authorization": f"Bearer {owner.token}"}
        address = gateway.url.replace("http", "ws")
        for path in ("/api/events", "/agentos/api/events"):
            async with connect(f"{address}{path}", additional_headers=headers, proxy=None):
                pass
        with pytest.raises(InvalidStatus):
            await _connect_once(f"{address}/agentos/agentos/api/events", headers)

    async def test_a_page_of_ours_may_use_its_sign_in(self, gateway: Gateway) -> None:
        owner = await gateway.tenant()
        browser = await gateway.client(Cookie=f"agentos_access={owner.token}")
        for origin, allowed in (
            ("https://example.com", True),
            ("https://example.com:8443", False),
            ("http://example.com", False),
            ("https://evil.example", False),
        ):
            made = await browser.post("/api/keys", json={"name": "ci"}, headers={"Origin": origin})
            assert (made.status_code == 201) == allowed, origin


async def _connect_once(address: str, headers: dict[str, str]) -> None:
    async with connect(address, additional_headers=headers, proxy=None):
        pass
