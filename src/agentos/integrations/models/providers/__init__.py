"""Every provider AgentOS can be connected to. One more is one more file and one more entry."""

from __future__ import annotations

from agentos.integrations.models.providers.anthropic import ANTHROPIC
from agentos.integrations.models.providers.base import Provider
from agentos.integrations.models.providers.custom import CUSTOM
from agentos.integrations.models.providers.google import GOOGLE
from agentos.integrations.models.providers.groq import GROQ
from agentos.integrations.models.providers.mistral import MISTRAL
from agentos.integrations.models.providers.ollama import OLLAMA
from agentos.integrations.models.providers.openai import OPENAI
from agentos.integrations.models.providers.openrouter import OPENROUTER

PROVIDERS: dict[str, Provider] = {
    provider.kind: provider
    for provider in (
        ANTHROPIC,
        OPENAI,
        GOOGLE,
        MISTRAL,
        GROQ,
        OPENROUTER,
        OLLAMA,
        CUSTOM,
    )
}
