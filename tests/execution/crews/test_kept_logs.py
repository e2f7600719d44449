"""What keepers write into the log of a team of an agent CLI."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

from tests.conftest import Engines
from tests.execution.crews.kept_fakes import PATIENCE, FakeRuntime, FakeSidecar
from tests.execution.crews.kept_lab import ACP, CLAUDE_CODE, Crew, KeptLab, open_lab
from tests.execution.crews.test_keeping import QUICK, kept, lab  # noqa: F401 - fixtures

from agentos.contracts.crew import Crashed, Log, McpStatus

# ruff: noqa: F811 - fixtures are arguments, too


async def lines_of(crew: Crew, **query: Any) -> list[dict[str, Any]]:
    """The newest lines, oldest first."""
    answer = await crew.client.get(f"/api/teams/{crew.id}/logs", params={"limit": 200, **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"][::-1]
    return found


async def texts(crew: Crew, source: str = "team") -> list[str]:
    return [line["text"] for line in await lines_of(crew) if line["source"] == source]


async def until(crew: Crew, text: str, seconds: float = PATIENCE) -> dict[str, Any]:
    """The first line with this in it, once there is one."""
    found: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await lines_of(crew)
                for line in found:
                    if text in line["text"]:
                        return line
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(found) from None


async def test_the_life_of_a_kept_team(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        answer = await crew.client.patch(f"/api/teams/{crew.id}", json={"model": "auto"})
        assert answer.status_code == 200, answer.text
        mcp = (McpStatus("notes", "failed", "connection refused"),)
        await sidecar.beat(version=2, mcp=mcp)
        await until(crew, "is given version 2")
        await crew.call("POST", "/stop")
        await crew.until("stopped")
        name = (await crew.read())["created_by"]
        assert await texts(crew) == [
            f"Created by {name}.",
            f"Deployed by {name}.",
            "Status: starting. Waiting for a worker.",
            "A worker has taken it.",
            "Status: starting. It is being started.",
            "Its agent is given version 1.",
            "Status: running.",
            f"Version 2 by {name}: model.",
            "Its agent is given version 2.",
            "MCP server notes: failed. connection refused",
            f"Stopped by {name}.",
            "Status: running. Stopping.",
            "Status: stopped.",
        ]
        assert [line["text"] for line in await lines_of(crew, level="warning")] == [
            "MCP server notes: failed. connection refused"
        ]


async def test_each_crash_is_a_line_and_so_is_each_repair(lab: KeptLab) -> None:
    pace = replace(QUICK, back_off=0.01)
    async with kept(lab, pace) as (crew, sidecar, runtime):
        for n in range(2):
            await sidecar.say(Crashed(crash_id=str(n), reason="It tripped."))
            # Heard twice, it is one crash.
            await sidecar.say(Crashed(crash_id=str(n), reason="It tripped."))
        async with asyncio.timeout(PATIENCE):
            while (await texts(crew)).count("Crashed. It is started again. It tripped.") < 2:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        await sidecar.say(Crashed(crash_id="2", reason="It tripped."))
        loop = await until(crew, "Crashed. It has crashed 3 times in five minutes. It tripped.")
        assert (loop["level"], loop["source"]) == ("error", "team")
        await until(crew, "Status: repairing. It is started anew. It tripped.")
        await runtime.lives(2)
        crashes = [text for text in await texts(crew) if text.startswith("Crashed.")]
        assert len(crashes) == 3
        levels = [line["level"] for line in await lines_of(crew) if "Crashed" in line["text"]]
        assert levels == ["warning", "warning", "error"]


async def test_what_the_agent_prints(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        answer = await crew.client.put("/api/vault/PRINTED", json={"value": "hush-hush-4711"})
        assert answer.is_success, answer.text
        await sidecar.say(Log(lines=("one", "\x1b[33mwarning:\x1b[0m two", "it is hush-hush-4711")))
        last = await until(crew, "it is")
        assert last["text"] == "it is •••"
        found = [line for line in await lines_of(crew) if line["source"] == "agent"]
        assert [(line["level"], line["text"]) for line in found] == [
            ("info", "one"),
            ("warning", "warning: two"),
            ("info", "it is •••"),
        ]


async def test_a_talkative_agent_fills_no_more_than_its_share(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await sidecar.say(Log(lines=tuple(f"line {n}" for n in range(5000))))
        await until(crew, "line 4999")
        found = await texts(crew, "agent")
        assert found == [
            "(4801 lines left out)",
            *(f"line {n}" for n in range(4801, 5000)),
        ]
        # What comes within a second of that waits, and is written when the life ends at the latest.
        for n in range(3):
            await sidecar.say(Log(lines=(f"more {n}", "\0")))
        await crew.call("POST", "/stop")
        await crew.until("stopped")
        assert [text for text in await texts(crew, "agent") if text.startswith("more")] == [
            "more 0",
            "more 1",
            "more 2",
        ]


async def test_the_last_words_of_a_place_that_ends(lab: KeptLab) -> None:
    async with kept(lab) as (crew, _, runtime):
        runtime.started[-1].output = "Traceback (most recent call last):\nBoom"
        runtime.started[-1].crash("It ended by itself.")
        await runtime.lives(2)
        await until(crew, "Boom")
        assert await texts(crew, "agent") == ["Traceback (most recent call last):", "Boom"]


async def test_a_team_whose_worker_has_died_is_taken_over(lab: KeptLab) -> None:
    crew = await lab.crew(CLAUDE_CODE)
    await lab.rows(
        "update teams set owner = $1, status = 'running', reason = null where id = $2",
        uuid4(),
        crew.id,
    )
    async with lab.worker(runtimes=FakeRuntime()), FakeSidecar(crew).listening() as sidecar:
        taken = await until(crew, "Its worker is gone; another one has taken it over.")
        assert taken["level"] == "warning"
        await sidecar.ready()


async def test_an_idle_team_writes_nothing(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await until(crew, "Status: running.")
        before = await lines_of(crew)
        for _ in range(5):
            await sidecar.beat()
        # The keeper has heard all of them, once it does what comes after.
        await sidecar.beat(version=1, mcp=(McpStatus("notes", "connected"),))
        await until(crew, "MCP server notes: connected.")
        assert (await lines_of(crew))[:-1] == before


async def test_what_cannot_be_written_harms_nothing(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await lab.rows(
            "alter table team_logs add constraint closed check (source <> 'agent') not valid"
        )
        await sidecar.say(Log(lines=("refused by the database",)))
        await sidecar.say(Crashed(crash_id="1", reason="It tripped."))
        # The team goes on, whatever becomes of what its agent prints.
        await until(crew, "Crashed.")
        assert await texts(crew, "agent") == []


async def test_a_real_sandbox_is_heard(engines: Engines) -> None:
    """From the error stream of a process in its sandbox to the API."""
    agents = Path(mkdtemp(prefix="aos-l-", dir="/tmp"))
    agents.chmod(0o755)  # noqa: ASYNC240 - at once
    program = agents / "agent.sh"
    program.write_text("#!/bin/sh\necho 'warning: low on ink' >&2\necho 'sigh' >&2\nexec cat\n")
    program.chmod(0o755)
    kit = replace(ACP, command=("/opt/agents/agent.sh",))
    async with open_lab(engines, agents=agents) as lab, lab.worker():
        crew = await lab.crew(kit)
        line = await until(crew, "low on ink", 60)
        assert (line["level"], line["source"]) == ("warning", "agent")
        assert "sigh" in await texts(crew, "agent")
    program.unlink()
    agents.rmdir()  # noqa: ASYNC240 - at once
