"""The files that agent CLIs work by, and how they come into a workspace without harm to others'."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from agentos.contracts.crew import AgentPermissions, McpServerSpec
from agentos.execution.crews.layouts.applying import MANIFEST, Applied, apply
from agentos.execution.crews.layouts.layout import Layout, Link
from agentos.execution.crews.layouts.rendering import render
from agentos.execution.crews.layouts.spec import secrets_of, spec_of
from agentos.execution.crews.repository import Definition
from agentos.execution.crews.schemas import AgentPut, Permissions, Skill
from agentos.execution.pulse.configs import SecretMissing
from agentos.integrations.tools.schemas import McpServer, SecretValue
from agentos.integrations.workspaces.places import Places
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.ids import TenantId, uuid7

SKILL = Skill(
    name="deploy",
    description="How to\ndeploy: carefully",
    instructions="# Deploy\n\nPush.\n",
    files={"scripts/go.sh": "echo go\n"},
)
TESTER = AgentPut(
    name="tester",
    role="Tests: everything",
    instructions="Write tests first.",
    model="demo",
    skills=["deploy"],
    permissions=Permissions(tools=["Read", "Bash"], denied_commands=["rm *"], ask=["Bash"]),
)


def definition(**given: Any) -> Definition:
    values: dict[str, Any] = {
        "tenant_id": TenantId(uuid7()),
        "team_id": uuid7(),
        "version": 3,
        "name": "Crew",
        "description": "Builds things.",
        "provider": "claude-code",
        "runtime": "local",
        "model": "auto",
        "command": None,
        "leader": AgentPut(name="lead", role="Leads the crew", instructions="Plan, then act."),
        "workers": (TESTER, AgentPut(name="writer")),
        "skills": (SKILL,),
        "mcp_servers": (),
        "allowed_hosts": ("example.com",),
        "answer_seconds": 60,
    }
    return Definition(**(values | given))


def text(layout: Layout, path: str) -> str:
    content = layout[path]
    assert isinstance(content, bytes)
    return content.decode()


def head(layout: Layout, path: str) -> Any:
    return yaml.safe_load(text(layout, path).split("---\n")[1])


# What is rendered --------------------------------------------------------------------------------


def test_claude_code() -> None:
    layout = render(definition(), "claude-code")
    assert sorted(layout) == [
        ".agents/skills/deploy/SKILL.md",
        ".agents/skills/deploy/scripts/go.sh",
        ".claude/CLAUDE.md",
        ".claude/agents/tester.md",
        ".claude/agents/writer.md",
        ".claude/skills/deploy",
    ]
    assert layout[".claude/skills/deploy"] == Link("../../.agents/skills/deploy")
    assert head(layout, ".claude/agents/tester.md") == {
        "name": "tester",
        "description": "Tests: everything",
        "tools": "Read, Bash",
        "model": "demo",
    }
    assert head(layout, ".claude/agents/writer.md") == {
        "name": "writer",
        "description": "writer, a worker of the team",
    }
    assert text(layout, ".claude/CLAUDE.md") == snapshot("""\
# Crew

Builds things.

You lead this team, as lead: Leads the crew.

Plan, then act.

## Your workers

Call them as sub-agents, by these names, with everything they need to know: they see nothing of this conversation. Tasks that do not need each other may go out together.

- `tester`: Tests: everything
- `writer`: writer, a worker of the team

## Where things are

- `attachments/`: files that people have sent with their messages.
- `MEMORY.md`: your notes. Read it when a conversation begins, and write down there what should
  still be known after it: decisions, preferences, where things are. Keep it short and true.
- `.agentos/`, `.agents/`, and the file that you are reading are kept by AgentOS, which writes them
  anew whenever the team is changed. Do not edit them.
- Everything else here is yours to work in.
""")
    assert text(layout, ".claude/agents/tester.md") == snapshot("""\
---
name: tester
description: 'Tests: everything'
tools: Read, Bash
model: demo
---

You are tester of the team Crew: Tests: everything.

Write tests first.

You work for lead, who leads the team and sees nothing of your work but your last message. Let that say what you found or did, where the files are, and what is left open.

## Your skills

Read a skill's file before you do what it is about.

