"""What holds for teams of agent CLIs holds for native ones, beside them in the same worker."""

from __future__ import annotations

import pytest
from tests.execution.crews.kept_lab import NATIVE, Crew, KeptLab
from tests.execution.crews.kept_suite import KeptSuite, agents, lab

__all__ = ["agents", "lab"]


@pytest.mark.asyncio(loop_scope="module")
class TestNative:
    async def test_several_turns_are_one_conversation(self, lab: KeptLab) -> None:
        crew = await lab.crew(NATIVE)
        assert await crew.answer("say The password is heron.") == "The password is heron."
        session = (await crew.read())["session_id"]
        assert await crew.answer("say Second.") == "Second."
        assert (await crew.read())["session_id"] == session
        assert b"The password is heron." in lab.asked[-1]

    async def test_messages_and_schedules_at_once_are_answered_in_order(self, lab: KeptLab) -> None:
        crew: Crew = await lab.crew(NATIVE)
        await KeptSuite().test_messages_and_schedules_at_once_are_answered_in_order(crew)
