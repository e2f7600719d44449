from __future__ import annotations

import msgspec
import pytest

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing
from agentos.integrations.models.wires.anthropic_count_tokens import COUNT_TOKENS
from agentos.integrations.models.wires.anthropic_messages import MESSAGES


def told(kind: str, message: str) -> bytes:
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (529, told("overloaded_error", "Overloaded"), "overload"),
        (500, told("api_error", "Internal server error"), "overload"),
        (429, told("rate_limit_error", "Slow down"), "rate_limit"),
        (401, told("authentication_error", "invalid x-api-key"), "auth"),
        (403, told("permission_error", "Not yours"), "auth"),
        (402, told("billing_error", "No credit"), "auth"),
        (
            400,
            told("invalid_request_error", "Your credit balance is too low to use the API"),
            "auth",
        ),
        (404, told("not_found_error", "model: none"), "not_found"),
        (504, told("timeout_error", "Too slow"), "timeout"),
        (400, told("invalid_request_error", "max_tokens: required"), "invalid"),
        (
            400,
            told("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            "context_length",
        ),
        (
            400,
            told("invalid_request_error", "input length and `max_tokens` exceed context limit"),
            "context_length",
        ),
        (413, told("request_too_large", "Request exceeds the maximum size"), "invalid"),
        (413, told("request_too_large", "The prompt has too many tokens"), "context_length"),
        (503, b"<html></html>", "overload"),
        (400, b"", "invalid"),
        (429, b"[]", "rate_limit"),
    ],
)
def test_the_class_of_an_error(status: int, body: bytes, expected: str) -> None:
    found, message = MESSAGES.error_class(status, body)
    assert found == ErrorClass(expected)
    assert 0 < len(message) <= classing.MOST_MESSAGE
    assert COUNT_TOKENS.error_class(status, body) == (found, message)


@pytest.mark.parametrize(
    ("status", "given", "kind"),
    [
        (529, "overload", "overloaded_error"),
        (429, "rate_limit", "rate_limit_error"),
        (401, "auth", "authentication_error"),
        (403, "auth", "permission_error"),
        (504, "timeout", "timeout_error"),
        (404, "not_found", "not_found_error"),
        (400, "invalid", "invalid_request_error"),
        (413, "invalid", "request_too_large"),
        (402, "plan", "billing_error"),
        (500, "internal", "api_error"),
        (409, "conflict", "invalid_request_error"),
    ],
)
def test_writing_an_error(status: int, given: str, kind: str) -> None:
    assert msgspec.json.decode(MESSAGES.error(status, given, "our_code", "What to do.")) == {
        "type": "error",
        "error": {
            "type": kind,
            "message": "What to do.",
            "code": "our_code",
            "details": {"error_code": "our_code"},
        },
        "request_id": None,
    }


def test_a_prompt_that_is_too_long_is_said_in_the_words_that_claude_code_knows() -> None:
    body = MESSAGES.error(400, "context_length", "our_code", "No model takes it.")
    assert msgspec.json.decode(body)["error"]["message"] == "prompt is too long: No model takes it."
    said = MESSAGES.error(400, "context_length", "our_code", "Prompt is too long: 9 > 8.")
    assert msgspec.json.decode(said)["error"]["message"] == "Prompt is too long: 9 > 8."


def test_how_long_to_wait_is_never_in_the_body() -> None:
    body = told("rate_limit_error", "Please try again in 9s.")
    assert MESSAGES.retry_after(body) is None
    assert COUNT_TOKENS.retry_after(body) is None
