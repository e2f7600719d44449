from __future__ import annotations

import io
import threading
import time
from typing import Any

import pytest

from agentos.cli import profile
from agentos.cli.client import Client, address, segment
from agentos.cli.failures import GatewayError
from agentos.cli.main import run
from agentos.cli.profile import SignIn
from agentos.kernel.errors import Invalid, Kind

from .conftest import FakeGateway, Hang, Request

EXPIRED = (401, {"code": "token_expired", "detail": "The token has expired.", "status": 401})


def _client(fake: FakeGateway) -> Client:
    return Client(fake.url, SignIn(api_key="sk_test"))


def _failing_first(*failures: Any) -> Any:
    """Answers with the failures one after the other, then well."""
    left = list(failures)

    def handle(_: Request) -> Any:
        if left:
            failure = left.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        return 200, {"done": True}

    return handle


BUSY = (503, {"code": "database_unavailable", "detail": "Not now."})


@pytest.mark.parametrize("failure", [Hang(), BUSY], ids=["lost", "503"])
@pytest.mark.parametrize("method", ["post", "patch"])
def test_a_repeated_change_carries_the_same_key(
    fake: FakeGateway, method: str, failure: Any
) -> None:
    fake.handler = _failing_first(failure)
    assert getattr(_client(fake), method)("/api/x", {"a": 1}) == {"done": True}
    first, second = fake.seen
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body == b'{"a": 1}'
    assert first.headers["authorization"] == "Bearer sk_test"


def test_another_change_carries_another_key(fake: FakeGateway) -> None:
    client = _client(fake)
    client.post("/api/x")
    client.post("/api/x")
    client.get("/api/x")
    first, second, reading = fake.seen
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert "idempotency-key" not in reading.headers


@pytest.mark.parametrize("failure", [Hang(), BUSY], ids=["lost", "503"])
def test_only_once_repeated(fake: FakeGateway, failure: Any) -> None:
    fake.handler = _failing_first(failure, failure)
    with pytest.raises(GatewayError) as caught:
        _client(fake).get("/api/x")
    assert caught.value.kind is Kind.TRANSIENT
    assert len(fake.seen) == 2


@pytest.mark.parametrize("failure", [Hang(), BUSY], ids=["lost", "503"])
def test_what_an_idempotency_key_does_not_protect_is_never_repeated(
    fake: FakeGateway, failure: Any
) -> None:
    fake.handler = _failing_first(failure)
    with pytest.raises(GatewayError):
        _client(fake).post_once("/api/auth/refresh", {})
    assert len(fake.seen) == 1


def test_a_problem_document_becomes_an_error(fake: FakeGateway) -> None:
    fake.handler = lambda _: (
        402,
        {"code": "plan_limit_reached", "detail": "No more.", "hint": "Pay.", "request_id": "r"},
    )
    with pytest.raises(GatewayError) as caught:
        _client(fake).post("/api/keys", {})
    error = caught.value
    assert (error.kind, error.code, error.message, error.advice, error.request_id) == (
        Kind.PLAN,
        "plan_limit_reached",
        "No more.",
        "Pay.",
        "r",
    )


@pytest.mark.parametrize(
    "answer", [(200, b"<html>"), (404, b"<html>"), (302, b""), (500, {"a": 1})]
)
def test_something_else_answers(fake: FakeGateway, answer: Any) -> None:
    fake.handler = lambda _: answer
    with pytest.raises(GatewayError, match="not from AgentOS"):
        _client(fake).get("/api/x")


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    profile.remember("http://127.0.0.1:9", SignIn(api_key="sk"))
    assert run(["whoami"]) == 10
    assert "agentos up" in capsys.readouterr().err


def test_pages_are_followed_up_to_the_limit(fake: FakeGateway) -> None:
    def handle(request: Request) -> Any:
        number = int(request.path.rpartition("cursor=")[2]) if "cursor=" in request.path else 0
        return 200, {
            "items": [{"n": number}],
            "next_cursor": str(number + 1) if number < 3 else None,
        }

    fake.handler = handle
    assert [item["n"] for item in _client(fake).items("/api/x")] == [0, 1, 2, 3]
    assert [item["n"] for item in _client(fake).items("/api/x", limit=2)] == [0, 1]
    assert "limit=1" in fake.seen[-1].path


def test_a_credential_is_not_sent_to_another_address(fake: FakeGateway) -> None:
    profile.remember("http://other.example", SignIn(api_key="sk_other"))
    assert run(["whoami", "--url", fake.url]) == 3
    assert fake.seen == []


