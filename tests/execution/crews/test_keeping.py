"""Keepers, with a runtime that runs nothing and a sidecar that says what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from tests.conftest import Engines
from tests.execution.crews.kept_fakes import PATIENCE, FakeRuntime, FakeSidecar, Running
from tests.execution.crews.kept_lab import CLAUDE_CODE, Crew, KeptLab, eventually, open_lab

from agentos.contracts.crew import (
    Accepted,
    Answer,
    AnswerStored,
    Crashed,
    Deed,
    Interrupt,
    McpStatus,
    PermissionAnswer,
    PermissionAsked,
    PermissionWithdrawn,
    Reconfigure,
    Repeat,
    Shutdown,
    Started,
    UserMessage,
)
from agentos.execution.crews.front import CrewHints
from agentos.execution.crews.hints import Handed, ended_subject, handed_subject
from agentos.execution.crews.keeping.pace import Pace
from agentos.execution.crews.keeping.talking import Talk
from agentos.execution.pulse.live import JOINED_SUBJECT
from agentos.kernel.bus import Message
from agentos.tenancy.principals import Scope
from agentos.tenancy.vault.service import Vault

QUICK = Pace(
    poll=0.1,
    look=0.2,
    silent=60,
    gone=120,
    first_word=60,
    grace=0.1,
    farewell=0.1,
    again=0.02,
    back_off=0.02,
    keep_files=0.1,
    missing=0.1,
)


@pytest.fixture
async def lab(engines: Engines) -> AsyncIterator[KeptLab]:
    async with open_lab(engines, pace=QUICK) as lab:
        lab.patience = PATIENCE
        yield lab


@asynccontextmanager
async def kept(
    lab: KeptLab, pace: Pace = QUICK, **given: Any
) -> AsyncIterator[tuple[Crew, FakeSidecar, FakeRuntime]]:
    """A deployed team whose sidecar is ours."""
    runtime = FakeRuntime()
    async with lab.worker(pace, runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE, **given)
        async with FakeSidecar(crew).listening() as sidecar:
            await sidecar.ready()
            yield crew, sidecar, runtime


async def given(crew: Crew, sidecar: FakeSidecar, text: str = "say Hello.") -> UserMessage:
    """A message that the sidecar has accepted."""
    count = len(sidecar.all(UserMessage))
    await crew.send(text)
    frame = await sidecar.hears(UserMessage, count + 1)
    await sidecar.say(Accepted(message_id=frame.message_id))
    return frame


def answer_to(frame: UserMessage, text: str = "Hello.", **more: Any) -> Answer:
    return Answer(
        message_id=frame.message_id, state=more.pop("state", "answered"), text=text, **more
    )


async def test_an_answer_is_stored_once_and_acknowledged_each_time(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        assert (frame.attempt, frame.author, frame.source) == (1, "test", "chat")
        assert frame.model_token
        await sidecar.say(answer_to(frame))
        await sidecar.hears(AnswerStored)
        await sidecar.say(answer_to(frame, "Another."))
        await sidecar.hears(AnswerStored, 2)
        read = await crew.message(str(frame.message_id))
        assert (read["state"], read["answer"], read["attempt"]) == ("answered", "Hello.", 1)
        assert len(await crew.events("message.finished")) == 1


async def test_messages_are_given_one_at_a_time_in_order(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        ids = [await crew.send(f"say {n}") for n in range(3)]
        for n, message_id in enumerate(ids):
            frame = await sidecar.hears(UserMessage, n + 1)
            assert str(frame.message_id) == message_id
            assert len(sidecar.all(UserMessage)) == n + 1
            await sidecar.say(Accepted(message_id=frame.message_id))
            await sidecar.say(answer_to(frame, str(n)))
        assert [(await crew.ended(each))["answer"] for each in ids] == ["0", "1", "2"]


async def test_a_message_to_an_idle_team_is_handed_to_its_keeper(lab: KeptLab) -> None:
    # Nothing but the message itself tells the keeper of it.
    slow = replace(QUICK, poll=600, look=600)
    async with kept(lab, slow) as (crew, sidecar, _):
        sent = await crew.call("POST", "/messages", 201, text="Now.")
        assert (sent["state"], sent["attempt"]) == ("running", 1)
        later = await crew.call("POST", "/messages", 201, text="Later.")
        assert (later["state"], later["attempt"], later["started_at"]) == ("queued", 0, None)
        for n, text in enumerate(("Now.", "Later."), 1):
            frame = await sidecar.hears(UserMessage, n)
            assert (frame.text, frame.attempt, len(sidecar.all(UserMessage))) == (text, 1, n)
            await sidecar.say(Accepted(message_id=frame.message_id))
            await sidecar.say(answer_to(frame))
            await sidecar.hears(AnswerStored, n)
        started = await crew.events("message.started")
        assert [(each["message_id"], each["attempt"]) for each in started] == [
            (sent["id"], 1),
            (later["id"], 1),
        ]


async def test_a_message_whose_handing_over_is_lost_is_found(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        return

    monkeypatch.setattr(CrewHints, "handed", lost)
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        assert frame.attempt == 1, "no agent has had it"
        await sidecar.say(answer_to(frame))
        assert (await crew.ended(str(frame.message_id)))["attempt"] == 1
        assert len(await crew.events("message.started")) == 1


async def test_a_message_is_sent_with_its_events_and_its_audit_row(lab: KeptLab) -> None:
    async with kept(lab) as (crew, _, _):
        sent = await crew.call("POST", "/messages", 201, text="x" * 5_000)
        queued = await crew.events("message.queued")
        assert queued == [
            {
                "message_id": sent["id"],
                "team_id": str(crew.id),
                "position": 1,
                "source": "chat",
                "author": sent["author"],
                "text": "x" * 4_000,
            }
        ]
        (row,) = await lab.rows("select * from audit_log where target_id = $1", sent["id"])
        assert (row["action"], row["target_kind"]) == ("message.sent", "message")
        assert row["after"] == {"team_id": str(crew.id), "position": 1}
        assert row["actor_name"] == sent["author"]
        assert row["request_id"]


async def test_a_message_with_a_key_is_sent_once(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        sent = [
            await crew.client.post(
                f"/api/teams/{crew.id}/messages",
                json={"text": "Once."},
                headers={"Idempotency-Key": "the-same"},
            )
            for _ in range(2)
        ]
        assert [each.status_code for each in sent] == [201, 201]
        assert sent[0].json() == sent[1].json()
        assert sent[0].json()["state"] == "running"
        await sidecar.hears(UserMessage)
        assert await lab.value("select count(*) from team_messages") == 1


async def test_a_kept_team_is_nobody_elses(lab: KeptLab) -> None:
    async with kept(lab) as (crew, _, _):
        path, body = f"/api/teams/{crew.id}/messages", {"text": "x"}
        refused = await (await lab.tenant()).client.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (404, "team_not_found")
        key = await lab.gateway.api_key(crew.person.tenant_id, frozenset({Scope.TEAMS_WRITE}))
        refused = await (await lab.gateway.client(key)).post(path, json=body)
        assert refused.status_code == 403
        assert await lab.value("select count(*) from team_messages") == 0


async def test_what_is_handed_over_late_or_by_others_is_not_given(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Handed] = []
    really = CrewHints.handed

    async def note(self: CrewHints, team_id: UUID, handed: Handed) -> None:
        noted.append(handed)
        await really(self, team_id, handed)

    monkeypatch.setattr(CrewHints, "handed", note)
    async with kept(lab) as (crew, sidecar, _):
        bus, subject = lab.gateway.parts.bus, handed_subject(crew.id)
        first = await given(crew, sidecar)
        await sidecar.say(answer_to(first))
        await sidecar.hears(AnswerStored)
        (handed,) = noted
        assert handed.message_id == first.message_id
        other = msgspec.structs.replace(handed, message_id=uuid4(), position=handed.position + 1)
        for odd in (
            b"not a message",
            msgspec.json.encode(handed),
            msgspec.json.encode(msgspec.structs.replace(other, fence=handed.fence - 1)),
            msgspec.json.encode(msgspec.structs.replace(other, version=handed.version + 1)),
        ):
            await bus.publish(subject, odd)
        await bus.flush()
        second = await given(crew, sidecar, "say Second.")
        assert second.message_id not in (first.message_id, other.message_id)
        assert len(sidecar.all(UserMessage)) == 2


async def test_an_end_is_told_at_once_and_after_the_commit(lab: KeptLab) -> None:
    told: list[tuple[dict[str, Any], str]] = []
    async with kept(lab) as (crew, sidecar, _):

        async def hear(message: Message) -> None:
            event = json.loads(message.data)
            rows = await lab.rows(
                "select state from team_messages where id = $1", UUID(event["data"]["message_id"])
            )
            told.append((event, rows[0]["state"]))

        subscription = await lab.gateway.parts.bus.subscribe(ended_subject(crew.id), hear)
        frame = await given(crew, sidecar)
        for _ in range(2):
            await sidecar.say(answer_to(frame))
        await sidecar.hears(AnswerStored, 2)
        await eventually(lambda: bool(told))
        await subscription.unsubscribe()
        ((event, state),) = told
        assert state == "answered"
        ids = await lab.rows(
            """select id from outbox where type = $1 union select id from events where type = $1""",
            "message.finished",
        )
        assert [str(row["id"]) for row in ids] == [event["id"]]
        assert event["type"] == "message.finished"
        assert [event["data"]] == await crew.events("message.finished")


async def test_an_agent_repeats_itself_for_whoever_opens_the_chat(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _), crew.watching():
        frame = await given(crew, sidecar)
        assert not sidecar.all(Repeat), "it had nothing to repeat when that one came"
        for count in (1, 2, 3):
            # Also those who come within a pause.
            async with crew.watching():
                await sidecar.hears(Repeat, count)
        await sidecar.say(answer_to(frame))
        await sidecar.hears(AnswerStored)
        async with crew.watching():
            await given(crew, sidecar)
        # The last one may be repeated to later, if that is in the pause of the one before.
        heard = [type(each) for each in sidecar.heard][:6]
        assert heard == [UserMessage, *[Repeat] * 3, AnswerStored, UserMessage]


async def test_many_who_join_at_once_are_heard_together(lab: KeptLab) -> None:
    bus = lab.gateway.parts.bus
    async with kept(lab) as (crew, sidecar, _):
        await given(crew, sidecar)
        for what in (b"not an id", uuid4().bytes, *[crew.id.bytes] * 500):
            await bus.publish(JOINED_SUBJECT, what)
        await sidecar.hears(Repeat)
        await bus.flush()
        await bus.publish(JOINED_SUBJECT, crew.id.bytes)
        await sidecar.hears(Repeat, 2)
        assert len(sidecar.all(Repeat)) < 50


async def test_whoever_joins_does_not_wait_for_what_is_slow(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free = asyncio.Event(), asyncio.Event()
    look = Talk.look

    async def slow(self: Talk) -> None:
        begun.set()
        await free.wait()
        await look(self)

    async with kept(lab) as (crew, sidecar, _):
        await given(crew, sidecar)
        monkeypatch.setattr(Talk, "look", slow)
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        async with crew.watching():
            await sidecar.hears(Repeat)
        free.set()


async def test_a_message_is_sent_until_it_is_accepted(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await crew.send("say Hello.")
        again = await sidecar.hears(UserMessage, 2)
        assert again.attempt == 1, "it was not given to another agent"


async def test_what_a_sandbox_says_cannot_hurt(lab: KeptLab) -> None:
    """NUL characters, numbers beyond bounds, and endless words."""
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        strange = "nul \0 and \N{BELL}" + "x" * 100_000
        mcp = (McpStatus(strange, strange, strange),)
        await sidecar.beat(version=2**40, conversation=strange, mcp=mcp, reason=strange)
        await sidecar.say(
            PermissionAsked(
                request_id=strange,
                message_id=frame.message_id,
                tool=strange,
                arguments={strange: [strange]},
                agent=strange,
            )
        )
        approval = await crew.approval()
        assert len(approval["subject"]) <= 1000
        await sidecar.say(Started(message_id=frame.message_id, attempt=2**40))
        await sidecar.say(
            answer_to(frame, strange, error=strange, activity=(Deed(strange, strange, strange),))
        )
        read = await crew.ended(str(frame.message_id))
        assert read["answer"].startswith("nul \ufffd and")
        assert len(read["error"]) <= 4000
        team = await crew.read()
        assert (team["status"], team["applied_version"]) == ("running", 1)


async def test_what_is_not_ours_to_answer_is_not_answered(lab: KeptLab) -> None:
    """A sandbox names messages of others, and one that it was never given."""
    async with kept(lab) as (crew, sidecar, _):
        other = await lab.crew(CLAUDE_CODE, deploy=False)
        theirs = await other.send("say Hello.")
        frame = await given(crew, sidecar)
        waiting = await crew.send("say Later.")
        for message_id in (UUID(theirs), UUID(waiting), uuid4()):
            await sidecar.say(Answer(message_id=message_id, state="answered", text="Forged."))
        await sidecar.say(answer_to(frame))
        assert (await crew.ended(str(frame.message_id)))["answer"] == "Hello."
        assert (await other.message(theirs))["state"] == "queued"
        assert (await crew.message(waiting))["answer"] is None


async def test_a_sidecar_that_asks_its_agent_again_is_noted(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        await sidecar.say(Started(message_id=frame.message_id, attempt=1))
        await sidecar.say(Started(message_id=frame.message_id, attempt=2))
        await sidecar.say(Started(message_id=frame.message_id, attempt=2))
        await sidecar.say(answer_to(frame))
        read = await crew.ended(str(frame.message_id))
        assert read["attempt"] == 2
        started = await crew.events("message.started")
        assert [each["attempt"] for each in started] == [1, 2]


async def test_a_new_start_of_the_sidecar_gets_the_message_again(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, runtime):
        frame = await given(crew, sidecar)
        runtime.started[-1].crash("It fell.")
        await runtime.lives(2)
        sidecar.boot = uuid4().hex
        await sidecar.ready()
        again = await sidecar.hears(UserMessage, 2)
        assert (again.message_id, again.attempt) == (frame.message_id, 2)
        await sidecar.say(answer_to(again))
        assert (await crew.ended(str(frame.message_id)))["attempt"] == 2


async def test_a_message_whose_agent_is_always_lost_is_given_up(lab: KeptLab) -> None:
    """The sidecar counts by itself; this one does not."""
    async with kept(lab) as (crew, sidecar, runtime):
        message_id = await crew.send("say Hello.")
        for attempt in range(1, 5):
            frame = await sidecar.hears(UserMessage, attempt)
            assert frame.attempt == attempt
            await sidecar.say(Accepted(message_id=frame.message_id))
            # Another start, as a sidecar that was restarted in its place.
            sidecar.boot = uuid4().hex
            await sidecar.beat()
        read = await crew.ended(message_id)
        assert (read["state"], read["error_code"]) == ("uncertain", "agent_lost")
        assert len(runtime.started) == 1


async def test_a_stopped_message_is_interrupted(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        await crew.call("POST", f"/messages/{frame.message_id}/cancel")
        assert (await sidecar.hears(Interrupt)).message_id == frame.message_id
        await sidecar.hears(Interrupt, 2)
        await sidecar.say(answer_to(frame, "", state="cancelled", error="It was stopped."))
        assert (await crew.ended(str(frame.message_id)))["state"] == "cancelled"


async def test_a_message_that_was_stopped_between_two_lives_is_not_begun_again(
    lab: KeptLab,
) -> None:
    async with kept(lab) as (crew, sidecar, runtime):
        frame = await given(crew, sidecar)
        runtime.started[-1].crash("It fell.")
        await runtime.lives(2)
        await crew.call("POST", f"/messages/{frame.message_id}/cancel")
        sidecar.boot = uuid4().hex
        await sidecar.ready()
        assert (await sidecar.hears(Interrupt)).message_id == frame.message_id
        assert len(sidecar.all(UserMessage)) == 1
        await sidecar.say(answer_to(frame, "", state="cancelled", error="It was stopped."))
        assert (await crew.ended(str(frame.message_id)))["state"] == "cancelled"


async def test_a_message_of_a_stopped_team_waits_again(lab: KeptLab) -> None:
    """And its answer, which was on the disk of the team, is not forgotten."""
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        await crew.call("POST", "/stop")
        await sidecar.hears(Shutdown)
        await crew.until("stopped")
        assert (await crew.message(str(frame.message_id)))["state"] == "queued"
        await crew.call("POST", "/deploy")
        async with asyncio.timeout(PATIENCE):
            while not sidecar.all(AnswerStored):
                await sidecar.say(answer_to(frame))
                await asyncio.sleep(0.02)
        read = await crew.ended(str(frame.message_id))
        assert (read["state"], read["answer"]) == ("answered", "Hello.")


async def test_a_waiting_message_of_a_stopped_team_can_be_cancelled(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        await crew.call("POST", "/stop")
        await crew.until("stopped")
        read = await crew.call("POST", f"/messages/{frame.message_id}/cancel")
        assert read["state"] == "cancelled"


async def test_a_change_is_said_until_it_is_known(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await crew.call("PATCH", leader={"name": "lead", "instructions": "Else."})
        assert (await sidecar.hears(Reconfigure)).version == 2
        await sidecar.beat(version=1)
        await sidecar.hears(Reconfigure, 2)
        await sidecar.beat(version=2)
        async with asyncio.timeout(PATIENCE):
            while (await crew.read())["applied_version"] != 2:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        text = (crew.workspace / ".claude" / "CLAUDE.md").read_text()
        assert "Else." in text


async def test_a_request_is_decided_withdrawn_or_too_many(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)

        def asked(request_id: str) -> PermissionAsked:
            return PermissionAsked(
                request_id=request_id, message_id=frame.message_id, tool="Bash", arguments={}
            )

        await sidecar.say(asked("a"))
        await sidecar.say(asked("a"))
        await crew.decide(await crew.approval(), "reject", reason="No.")
        said = await sidecar.hears(PermissionAnswer)
        assert (said.request_id, said.allow, said.reason) == ("a", False, "No.")
        # It did not hear that, and asks again.
        await sidecar.say(asked("a"))
        assert (await sidecar.hears(PermissionAnswer, 2)).request_id == "a"

        await sidecar.say(asked("b"))
        await crew.approval()
        await sidecar.say(PermissionWithdrawn(request_id="b"))
        await sidecar.say(asked("c"))
        async with asyncio.timeout(PATIENCE):
            while True:
                rows = await lab.rows("select key, state from approvals order by created_at")
                if [tuple(row) for row in rows] == [
                    ("a", "rejected"),
                    ("b", "withdrawn"),
                    ("c", "waiting"),
                ]:
                    break
                await asyncio.sleep(0.02)
        await crew.decide(await crew.approval(), "approve", always=True)
        assert (await sidecar.hears(PermissionAnswer, 3)).allow
        await sidecar.say(asked("d"))
        said = await sidecar.hears(PermissionAnswer, 4)
        assert (said.request_id, said.allow) == ("d", True)
        await sidecar.say(
            asked("e").__class__(
                request_id="e", message_id=frame.message_id, tool="Write", arguments={}
            )
        )
        await crew.approval()
        await sidecar.say(answer_to(frame))
        await crew.ended(str(frame.message_id))
        left = await lab.rows("select state from approvals where key = 'e'")
        assert [row["state"] for row in left] == ["withdrawn"]


async def test_nobody_is_asked_too_much_at_once(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        frame = await given(crew, sidecar)
        for n in range(51):
            await sidecar.say(
                PermissionAsked(
                    request_id=str(n), message_id=frame.message_id, tool="Bash", arguments={}
                )
            )
        said = await sidecar.hears(PermissionAnswer)
        assert (said.request_id, said.allow) == ("50", False)
        assert await lab.value("select count(*) from approvals") == 50


async def test_an_attachment_that_cannot_be_brought_fails_its_message(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, runtime):
        stored = await crew.client.put("/api/objects/a.txt", content=b"a")
        attachment = {"object_id": stored.json()["id"], "name": "a.txt"}
        (crew.workspace / "attachments").write_text("in the way")
        read = await crew.ask("say Hello.", attachments=[attachment])
        assert (read["state"], read["error_code"]) == ("failed", "attachment_failed")
        assert "a.txt" in read["error"]
        await sidecar.say(answer_to(await given(crew, sidecar)))
        assert len(runtime.started) == 1


async def test_files_are_kept_when_the_team_rests(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        assert await lab.value("select snapshot_id from teams") is None
        frame = await given(crew, sidecar)
        (crew.workspace / "made.txt").write_text("made")
        await sidecar.say(answer_to(frame))
        async with asyncio.timeout(PATIENCE):
            while (snapshot := await lab.value("select snapshot_id from teams")) is None:  # noqa: ASYNC110 - the database is asked
                await asyncio.sleep(0.05)
        kept_file = await lab.pulse.workspaces.read_at(crew.person.tenant_id, snapshot, "made.txt")
        assert kept_file == b"made"


async def test_a_deleted_team_leaves_no_files_here(lab: KeptLab) -> None:
    async with kept(lab) as (crew, _, _):
        assert crew.workspace.exists()
        await lab.rows("delete from teams where id = $1", crew.id)
        async with asyncio.timeout(PATIENCE):
            while crew.workspace.exists():  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)


# Crashes -------------------------------------------------------------------------------------------


async def statuses(crew: Crew) -> list[str]:
    return [event["status"] for event in await crew.events("team.status_changed")]


async def test_a_team_that_always_crashes_is_repaired_and_then_given_up(lab: KeptLab) -> None:
    homes: list[bool] = []

    def fall(running: Running) -> None:
        home = running.place.workspace / ".agentos" / "home"
        homes.append(home.exists())
        home.mkdir(parents=True, exist_ok=True)
        (running.place.workspace / "work.txt").write_text("kept")
        running.crash("It fell.")

    runtime = FakeRuntime(on_start=fall)
    async with lab.worker(runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE)
        read = await crew.until("error")
        assert "It could not be repaired" in read["reason"]
        assert "It fell." in read["reason"]
        assert len(runtime.started) == 9
        # Only the second repair begins anew; the files of the team are always kept.
        assert homes == [False, True, True, True, True, True, False, True, True]
        assert (crew.workspace / "work.txt").read_text() == "kept"
        told = await statuses(crew)
        assert told.count("crash_loop") == 3
        assert told.count("repairing") == 2
        assert told[-1] == "error"
        assert [each["team_id"] for each in await crew.events("team.alerted")] == [str(crew.id)]

        # Nothing happens until people want it; then it may well run.
        runtime.on_start = lambda _: None
        await crew.call("POST", "/deploy")
        await runtime.lives(10)
        async with FakeSidecar(crew).listening() as sidecar:
            await sidecar.ready()


async def test_crashes_that_the_sidecar_mends_count_too(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, runtime):
        for n in range(2):
            await sidecar.say(Crashed(crash_id=f"c{n}", reason="Out of memory."))
            await sidecar.say(Crashed(crash_id=f"c{n}", reason="Out of memory."))
            await crew.until("degraded")
            await sidecar.beat()
            await crew.until("running")
        await sidecar.say(Crashed(crash_id="c2", reason="Out of memory."))
        await runtime.lives(2)
        told = await crew.events("team.status_changed")
        loop = next(each for each in told if each["status"] == "crash_loop")
        assert "It has crashed 3 times" in loop["reason"]
        assert "Out of memory." in loop["reason"]


async def test_what_is_missing_is_told_at_once_and_not_repaired(lab: KeptLab) -> None:
    runtime = FakeRuntime(missing="There is no bubblewrap.")
    async with lab.worker(runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE)
        read = await crew.until("error")
        assert read["reason"] == "There is no bubblewrap. Install it."
        assert "crash_loop" not in await statuses(crew)
        # Once it is there, nobody has to say so.
        runtime.missing = None
        await runtime.lives(1)


async def test_an_agent_that_cannot_be_started_is_told_at_once(lab: KeptLab) -> None:
    runtime = FakeRuntime()
    async with lab.worker(runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE)
        await runtime.lives(1)
        async with FakeSidecar(crew).listening() as sidecar, asyncio.timeout(PATIENCE):
            while (read := await crew.read())["status"] != "error":
                await sidecar.beat("failed", reason="It is not installed.")
                await asyncio.sleep(0.05)
        assert read["reason"] == "It is not installed."
        assert len(await crew.events("team.alerted")) == 1


async def test_silence_is_told_and_then_ended(lab: KeptLab) -> None:
    pace = replace(QUICK, silent=0.2, gone=3.0)
    async with kept(lab, pace) as (crew, sidecar, runtime):
        await crew.until("degraded")
        await sidecar.ready()
        await runtime.lives(2)


async def test_secrets_in_reasons_are_hidden(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, _):
        await crew.client.put("/api/vault/KEY", json={"value": "heron-secret-4711"})
        async with lab.gateway.parts.db.transaction(tenant_id=crew.person.tenant_id) as tx:
            await Vault(lab.gateway.parts.keyring).reveal(tx, crew.person.tenant_id, "KEY")
        await sidecar.say(Crashed(crash_id="c", reason="bad key heron-secret-4711"))
        read = await crew.until("degraded")
        assert "heron-secret-4711" not in read["reason"]


# Workers --------------------------------------------------------------------------------------------


async def test_a_worker_that_leaves_hands_its_teams_over(lab: KeptLab) -> None:
    runtime = FakeRuntime()
    async with lab.worker(runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE)
        await runtime.lives(1)
    assert runtime.started[0].ending.is_set()
    read = await crew.read()
    assert (read["status"], read["deployed"]) == ("starting", True)
    assert await lab.value("select owner from teams") is None
    async with lab.worker(runtimes=runtime):
        await runtime.lives(2)


async def test_a_worker_leaves_although_a_team_waits_for_people(lab: KeptLab) -> None:
    runtime = FakeRuntime(missing="There is no bubblewrap.")
    async with lab.worker(replace(QUICK, missing=60), runtimes=runtime):
        crew = await lab.crew(CLAUDE_CODE)
        await crew.until("error")
    assert await lab.value("select owner from teams") is None


async def test_a_team_that_was_taken_away_is_let_go(lab: KeptLab) -> None:
    async with kept(lab) as (crew, sidecar, runtime):
        frame = await given(crew, sidecar)
        other = uuid4()
        await lab.rows(
            "insert into workers (id, place, pid, pid_started, capacity) select $1, place, pid, pid_started, capacity from workers limit 1",
            other,
        )
        await lab.rows("update teams set owner = $1, fence = fence + 1", other)
        await sidecar.say(answer_to(frame))
        async with asyncio.timeout(PATIENCE):
            await runtime.started[0].ending.wait()
        assert (await crew.message(str(frame.message_id)))["state"] == "running"
        assert sidecar.all(AnswerStored) == []
