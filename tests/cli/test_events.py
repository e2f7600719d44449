from __future__ import annotations

import itertools
import json
import socket
from typing import Any

import pytest

from agentos.cli import events
from agentos.cli.client import Client
from agentos.cli.failures import GatewayError
from agentos.cli.profile import SignIn

from .conftest import FakeGateway, Request


def _event(seq: int) -> dict[str, Any]:
    at = "2030-01-01T00:00:00Z"
    return {"seq": seq, "id": "i", "type": "a.b", "tenant_id": "t", "at": at, "data": {"n": seq}}


def _sse(*documents: dict[str, Any]) -> bytes:
    return b"retry: 1000\n\n:\n\n" + b"".join(
        b"id: %d\nevent: x\ndata: %b\n\n" % (document.get("seq", 0), json.dumps(document).encode())
        for document in documents
    )


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_FIRST_WAIT", 0.0)


def _script(fake: FakeGateway, *answers: Any) -> None:
    left = iter(answers)

    def handle(_: Request) -> Any:
        return next(left)

    fake.handler = handle


def _follow(fake: FakeGateway, count: int, after: int | None = None) -> list[int]:
    client = Client(fake.url, SignIn(api_key="sk"))
    stream = events.follow(client, "a.*", after)
    found = [event["seq"] for event in itertools.islice(stream, count)]
    stream.close()  # type: ignore[attr-defined]
    return found


def test_a_lost_stream_goes_on_where_it_was(fake: FakeGateway) -> None:
    _script(fake, (200, _sse(_event(1), _event(2))), (200, _sse(_event(2), _event(3))))
    assert _follow(fake, 3) == [1, 2, 3]
    first, second = fake.seen
    assert first.path == "/api/events/stream?types=a.%2A"
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "2"


def test_the_position_moves_on_without_events(fake: FakeGateway) -> None:
    """After a filter that let nothing pass, resuming must not begin at the start again."""
    live = {"type": "stream.live", "after": 41}
    _script(fake, (200, _sse(live)), (200, _sse(_event(42))))
    assert _follow(fake, 1, after=0) == [42]
    assert [request.headers.get("last-event-id") for request in fake.seen] == ["0", "41"]


def test_a_dropped_stream_is_resumed(fake: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    dropped = {"type": "stream.dropped", "reason": "restart", "after": 1}
    gone = {"type": "history.truncated", "oldest": 5}
    busy = (503, {"code": "shutting_down", "detail": "Not now."})
    _script(fake, (200, _sse(_event(1), dropped)), busy, busy, (200, _sse(gone, _event(5))))
    assert _follow(fake, 2) == [1, 5]
    assert "going on with 5" in capsys.readouterr().err


def test_a_stream_that_never_began_fails_at_once(fake: FakeGateway) -> None:
    busy = (503, {"code": "shutting_down", "detail": "Not now."})
    _script(fake, busy, busy)
    with pytest.raises(GatewayError):
        _follow(fake, 1)


def test_a_lost_right_ends_it(fake: FakeGateway) -> None:
    _script(fake, (200, _sse(_event(1))), (403, {"code": "forbidden", "detail": "No."}))
    with pytest.raises(GatewayError, match="No"):
        _follow(fake, 2)


def test_silence_is_a_lost_connection(fake: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.cli.client._SILENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", SignIn(api_key="sk"))
        with pytest.raises(GatewayError, match="timed out"):
            next(events.follow(client, None, None))


def test_parsing() -> None:
    lines = [b": hello\r\n", b'data:{"a":\r\n', b"data: 1}\r\n", b"\r\n", b"data: [1]\n", b"\n"]
    assert list(events.parse(lines)) == [{"a": 1}]
