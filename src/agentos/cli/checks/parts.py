"""Checks of what is reached over the network: NATS, the object store, the gateway."""

from __future__ import annotations

import asyncio
import os

from agentos.cli.checks.outcomes import Outcome, PartDown, Site, ok, problem, skipped, warning
from agentos.kernel.errors import Unavailable

_CONNECT = 4.0  # seconds


async def nats(site: Site) -> Outcome:
    import nats.errors
    import nats.js.errors

    from agentos.kernel.bus import Bus
    from agentos.kernel.installation import bus_authority

    if site.key is None or site.nats is None:
        return problem("is not running here", "Start it with `agentos up`, or set NATS_URL.")
    credentials = bus_authority(site.key).platform_credentials()
    try:
        bus = await Bus.connect(
            site.nats.nats, credentials, name="agentos-doctor", timeout=_CONNECT - 1
        )
    except Unavailable as error:
        fix = "Start it with `agentos up`."
        if not site.settings.embedded_nats:
            fix = "Check NATS_URL, and that the server has what `agentos nats config` prints."
        return problem(error.message, fix)
    try:
        server = bus._client.connected_server_version
        await bus._client.jetstream().account_info()
    except (nats.js.errors.Error, nats.errors.Error):
        return problem(
            "JetStream is off", "Add a `jetstream { … }` block to nats-server.conf and restart it."
        )
    finally:
        await bus.close()
    kind = "embedded" if site.settings.embedded_nats else "external"
    version = f"{server.major}.{server.minor}.{server.patch}"
    return ok(f"{kind}, version {version}, JetStream on")


async def nats_sync(site: Site) -> Outcome:
    from agentos.kernel.bus import assert_sync_always

    if site.nats is None:
        raise PartDown("needs NATS")
    if site.nats.nats_monitor is None:
        return warning(
            "not known: the monitoring address is not set",
            "Set NATS_MONITOR_URL, or make sure of `sync_interval: always` yourself.",
        )
    try:
        await assert_sync_always(site.nats.nats_monitor)
    except Unavailable as error:
        if site.settings.embedded_nats:
            raise PartDown("needs NATS") from None
        return warning(error.message, "Check NATS_MONITOR_URL.")
    return ok("messages are on disk before they are acknowledged")


async def objects(site: Site) -> Outcome:
    from agentos.kernel.objects import ObjectStore

    url = site.settings.object_store_url
    # Opening a directory makes it; doctor leaves a machine as it was.
    if url is None and not (site.settings.data_dir / "objects").is_dir():
        return skipped("made at the first start")
    store = ObjectStore.open(url.get_secret_value() if url else None, site.settings.data_dir)
    await store.check()
    return ok(f"{store.where} keeps what it is given")


async def gateway(site: Site) -> Outcome:
    url = os.environ.get("AGENTOS_URL") or site.settings.url
    return await asyncio.to_thread(_probe, url)


def _probe(url: str) -> Outcome:
    import http.client
    import json
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=_CONNECT)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/health/ready")
        response = connection.getresponse()
        document = json.loads(response.read())
        state = str(document["status"])
        parts_down = [f"{k} {v}" for k, v in document.items() if k != "status" and v != "ok"]
    except OSError:
        return warning(f"not running at {url}", "Start it with `agentos up` or `agentos serve`.")
    except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return warning(f"{url} answers, but not as AgentOS", "Check AGENTOS_URL and AGENTOS_PORT.")
    finally:
        connection.close()
    if response.status != 200:
        return problem(f"{url} is {state}: {', '.join(parts_down)}", "Mend that part first.")
    return ok(f"ready at {url}")
