"""What the tools of a run need: the toolbox, the workspace, the policy; opened when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentos.execution.pulse.engine_tools.names import ENGINE_TOOLS
from agentos.execution.pulse.run import Run
from agentos.integrations.sandboxes.base import Limits
from agentos.integrations.tools.base import ToolSpec
from agentos.integrations.tools.built_in import (
    DEFAULT_NETWORK_TOOLS,
    DEFAULT_TOOLS,
    built_in_tools,
)
from agentos.integrations.tools.policies.deciding import Decision, Policies, decide
from agentos.integrations.tools.policies.service import policies_of
from agentos.integrations.tools.surroundings import Surroundings
from agentos.integrations.tools.toolbox import Toolbox, open_toolbox
from agentos.integrations.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestParameters


class Toolroom:
    def __init__(self, run: Run):
        self._run = run
        self._policies: Policies | None = None
        self._workspace: Workspace | None = None
        self.toolbox = Toolbox([])
        self.limits = Limits()
        # How the model is told of the tools; made once a run.
        self.parameters: ModelRequestParameters | None = None

    async def open(self) -> None:
        run, config = self._run, self._run.config
        listed = config.tools and [name for name in config.tools if name not in ENGINE_TOOLS]
        if config.mcp_servers:
            around = Surroundings(
                sandbox=run.parts.sandbox,
                workspace=await self.workspace(),
                limits=self.limits,
                allowed_hosts=tuple(config.allowed_hosts),
                hosts=run.parts.settings.tool_hosts,
                secrets=self._secret,
            )
            self.toolbox = await run.stack.enter_async_context(
                open_toolbox(listed, config.mcp_servers, around)
            )
        else:
            known = built_in_tools(config.allowed_hosts, hosts=run.parts.settings.tool_hosts)
            usual = DEFAULT_TOOLS + (DEFAULT_NETWORK_TOOLS if config.allowed_hosts else ())
            wanted = usual if listed is None else listed
            self.toolbox = Toolbox(known[name] for name in wanted)

    async def workspace(self) -> Workspace:
        """The session's directory, exactly as the journal says it is."""
        if self._workspace is None:
            session, workspaces = self._run.session, self._run.parts.workspaces
            workspace = await workspaces.open(session.tenant_id, session.workspace_id)
            await workspaces.bring(workspace, session.snapshot_id)
            self._workspace = workspace
        return self._workspace

    async def decide(self, spec: ToolSpec) -> Decision:
        """What the tenant has decided about a tool, as it was when the run first asked."""
        if self._policies is None:
            tenant_id = self._run.session.tenant_id
            async with self._run.parts.db.transaction(tenant_id=tenant_id) as tx:
                self._policies = await policies_of(tx, tenant_id)
        return decide(self._policies, spec)

    async def _secret(self, name: str) -> str:
        parts, tenant_id = self._run.parts, self._run.session.tenant_id
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            return await parts.vault.reveal(tx, tenant_id, name)


async def toolroom_of(run: Run) -> Toolroom:
    if run.toolroom is None:
        room = Toolroom(run)
        await room.open()
        run.toolroom = room
    return run.toolroom
