"""What the providers share that speak OpenAI's wires."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentos.integrations.models.providers.asking import ask, listed, text, whole
from agentos.integrations.models.providers.base import Connection, ModelInfo
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName
from agentos.integrations.models.wires.openai_chat import CHAT

# OpenAI itself does not say; each of the others has its own word for it.
_CONTEXT_WINDOW = ("context_window", "context_length", "max_context_length", "max_model_len")


@dataclass(eq=False)
class OpenAILike:
    kind: str
    title: str
    base_url: str | None
    paths: Mapping[WireName, str]
    price_ids: Sequence[str] = ()
    needs_key: bool = True
    free: bool = False
    # What the names of its models look like; None: like anything.
    look: re.Pattern[str] | None = None

    def url(self, connection: Connection, wire: WireName, model: str, *, stream: bool) -> str:  # noqa: ARG002 - both are in the body
        return connection.base_url + self.paths[wire]

    def headers(self, connection: Connection) -> dict[str, str]:
        return {"Authorization": f"Bearer {connection.key}"} if connection.key else {}

    def owns(self, model: str) -> bool:
        return self.look is not None and self.look.match(model) is not None

    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        url = connection.base_url + "/models"
        document = await ask(upstream, url, self.headers(connection), connection, CHAT)
        return [
            ModelInfo(text(item, "id"), whole(item, *_CONTEXT_WINDOW))
            for item in listed(document, "data")
        ]
