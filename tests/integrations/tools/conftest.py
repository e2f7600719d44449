"""A session's surroundings for tools: a workspace of a tenant, and the real sandbox."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.tools.servers import WebServer, web_server

from agentos.integrations.sandboxes.base import Limits, Sandbox
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.tools.base import ToolContext, ToolResult
from agentos.integrations.tools.built_in import built_in_tools
from agentos.integrations.tools.surroundings import Surroundings
from agentos.integrations.tools.toolbox import Toolbox
from agentos.integrations.workspaces.places import Places, workspace_uid
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.ids import TenantId, uuid7


@dataclass
class Kept:
    """Where long outputs go."""

    outputs: list[bytes] = field(default_factory=list)

    async def keep(self, data: bytes) -> str:
        self.outputs.append(data)
        return f"output-{len(self.outputs)}"


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not tmp_path: the account that commands run as could not get into that."""
    path = Path(tempfile.mkdtemp(prefix="aos-tools-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def new_workspace(directory: Path, tenant_id: TenantId | None = None) -> Workspace:
    tenant_id = tenant_id or TenantId(uuid7())
    workspace_id = uuid7()
    places = Places.of(directory, tenant_id, workspace_id)
    uid = workspace_uid(tenant_id)
    places.make(uid)
    return Workspace(tenant_id, workspace_id, places, uid, max_bytes=64 * 2**20, max_files=10_000)


@pytest.fixture
def workspace(directory: Path) -> Workspace:
    return new_workspace(directory)


@pytest.fixture
def sandbox() -> Sandbox:
    return Bubblewrap()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def context(workspace: Workspace, sandbox: Sandbox, kept: Kept) -> ToolContext:
    return ToolContext(
        tenant_id=workspace.tenant_id,
        session_id=uuid7(),
        idempotency_key="session:7",
        workspace=workspace,
        sandbox=sandbox,
        limits=Limits(seconds=30),
        allowed_hosts=(),
        keep=kept.keep,
    )


@dataclass
class Session:
    """Calls built-in tools as a session would. `hosts` may be private ones: the web is not here."""

    context: ToolContext

    def reaching(self, *hosts: str) -> Session:
        return Session(replace(self.context, allowed_hosts=hosts))

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tools = built_in_tools(self.context.allowed_hosts, hosts="any")
        return await Toolbox(tools.values()).call(name, arguments, self.context)


@pytest.fixture
def session(context: ToolContext) -> Session:
    return Session(context)


@pytest.fixture
def around(context: ToolContext) -> Surroundings:
    return Surroundings(context.sandbox, context.workspace, context.limits, hosts="any")


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    async with web_server() as running:
        yield running
