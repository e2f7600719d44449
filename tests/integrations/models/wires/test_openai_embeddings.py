from __future__ import annotations

import msgspec
import pytest

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires.base import Glance, MalformedRequest
from agentos.integrations.models.wires.openai_embeddings import EMBEDDINGS


@pytest.mark.parametrize("given", ['"a text"', '["a","b"]', "[1,2,3]", "[[1],[2]]"])
def test_glance(given: str) -> None:
    body = f'{{"model":"text-embedding-3-small","input": {given},"dimensions":3}}'.encode()
    glance = EMBEDDINGS.glance(body)
    assert glance == Glance("text-embedding-3-small", stream=False, max_output=0)
    assert EMBEDDINGS.for_provider(body, glance, glance.model) is body
    changed = EMBEDDINGS.for_provider(body, glance, "other")
    assert msgspec.json.decode(changed) == {**msgspec.json.decode(body), "model": "other"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"input":"a"}',
        b'{"model":"m"}',
        b'{"model":"m","input":1}',
        b'{"model":" ","input":"a"}',
    ],
)
def test_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        EMBEDDINGS.glance(body)


def test_usage() -> None:
    body = b'{"object":"list","data":[{"embedding":[0.1,-2e-3],"index":0}],"usage":{"prompt_tokens":7,"total_tokens":7}}'
    assert EMBEDDINGS.usage(body) == Usage(input=7)
    assert EMBEDDINGS.usage(b'{"data":[]}') is None
    assert EMBEDDINGS.usage(b"<html>") is None


def test_errors_are_openais() -> None:
    assert EMBEDDINGS.error_class(404, b'{"error":{"message":"gone"}}') == (
        ErrorClass.NOT_FOUND,
        "gone",
    )
    assert b'"code":"ours"' in EMBEDDINGS.error(400, "invalid", "ours", "No.")
    assert EMBEDDINGS.stream_error("invalid", "ours", "No.").startswith(b'data: {"error"')


def test_nothing_streams() -> None:
    meter = EMBEDDINGS.meter(Glance("m", stream=False, max_output=0))
    assert meter.pass_on(b"any") == b"any"
    assert (meter.usage, meter.ended, meter.estimate()) == (None, True, 0)
