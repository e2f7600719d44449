from __future__ import annotations

from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.wires.base import WireName

# Anything that speaks OpenAI's chat wire: vLLM, LM Studio, llama.cpp, a company's own gateway.
# Its prices are known only if the tenant sets them: it may be free, or resell what is not.
CUSTOM = OpenAILike(
    kind="custom",
    title="OpenAI-compatible",
    base_url=None,
    paths={WireName.CHAT: "/chat/completions", WireName.EMBEDDINGS: "/embeddings"},
    needs_key=False,
)
