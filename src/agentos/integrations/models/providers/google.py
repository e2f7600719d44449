from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from agentos.integrations.models.providers.asking import MOST_PAGES, ask, listed, text, whole
from agentos.integrations.models.providers.base import Connection, ModelInfo
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName
from agentos.integrations.models.wires.google_generate import GENERATE

_PREFIX = "models/"
_PAGE = 1000  # the most it gives at once


class Google:
    kind = "google"
    title = "Google Gemini"
    base_url: str | None = "https://generativelanguage.googleapis.com/v1beta"
    needs_key = True
    price_ids: Sequence[str] = ("google",)
    free = False
    paths: Mapping[WireName, str] = {WireName.GENERATE: "/models/{model}:generateContent"}

    def url(self, connection: Connection, wire: WireName, model: str, *, stream: bool) -> str:
        path = self.paths[wire].format(model=quote(model.removeprefix(_PREFIX), safe=""))
        if stream:
            path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        return connection.base_url + path

    def headers(self, connection: Connection) -> dict[str, str]:
        return {"x-goog-api-key": connection.key} if connection.key else {}

    def owns(self, model: str) -> bool:
        return model.removeprefix(_PREFIX).startswith("gemini-")

    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        first = f"{connection.base_url}/models?pageSize={_PAGE}"
        found: list[ModelInfo] = []
        url = first
        for _ in range(MOST_PAGES):
            page = await ask(upstream, url, self.headers(connection), connection, GENERATE)
            found += [
                ModelInfo(text(item, "name").removeprefix(_PREFIX), whole(item, "inputTokenLimit"))
                for item in listed(page, "models")
                if _generates(item)
            ]
            if not page.get("nextPageToken"):
                break
            url = f"{first}&pageToken={quote(text(page, 'nextPageToken'), safe='')}"
        return found


def _generates(item: Mapping[str, Any]) -> bool:
    """Embeddings, pictures and speech have methods of their own."""
    methods = item.get("supportedGenerationMethods")
    return methods is None or "generateContent" in methods


GOOGLE = Google()
