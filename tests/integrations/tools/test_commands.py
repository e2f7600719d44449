"""`shell` and `python` in the real sandbox: what the model is told, and what stays inside."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integrations.tools.conftest import Kept, Session, new_workspace
from tests.integrations.tools.servers import WebServer

from agentos.integrations.sandboxes.base import Command, Limits, Outcome, SandboxMissing
from agentos.integrations.sandboxes.choosing import why_not
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.integrations.tools.base import Repeat, Tier
from agentos.integrations.tools.built_in import built_in_tools


async def test_a_command_works_on_the_workspace(session: Session) -> None:
    done = await session.call(
        "shell", command="echo hi > note.txt; pwd; cat note.txt; echo err >&2"
    )
    assert not done.failed
    assert done.text.splitlines() == ["/workspace", "hi", "err"]
    assert done.details["exit_code"] == 0
    assert await session.context.workspace.read("note.txt") == b"hi\n"


async def test_how_a_command_failed_is_said(session: Session) -> None:
    done = await session.call("shell", command="echo half; exit 3")
    assert (done.failed, done.text) == (True, "half\n[Exit code 3.]")
    assert done.details["exit_code"] == 3
    slow = await session.call("shell", command="echo started; sleep 60", timeout_seconds=1)
    assert slow.failed
    assert slow.text == "started\n[Ended after 1 seconds: it took too long.]"
    quiet = await session.call("shell", command="true")
    assert (quiet.failed, quiet.text) == (False, "[It printed nothing, and succeeded.]")


async def test_the_sessions_limit_is_above_the_models_wish(session: Session) -> None:
    context = replace(session.context, limits=Limits(seconds=1))
    slow = await Session(context).call("shell", command="sleep 60", timeout_seconds=3000)
    assert slow.details["ending"] == "timed_out"


async def test_commands_know_their_idempotency_key(session: Session) -> None:
    context = replace(session.context, env={"GREETING": "hello"})
    done = await Session(context).call("shell", command="echo $GREETING $AGENTOS_IDEMPOTENCY_KEY")
    assert done.text == "hello session:7"


async def test_python(session: Session) -> None:
    await session.context.workspace.write("mine.py", b"answer = 42\n")
    done = await session.call("python", code="import mine\nprint('grün', mine.answer)\n")
    assert (done.failed, done.text) == (False, "grün 42")
    wrong = await session.call("python", code="print(1)\nraise ValueError('no')")
    assert wrong.failed
    assert "ValueError: no" in wrong.text
    assert wrong.text.endswith("[Exit code 1.]")
    long = await session.call("python", code="#" * 200_000 + "\nprint('end')")
    assert long.text == "end"


async def test_long_output_keeps_both_ends(session: Session, kept: Kept) -> None:
    done = await session.call("shell", command="seq 1 50000")
    assert not done.failed
    assert len(done.text) < 25_000
    lines = done.text.splitlines()
    assert lines[:2] == ["1", "2"]
    assert lines[-1] == "50000"
    [gap] = [line for line in lines if line.startswith("[")]
    assert gap.endswith("All of it: output-1]")
    assert kept.outputs == ["".join(f"{n}\n" for n in range(1, 50001)).encode()]
    # Cut at line ends: what is shown are whole numbers, one after the other on either side.
    at = lines.index(gap)
    assert lines[:at] == [str(n) for n in range(1, at + 1)]
    tail = [int(line) for line in lines[at + 1 :]]
    assert tail == list(range(tail[0], 50001))


async def test_binary_output_is_described(session: Session, kept: Kept) -> None:
    done = await session.call("shell", command=r"printf '\000\001\377%.0s' {1..100}")
    assert done.text == "[Binary output of 300 bytes, not shown. All of it: output-1]"
    assert kept.outputs == [b"\0\1\xff" * 100]


async def test_commands_that_cannot_be(session: Session) -> None:
    assert (await session.call("shell", command="echo \0")).failed
    long = await session.call("shell", command="ü" * 70_000)
    assert long.failed
    assert "write_file" in long.text
    assert (await session.call("shell", command="")).failed


async def test_without_allowed_hosts_there_is_no_way_out(session: Session) -> None:
    done = await session.call(
        "shell", command="ls /run/egress.sock; env | grep -i proxy; cat /proc/net/dev | wc -l"
    )
    assert "No such file" in done.text
    assert "127.0.0.1" not in done.text


async def test_another_tenants_files_cannot_be_seen(session: Session, directory: Path) -> None:
    other = new_workspace(directory)
    await other.write("secret.txt", b"theirs")
    done = await session.call("shell", command=f"cat {other.root}/secret.txt; ls {directory}")
    assert done.failed
    assert "theirs" not in done.text


async def test_cancelling_ends_the_command(session: Session, web: WebServer) -> None:
    """And the way out that was made for it."""
    reaching = session.reaching(web.place)
    command = f"python3 -c 'import urllib.request as r; r.urlopen(\"{web.url()}\")'; sleep 1000"
    before = _ways_out()
    calling = asyncio.create_task(reaching.call("shell", command=command))
    await asyncio.to_thread(web.first.wait, 20)
    assert web.asked
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert _ways_out() <= before


def _ways_out() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("egress-*"))


async def test_in_the_other_sandbox(session: Session) -> None:
    """It has no sockets: commands run as well, without a network."""
    sandbox = Landlock()
    if await why_not(sandbox) is not None:
        pytest.skip("this kernel has no Landlock")
    other = Session(replace(session.context, sandbox=sandbox))
    assert (await other.call("python", code="print(6 * 7)")).text == "42"
    reaching = other.reaching("example.com")
    assert (await reaching.call("shell", command="echo hi; exit 3")).text == "hi\n[Exit code 3.]"


async def test_no_sandbox_no_command(session: Session) -> None:
    class NoSandbox:
        name = "none"

        async def run(self, command: Command) -> Outcome:
            raise SandboxMissing()

    context = replace(session.context, sandbox=NoSandbox())
    with pytest.raises(SandboxMissing):
        await Session(context).call("shell", command="true")


def test_with_a_way_out_commands_are_not_repeated() -> None:
    for name in ("shell", "python"):
        inside = built_in_tools()[name].spec
        assert (inside.tier, inside.repeat) == (Tier.DANGEROUS, Repeat.WORKSPACE)
        outside = built_in_tools(("example.com",))[name].spec
        assert (outside.tier, outside.repeat) == (Tier.DANGEROUS, Repeat.NEVER)
        assert outside.description != inside.description
