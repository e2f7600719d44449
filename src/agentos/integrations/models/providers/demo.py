"""The built-in model: no key, no network, no cost. Its wires are answered in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentos.integrations.models.providers.base import Connection, ModelInfo
from agentos.integrations.models.upstream import Upstream
from agentos.integrations.models.wires.base import WireName

MODEL = "demo"
SCHEME = "demo:"
CONTEXT_WINDOW = 32_000


class Demo:
    kind = "demo"
    title = "Built-in demo model"
    base_url: str | None = SCHEME
    needs_key = False
    price_ids: Sequence[str] = ()
    free = True
    paths: Mapping[WireName, str] = {
        wire: wire.value for wire in WireName if wire is not WireName.GENERATE
    }

    def url(self, connection: Connection, wire: WireName, model: str, *, stream: bool) -> str:  # noqa: ARG002 - the provider protocol's
        return f"{SCHEME}{wire}"

    def headers(self, connection: Connection) -> dict[str, str]:  # noqa: ARG002
        return {}

    def owns(self, model: str) -> bool:
        return model == MODEL

    async def models(self, upstream: Upstream, connection: Connection) -> list[ModelInfo]:  # noqa: ARG002
        return [ModelInfo(MODEL, CONTEXT_WINDOW)]


DEMO = Demo()