def test_environment_before_profile(fake: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    profile.remember("http://other.example", SignIn(api_key="sk_other"))
    monkeypatch.setenv("AGENTOS_URL", fake.url)
    monkeypatch.setenv("AGENTOS_API_KEY", "sk_mine")
    Client.open().get("/api/x")
    assert fake.seen[0].headers["authorization"] == "Bearer sk_mine"


def _signed_in(fake: FakeGateway, *, expires_in: float) -> None:
    profile.remember(
        fake.url,
        SignIn(
            access_token="a1",
            refresh_token="r1",
            expires_at=time.time() + expires_in,
            tenant="demo",
        ),
    )


class _Rotating:
    """Plays the gateway's part in refreshing: each refresh token works once."""

    def __init__(self) -> None:
        self.generation = 1
        self.refreshed: list[Any] = []
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Any:
        with self._lock:
            if request.path == "/api/auth/refresh":
                self.refreshed.append(request.json)
                if request.json["refresh_token"] != f"r{self.generation}":
                    return 401, {"code": "refresh_token_reused", "detail": "Reused."}
                self.generation += 1
                pair = {"access_token": f"a{self.generation}", "expires_in": 900}
                return 200, pair | {"refresh_token": f"r{self.generation}"}
            if request.headers.get("authorization") != f"Bearer a{self.generation}":
                return EXPIRED
            return 200, {"done": True}


@pytest.mark.parametrize("expires_in", [-5, 5], ids=["expired", "about to"])
def test_an_expired_token_is_refreshed_first(fake: FakeGateway, expires_in: float) -> None:
    fake.handler = rotating = _Rotating()
    _signed_in(fake, expires_in=expires_in)
    assert Client.open(fake.url).get("/api/x") == {"done": True}
    assert [request.path for request in fake.seen] == ["/api/auth/refresh", "/api/x"]
    # Without its name, the gateway would go on in the user's first tenant.
    assert rotating.refreshed == [{"refresh_token": "r1", "tenant": "demo"}]
    assert "idempotency-key" in fake.seen[0].headers
    assert "authorization" not in fake.seen[0].headers
    stored = profile.load().sign_ins[fake.url]
    assert (stored.access_token, stored.refresh_token, stored.tenant) == ("a2", "r2", "demo")


def test_a_token_the_gateway_calls_expired_is_refreshed_then(fake: FakeGateway) -> None:
    fake.handler = rotating = _Rotating()
    rotating.generation = 1
    _signed_in(fake, expires_in=900)
    profile.remember(
        fake.url, SignIn(access_token="a0", refresh_token="r1", expires_at=time.time() + 900)
    )
    assert Client.open(fake.url).post("/api/x", {}) == {"done": True}
    before, _, after = fake.seen
    assert before.headers["idempotency-key"] == after.headers["idempotency-key"]


def test_many_at_once_refresh_only_once(fake: FakeGateway) -> None:
    fake.handler = rotating = _Rotating()
    _signed_in(fake, expires_in=-5)
    clients = [Client.open(fake.url) for _ in range(8)]
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda client=client: results.append(client.get("/api/x")))
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"done": True}] * 8
    assert len(rotating.refreshed) == 1


def test_an_ended_sign_in_says_sign_in_again(
    fake: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    rotating = _Rotating()
    rotating.generation = 7
    fake.handler = rotating
    _signed_in(fake, expires_in=-5)
    assert run(["whoami"]) == 3
    told = capsys.readouterr().err
    assert "Reused." in told
    assert f"agentos login --url {fake.url}" in told


def test_an_upload_can_be_sent_again_only_if_it_can_be_read_again(fake: FakeGateway) -> None:
    fake.handler = _failing_first(Hang())
    client = _client(fake)
    sent = client.upload("/o", lambda: io.BytesIO(b"abc"), length=3, content_type="text/plain")
    assert sent == {"done": True}
    assert [request.body for request in fake.seen] == [b"abc", b"abc"]
    fake.handler = _failing_first(Hang())
    with pytest.raises(GatewayError):
        client.upload("/o", lambda: io.BytesIO(b"abc"), length=None, content_type="text/plain")
    assert len(fake.seen) == 3
    assert fake.seen[2].headers["transfer-encoding"] == "chunked"


def test_a_download_that_breaks_off(fake: FakeGateway) -> None:
    class Short(bytes):
        def __len__(self) -> int:
            return 100

    fake.handler = lambda _: (200, Short(b"only this"))
    with pytest.raises(GatewayError, match="No answer"):
        _client(fake).save("/o", io.BytesIO())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://LocalHost:8700/", "http://localhost:8700"),
        ("https://example.com/agentos/", "https://example.com/agentos"),
        (" http://[::1]:80 ", "http://[::1]:80"),
    ],
)
def test_addresses(given: str, kept: str) -> None:
    assert address(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "localhost:8700",
        "ftp://x",
        "http://",
        "http://x:y",
        "http://u:p@x",
        "http://x?q",
        "http://[",
    ],
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(Invalid):
        address(given)


def test_a_path_under_the_address(fake: FakeGateway) -> None:
    Client(f"{fake.url}/below").get("/api/x", a="b c", none=None)
    assert fake.seen[0].path == "/below/api/x?a=b+c"


def test_segments() -> None:
    assert segment("a b?c#d") == "a%20b%3Fc%23d"
    for bad in ("", ".", "..", "a/b"):
        with pytest.raises(Invalid):
            segment(bad)
