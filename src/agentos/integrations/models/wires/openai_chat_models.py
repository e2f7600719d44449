"""What the models behind the chat wire take, as far as their names tell.

A call that is carried over may hold what its new model refuses with an error; so those of its
wishes that are only wishes (how hard to think, how warm) are left out there.
"""

from __future__ import annotations

import base64
import hashlib
import re

# OpenAI's reasoning models, also as OpenRouter and Groq call them.
_REASONING = re.compile(r"o[1-9]|gpt-(?:[5-9]|\d\d|oss)|codex")
# The names Mistral itself gives; others who serve its models (Ollama, say) name them otherwise.
_MISTRAL = re.compile(r"(?:open-|labs-)?[a-z]+tral-[a-z0-9.-]*(?:latest|\d{4})|open-mi[sx]tral-.*")
_MISTRAL_ID_LENGTH = 9


def reasons(model: str) -> bool:
    """Whether it thinks first: takes an effort, no temperature, and its limit by the newer name."""
    return _REASONING.match(model.rsplit("/", 1)[-1]) is not None


def is_mistral(model: str) -> bool:
    """Whether Mistral serves it, who refuse every field they do not know and tell usage unasked."""
    return _MISTRAL.fullmatch(model) is not None


def call_id(tool_use_id: str, model: str) -> str:
    """The id of a tool call as the model's vendor takes it: Mistral wants nine letters or digits."""
    if not is_mistral(model) or re.fullmatch(r"[a-zA-Z0-9]{9}", tool_use_id):
        return tool_use_id
    digest = hashlib.sha256(tool_use_id.encode()).digest()
    return base64.b32encode(digest).decode()[:_MISTRAL_ID_LENGTH]
