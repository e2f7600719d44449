"""The bridge over a real bus, with an agent that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from agentos.contracts.crew import (
    Accepted,
    Activity,
    AgentPermissions,
    Answer,
    AnswerStored,
    Beat,
    Chunk,
    Crashed,
    Deed,
    Interrupt,
    PermissionAnswer,
    PermissionAsked,
    PermissionWithdrawn,
    Reconfigure,
    Repeat,
    Shutdown,
    Started,
)
from agentos.kernel.ids import uuid7
from agentos.sidecar.providers.base import (
    Listener,
    Permission,
    ProviderDied,
    ProviderError,
    ProviderMissing,
    Question,
    Reply,
    Verdict,
)
from tests.sidecar.fakes import (
    QUICK,
    FakeAgent,
    FakeAgents,
    Keeper,
    Lab,
    echo,
    running_nats,
    spec_of,
    until,
)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    tenant, team = uuid7(), uuid7()
    async with running_nats() as nats, Keeper.at(nats.url, tenant, team) as keeper:
        yield Lab(nats.url, tmp_path, keeper, tenant, team)


class Gate:
    """An agent that answers when it is let."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        opened = asyncio.create_task(self.open.wait())
        interrupted = asyncio.create_task(agent.interrupted.wait())
        try:
            await asyncio.wait({opened, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
            interrupted.cancel()
        if agent.interrupted.is_set():
            return Reply("cancelled", "half of")
        return await echo(agent, question, listener)


async def deaf(_agent: FakeAgent, _question: Question, _listener: Listener) -> Reply:
    """Neither answers nor lets itself be interrupted."""
    await asyncio.Event().wait()
    raise AssertionError


class Dying:
    """Dies at its first questions, and answers the next."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def __call__(self, agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        if self.left:
            self.left -= 1
            listener.words("I beg")
            raise ProviderDied("killed by signal 9", -9)
        return await echo(agent, question, listener)


async def test_a_message_is_accepted_started_answered_and_stored(lab: Lab) -> None:
    async with lab.sidecar():
        message = await lab.keeper.ask(
            "Hello?", attachments=("attachments/a.txt", "attachments/b.txt"), model_token="t1"
        )
        answer = await lab.keeper.answer(message)
        await until((lab.state / "stored" / f"{message}.json").exists)
    assert answer.state == "answered"
    assert answer.text == (
        "Hello?\n\nAttached files, in your workspace: attachments/a.txt, attachments/b.txt"
    )
    kinds = [type(frame) for frame in lab.keeper.heard if not isinstance(frame, Beat)]
    assert kinds[:3] == [Accepted, Started, Answer]
    assert lab.tokens == ["t1"]
    assert not list((lab.state / "answers").glob("*.json"))
    assert not list((lab.state / "asked").iterdir())


async def test_the_beat_tells_how_the_agent_is(lab: Lab) -> None:
    gate = Gate()
    lab.agents.answering = gate
    async with lab.sidecar():
        idle = await lab.keeper.idle()
        one = await lab.keeper.ask("one")
        two = await lab.keeper.ask("two")
        busy = await lab.keeper.first(Beat, state="busy", message_id=one, waiting=(two,))
        gate.open.set()
        await lab.keeper.answer(two)
    assert lab.keeper.heard[0] != idle
    assert idle.version == 1
    assert idle.conversation == "talk-1"
    assert idle.agent_version == "fake 1"
    assert busy.boot == idle.boot
    states = [frame.state for frame in lab.keeper.all(Beat)]
    assert states[0] == "starting"


async def test_messages_are_answered_one_at_a_time_in_order(lab: Lab) -> None:
    at_work = most = 0

    async def counted(agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        return await echo(agent, question, listener)

    lab.agents.answering = counted
    async with lab.sidecar():
        messages = [await lab.keeper.ask(f"number {n}") for n in range(20)]
        await lab.keeper.answer(messages[-1])
    assert most == 1
    assert [question.text for question in lab.agents.questions] == [
        f"number {n}" for n in range(20)
    ]
    answers = list(dict.fromkeys(frame.message_id for frame in lab.keeper.all(Answer)))
    assert answers == messages


async def test_a_message_that_comes_again_is_not_asked_again(lab: Lab) -> None:
    gate = Gate()
    lab.agents.answering = gate
    async with lab.sidecar():
        running = await lab.keeper.ask("one")
        waiting = await lab.keeper.ask("two")
        await lab.keeper.started(running)
        await lab.keeper.ask("one", message_id=running, attempt=2, model_token="fresher")
        await lab.keeper.ask("two", message_id=waiting)
        await lab.keeper.until(lambda: len(lab.keeper.all(Accepted)) == 4 or None)
        gate.open.set()
        await lab.keeper.answer(waiting)
        # Now both are stored: late copies are answered from memory.
        await lab.keeper.ask("one", message_id=running, attempt=3)
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer, message_id=running)) > 1 or None)
    assert [question.text for question in lab.agents.questions] == ["one", "two"]
    assert {frame.text for frame in lab.keeper.all(Answer, message_id=running)} == {"one"}
    assert lab.tokens == ["fresher"]


async def test_an_answer_is_sent_until_it_is_stored(lab: Lab) -> None:
    lab.keeper.stores = False
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer)) >= 3 or None)
        await lab.keeper.send(AnswerStored(message_id=message))
        other = await lab.keeper.ask("two")
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer, message_id=other)) >= 2 or None)
        sent = len(lab.keeper.all(Answer, message_id=message))
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer, message_id=other)) >= 3 or None)
    assert len(lab.keeper.all(Answer, message_id=message)) == sent
    assert len(lab.agents.questions) == 2


async def test_a_restarted_sidecar_sends_what_is_not_stored_and_asks_nobody(lab: Lab) -> None:
    lab.keeper.stores = False
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.answer(message)
    lab.keeper.heard.clear()
    lab.keeper.stores = True
    async with lab.sidecar():
        answer = await lab.keeper.answer(message)
        await lab.keeper.ask("one", message_id=message, attempt=2)
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer)) > 1 or None)
    assert answer.text == "one"
    assert len(lab.agents.questions) == 1
    first, second = lab.agents.made
    assert (first.resumed, second.resumed) == (None, "talk-1")
    assert first.stopped.is_set()


async def test_a_restarted_sidecar_asks_an_unfinished_message_again_with_a_note(lab: Lab) -> None:
    lab.agents.answering = Gate()
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.started(message)
        boot = lab.keeper.all(Beat)[-1].boot
    lab.agents.answering = echo
    lab.keeper.heard.clear()
    async with lab.sidecar():
        await lab.keeper.idle()
        await lab.keeper.ask("one", message_id=message, attempt=2)
        answer = await lab.keeper.answer(message)
    assert lab.keeper.all(Beat)[-1].boot != boot
    assert answer.text.startswith("[A note from AgentOS: your process was restarted")
    assert answer.text.endswith("\n\none")
    first, second = lab.agents.questions
    assert first.text == "one"
    assert first.id != second.id
    assert lab.keeper.all(Chunk, message_id=message, reset=True)


async def test_a_second_attempt_without_a_first_question_has_no_note(lab: Lab) -> None:
    async with lab.sidecar():
        message = await lab.keeper.ask("one", attempt=2)
        assert (await lab.keeper.answer(message)).text == "one"


async def test_a_message_that_ended_three_sidecars_is_uncertain(lab: Lab) -> None:
    lab.agents.answering = Gate()
    message = uuid7()
    for attempt in (1, 2, 3):
        async with lab.sidecar():
            lab.keeper.heard.clear()
            await lab.keeper.ask("one", message_id=message, attempt=attempt)
            await lab.keeper.started(message)
    async with lab.sidecar():
        await lab.keeper.ask("one", message_id=message, attempt=4)
        answer = await lab.keeper.answer(message)
    assert (answer.state, answer.error_code) == ("uncertain", "agent_crashed")
    assert len(lab.agents.questions) == 3


async def test_a_bus_that_is_away_for_a_while_loses_no_answer(tmp_path: Path) -> None:
    tenant, team = uuid7(), uuid7()
    gate = Gate()
    async with running_nats() as nats, Keeper.at(nats.url, tenant, team) as keeper:
        lab = Lab(nats.url, tmp_path, keeper, tenant, team, FakeAgents(gate))
        async with lab.sidecar():
            message = await keeper.ask("one")
            await keeper.started(message)
            await nats.stop()
            gate.open.set()
            await until((lab.state / "answers" / f"{message}.json").exists)
            await nats.start()
            answer = await keeper.answer(message)
            other = await keeper.ask("two")
            await keeper.answer(other)
    assert answer.text == "one"
    assert [question.text for question in lab.agents.questions] == ["one", "two"]


async def test_the_deadline_interrupts_and_leaves_the_agent_usable(lab: Lab) -> None:
    lab.agents.answering = Gate()
    async with lab.sidecar():
        message = await lab.keeper.ask("one", seconds=0.05)
        answer = await lab.keeper.answer(message)
        lab.agents.answering = echo
        assert (await lab.keeper.answer(await lab.keeper.ask("two"))).state == "answered"
    assert (answer.state, answer.error_code) == ("failed", "answer_timeout")
    assert answer.text == "half of"
    assert len(lab.agents.made) == 1


async def test_an_agent_that_does_not_heed_is_started_anew_and_resumed(lab: Lab) -> None:
    lab.agents.answering = deaf
    async with lab.sidecar():
        message = await lab.keeper.ask("one", seconds=0.05)
        answer = await lab.keeper.answer(message)
        lab.agents.answering = echo
        assert (await lab.keeper.answer(await lab.keeper.ask("two"))).text == "two"
    assert (answer.state, answer.error_code) == ("failed", "answer_timeout")
    first, second = lab.agents.made
    assert first.stopped.is_set()
    assert second.resumed == "talk-1"
    assert not lab.keeper.all(Crashed)


async def test_interrupting_the_running_message_cancels_it(lab: Lab) -> None:
    lab.agents.answering = Gate()
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.started(message)
        await lab.keeper.send(Interrupt(message_id=message, reason="Ada stopped it."))
        answer = await lab.keeper.answer(message)
    assert (answer.state, answer.text, answer.error) == ("cancelled", "half of", "Ada stopped it.")
    assert len(lab.agents.made) == 1


async def test_interrupting_an_agent_that_does_not_heed_starts_it_anew(lab: Lab) -> None:
    lab.agents.answering = deaf
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.started(message)
        await lab.keeper.send(Interrupt(message_id=message))
        assert (await lab.keeper.answer(message)).state == "cancelled"
        await lab.keeper.until(lambda: len(lab.agents.made) == 2 or None)


async def test_interrupting_a_waiting_message_cancels_it_at_once(lab: Lab) -> None:
    gate = Gate()
    lab.agents.answering = gate
    async with lab.sidecar():
        running = await lab.keeper.ask("one")
        waiting = await lab.keeper.ask("two")
        await lab.keeper.started(running)
        await lab.keeper.send(Interrupt(message_id=waiting))
        assert (await lab.keeper.answer(waiting)).state == "cancelled"
        gate.open.set()
        assert (await lab.keeper.answer(running)).state == "answered"
    assert [question.text for question in lab.agents.questions] == ["one"]


async def test_an_interrupted_message_that_arrives_late_is_not_begun(lab: Lab) -> None:
    message = uuid7()
    async with lab.sidecar():
        await lab.keeper.idle()
        await lab.keeper.send(Interrupt(message_id=message))
        assert (await lab.keeper.answer(message)).state == "cancelled"
        await lab.keeper.ask("one", message_id=message)
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer)) > 1 or None)
    assert lab.agents.questions == []


async def test_interrupting_while_the_agent_is_down_does_not_wait_for_it(lab: Lab) -> None:
    lab.agents.starts = [ProviderDied("no") for _ in range(1000)]
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.first(Beat, message_id=message)
        await lab.keeper.send(Interrupt(message_id=message))
        assert (await lab.keeper.answer(message)).state == "cancelled"
    assert lab.agents.questions == []


async def test_after_a_crash_the_message_is_asked_again_with_a_note(lab: Lab) -> None:
    lab.agents.answering = Dying(1)
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        answer = await lab.keeper.answer(message)
    assert answer.state == "answered"
    first, second = lab.agents.questions
    assert first.text == "one"
    assert second.text.startswith("[A note from AgentOS")
    assert first.id != second.id
    crashes = lab.keeper.all(Crashed)
    assert [(crash.reason, crash.exit_code) for crash in crashes] == [("killed by signal 9", -9)]
    assert [frame.attempt for frame in lab.keeper.all(Started)] == [1, 2]
    assert [agent.resumed for agent in lab.agents.made] == [None, "talk-1"]
    assert [chunk.reset for chunk in lab.keeper.all(Chunk)][:3] == [False, True, False]


async def test_what_was_said_is_repeated_while_it_is_answered(lab: Lab) -> None:
    gate = Gate()

    async def halting(agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        listener.words("First. ")
        listener.did(Deed("1", "Bash"))
        return await gate(agent, question, listener)

    lab.agents.answering = halting
    keeper = lab.keeper
    async with lab.sidecar():
        await keeper.send(Repeat())
        message = await keeper.ask("Second.")
        await keeper.first(Activity)
        await keeper.send(Repeat())
        await keeper.until(lambda: len(keeper.all(Activity)) == 2)
        gate.open.set()
        await keeper.answer(message)
        await keeper.send(Repeat())
        await keeper.answer(await keeper.ask("Third."))
    said = [(chunk.n, chunk.text, chunk.reset) for chunk in keeper.all(Chunk, message_id=message)]
    assert said == [(1, "First. ", False), (2, "First. ", True), (3, "Second.", False)]
    deeds = [(each.n, each.deed) for each in keeper.all(Activity, message_id=message)]
    assert deeds == [(1, Deed("1", "Bash")), (2, Deed("1", "Bash"))]


async def test_after_three_crashes_the_message_is_uncertain(lab: Lab) -> None:
    lab.agents.answering = Dying(3)
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        answer = await lab.keeper.answer(message)
        other = await lab.keeper.answer(await lab.keeper.ask("two"))
    assert (answer.state, answer.error_code) == ("uncertain", "agent_crashed")
    assert "killed by signal 9" in answer.error
    assert other.state == "answered"
    assert len(lab.keeper.all(Crashed)) == 3
    assert len({crash.crash_id for crash in lab.keeper.all(Crashed)}) == 3


async def test_an_agent_that_dies_while_idle_is_started_again(lab: Lab) -> None:
    async with lab.sidecar():
        await lab.keeper.idle()
        lab.agents.made[0].die()
        crash = await lab.keeper.first(Crashed)
        await lab.keeper.first(Beat, state="starting", reason="it fell asleep for ever")
        answer = await lab.keeper.answer(await lab.keeper.ask("one"))
    assert crash.exit_code == 9
    assert answer.text == "one"
    assert len(lab.keeper.all(Crashed)) == 1
    assert [agent.resumed for agent in lab.agents.made] == [None, "talk-1"]


async def test_a_death_right_after_the_answer_is_noticed(lab: Lab) -> None:
    async def last_words(agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        agent.die()
        await asyncio.sleep(0.05)
        return await echo(agent, question, listener)

    lab.agents.answering = last_words
    async with lab.sidecar():
        assert (await lab.keeper.answer(await lab.keeper.ask("one"))).state == "answered"
        await lab.keeper.first(Crashed)
        lab.agents.answering = echo
        assert (await lab.keeper.answer(await lab.keeper.ask("two"))).text == "two"
    assert len(lab.keeper.all(Crashed)) == 1


async def test_a_disk_that_cannot_be_written_loses_no_answer(lab: Lab) -> None:
    lab.state.mkdir()
    (lab.state / "answers").write_text("in the way")
    (lab.state / "asked").write_text("in the way")
    lab.keeper.stores = False
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        await lab.keeper.until(lambda: len(lab.keeper.all(Answer)) >= 2 or None)
        await lab.keeper.ask("one", message_id=message, attempt=2)
        await lab.keeper.until(lambda: len(lab.keeper.all(Accepted)) == 2 or None)
        await lab.keeper.send(AnswerStored(message_id=message))
    assert len(lab.agents.questions) == 1
    assert {frame.text for frame in lab.keeper.all(Answer)} == {"one"}


async def test_an_error_of_the_agent_fails_the_message_and_nothing_else(lab: Lab) -> None:
    async def wrong(_agent: FakeAgent, _question: Question, _listener: Listener) -> Reply:
        raise ProviderError("The model is not known.", "model_unknown")

    lab.agents.answering = wrong
    async with lab.sidecar():
        answer = await lab.keeper.answer(await lab.keeper.ask("one"))
    assert (answer.state, answer.error_code) == ("failed", "model_unknown")
    assert not lab.keeper.all(Crashed)


async def test_a_missing_agent_fails_every_message_with_the_reason(lab: Lab) -> None:
    lab.agents.starts = [ProviderMissing("claude is not installed")]
    async with lab.sidecar():
        beat = await lab.keeper.first(Beat, state="failed")
        answer = await lab.keeper.answer(await lab.keeper.ask("one"))
        # Installed since, and told to try again.
        await lab.keeper.send(Reconfigure(version=1))
        await lab.keeper.idle()
        assert (await lab.keeper.answer(await lab.keeper.ask("two"))).state == "answered"
    assert beat.reason == "claude is not installed"
    assert (answer.state, answer.error_code) == ("failed", "agent_missing")
    assert answer.error == "claude is not installed"


async def test_a_conversation_that_cannot_be_resumed_is_left(lab: Lab) -> None:
    lab.spec = msgspec.structs.replace(lab.spec, conversation="old")
    lab.agents.starts = [ProviderDied("no such session", 1), None]
    async with lab.sidecar():
        beat = await lab.keeper.idle()
        await lab.keeper.answer(await lab.keeper.ask("one"))
        await lab.keeper.idle(reason="")
    assert "no such session" in beat.reason
    assert "a new one was begun" in beat.reason
    assert not lab.keeper.all(Crashed)
    assert [agent.resumed for agent in lab.agents.made] == ["old", None]
    async with lab.sidecar():
        await lab.keeper.idle()
    assert lab.agents.made[-1].resumed == "talk-2"


async def test_a_new_version_comes_after_the_answer_at_hand(lab: Lab) -> None:
    gate = Gate()
    lab.agents.answering = gate
    async with lab.sidecar():
        one = await lab.keeper.ask("one")
        two = await lab.keeper.ask("two")
        await lab.keeper.started(one)
        lab.spec = spec_of(lab.tenant, lab.team, version=2)
        await lab.keeper.send(Reconfigure(version=2))
        gate.open.set()
        await lab.keeper.answer(two)
        await lab.keeper.idle(version=2)
        # Said again, it changes nothing.
        await lab.keeper.send(Reconfigure(version=2))
        await lab.keeper.answer(await lab.keeper.ask("three"))
    first, second = lab.agents.made
    assert (first.spec.version, second.spec.version) == (1, 2)
    assert second.resumed == "talk-1"
    assert len(lab.agents.questions) == 3


async def test_shutdown_waits_for_the_answer_at_hand(lab: Lab) -> None:
    gate = Gate()
    lab.agents.answering = gate
    async with lab.sidecar():
        one = await lab.keeper.ask("one")
        await lab.keeper.ask("two")
        await lab.keeper.started(one)
        await lab.keeper.send(Shutdown(seconds=20))
        await lab.keeper.first(Beat, state="stopping")
        gate.open.set()
        assert (await lab.keeper.answer(one)).state == "answered"
        async with asyncio.timeout(20):
            await lab.agents.made[0].stopped.wait()
    assert [question.text for question in lab.agents.questions] == ["one"]


async def test_shutdown_ends_what_takes_longer_and_leaves_it_unanswered(lab: Lab) -> None:
    lab.agents.answering = deaf
    async with lab.sidecar():
        one = await lab.keeper.ask("one")
        await lab.keeper.started(one)
        await lab.keeper.send(Shutdown(seconds=0.05))
        async with asyncio.timeout(20):
            await lab.agents.made[0].stopped.wait()
    assert not lab.keeper.all(Answer)
    assert (lab.state / "asked" / str(one)).read_text() == "1"


async def test_a_large_answer_arrives_whole(lab: Lab) -> None:
    text = "".join(chr(0x20AC + n % 500) for n in range(1_100_000))

    async def long(_agent: FakeAgent, _question: Question, listener: Listener) -> Reply:
        listener.words(text)
        return Reply("answered", text)

    lab.agents.answering = long
    async with lab.sidecar():
        answer = await lab.keeper.answer(await lab.keeper.ask("one"))
    assert len(text.encode()) > 3_000_000
    assert answer.text == text
    assert "".join(chunk.text for chunk in lab.keeper.all(Chunk)) == text


async def test_words_and_deeds_are_heard_in_order_and_none_is_lost(lab: Lab) -> None:
    async def chatty(_agent: FakeAgent, _question: Question, listener: Listener) -> Reply:
        for n in range(300):
            listener.words(f"{n} ")
            if n % 50 == 0:
                await asyncio.sleep(0.02)
        listener.did(Deed("d1", "Bash", "ls " + "x" * 5000, "running"))
        listener.did(Deed("d1", "Bash", "ls", "done"))
        listener.did(Deed("d2", "Task", "sub", "running", agent="worker"))
        listener.words("said by the worker", "worker")
        return Reply("answered", "odd \udc80 and \0, \ud83d\ude00")

    lab.agents.answering = chatty
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        answer = await lab.keeper.answer(message)
        await lab.keeper.until(lambda: len(lab.keeper.all(Activity)) == 4 or None)
    chunks = lab.keeper.all(Chunk, message_id=message)
    assert [chunk.n for chunk in chunks] == list(range(1, len(chunks) + 1))
    own = [chunk.text for chunk in chunks if chunk.agent is None]
    assert "".join(own) == "".join(f"{n} " for n in range(300))
    assert own[0] == "0 "
    assert len(own) < 100
    assert chunks[-1].text == "said by the worker"
    done, lost = answer.activity
    assert (done.state, lost.state) == ("done", "failed")
    assert max(len(frame.deed.summary) for frame in lab.keeper.all(Activity)) == 500
    assert answer.text == "odd \ufffd and \ufffd, \U0001f600"


# Permissions --------------------------------------------------------------------------------------


def wanting(*permissions: Permission) -> tuple[list[Verdict], FakeAgents]:
    """An agent that wants to use tools before it answers, and what it was told."""
    verdicts: list[Verdict] = []

    async def want(agent: FakeAgent, question: Question, listener: Listener) -> Reply:
        verdicts.extend([await listener.may(one) for one in permissions])
        return await echo(agent, question, listener)

    return verdicts, FakeAgents(want)


BASH = Permission("p1", "Bash", {"command": "ls"}, None)


async def test_the_rules_decide_by_themselves_where_they_can(lab: Lab) -> None:
    rules = AgentPermissions(tools=("Bash",), denied_commands=("rm *",))
    lab.spec = spec_of(lab.tenant, lab.team, permissions=rules)
    verdicts, lab.agents = wanting(
        BASH,
        Permission("p2", "Bash", {"command": "rm x"}, None),
        Permission("p3", "WebFetch", {"url": "http://x"}, None),
    )
    async with lab.sidecar():
        await lab.keeper.answer(await lab.keeper.ask("one"))
    assert [verdict.allow for verdict in verdicts] == [True, False, False]
    assert "rm *" in verdicts[1].reason
    assert not lab.keeper.all(PermissionAsked)


@pytest.mark.parametrize("allow", [True, False])
async def test_a_person_is_asked_and_obeyed(lab: Lab, allow: bool) -> None:
    lab.spec = spec_of(lab.tenant, lab.team, permissions=AgentPermissions(ask=("Bash",)))
    verdicts, lab.agents = wanting(BASH)
    async with lab.sidecar():
        # Its time does not run while a person is waited for.
        message = await lab.keeper.ask("one", seconds=0.1)
        asked = await lab.keeper.first(PermissionAsked)
        await asyncio.sleep(0.1 + 3 * QUICK.interrupt)
        await lab.keeper.send(PermissionAnswer(request_id="another", allow=not allow))
        await lab.keeper.send(PermissionAnswer(request_id=asked.request_id, allow=allow))
        answer = await lab.keeper.answer(message)
    assert answer.state == "answered"
    assert (asked.message_id, asked.tool, asked.arguments) == (message, "Bash", {"command": "ls"})
    assert [verdict.allow for verdict in verdicts] == [allow]
    assert not lab.keeper.all(PermissionWithdrawn)


async def test_a_question_is_withdrawn_when_the_message_is_interrupted(lab: Lab) -> None:
    lab.spec = spec_of(lab.tenant, lab.team, permissions=AgentPermissions(ask=("*",)))
    _, lab.agents = wanting(BASH)
    async with lab.sidecar():
        message = await lab.keeper.ask("one")
        asked = await lab.keeper.first(PermissionAsked)
        await lab.keeper.send(Interrupt(message_id=message))
        await lab.keeper.first(PermissionWithdrawn, request_id=asked.request_id)
        assert (await lab.keeper.answer(message)).state == "cancelled"


async def test_answers_that_the_agent_broke_are_left_alone(lab: Lab) -> None:
    broken = UUID(int=7)
    (lab.state / "answers").mkdir(parents=True)
    (lab.state / "answers" / f"{broken}.json").write_bytes(b"{")
    (lab.state / "answers" / "no id.json").write_bytes(b"{}")
    (lab.state / "conversation").mkdir()
    async with lab.sidecar():
        assert (await lab.keeper.answer(await lab.keeper.ask("one"))).state == "answered"