- `deploy`: How to deploy: carefully (`.agents/skills/deploy/SKILL.md`)
""")
    assert text(layout, ".agents/skills/deploy/SKILL.md") == snapshot("""\
---
name: deploy
description: 'How to deploy: carefully'
---

# Deploy

Push.
""")


def test_opencode_has_front_matter_of_its_own() -> None:
    layout = render(definition(), "opencode")
    assert sorted(layout) == [
        ".agents/skills/deploy/SKILL.md",
        ".agents/skills/deploy/scripts/go.sh",
        ".opencode/agent/tester.md",
        ".opencode/agent/writer.md",
        "AGENTS.md",
    ]
    assert head(layout, ".opencode/agent/tester.md") == {
        "description": "Tests: everything",
        "mode": "subagent",
        "model": "agentos/demo",
    }
    assert "- `tester`: Tests: everything" in text(layout, "AGENTS.md")


def test_acp_agents_take_on_the_roles_themselves() -> None:
    layout = render(definition(), "acp")
    assert sorted(layout) == [
        ".agents/roles/tester.md",
        ".agents/roles/writer.md",
        ".agents/skills/deploy/SKILL.md",
        ".agents/skills/deploy/scripts/go.sh",
        "AGENTS.md",
    ]
    assert "Write tests first." in text(layout, ".agents/roles/tester.md")


@pytest.mark.parametrize("provider", ["claude-code", "opencode", "acp"])
def test_a_leader_alone_is_told_of_no_workers(provider: str) -> None:
    layout = render(definition(workers=(), skills=()), provider)
    assert len(layout) == 1
    told = text(layout, next(iter(layout)))
    assert "Your workers" not in told
    assert "Your skills" not in told
    assert "MEMORY.md" in told
    assert "attachments/" in told


@given(role=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60))
def test_whatever_the_role_is_the_front_matter_can_be_read(role: str) -> None:
    worker = AgentPut(name="w", role=role)
    for provider, path in (
        ("claude-code", ".claude/agents/w.md"),
        ("opencode", ".opencode/agent/w.md"),
    ):
        layout = render(definition(workers=(worker,)), provider)
        assert head(layout, path)["description"] == (worker.role or "w, a worker of the team")


# What the sidecar is told ------------------------------------------------------------------------


def test_the_spec_holds_the_values_of_secrets() -> None:
    team = definition(
        mcp_servers=(
            McpServer(name="hub", url="https://hub.io", headers={"A": SecretValue(secret="t")}),
            McpServer(name="here", command=["run"], env={"B": "plain"}),
        )
    )
    assert secrets_of(team) == {"t"}
    spec = spec_of(team, 4, "conversation", {"t": "value"})
    assert (spec.version, spec.conversation, spec.model) == (4, "conversation", "auto")
    assert spec.mcp_servers == (
        McpServerSpec(name="hub", url="https://hub.io", headers={"A": "value"}),
        McpServerSpec(name="here", command=("run",), env={"B": "plain"}),
    )
    assert [(agent.name, agent.leader, agent.model) for agent in spec.agents] == [
        ("lead", True, "auto"),
        ("tester", False, "demo"),
        ("writer", False, "auto"),
    ]
    assert spec.agents[1].permissions == AgentPermissions(
        tools=("Read", "Bash"), denied_commands=("rm *",), ask=("Bash",)
    )
    assert spec.allowed_hosts == ("example.com",)
    with pytest.raises(SecretMissing, match="hub needs the secret t"):
        spec_of(team, 4, None, {})


def test_a_team_without_servers_needs_no_secrets() -> None:
    assert secrets_of(definition()) == frozenset()


# How it comes into a workspace -------------------------------------------------------------------


def made_workspace(directory: Path) -> Workspace:
    tenant_id, workspace_id = TenantId(uuid7()), uuid7()
    places = Places.of(directory, tenant_id, workspace_id)
    places.make(None)
    return Workspace(tenant_id, workspace_id, places, None, 100_000_000, 10_000)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return made_workspace(tmp_path)


def contents(root: Path) -> dict[str, str | bytes]:
    """Files as bytes, links as the text they lead to."""
    found: dict[str, str | bytes] = {}
    for place, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(place, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = os.readlink(path)  # noqa: PTH115 - as it is written
            elif path.is_file():
                found[key] = path.read_bytes()
    return found


def written(layout: Layout) -> dict[str, str | bytes]:
    return {
        path: content.target if isinstance(content, Link) else content
        for path, content in layout.items()
    }


def without_manifest(found: dict[str, str | bytes]) -> dict[str, str | bytes]:
    return {path: content for path, content in found.items() if path != MANIFEST}


NOTHING = Applied((), (), {})


async def test_a_layout_comes_in_once(workspace: Workspace) -> None:
    layout = render(definition(), "claude-code")
    applied = await apply(workspace, layout)
    assert sorted(applied.written) == sorted(layout)
    assert without_manifest(contents(workspace.root)) == written(layout)
    linked = workspace.root / ".claude/skills/deploy/SKILL.md"
    assert linked.read_bytes() == layout[".agents/skills/deploy/SKILL.md"]
    before = contents(workspace.root)
    assert await apply(workspace, layout) == NOTHING
    assert contents(workspace.root) == before


async def test_what_is_no_longer_rendered_goes(workspace: Workspace) -> None:
    await apply(workspace, render(definition(), "claude-code"))
    (workspace.root / ".claude/agents/mine.md").write_text("mine")
    layout = render(definition(workers=(TESTER,), skills=()), "claude-code")
    applied = await apply(workspace, layout)
    assert set(applied.removed) == {
        ".agents/skills/deploy/SKILL.md",
        ".agents/skills/deploy/scripts/go.sh",
        ".claude/agents/writer.md",
        ".claude/skills/deploy",
    }
    expected = written(layout) | {".claude/agents/mine.md": b"mine"}
    assert without_manifest(contents(workspace.root)) == expected
    assert set(json.loads((workspace.root / MANIFEST).read_text())) == set(layout)


async def test_ours_is_written_over_and_others_files_are_moved_aside(workspace: Workspace) -> None:
    layout = render(definition(), "opencode")
    (workspace.root / "AGENTS.md").write_text("my own")
    (workspace.root / "AGENTS.md.yours").write_text("mine, too")
    applied = await apply(workspace, layout)
    assert applied.moved == {"AGENTS.md": "AGENTS.md.yours2"}
    assert (workspace.root / "AGENTS.md.yours2").read_text() == "my own"
    assert (workspace.root / "AGENTS.md.yours").read_text() == "mine, too"
    (workspace.root / "AGENTS.md").write_text("edited")
    assert (await apply(workspace, layout)).written == ("AGENTS.md",)
    assert (workspace.root / "AGENTS.md").read_bytes() == layout["AGENTS.md"]


async def test_what_was_made_of_a_removed_worker_is_kept_where_no_agent_reads_it(
    workspace: Workspace,
) -> None:
    await apply(workspace, render(definition(), "claude-code"))
    (workspace.root / ".claude/agents/writer.md").write_text("edited")
    applied = await apply(workspace, render(definition(workers=()), "claude-code"))
    assert applied.moved == {".claude/agents/writer.md": ".claude/agents/writer.md.yours"}
    assert not (workspace.root / ".claude/agents/writer.md").exists()


async def test_what_is_in_the_way_of_directories_is_moved_aside(workspace: Workspace) -> None:
    root = workspace.root
    (root / ".agents").mkdir()
    (root / ".agents/skills").mkdir()
    (root / ".claude").mkdir()
    # A common way to share skills; through it, a link of ours would lead to itself.
    (root / ".claude/skills").symlink_to("../.agents/skills")
    (root / ".claude/agents").write_text("a file")
    (root / ".claude/CLAUDE.md").mkdir()
    (root / ".claude/CLAUDE.md/inner").write_text("deep")
    layout = render(definition(), "claude-code")
    await apply(workspace, layout)
    found = contents(root)
    assert written(layout).items() <= found.items()
    assert found[".claude/skills.yours"] == "../.agents/skills"
    assert found[".claude/agents.yours"] == b"a file"
    assert found[".claude/CLAUDE.md.yours/inner"] == b"deep"
    assert await apply(workspace, layout) == NOTHING


async def test_nothing_is_written_through_a_link(workspace: Workspace) -> None:
    layout = render(definition(), "claude-code")
    await apply(workspace, layout)
    root = workspace.root
    (root / "MEMORY.md").write_text("notes")
    (root / ".claude/CLAUDE.md").unlink()
    (root / ".claude/CLAUDE.md").symlink_to("../MEMORY.md")
    (root / MANIFEST).rename(root / "kept.json")
    (root / MANIFEST).symlink_to("../kept.json")
    before = (root / "kept.json").read_bytes()
    await apply(workspace, render(definition(workers=()), "claude-code"))
    assert (root / "MEMORY.md").read_text() == "notes"
    assert (root / "kept.json").read_bytes() == before
    assert not (root / ".claude/CLAUDE.md").is_symlink()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"../../etc/passwd": "x", "/etc/passwd": "x", "": "x", ".": "x", "a//b": "x"}',
        b'{".agentos/managed.json": "x", "AGENTS.md/below": "x", "dir": "x"}',
    ],
)
async def test_a_forged_manifest_does_no_harm(workspace: Workspace, manifest: bytes) -> None:
    layout = render(definition(), "opencode")
    await apply(workspace, layout)
    (workspace.root / MANIFEST).write_bytes(manifest)
    (workspace.root / "dir").mkdir()
    (workspace.root / "dir/file").write_text("mine")
    await apply(workspace, layout)
    found = contents(workspace.root)
    assert written(layout).items() <= found.items()
    assert found["dir/file"] == b"mine"
    assert await apply(workspace, layout) == NOTHING


async def test_a_layout_that_broke_off_is_still_known_to_be_ours(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Workspace.write

    async def breaks(self: Workspace, path: str, data: bytes) -> None:
        if path.endswith("writer.md"):
            raise ConnectionError("the machine went down")
        await write(self, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "write", breaks)
        with pytest.raises(ConnectionError):
            await apply(workspace, render(definition(), "opencode"))
    layout = render(definition(name="Other"), "opencode")
    applied = await apply(workspace, layout)
    assert applied.moved == {}
    assert without_manifest(contents(workspace.root)) == written(layout)


NAMES = st.sampled_from(
    [
        ".claude",
        ".agents",
        "agents",
        "skills",
        "a",
        "b",
        "a.md",
        "CLAUDE.md",
        "AGENTS.md",
        "SKILL.md",
    ]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def _fit(paths: dict[str, Any]) -> dict[str, Any]:
    """Without those that would need a file to be a directory."""
    return {
        path: content
        for path, content in paths.items()
        if not any(path.startswith(f"{other}/") for other in paths)
    }


LAYOUTS = st.dictionaries(
    PATHS, st.binary(max_size=8) | st.sampled_from([Link("x"), Link("../a")]), max_size=6
).map(_fit)
USERS = st.dictionaries(PATHS, st.uuids().map(lambda each: each.bytes), max_size=6).map(_fit)


@settings(max_examples=60, deadline=None)
@given(first=LAYOUTS, second=LAYOUTS, users=USERS, later=USERS)
async def test_applying_again_changes_nothing_and_users_files_survive(
    first: Layout, second: Layout, users: dict[str, bytes], later: dict[str, bytes]
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="aos-layout-"))
    try:
        workspace = made_workspace(directory)
        root = workspace.root
        kept = _write_users(root, users, frozenset())
        await apply(workspace, first)
        assert written(first).items() <= contents(root).items()
        kept |= _write_users(root, later, frozenset(first))
        for layout in (first, second):
            await apply(workspace, layout)
            after = contents(root)
            assert written(layout).items() <= after.items()
            # Each content is one of a kind: wherever it is, it is that file.
            assert kept <= {content for content in after.values() if isinstance(content, bytes)}
            assert await apply(workspace, layout) == NOTHING
            assert contents(root) == after
    finally:
        shutil.rmtree(directory)


def _write_users(root: Path, users: dict[str, bytes], ours: frozenset[str]) -> set[bytes]:
    """Writes where a user can; says what has to survive: all that is not at a path of ours."""
    kept = set()
    for path, content in users.items():
        place = root / path
        above = [parent for parent in place.parents if parent.is_relative_to(root)]
        if any(parent.is_symlink() or parent.is_file() for parent in above):
            continue
        if place.is_symlink() or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        if path not in ours:
            kept.add(content)
    return kept
