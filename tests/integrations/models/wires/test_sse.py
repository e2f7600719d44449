from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.integrations.models.wires import sse
from agentos.integrations.models.wires.base import MalformedAnswer

EVENTS = [
    b"event: a\ndata: {}\n\n",
    b": a comment\n\n",
    'data: {"x":"ä€😀"}\r\n\r\n'.encode(),
    b"data: one\ndata: two\n\n",
    b"data: [DONE]\n\n",
]
STREAM = b"".join(EVENTS)


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_is_cut_into_the_same_events_wherever_its_bytes_were_cut(cut: int) -> None:
    cutter = sse.Cutter()
    assert cutter.feed(STREAM[:cut]) + cutter.feed(STREAM[cut:]) == EVENTS


def test_one_byte_at_a_time() -> None:
    cutter = sse.Cutter()
    cut = [event for byte in STREAM for event in cutter.feed(bytes([byte]))]
    # A blank line may end one byte sooner than it would with more to see.
    assert b"".join(cut) == STREAM
    assert [sse.parse(event) for event in cut] == [sse.parse(event) for event in EVENTS]


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"data: x", b"\n\n"])), st.integers(0, 40))
def test_no_byte_is_lost(pieces: list[bytes], cut: int) -> None:
    stream = b"".join(pieces)
    blocks = sse.Blocks()
    seen = blocks.feed(stream[:cut]) + blocks.feed(stream[cut:])
    assert b"".join(sse.split(seen)) == seen
    assert seen + blocks.take() == stream
    assert not blocks.waiting


def test_what_an_event_says() -> None:
    assert [sse.parse(event) for event in EVENTS] == [
        (b"a", b"{}"),
        (b"", b""),
        (b"", '{"x":"ä€😀"}'.encode()),
        (b"", b"one\ntwo"),
        (b"", b"[DONE]"),
    ]
    assert sse.parse(b"data:tight\n\n") == (b"", b"tight")


def test_writing_an_event() -> None:
    assert sse.frame(b"{}") == b"data: {}\n\n"
    assert sse.frame(b"{}", "ping") == b"event: ping\ndata: {}\n\n"


def test_an_event_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_EVENT", 100)
    blocks = sse.Blocks()
    blocks.feed(b"data: " + b"x" * 90)
    with pytest.raises(MalformedAnswer):
        blocks.feed(b"x" * 20)


def test_what_waits() -> None:
    blocks = sse.Blocks()
    assert blocks.feed(b"data: a\n\ndata: [DO") == b"data: a\n\n"
    assert blocks.waiting
    assert not blocks.waits_with(b"data: [DONE]")
    assert blocks.feed(b"NE]") == b""
    assert blocks.waits_with(b"data: [DONE]")
    assert blocks.take() == b"data: [DONE]"
