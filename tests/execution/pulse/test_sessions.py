"""Sessions through the API, with a real engine beside it."""

from __future__ import annotations

from tests.execution.pulse.conftest import Lab, script


async def test_a_session_runs_from_created_to_complete(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Four."))
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Four.")
    assert await lab.kinds(session_id) == [
        "message", "QUEUED", "RUNNING", "model", "CHECKPOINT", "checkpoint", "GATE_CHECK", "COMPLETE",
    ]  # fmt: skip


async def test_a_tool_is_used_and_its_files_are_kept(lab: Lab) -> None:
    prompt = script(
        'call write_file {"path": "hello.txt", "content": "Hello"}',
        'call shell {"command": "cat hello.txt"}',
        "say Done.",
    )
    async with lab.engine():
        read = await lab.ended(await lab.create(prompt))
    assert read["state"] == "COMPLETE", read["error"]
    assert [file["path"] for file in read["result"]["files"]] == ["hello.txt"]
