from __future__ import annotations

import msgspec
import pytest

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing
from agentos.integrations.models.wires.openai_chat import CHAT
from agentos.integrations.models.wires.openai_embeddings import EMBEDDINGS
from agentos.integrations.models.wires.openai_errors import error, error_class, retry_after
from agentos.integrations.models.wires.openai_responses import RESPONSES


def told(message: str, **fields: object) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "param": None, **fields}})


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        # OpenAI
        (401, told("Incorrect key", type="invalid_request_error", code="invalid_api_key"), "auth"),
        (429, told("Too fast", type="requests", code="rate_limit_exceeded"), "rate_limit"),
        (429, told("No credit", type="insufficient_quota", code="insufficient_quota"), "auth"),
        (404, told("No model", type="invalid_request_error", code="model_not_found"), "not_found"),
        (
            400,
            told("Too long", type="invalid_request_error", code="context_length_exceeded"),
            "context_length",
        ),
        (400, told("Bad tool", type="invalid_request_error", code=None), "invalid"),
        (500, told("Oops", type="server_error", code=None), "overload"),
        (503, told("Busy", type="server_error", code="server_error"), "overload"),
        # Groq: too many tokens for the minute, not for the model
        (413, told("Request too large", type="tokens", code="rate_limit_exceeded"), "rate_limit"),
        # OpenRouter
        (429, told("Slow down", code=429), "rate_limit"),
        (402, told("Insufficient credits", code=402), "auth"),
        (403, told("Flagged", code=403, metadata={"reasons": ["violence"]}), "invalid"),
        (400, told("nobody/none is not a valid model ID", code=400), "not_found"),
        (
            400,
            told("This endpoint's maximum context length is 8192 tokens.", code=400),
            "context_length",
        ),
        # Mistral
        (
            422,
            b'{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],'
            b'"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error"}',
            "invalid",
        ),
        (
            400,
            b'{"object":"error","message":"Invalid model: none","type":"invalid_model","code":"1500"}',
            "not_found",
        ),
        (
            400,
            b'{"object":"error","message":"Prompt contains 40000 tokens, too large for model with '
            b'32768 maximum context length","type":"invalid_request_error","code":"3051"}',
            "context_length",
        ),
        (401, b'{"detail":"Unauthorized"}', "auth"),
        (422, b'{"detail":[{"loc":["body","messages"],"msg":"Field required"}]}', "invalid"),
        # Ollama
        (404, b'{"error":"model \\"none\\" not found, try pulling it first"}', "not_found"),
        (400, b'{"error":{"message":"input length exceeds the context length"}}', "context_length"),
        # Google's OpenAI face
        (400, b'[{"error":{"code":400,"message":"API key not valid. Pass a valid one."}}]', "auth"),
        # Nobody's
        (502, b"<html><body>Bad gateway</body></html>", "overload"),
        (504, b"", "timeout"),
        (408, b"", "timeout"),
        (413, b"", "invalid"),
        (418, b"[]", "invalid"),
        (429, b"null", "rate_limit"),
        (400, b"\xff\xfe", "invalid"),
        (529, b'"a text"', "overload"),
    ],
)
def test_the_class_of_an_error(status: int, body: bytes, expected: str) -> None:
    found, message = error_class(status, body)
    assert found == ErrorClass(expected)
    assert 0 < len(message) <= classing.MOST_MESSAGE
    assert "<html" not in message


@pytest.mark.parametrize(
    "words",
    [
        "Your input exceeds the context window of this model.",
        "The decoder prompt is longer than the maximum model length of 4096",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "`inputs` tokens + `max_new_tokens` must be <= 4097",
        "the request exceeds the available context size",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "Input is too long for requested model.",
    ],
)
def test_words_for_a_prompt_that_is_too_long(words: str) -> None:
    assert error_class(400, told(words))[0] is ErrorClass.CONTEXT_LENGTH
    # The same words at another status do not hide what the status says.
    assert error_class(429, told(words))[0] is ErrorClass.RATE_LIMIT


def test_messages_are_the_providers_own() -> None:
    assert error_class(400, told("Bad\n  tool"))[1] == "Bad tool"
    assert error_class(422, b'{"detail":[{"loc":["body","n"],"msg":"too small"}]}')[1] == (
        "body.n: too small"
    )
    assert error_class(500, b"<html>")[1] == (
        "The provider answered with status 500 and no message."
    )
    assert error_class(500, b"upstream gone")[1] == "upstream gone"
    assert error_class(400, told("x" * 1000))[1] == "x" * 499 + "…"


@pytest.mark.parametrize(
    ("status", "given", "kind"),
    [
        (502, "overload", "server_error"),
        (429, "rate_limit", "rate_limit_error"),
        (401, "auth", "authentication_error"),
        (504, "timeout", "server_error"),
        (400, "context_length", "invalid_request_error"),
        (404, "not_found", "invalid_request_error"),
        (400, "invalid", "invalid_request_error"),
        # Classes that are not a provider's go by their status.
        (402, "plan", "insufficient_quota"),
        (403, "forbidden", "permission_error"),
        (500, "internal", "server_error"),
        (413, "too_large", "invalid_request_error"),
    ],
)
def test_writing_an_error(status: int, given: str, kind: str) -> None:
    assert msgspec.json.decode(error(status, given, "our_code", "What to do.")) == {
        "error": {"message": "What to do.", "type": kind, "param": None, "code": "our_code"}
    }


LIMIT = "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000. "


@pytest.mark.parametrize(
    ("advice", "seconds"),
    [
        ("Please try again in 7.66s. Visit https://a.example/b for more.", 7.66),
        ("Please try again in 20s.", 20),
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 1m26.4s. Need more tokens?", 86.4),
        ("Please try again in 2h3m0s.", 7380),
        ("Please try again in 7m", 420),
        ("Please try again in a while.", None),
        ("Please try again in 5 minutes.", None),
        ("Please try again in 2days.", None),
        ("Please try again in 20sec.", None),
        ("Please try again in 1h2d.", None),
        ("Please try again in 99999999999s.", None),
        ("", None),
    ],
)
def test_a_rate_limit_says_how_long_to_wait(advice: str, seconds: float | None) -> None:
    body = told(LIMIT + advice, type="tokens", code="rate_limit_exceeded")
    for wire in (CHAT, RESPONSES, EMBEDDINGS):
        waits = wire.retry_after(body)
        assert waits == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "body",
    [
        # A name that a caller made up may be in any other error.
        told("The model `Please try again in 9s.` does not exist", code="model_not_found"),
        told("Please try again in 9s.", code=429),
        told("Please try again in 9s."),
        b'{"error": "Please try again in 9s."}',
        b"Please try again in 9s.",
        b"",
    ],
)
def test_only_a_rate_limit_says_how_long_to_wait(body: bytes) -> None:
    assert retry_after(body) is None
