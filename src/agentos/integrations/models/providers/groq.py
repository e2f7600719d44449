from __future__ import annotations

import re

from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.wires.base import WireName

GROQ = OpenAILike(
    kind="groq",
    title="Groq",
    base_url="https://api.groq.com/openai/v1",
    paths={WireName.CHAT: "/chat/completions"},
    price_ids=("groq",),
    # It serves other makers' models; these endings are its own.
    look=re.compile(r".+-(versatile|instant|specdec)$"),
)
