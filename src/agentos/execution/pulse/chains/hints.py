"""Tells workers that a chain is due. Only a hint: they look by themselves, too."""

from __future__ import annotations

from agentos.kernel.bus import Bus

CHAINS_SUBJECT = "platform.pulse.chains"


async def chain_is_due(bus: Bus) -> None:
    if bus.is_connected:
        await bus.publish(CHAINS_SUBJECT, b"")
