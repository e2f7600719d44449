"""Whatever a client sends, a server answers it or refuses it the vendor's way: it never breaks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.testing import SERVERS, Reply, ToolCall
from agentos.testing.answers import answer
from agentos.testing.vendors.endpoints import Incoming, Refusal

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "content", "role", "type", "id"]), inner)
    ),
    max_leaves=8,
)
FIELDS = (
    "messages",
    "input",
    "contents",
    "system",
    "systemInstruction",
    "instructions",
    "max_tokens",
    "max_output_tokens",
    "generationConfig",
    "stream",
    "stream_options",
    "n",
    "tools",
    "dimensions",
    "temperature",
)
GOOD: dict[str, Any] = {
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "input": "hi",
    "contents": [{"parts": [{"text": "hi"}]}],
    "max_tokens": 5,
}
REPLY = Reply("one two", thinking="hm", tool_calls=[ToolCall("weather", {"a": 1})])


@pytest.mark.parametrize("vendor", sorted(SERVERS))
@settings(max_examples=40, deadline=None)
@given(changed=st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=3), version=st.booleans())
def test_any_request(vendor: str, changed: dict[str, Any], version: bool) -> None:
    server = SERVERS[vendor]()
    model = server.models[0]
    headers = {"anthropic-version": "2026-10-21" if version else "2023-06-01"}
    body = {"model": model, **GOOD, **changed}
    for route in server.routes():
        query = {"alt": "sse", "limit": "x", "pageSize": ""}
        incoming = Incoming(route.method, route.path, query, headers, {"model": model}, body)
        try:
            prompt = route.endpoint.read(incoming)
        except Refusal:
            continue
        result = answer(REPLY, prompt, 1)
        if prompt.stream:
            frames = list(route.endpoint.frames(prompt, result))
            assert any(frame.content for frame in frames)
            assert not frames[-1].content
        else:
            msgspec.json.encode(route.endpoint.whole(prompt, result))
