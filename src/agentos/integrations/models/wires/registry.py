"""Every wire AgentOS speaks."""

from __future__ import annotations

from agentos.integrations.models.wires.anthropic_count_tokens import COUNT_TOKENS
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Translating, Wire, WireName
from agentos.integrations.models.wires.google_generate import GENERATE
from agentos.integrations.models.wires.openai_chat import CHAT
from agentos.integrations.models.wires.openai_embeddings import EMBEDDINGS
from agentos.integrations.models.wires.openai_responses import RESPONSES

# The ones a call can be carried over to or from.
TRANSLATING: dict[WireName, Translating] = {
    wire.name: wire for wire in (CHAT, RESPONSES, MESSAGES, GENERATE)
}
WIRES: dict[WireName, Wire] = {
    **TRANSLATING,
    EMBEDDINGS.name: EMBEDDINGS,
    COUNT_TOKENS.name: COUNT_TOKENS,
}
