"""The example in docs/events.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.gateway.events.conftest import Rig

GUIDE = (Path(__file__).parents[3] / "docs" / "events.md").read_text()


async def test_the_example_follows_events(rig: Rig) -> None:
    match = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert match is not None
    names: dict[str, Any] = {}
    exec(match[1], names)
    tenant = await rig.tenant()
    key = await rig.key(tenant)
    await rig.relay.record(tenant, 2)
    following = names["follow"](f"ws://127.0.0.1:{rig.port}", key, 1)
    assert (await anext(following))["seq"] == 2
    await rig.relay.announce(tenant)
    assert (await anext(following))["seq"] == 3
    await following.aclose()
