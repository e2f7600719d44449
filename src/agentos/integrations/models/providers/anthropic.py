from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from agentos.integrations.models.providers.asking import MOST_PAGES, ask, listed, text, whole
from agentos.integrations.models.providers.base import Connection, ModelInfo
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import WireName

_VERSION = "2023-06-01"
_PAGE = 1000  # the most it gives at once


class Anthropic:
    kind = "anthropic"
    title = "Anthropic"
    base_url: str | None = "https://api.anthropic.com"
    needs_key = True
    price_ids: Sequence[str] = ("anthropic",)
    free = False
    paths: Mapping[WireName, str] = {
        WireName.MESSAGES: "/v1/messages",
        WireName.COUNT_TOKENS: "/v1/messages/count_tokens",
    }

    def url(self, connection: Connection, wire: WireName, model: str, *, stream: bool) -> str:  # noqa: ARG002 - both are in the body
        return connection.base_url + self.paths[wire]

    def headers(self, connection: Connection) -> dict[str, str]:
        headers = {"anthropic-version": _VERSION}
        return headers | {"x-api-key": connection.key} if connection.key else headers

    def owns(self, model: str) -> bool:
        return model.startswith("claude-")

    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:
        first = f"{connection.base_url}/v1/models?limit={_PAGE}"
        found: list[ModelInfo] = []
        url = first
        for _ in range(MOST_PAGES):
            page = await ask(upstream, url, self.headers(connection), connection, MESSAGES)
            found += [
                ModelInfo(text(item, "id"), whole(item, "max_input_tokens"))
                for item in listed(page, "data")
                # Listed for the record; calls that name it fail.
                if item.get("lifecycle") != "retired"
            ]
            if not page.get("has_more"):
                break
            url = f"{first}&after_id={quote(text(page, 'last_id'), safe='')}"
        return found


ANTHROPIC = Anthropic()
