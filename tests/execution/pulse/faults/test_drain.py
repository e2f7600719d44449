"""SIGTERM: a worker finishes the steps it is at, gives the sessions back, and goes."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal
from tests.execution.pulse.faults.processes import Crew, until

PROMPT = script('call shell {"command": "echo one >> notes; sleep 1"}', "say Done.")


async def command(crew: Crew, drain_seconds: float) -> Process:
    """`agentos worker`, as people start it."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "worker"),
        env=crew.env | {"AGENTOS_DRAIN_SECONDS": str(drain_seconds)},
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )


async def terminated(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        _, told = await process.communicate()
    assert process.returncode == 0, told.decode()


async def in_the_tool(place: Path) -> None:
    """Once the shell has written its line, and sleeps."""

    async def is_written() -> bool:
        return any(path.read_text() for path in place.rglob("notes"))  # noqa: ASYNC240 - one file

    await until(is_written)


async def finished_by_another(lab: Lab, crew: Crew, session_id: UUID) -> None:
    await crew.start()
    assert (await lab.ended(session_id))["state"] == "COMPLETE"
    await crew.dismiss()
    path = f"/api/sessions/{session_id}/files/content"
    assert (await lab.client.get(path, params={"path": "notes"})).text == "one\n"
    journal = await check_journal(lab.superuser, session_id)
    assert [row["status"] for row in journal if row["kind"] == "tool"] == ["done"]
    await check_books(lab.superuser)


async def test_the_step_at_hand_is_finished_and_the_session_given_back(
    lab: Lab, crew: Crew
) -> None:
    session_id = await lab.create(PROMPT)
    worker = await command(crew, drain_seconds=20)
    await in_the_tool(lab.parts.settings.workspaces_dir)
    await terminated(worker)
    read = await lab.read(session_id)
    assert (read["state"], read["queued"]) == ("RUNNING", True)
    assert (await lab.kinds(session_id))[-1] == "tool"
    assert await lab.superuser.fetchval("select count(*) from workers") == 0
    await finished_by_another(lab, crew, session_id)


async def test_a_step_that_takes_too_long_is_cut_off_and_made_again_elsewhere(
    lab: Lab, crew: Crew
) -> None:
    session_id = await lab.create(PROMPT)
    # As often as would make it a session that kills its workers: but this is none.
    for _ in range(3):
        hand = await crew.start(drain_seconds=0.1)
        await in_the_tool(lab.parts.settings.workspaces_dir)
        hand.send(signal.SIGTERM)
        assert await hand.ended() == 0, hand.log
        assert (await lab.kinds(session_id))[-1] == "model"
        for notes in lab.parts.settings.workspaces_dir.rglob("notes"):
            notes.write_text("")
    await finished_by_another(lab, crew, session_id)
