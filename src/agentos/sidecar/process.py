"""The sidecar as a process: its ways out, the agent's model endpoint, and the bridge."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

from agentos.contracts.crew import TeamSpec
from agentos.kernel.bus import Bus
from agentos.kernel.bus_credentials import BusCredentials
from agentos.kernel.errors import AgentOSError
from agentos.sidecar.bridge import Bridge
from agentos.sidecar.forwarder import Forwarder
from agentos.sidecar.links import EGRESS_PORT, Link, proxy_environment
from agentos.sidecar.places import BadFile, Places
from agentos.sidecar.providers.base import MakeProvider, Surroundings
from agentos.sidecar.tasks import end
from agentos.sidecar.wire import Wire

# By name, so that only the one that is used is loaded.
_PROVIDERS = {
    "claude-code": "agentos.sidecar.providers.claude_code:make_claude_code",
    "opencode": "agentos.sidecar.providers.opencode:make_opencode",
    "acp": "agentos.sidecar.providers.acp:make_acp",
}
# For tests: another provider, as module:callable.
_OTHER_PROVIDER = "AGENTOS_SIDECAR_PROVIDER"
# What SIGTERM leaves for the answer at hand.
_GRACE = 10.0

_log = logging.getLogger(__name__)


def run() -> int:
    """The exit code: 0 if it was told to end."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        return asyncio.run(serve(Places.of_environment()))
    except (AgentOSError, BadFile, OSError) as error:
        _log.error("the sidecar cannot go on: %s", error)
        return 1


async def serve(places: Places) -> int:
    """Serves one team until it is told to end."""
    spec = places.spec()
    async with AsyncExitStack() as stack:
        forwarder = await Forwarder.open(places.gateway_socket)
        stack.push_async_callback(forwarder.close)
        env = await _proxy(places, stack)
        states = _BusStates()
        bus = await Bus.connect(
            "nats://bus",
            _Renewed(places),
            name=f"sidecar {spec.team_id}",
            on_state=states,
            socket=places.bus_socket,
        )
        stack.push_async_callback(bus.close)
        places.home.mkdir(parents=True, exist_ok=True)
        wire = Wire(bus, spec)
        bridge = Bridge(
            spec,
            _provider_of(spec),
            Surroundings(
                workspace=places.workspace,
                home=places.home,
                agents=places.agents,
                model_url=forwarder.url,
                env=env,
            ),
            wire,
            state=places.state,
            read_spec=places.spec,
            use_token=forwarder.use,
        )
        states.follow(wire, bridge)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bridge.shutdown, _GRACE)
        return await _until_the_end(bridge, states)


async def _until_the_end(bridge: Bridge, states: _BusStates) -> int:
    running = asyncio.create_task(bridge.run())
    closed = asyncio.create_task(states.closed.wait())
    try:
        await asyncio.wait({running, closed}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            return 0
        _log.error("the bus has closed the connection for good: the team's rights were taken back")
        return 1
    finally:
        await end(running, closed)


async def _proxy(places: Places, stack: AsyncExitStack) -> dict[str, str]:
    if not places.egress_socket.exists():
        return {}
    link = await Link.open(places.egress_socket, EGRESS_PORT)
    stack.push_async_callback(link.close)
    return proxy_environment(link.port)


def _provider_of(spec: TeamSpec) -> MakeProvider:
    module, _, name = os.environ.get(_OTHER_PROVIDER, _PROVIDERS[spec.provider]).partition(":")
    make: MakeProvider = getattr(importlib.import_module(module), name)
    return make


class _Renewed:
    """The newest credentials. A file that cannot be read leaves those before it in force: the bus
    client asks within its reconnect loop, which must not end."""

    def __init__(self, places: Places) -> None:
        self._read: Callable[[], BusCredentials] = places.credentials
        self._last = places.credentials()

    def __call__(self) -> BusCredentials:
        try:
            self._last = self._read()
        except BadFile as error:
            _log.warning("%s", error)
        return self._last


class _BusStates:
    """Passes on what the bus says about the connection, once there is somebody to hear it."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._wire: Wire | None = None
        self._bridge: Bridge | None = None

    def follow(self, wire: Wire, bridge: Bridge) -> None:
        self._wire, self._bridge = wire, bridge

    def __call__(self, state: str) -> None:
        _log.info("bus: %s", state)
        if self._wire is not None:
            self._wire.state(state)
        if state == "connected" and self._bridge is not None:
            self._bridge.connected()
        if state == "closed":
            self.closed.set()
