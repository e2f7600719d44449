from __future__ import annotations

import re

from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.wires.base import WireName

MISTRAL = OpenAILike(
    kind="mistral",
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    paths={WireName.CHAT: "/chat/completions", WireName.EMBEDDINGS: "/embeddings"},
    price_ids=("mistral",),
    # mistral-large-2512, open-mixtral-8x7b, codestral-latest; not mistral:7b, which is Ollama's.
    look=re.compile(r"(open-)?(code|dev|magi|mini|mis|mix|pix|vox)(s?tral)-"),
)
