from __future__ import annotations

import re

from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.wires.base import WireName

OPENAI = OpenAILike(
    kind="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    paths={
        WireName.CHAT: "/chat/completions",
        WireName.RESPONSES: "/responses",
        WireName.EMBEDDINGS: "/embeddings",
    },
    price_ids=("openai",),
    look=re.compile(r"(ft:)?(gpt-|chatgpt-|codex-|o[1-9](-|$)|text-embedding-)"),
)
