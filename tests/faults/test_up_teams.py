"""A team of a real agent CLI in an installation that is killed, all of it, amid an answer."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import httpx
import pytest
from tests.faults.test_up import new_place, until
from tests.sidecar.agents import agents_directory, call, installed_agents

_ENDED = ("answered", "failed", "cancelled", "uncertain")


@pytest.fixture(scope="module", autouse=True)
def agents() -> None:
    installed_agents("claude-code")


async def test_killed_amid_an_answer_it_answers_once_after_the_next_start() -> None:
    async with new_place() as place:
        place.env["AGENTOS_AGENTS_DIR"] = str(agents_directory())
        command, installation = await place.up()
        async with installation.client() as client:
            team = await _made(client)
            lines = [call("Bash", command=_COMMAND, description="x"), "say Finished."]
            text = "\n".join(["```demo", *lines, "```"])
            sent = await client.post(f"/api/teams/{team}/messages", json={"text": text})
            path = f"/api/teams/{team}/messages/{sent.json()['id']}"
            begun = place.data_dir / "workspaces"
            await until(lambda: any(begun.glob("*/*/files/log.txt")))
        command.send(signal.SIGKILL)
        await command.wait()
        log = next(begun.glob("*/*/files/log.txt"))
        log.with_name("go").touch()
        _, installation = await place.up()
        async with installation.client() as client:
            message = await _ended(client, path)
        assert (message["state"], message["answer"]) == ("answered", "Finished.")
        assert message["attempt"] > 1


# Goes on at the second time only, so that the first is sure to be cut off.
_COMMAND = "echo begun >> log.txt; while [ ! -e go ]; do sleep 0.1; done"


async def _made(client: httpx.AsyncClient) -> str:
    body = {
        "name": "Crew",
        "provider": "claude-code",
        "model": "demo",
        "leader": {"name": "lead"},
        "deploy": True,
    }
    made = await client.post("/api/teams", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def _ended(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while (read := (await client.get(path)).json())["state"] not in _ENDED:  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.1)
    message: dict[str, Any] = read
    return message
