from __future__ import annotations

import re

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.providers.asking import ask
from agentos.integrations.models.providers.base import Connection, ModelInfo, ProviderFailed
from agentos.integrations.models.providers.openai_like import OpenAILike
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName
from agentos.integrations.models.wires.openai_chat import CHAT


class OpenRouter(OpenAILike):
    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        await self._check_key(upstream, connection)
        return await super().models(upstream, connection)

    async def _check_key(self, upstream: Upstream, connection: Connection) -> None:
        """Its list of models is public: only this says whether a key is good."""
        url = connection.base_url + "/key"
        try:
            await ask(upstream, url, self.headers(connection), connection, CHAT)
        except ProviderFailed as failed:
            # Something that stands in its place need not know the path.
            if failed.failure.error_class is not ErrorClass.NOT_FOUND:
                raise


OPENROUTER = OpenRouter(
    kind="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    paths={WireName.CHAT: "/chat/completions", WireName.EMBEDDINGS: "/embeddings"},
    price_ids=("openrouter",),
    look=re.compile(r"(?!models/)[\w.~-]+/[\w.:-]+$"),
)
