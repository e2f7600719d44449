from __future__ import annotations

import msgspec
import pytest

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.wires.anthropic_count_tokens import COUNT_TOKENS
from agentos.integrations.models.wires.base import Glance, MalformedRequest

BODY = b'{"model":"claude-sonnet-5","messages":[{"role":"user","content":"Hi"}]}'


def test_glance() -> None:
    glance = COUNT_TOKENS.glance(BODY)
    assert glance == Glance("claude-sonnet-5", stream=False, max_output=0)
    assert COUNT_TOKENS.for_provider(BODY, glance, "claude-sonnet-5") is BODY
    changed = COUNT_TOKENS.for_provider(BODY, glance, "other")
    assert msgspec.json.decode(changed) == {**msgspec.json.decode(BODY), "model": "other"}


@pytest.mark.parametrize(
    "body", [b"{", b'{"model":"m"}', b'{"messages":[]}', b'{"model":"m","messages":{}}']
)
def test_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        COUNT_TOKENS.glance(body)


def test_counting_costs_nothing() -> None:
    assert COUNT_TOKENS.usage(b'{"input_tokens":2095}') == Usage()
    assert COUNT_TOKENS.answer(2095) == b'{"input_tokens":2095}'
