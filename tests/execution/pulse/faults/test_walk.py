"""Random walks: people tell sessions what to do, workers are killed, clocks jump. Nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import asyncpg
import httpx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal
from tests.execution.pulse.faults.processes import Crew

from agentos.execution.pulse.states import ENDED, WORKED_ON

PRICE = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
LIMIT = 2

DO: dict[str, dict[str, Any]] = {
    "answer": {"prompt": script("say Done.")},
    "think": {"prompt": script("wait 200", "say Done.")},
    "files": {
        "prompt": script('call shell {"command": "echo x >> notes"}', "then", "say Done."),
        "gates": [{"kind": "file", "name": "notes", "path": "notes"}],
    },
    "ask": {"prompt": script('call write_file {"path": "a", "content": "A"}', "say Done.")},
    "question": {"prompt": script('call ask_human {"question": "Why?"}', "say Done.")},
    "busy": {"prompt": script("fail overload Busy.")},
    "undone": {
        "prompt": script("say Done."),
        "gates": [{"kind": "file", "name": "none", "path": "none", "on_fail": "rollback"}],
    },
    "parent": {
        "prompt": script(
            'call spawn_agents {"tasks": [{"prompt": "What is 1 + 1?"}, {"prompt": "Hello"}]}',
            "say Done.",
        )
    },
}


@dataclass
class World:
    """The lab, for a machine in another thread."""

    lab: Lab
    crew: Crew
    clock: Path
    loop: asyncio.AbstractEventLoop
    away: timedelta = timedelta()
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def now(self) -> datetime:
        """What the workers take it for."""
        return datetime.now(UTC) + self.away

    def jump(self, by: timedelta) -> None:
        self.away += by
        self.lab.clock.advance(by)
        aside = self.clock.with_suffix(f".{next(self.numbers)}")
        aside.write_text(str(self.away.total_seconds()))
        aside.rename(self.clock)

    def worker(self) -> None:
        self.crew.fork(clock=str(self.clock), capacity=8)

    async def crash(self) -> None:
        living = [hand for hand in self.crew.hands if hand.code is None]
        await living[0].kill()
        self.worker()

    async def client(self) -> tuple[UUID, httpx.AsyncClient]:
        """A new tenant, by a key that no jump of the clock outdates."""
        gateway = self.lab.gateway
        tenant_id = (await gateway.tenant(plan="free")).tenant_id
        client = await gateway.client(await gateway.api_key(tenant_id))
        await client.put("/api/models/prices", json=PRICE)
        ask = {"subject": "write_file", "decision": "ask"}
        assert (await client.put("/api/tools/policies", json=ask)).status_code == 200
        return tenant_id, client


class Sessions(RuleBasedStateMachine):
    world: ClassVar[World]
    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.tenant_id, self.client = self.world.do(self.world.client())
        self.seen: dict[UUID, list[asyncpg.Record]] = {}

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """The answer to a request; None if the session is not in a state for it."""
        answer = self.world.do(self.client.request(method, path, json=body, params=params))
        if answer.status_code in (409, 422):
            return None
        assert answer.status_code in (200, 201), (path, answer.text)
        return answer.json()

    @initialize(target=sessions)
    def begin(self) -> Any:
        return multiple(*(self.ask("POST", "/api/sessions", self.new(name))["id"] for name in DO))

    @rule(target=sessions, name=st.sampled_from(sorted(DO)), run=st.booleans())
    def create(self, name: str, run: bool) -> Any:
        return self.ask("POST", "/api/sessions", self.new(name) | {"run": run})["id"]

    @rule(session=sessions, verb=st.sampled_from(["run", "pause", "pause", "resume", "cancel"]))
    def tell(self, session: str, verb: str) -> None:
        self.ask("POST", f"/api/sessions/{session}/{verb}")

    @rule(session=sessions, name=st.sampled_from(sorted(DO)))
    def go_on(self, session: str, name: str) -> None:
        self.ask("POST", f"/api/sessions/{session}/continue", {"prompt": DO[name]["prompt"]})

    @rule(session=sessions, part=st.floats(0, 1))
    def go_back(self, session: str, part: float) -> None:
        self.ask("POST", f"/api/sessions/{session}/rollback", {"to_seq": self.step(session, part)})

    @rule(target=sessions, session=sessions, part=st.floats(0, 1))
    def fork(self, session: str, part: float) -> Any:
        body = {"seq": self.step(session, part), "prompt": DO["files"]["prompt"]}
        made = self.ask("POST", f"/api/sessions/{session}/fork", body)
        return multiple() if made is None else made["id"]

    @rule(yes=st.booleans())
    def decide(self, yes: bool) -> None:
        for item in self.ask("GET", "/api/approvals")["items"]:
            self.answer(item, yes)

    @rule()
    def crash(self) -> None:
        self.world.do(self.world.crash())

    @rule(days=st.integers(-40, 40))
    def jump(self, days: int) -> None:
        self.world.jump(timedelta(days=days))

    @rule()
    def wait(self) -> None:
        self.world.do(asyncio.sleep(0.3))

    @invariant()
    def holds(self) -> None:
        self.world.do(self.check())

    def teardown(self) -> None:
        """With workers at work, whatever waits for nobody ends."""
        self.world.do(self.quiesce())
        self.world.do(self.check())

    def new(self, name: str) -> dict[str, Any]:
        return {"model": "demo", **DO[name]}

    def step(self, session: str, part: float) -> int:
        steps: int = self.ask("GET", f"/api/sessions/{session}")["steps"]
        return max(1, round(steps * part))

    def answer(self, item: dict[str, Any], yes: bool) -> None:
        body = {"answer": "So."} if yes and item["kind"] == "question" else {}
        self.ask("POST", f"/api/approvals/{item['id']}/{'approve' if yes else 'reject'}", body)

    async def check(self) -> None:
        superuser = self.world.lab.superuser
        rows = await superuser.fetch("select * from sessions where tenant_id = $1", self.tenant_id)
        assert sum(row["owner"] is not None for row in rows) <= LIMIT
        for row in rows:
            if row["owner"] is not None:
                assert row["state"] in WORKED_ON
            if row["state"] in ENDED or row["state"] == "CREATED":
                assert row["queued_at"] is None
            if row["state"] == "QUEUED":
                assert row["queued_at"] is not None
            async with superuser.transaction(isolation="repeatable_read"):
                journal = await check_journal(superuser, row["id"])
            before = self.seen.get(row["id"], [])
            assert journal[: len(before)] == before, "a step was lost or changed"
            self.seen[row["id"]] = journal

    async def quiesce(self) -> None:
        superuser = self.world.lab.superuser
        open_states = "state <> all($2::text[]) and state <> 'CREATED'"
        async with asyncio.timeout(50):
            while True:
                rows = await superuser.fetch(
                    f"select * from sessions where tenant_id = $1 and {open_states}",
                    self.tenant_id,
                    sorted(ENDED),
                )
                if not rows:
                    return
                await self.nudge(rows)
                await asyncio.sleep(0.1)

    async def nudge(self, rows: list[asyncpg.Record]) -> None:
        """Does what only people and time can do."""
        for row in rows:
            if row["pause_requested"]:
                await self.client.post(f"/api/sessions/{row['id']}/resume")
            elif row["waiting_for"] == "retry" and row["wake_at"] is not None:
                self.world.jump(max(row["wake_at"] - self.world.now(), timedelta()))
            elif row["waiting_for"] == "approval":
                items = (await self.client.get("/api/approvals")).json()["items"]
                for item in items:
                    body = {"answer": "So."} if item["kind"] == "question" else {}
                    await self.client.post(f"/api/approvals/{item['id']}/approve", json=body)


async def test_whatever_is_done_no_step_is_lost_and_the_books_are_right(
    lab: Lab, crew: Crew, tmp_path: Path
) -> None:
    world = World(lab, crew, tmp_path / "clock", asyncio.get_running_loop())
    world.jump(timedelta())
    for _ in range(2):
        world.worker()
    Sessions.world = world
    await asyncio.to_thread(
        run_state_machine_as_test,
        Sessions,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            deadline=None,
            database=None,
            # What fails hangs on timing, too: fewer steps would mostly not fail any more.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    await crew.dismiss()
    await check_books(lab.superuser)
    told = [json.loads(line) for hand in crew.hands for line in hand.log.splitlines()]
    assert [line for line in told if line["level"] in ("error", "critical")] == []
