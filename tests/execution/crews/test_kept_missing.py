"""A team whose agent CLI is not on the machine, in a real sandbox."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.conftest import Engines
from tests.execution.crews.kept_lab import CLAUDE_CODE, OPENCODE, Kit, open_lab


@pytest.mark.parametrize("kit", [CLAUDE_CODE, OPENCODE], ids=lambda kit: kit.provider)
async def test_what_to_install_is_said(engines: Engines, kit: Kit) -> None:
    nothing = Path(mkdtemp(prefix="aos-n-", dir="/tmp"))
    nothing.chmod(0o755)  # noqa: ASYNC240 - at once
    async with open_lab(engines, agents=nothing) as lab, lab.worker():
        crew = await lab.crew(kit)
        waiting = await crew.send("say Hello.")
        read = await crew.until("error")
        assert f"`agentos agents install {kit.provider}`" in read["reason"]
        assert len(await crew.events("team.alerted")) == 1
        assert (await crew.message(waiting))["state"] == "queued"
        # And nothing is tried again by itself.
        assert [e["status"] for e in await crew.events("team.status_changed")].count("error") == 1
        assert crew.processes("/opt/") == []
    nothing.rmdir()  # noqa: ASYNC240 - at once
