"""Which HTTP client goes to providers."""

from __future__ import annotations

import os

from agentos.integrations.models.hosts import Hosts
from agentos.integrations.models.http_upstream import HttpUpstream
from agentos.integrations.models.upstream import Upstream


def open_upstream(hosts: Hosts) -> Upstream:
    """Our own client; where a proxy leads out of the network, aiohttp's, which knows proxies."""
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        from agentos.integrations.models.aiohttp_upstream import AiohttpUpstream

        return AiohttpUpstream(hosts)
    return HttpUpstream(hosts)
