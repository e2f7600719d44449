from __future__ import annotations

import re

from agentos.integrations.models.providers.asking import ask, listed, text
from agentos.integrations.models.providers.base import Connection, ModelInfo
from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName
from agentos.integrations.models.wires.openai_chat import CHAT


class Ollama(OpenAILike):
    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        url = connection.base_url + "/api/tags"
        document = await ask(upstream, url, self.headers(connection), connection, CHAT)
        return [ModelInfo(text(item, "name")) for item in listed(document, "models")]


OLLAMA = Ollama(
    kind="ollama",
    title="Ollama",
    base_url="http://127.0.0.1:11434",
    paths={WireName.CHAT: "/v1/chat/completions", WireName.EMBEDDINGS: "/v1/embeddings"},
    # One behind a proxy may ask for one.
    needs_key=False,
    free=True,
    # llama3.2:latest, hf.co/someone/model:q4
    look=re.compile(r"(?!ft:)(hf\.co/[\w.-]+/)?[\w.-]+:[\w.-]+$"),
)
