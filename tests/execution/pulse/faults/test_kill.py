"""kill -9 of a worker at every step boundary, and inside tool and model calls."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal
from tests.execution.pulse.faults.processes import Crew
from tests.execution.pulse.faults.worker import COMMITTED

PRICE = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
AT_ONCE = 6
GATE = {
    "kind": "command",
    "name": "both",
    "command": 'test "$(cat notes)" = "$(echo one; echo two)"',
}


class Post:
    """A server that notes the idempotency key of all it receives, and answers a little later."""

    def __init__(self, receipts: Path):
        self.keys: Counter[str] = Counter()
        self._receipts = receipts

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._receive, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            yield f"{host}:{port}"

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.keys[lines["idempotency-key"]] += 1
        with self._receipts.open("a") as receipts:
            receipts.write(lines["idempotency-key"] + "\n")
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        writer.close()


async def killed(crew: Crew, faults: list[dict[str, Any]]) -> None:
    """Has as many workers each take a session and die over it. None takes up what another left."""
    for some in batched(faults, AT_ONCE):
        hands = [crew.fork(capacity=1, reaps=False, **fault) for fault in some]
        for hand, fault in zip(hands, some, strict=True):
            assert await hand.ended() == -signal.SIGKILL, (fault, hand.log)


def batched(faults: list[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    return [faults[at : at + size] for at in range(0, len(faults), size)]


def boundaries(
    commits: int, moments: Sequence[str] = ("before", "amid", "after")
) -> list[dict[str, Any]]:
    return [{"moment": moment, "nth": nth} for nth in range(1, commits + 1) for moment in moments]


async def commits_of(lab: Lab, crew: Crew, session_id: UUID) -> int:
    """How many commits a worker needs for a session that nothing happens to."""
    hand = await crew.start(moment="count")
    ended = await lab.ended(session_id)
    assert ended["state"] == "COMPLETE", ended["error"]
    await crew.dismiss()
    return hand.log.count(COMMITTED)


async def recovered(lab: Lab, crew: Crew, ids: list[UUID]) -> list[list[asyncpg.Record]]:
    """The journals, once another worker has brought all of them to their end."""
    await crew.start()
    for session_id in ids:
        read = await lab.ended(session_id)
        assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Done."), read["error"]
    await crew.dismiss()
    return [await check_journal(lab.superuser, session_id) for session_id in ids]


async def notes_of(lab: Lab, session_id: UUID) -> str:
    answer = await lab.client.get(
        f"/api/sessions/{session_id}/files/content", params={"path": "notes"}
    )
    assert answer.status_code == 200, answer.text
    return answer.text


def tools_of(journal: list[asyncpg.Record]) -> list[tuple[str, str]]:
    return [(row["name"], row["status"]) for row in journal if row["kind"] == "tool"]


async def owned_by_the_dead(lab: Lab, ids: list[UUID]) -> int:
    count: int = await lab.superuser.fetchval(
        "select count(owner) from sessions where id = any($1)", ids
    )
    return count


async def test_sessions_that_change_files_lose_and_repeat_nothing(lab: Lab, crew: Crew) -> None:
    lab.person = await lab.gateway.tenant(plan="enterprise")
    await lab.client.put("/api/models/prices", json=PRICE)
    prompt = script(
        'call shell {"command": "echo one >> notes; sleep 0.2"}',
        "then",
        'call shell {"command": "echo two >> notes"}',
        "say Done.",
        "wait 100",
    )

    async def create() -> UUID:
        return await lab.create(prompt, gates=[GATE])

    commits = await commits_of(lab, crew, await create())
    inside = [("model", n) for n in (1, 2, 3)] + [("tool", 1), ("gate", 1)]
    faults = boundaries(commits, ("before", "after")) + [
        {"moment": moment, "nth": n} for moment, n in inside
    ]
    ids = [await create() for _ in faults]
    await killed(crew, faults)
    # All but the last commit, once made, leave a session behind that a dead worker owns.
    assert await owned_by_the_dead(lab, ids) == len(ids) - 1

    for session_id, journal in zip(ids, await recovered(lab, crew, ids), strict=True):
        assert tools_of(journal) == [("shell", "done")] * 2
        assert await notes_of(lab, session_id) == "one\ntwo\n"
        # What was done by a worker that died is not done again, what was not is done once.
        assert (await lab.kinds(session_id)).count("model") == 3
    await check_books(lab.superuser)


async def test_effects_outside_happen_at_most_once_and_doubts_are_told(
    lab: Lab, crew: Crew, tmp_path: Path
) -> None:
    lab.person = await lab.gateway.tenant(plan="enterprise")
    await lab.client.put("/api/models/prices", json=PRICE)
    await lab.client.put("/api/tools/policies", json={"subject": "http_send", "decision": "allow"})
    # No command is run here; so nobody has to find out how that could be done.
    crew.env["AGENTOS_SANDBOX"] = "none"
    post = Post(tmp_path / "receipts")
    async with post.open() as address:

        async def create() -> UUID:
            send = json.dumps({"url": f"http://{address}/orders", "method": "POST", "body": "{}"})
            return await lab.create(
                script(
                    f"call edit_file {adding('one')}",
                    f"call http_send {send}",
                    f"call edit_file {adding('two')}",
                    "say Done.",
                ),
                files={"notes": "end"},
                tools=["edit_file", "http_send"],
                allowed_hosts=[address],
                gates=[{"kind": "file", "name": "two", "path": "notes"}],
            )

        commits = await commits_of(lab, crew, await create())
        faults = [*boundaries(commits), {"moment": "tool", "nth": 2}, {"moment": "model"}]
        ids = [await create() for _ in faults]
        await killed(crew, faults)
        journals = await recovered(lab, crew, ids)

    doubtful = 0
    for session_id, journal in zip(ids, journals, strict=True):
        assert await notes_of(lab, session_id) == "one\ntwo\nend"
        (send,) = [row for row in journal if row["name"] == "http_send"]
        sent = post.keys[f"{session_id}:{send['key']}"]
        assert sent <= 1
        assert (send["status"], sent) in (("done", 1), ("uncertain", 0), ("uncertain", 1))
        doubtful += send["status"] == "uncertain"
        assert [status for name, status in tools_of(journal) if name == "edit_file"] == ["done"] * 2
        told = await lab.superuser.fetchval(
            """select count(*) from (select data from outbox where type = 'session.step_uncertain'
               union all select data from events where type = 'session.step_uncertain') told
               where data ->> 'session_id' = $1""",
            str(session_id),
        )
        assert told == (send["status"] == "uncertain")
    # Between its mark and its result: after the mark, before and amid the result, in the call.
    assert doubtful == 4
    assert max(post.keys.values()) == 1
    await check_books(lab.superuser)


def adding(line: str) -> str:
    """The arguments of an edit that leaves one line more each time it is made."""
    return json.dumps({"path": "notes", "old_text": "end", "new_text": f"{line}\nend"})


async def test_a_session_that_takes_its_workers_down_is_not_tried_for_ever(
    lab: Lab, crew: Crew
) -> None:
    session_id = await lab.create(script("say Done."))
    for _ in range(3):
        hand = crew.fork(moment="before")
        assert await hand.ended() == -signal.SIGKILL
    await crew.start()
    ended = await lab.ended(session_id)
    assert (ended["state"], ended["error_code"]) == ("FAILED", "worker_lost")
    await crew.dismiss()
    await check_journal(lab.superuser, session_id)
    await check_books(lab.superuser)
