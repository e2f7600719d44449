"""What holds for every provider: one suite, run with the real CLIs.

A module of tests has a class of its own and a fixture `kit` that says how its CLI is made:

    class TestClaudeCode(ProviderConformance): ...
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from agentos.contracts.crew import AgentSpec, TeamSpec
from agentos.sidecar.providers.base import (
    MakeProvider,
    Provider,
    ProviderDied,
    ProviderMissing,
    Question,
    Reply,
    Surroundings,
)
from tests.sidecar.agents import (
    SECONDS,
    Heard,
    ModelEndpoint,
    denying,
    eventually,
    never_answering,
    script,
)

_NOTE_PID_AND_SLEEP = "echo $$ > new; mv new pid; exec sleep 300"


@dataclass
class Kit:
    """One provider, and what its CLI calls things."""

    make: MakeProvider
    surroundings: Surroundings
    endpoint: ModelEndpoint
    spec: TeamSpec
    # The name of its shell tool, as permissions and deeds have it.
    shell_tool: str
    read_tool: str
    # Lines of a script for the demo model that use these tools.
    shell: Callable[[str], str]
    read: Callable[[str], str]
    # The process that is killed to see whether it comes back.
    pid: Callable[[Provider], int]
    # How a question gets its id.
    new_id: Callable[[], str] = lambda: str(uuid4())

    @property
    def workspace(self) -> Path:
        return self.surroundings.workspace

    def question(self, text: str) -> Question:
        return Question(self.new_id(), text)

    @asynccontextmanager
    async def running(
        self, conversation: str | None = None, spec: TeamSpec | None = None
    ) -> AsyncIterator[Provider]:
        provider = self.make(spec or self.spec, self.surroundings, conversation)
        try:
            await provider.start()
            yield provider
        finally:
            await provider.stop()

    async def ask(self, provider: Provider, text: str, heard: Heard | None = None) -> Reply:
        async with asyncio.timeout(SECONDS):
            return await provider.ask(self.question(text), heard or Heard())

    @asynccontextmanager
    async def asking(
        self, provider: Provider, text: str, heard: Heard
    ) -> AsyncIterator[asyncio.Task[Reply]]:
        """A question that is being answered; it has ended when this does."""
        task = asyncio.create_task(self.ask(provider, text, heard))
        try:
            yield task
        finally:
            self.endpoint.release()
            task.cancel()
            await asyncio.wait({task})


def team_spec(provider: str, model: str = "demo") -> TeamSpec:
    return msgspec.convert(
        {
            "tenant_id": str(uuid4()),
            "team_id": str(uuid4()),
            "version": 1,
            "provider": provider,
            "model": model,
            "agents": [msgspec.to_builtins(AgentSpec(name="lead", leader=True))],
        },
        TeamSpec,
    )


def surroundings(directory: Path, agents: Path, endpoint: ModelEndpoint) -> Surroundings:
    """A workspace and a home of its own, and nothing to reach but the model."""
    workspace, home = directory / "workspace", directory / "home"
    workspace.mkdir()
    home.mkdir()
    return Surroundings(
        workspace=workspace,
        home=home,
        agents=agents,
        model_url=endpoint.url,
        env={
            "PATH": os.environ["PATH"],
            # Nobody listens there: what is not on this machine cannot be reached.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        },
    )


class ProviderConformance:
    """What a provider promises in base.py."""

    async def test_a_conversation_goes_on_from_question_to_question(self, kit: Kit) -> None:
        async with kit.running() as provider:
            first = await kit.ask(provider, script("say The word is heron."))
            assert (first.state, first.text) == ("answered", "The word is heron.")
            second = await kit.ask(provider, script("say The other is maple."))
            assert (second.state, second.text) == ("answered", "The other is maple.")
            third = await kit.ask(provider, script("say Both are known."))
            assert (third.state, third.text) == ("answered", "Both are known.")
        last = kit.endpoint.calls_with("say Both are known.")[0]
        assert "say The word is heron." in last
        assert "The other is maple." in last
        assert provider.conversation
        assert provider.version

    async def test_words_come_while_they_are_said(self, kit: Kit) -> None:
        heard = Heard()
        kit.endpoint.hold_after("river")
        async with kit.running() as provider:
            question = script("say A river, a heron and a lantern.")
            async with kit.asking(provider, question, heard) as answering:
                async with asyncio.timeout(SECONDS):
                    await heard.first_words.wait()
                assert not answering.done()
                kit.endpoint.release()
                reply = await answering
        assert reply == Reply("answered", "A river, a heron and a lantern.")
        assert heard.text() == reply.text
        assert len(heard.pieces) > 1
        assert heard.voided == 0

    async def test_what_is_said_before_a_tool_is_used_is_heard(self, kit: Kit) -> None:
        heard = Heard()
        async with kit.running() as provider:
            lines = ("say First I look.", kit.shell("true"), "say Now I know.")
            reply = await kit.ask(provider, script(*lines), heard)
        assert reply.state == "answered"
        assert reply.text.endswith("Now I know.")
        assert "First I look." in heard.text()
        assert heard.text().endswith("Now I know.")

    async def test_tools_are_used_and_told_of(self, kit: Kit) -> None:
        heard = Heard()
        async with kit.running() as provider:
            reply = await kit.ask(
                provider, script(kit.shell("echo made-$((40 + 2)) > made.txt"), "say Made."), heard
            )
        assert reply == Reply("answered", "Made.")
        assert (kit.workspace / "made.txt").read_text() == "made-42\n"
        assert heard.states(kit.shell_tool)[0] == "running"
        assert heard.states(kit.shell_tool)[-1] == "done"
        assert len({deed.id for deed in heard.deeds}) == 1
        assert "made.txt" in heard.deeds[-1].summary
        assert [(asked.tool, asked.agent) for asked in heard.asked] == [(kit.shell_tool, None)]
        assert "made.txt" in str(heard.asked[0].arguments)

    async def test_a_tool_that_fails_is_told_of(self, kit: Kit) -> None:
        heard = Heard()
        async with kit.running() as provider:
            reply = await kit.ask(
                provider, script(kit.read("no-such-file.txt"), "say It is not there."), heard
            )
        assert reply == Reply("answered", "It is not there.")
        assert heard.states(kit.read_tool)[-1] == "failed"

    async def test_a_denied_tool_does_not_run_and_the_agent_is_told(self, kit: Kit) -> None:
        heard = denying(kit.shell_tool, reason="The shell is for others, said the gate.")
        async with kit.running() as provider:
            reply = await kit.ask(
                provider, script(kit.shell("touch made.txt"), "say I may not."), heard
            )
            assert reply.state == "answered"
            assert not (kit.workspace / "made.txt").exists()
            assert heard.states(kit.shell_tool)[-1] == "denied"
            # What is denied once can be allowed the next time.
            again = await kit.ask(provider, script(kit.shell("touch made.txt"), "say I did."))
        assert again == Reply("answered", "I did.")
        assert (kit.workspace / "made.txt").exists()
        assert kit.endpoint.calls_with("The shell is for others, said the gate.")

    async def test_reading_needs_permission_as_well(self, kit: Kit) -> None:
        (kit.workspace / "secret.txt").write_text("the-hidden-word")
        heard = denying(kit.read_tool)
        async with kit.running() as provider:
            await kit.ask(provider, script(kit.read("secret.txt"), "say I may not."), heard)
            assert [asked.tool for asked in heard.asked] == [kit.read_tool]
            assert not kit.endpoint.calls_with("the-hidden-word")
            await kit.ask(provider, script(kit.read("secret.txt"), "say I have read it."))
        assert kit.endpoint.calls_with("the-hidden-word")

    async def test_a_question_to_a_person_is_withdrawn_by_an_interrupt(self, kit: Kit) -> None:
        heard = never_answering()
        async with kit.running() as provider:
            question = script(kit.shell("touch made.txt"), "say Done.")
            async with kit.asking(provider, question, heard) as answering:
                async with asyncio.timeout(SECONDS):
                    await heard.first_question.wait()
                    await provider.interrupt()
                    assert (await answering).state == "cancelled"
            assert [asked.tool for asked in heard.withdrawn] == [kit.shell_tool]
            assert not (kit.workspace / "made.txt").exists()
            assert (await kit.ask(provider, script("say Still here."))).text == "Still here."

    async def test_a_model_that_fails_is_an_answer_that_failed(self, kit: Kit) -> None:
        async with kit.running() as provider:
            failed = await kit.ask(provider, script("fail invalid The harbour is closed."))
            assert failed.state == "failed"
            assert failed.error_code == "model_error"
            assert "The harbour is closed." in failed.error
            well = await kit.ask(provider, script("say All is well again."))
        assert well == Reply("answered", "All is well again.")

    async def test_a_model_that_is_not_known_is_an_answer_that_failed(self, kit: Kit) -> None:
        unknown = msgspec.structs.replace(kit.spec, model="nobody/nothing-9")
        async with kit.running(spec=unknown) as provider:
            failed = await kit.ask(provider, "Hello")
        assert failed.state == "failed"
        assert failed.error_code == "model_error"
        assert "nothing-9" in failed.error

    async def test_models_have_the_names_that_the_gateway_gives_them(self, kit: Kit) -> None:
        spec = msgspec.structs.replace(kit.spec, model="vendor/model-4.2:free")
        async with kit.running(spec=spec) as provider:
            reply = await kit.ask(provider, script("say Me."))
        assert reply == Reply("answered", "Me.")
        assert {asked.model for asked in kit.endpoint.calls} == {"vendor/model-4.2:free"}

    async def test_an_interrupt_ends_the_answer_and_not_the_conversation(self, kit: Kit) -> None:
        heard = Heard()
        kit.endpoint.hold_after("heron")
        async with kit.running() as provider:
            question = script("say A heron that stands very still.")
            async with kit.asking(provider, question, heard) as answering:
                async with asyncio.timeout(SECONDS):
                    await heard.first_words.wait()
                    await provider.interrupt()
                    assert (await answering).state == "cancelled"
            reply = await kit.ask(provider, script("say It is gone."))
        assert reply == Reply("answered", "It is gone.")

    async def test_an_interrupt_ends_the_tool_that_runs(self, kit: Kit) -> None:
        note = kit.workspace / "pid"
        async with kit.running() as provider:
            question = script(kit.shell(_NOTE_PID_AND_SLEEP), "say It has ended.")
            async with kit.asking(provider, question, Heard()) as answering:
                await eventually(note.exists)
                async with asyncio.timeout(SECONDS):
                    await provider.interrupt()
                    assert (await answering).state == "cancelled"
            await eventually(lambda: not _runs(int(note.read_text())))
            assert (await kit.ask(provider, script("say Next."))).text == "Next."

    async def test_an_interrupt_right_after_the_question_is_not_lost(self, kit: Kit) -> None:
        kit.endpoint.hold_after("heron")
        async with kit.running() as provider:
            question = script("say A heron that stands very still.")
            async with kit.asking(provider, question, Heard()) as answering:
                # The question has been handed over, and not more than that.
                await asyncio.sleep(0)
                async with asyncio.timeout(SECONDS):
                    await provider.interrupt()
                    assert (await answering).state == "cancelled"
            assert (await kit.ask(provider, script("say Next."))).text == "Next."

    async def test_an_interrupt_of_nothing_does_nothing(self, kit: Kit) -> None:
        async with kit.running() as provider:
            await provider.interrupt()
            reply = await kit.ask(provider, script("say Undisturbed."))
            await provider.interrupt()
        assert reply == Reply("answered", "Undisturbed.")

    async def test_a_conversation_outlives_the_process(self, kit: Kit) -> None:
        async with kit.running() as provider:
            await kit.ask(provider, script("say The word is heron."))
            conversation = provider.conversation
        async with kit.running(conversation) as provider:
            reply = await kit.ask(provider, script("say I am back."))
        assert reply == Reply("answered", "I am back.")
        assert provider.conversation
        assert "The word is heron." in kit.endpoint.calls_with("say I am back.")[0]

    async def test_a_conversation_that_is_gone_is_begun_anew(self, kit: Kit) -> None:
        async with kit.running(kit.new_id()) as provider:
            reply = await kit.ask(provider, script("say I am new."))
        assert reply == Reply("answered", "I am new.")

    async def test_a_killed_process_is_told_of_and_resumed(self, kit: Kit) -> None:
        heard = Heard()
        async with kit.running() as provider:
            await kit.ask(provider, script("say The word is heron."))
            kit.endpoint.hold_after("lantern")
            question = script("say A lantern in the dark.")
            async with kit.asking(provider, question, heard) as answering:
                async with asyncio.timeout(SECONDS):
                    await heard.first_words.wait()
                    os.kill(kit.pid(provider), signal.SIGKILL)
                    with pytest.raises(ProviderDied) as died:
                        await answering
            assert died.value.code == "agent_crashed"
            with pytest.raises(ProviderDied):
                await kit.ask(provider, "Are you there?")
            conversation = provider.conversation
        async with kit.running(conversation) as provider:
            reply = await kit.ask(provider, script("say Lit again."))
        assert reply == Reply("answered", "Lit again.")
        assert "The word is heron." in kit.endpoint.calls_with("say Lit again.")[0]

    async def test_a_process_killed_while_a_person_is_asked(self, kit: Kit) -> None:
        heard = never_answering()
        async with kit.running() as provider:
            question = script(kit.shell("touch made.txt"), "say Done.")
            async with kit.asking(provider, question, heard) as answering:
                async with asyncio.timeout(SECONDS):
                    await heard.first_question.wait()
                    os.kill(kit.pid(provider), signal.SIGKILL)
                    with pytest.raises(ProviderDied):
                        await answering
            assert [asked.tool for asked in heard.withdrawn] == [kit.shell_tool]
        assert not (kit.workspace / "made.txt").exists()

    async def test_stopping_ends_what_its_tools_have_started(self, kit: Kit) -> None:
        note = kit.workspace / "pid"
        async with kit.running() as provider:
            question = script(kit.shell(_NOTE_PID_AND_SLEEP))
            async with kit.asking(provider, question, Heard()) as answering:
                await eventually(note.exists)
                await provider.stop()
                with pytest.raises(ProviderDied):
                    await answering
            await provider.stop()
        await eventually(lambda: not _runs(int(note.read_text())))

    async def test_long_and_odd_texts_arrive_as_they_are(self, kit: Kit) -> None:
        odd = 'Grüße, 漢字, \U0001f469‍\U0001f680, עברית, tab\t, "quotes" \\ and \u2028 lines'
        text = f"{odd}\n" + "a long line of words " * 15_000 + script("say Read it all.")
        async with kit.running() as provider:
            reply = await kit.ask(provider, text)
        assert reply == Reply("answered", "Read it all.")
        assert kit.endpoint.calls_with(odd)
        assert kit.endpoint.calls_with("a long line of words " * 15_000)

    async def test_a_long_answer_arrives_whole(self, kit: Kit) -> None:
        heard = Heard()
        async with kit.running() as provider:
            reply = await kit.ask(provider, script("repeat 4000 heron-heron"), heard)
        assert reply.state == "answered"
        assert reply.text == " ".join(["heron-heron"] * 4000)
        assert heard.text() == reply.text

    @pytest.mark.parametrize(
        "text",
        ["/clear", " /clear", "\n/clear", "/compact now", "/etc/passwd", "//", "!ls", "#note"],
    )
    async def test_a_text_is_never_a_command(self, kit: Kit, text: str) -> None:
        async with kit.running() as provider:
            await kit.ask(provider, script("say The word is heron."))
            before = len(kit.endpoint.calls)
            reply = await kit.ask(provider, text)
        assert reply.state == "answered"
        asked = kit.endpoint.calls[before:]
        assert any(text in each and "The word is heron." in each for each in asked)

    async def test_what_is_not_installed_is_missing(self, kit: Kit, tmp_path: Path) -> None:
        empty = tmp_path / "no-agents"
        empty.mkdir()
        kit.surroundings = replace(kit.surroundings, agents=empty)
        with pytest.raises(ProviderMissing, match="install"):
            async with kit.running():
                pass


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
