from __future__ import annotations

import re

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
    assert blocks.take() == b""


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"data: x", b"mark", b"\n\n"])))
def test_events_are_found_around_their_marks(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    found = [block[start:end] for start, end in sse.around(block, re.compile(b"mark"))]
    expected = [event for event in sse.split(block) if b"mark" in event]
    # Blank lines before an event are of no event.
    assert [event.lstrip() for event in found] == [event.lstrip() for event in expected]
    assert [event.count(b"mark") for event in found] == [e.count(b"mark") for e in expected]


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"data: x", b"\n\n"])), st.integers(0, 40))
def test_pieces_hold_the_end_of_one_event_at_most(parts: list[bytes], cut: int) -> None:
    stream = b"".join(parts)
    pieces = [*sse.pieces(stream[:cut]), *sse.pieces(stream[cut:])]
    assert b"".join(pieces) == stream
    cutter = sse.Cutter()
    for piece in pieces:
        assert len([event for event in cutter.feed(piece) if event.strip()]) <= 1


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
    assert not blocks.waits_with(b"data: [DONE]")
    assert blocks.feed(b"NE]") == b""
    assert blocks.waits_with(b"data: [DONE]")
    assert blocks.take() == b"data: [DONE]"
