"""A tenant with one thing of every kind that a path can name, for tests that walk all routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from agentos.execution.pulse import repository as sessions
from agentos.execution.pulse.history import repository as history
from agentos.execution.pulse.journal import Step
from agentos.execution.webhooks.service import PREFIX as HOOK
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.opaque_tokens import new_token
from tests.gateways import Gateway, Person
from tests.usage_rows import called

# The name that the document's examples give to a file.
FILE = "example"
# A worker of every team of a neighbour.
WORKER = "writer"
# What names a thing: its name, or the names of what it belongs to and of itself.
Name = str | tuple[str, str]


@dataclass(frozen=True)
class Neighbour:
    """Another tenant; each method makes one more thing of its kind and says its name."""

    person: Person
    gateway: Gateway

    async def login(self) -> str:
        return str(self.person.login_id)

    async def tenant(self) -> str:
        return str(self.person.tenant_id)

    async def member(self) -> str:
        return str(self.person.user_id)

    async def invitation(self) -> str:
        return await self._made("/api/invitations", email=f"{uuid7().hex}@example.com")

    async def key(self) -> str:
        return await self._made("/api/keys", name="theirs")

    async def secret(self) -> str:
        name = f"SECRET_{uuid7().hex}"
        await self._put(f"/api/vault/{name}", value="example-4f1c")
        return name

    async def budget(self) -> str:
        return await self._put(
            "/api/budgets", scope="session", subject_id=str(uuid7()), cap_micros=1_000_000
        )

    async def call(self) -> str:
        return str(await called(self.gateway.parts.platform_db, self.person.tenant_id))

    async def provider(self) -> str:
        return await self._made(
            "/api/models/providers", kind="ollama", name=f"p-{uuid7().hex[-12:]}"
        )

    async def price(self) -> str:
        return await self._put(
            "/api/models/prices", provider="demo", model=uuid7().hex, input=1, output=2
        )

    async def object(self) -> str:
        key = f"reports/{uuid7().hex}.txt"
        answer = await self.person.client.put(f"/api/objects/{key}", content=b"theirs")
        assert answer.is_success, answer.text
        return key

    # Sessions. No engine is at work: they stay as they are made.

    async def session(self) -> str:
        """One that was only created."""
        return await self._made("/api/sessions", prompt="Theirs", model="demo", run=False)

    async def queued_session(self) -> str:
        return await self._made("/api/sessions", prompt="Theirs", model="demo")

    async def paused_session(self) -> str:
        return await self._after(await self.queued_session(), "pause")

    async def ended_session(self) -> str:
        return await self._after(await self.queued_session(), "cancel")

    async def worked_session(self) -> str:
        """One with a second step, a tool's, which left a file and more output than it shows."""
        session_id = await self.session()
        parts, tenant_id = self.gateway.parts, self.person.tenant_id
        places = Workspaces(
            parts.db,
            parts.objects,
            parts.clock,
            parts.settings.workspaces_dir,
            max_bytes=parts.settings.workspace_bytes,
            max_files=parts.settings.workspace_files,
        )
        workspace = await places.open(tenant_id, UUID(session_id))
        await workspace.write(FILE, b"theirs\n")
        snapshot = await places.snapshot(workspace, None)
        whole = uuid7()
        await parts.objects.for_tenant(tenant_id).put(str(whole), b"all of it")
        step = Step(
            kind="tool",
            name="run_command",
            at=parts.clock.now(),
            output={"text": "…", "whole": str(whole)},
            snapshot_id=snapshot.id,
        )
        async with parts.db.transaction(tenant_id=tenant_id) as tx:
            await places.record(tx, snapshot)
            session = await sessions.lock(tx, tenant_id, UUID(session_id))
            assert session is not None
            await history.append(tx, session, parts.clock.now(), [step], [])
        return session_id

    async def checkpoint(self) -> str:
        """One of a session that has ended."""
        session_id = await self.queued_session()
        made = await self._made(f"/api/sessions/{session_id}/checkpoints", name="theirs")
        await self._after(session_id, "cancel")
        return made

    async def approval(self, kind: str = "tool") -> str:
        """One that waits for a person."""
        approval_id, now = uuid7(), self.gateway.parts.clock.now()
        session_id = UUID(await self.queued_session())
        async with self.gateway.parts.db.transaction(tenant_id=self.person.tenant_id) as tx:
            await tx.execute(
                """insert into approvals
                   (tenant_id, id, session_id, kind, key, subject, details, created_at, expires_at)
                   values ($1, $2, $3, $4, '1', 'http_send', '{}', $5, $6)""",
                self.person.tenant_id,
                approval_id,
                session_id,
                kind,
                now,
                now + timedelta(days=1),
            )
        return str(approval_id)

    async def chain(self) -> str:
        """One that was only created."""
        nodes = {"draft": {"prompt": "Theirs", "model": "demo"}}
        return await self._made("/api/chains", name="theirs", nodes=nodes, run=False)

    async def ended_chain(self) -> str:
        chain_id = await self.chain()
        answer = await self.person.client.post(f"/api/chains/{chain_id}/cancel")
        assert answer.is_success, answer.text
        return chain_id

    async def policy(self) -> str:
        return await self._put(
            "/api/tools/policies", subject=f"mcp__{uuid7().hex}__*", decision="deny"
        )

    # Crews

    async def team(self) -> str:
        """One that is stopped."""
        return await self._team(deploy=False)

    async def deployed_team(self) -> str:
        return await self._team(deploy=True)

    async def template(self) -> str:
        """They are the same for all."""
        return "research-desk"

    async def message(self) -> tuple[str, str]:
        """One that waits for its team to be deployed."""
        team_id = await self.team()
        return team_id, await self._made(f"/api/teams/{team_id}/messages", text="Theirs")

    async def ended_message(self) -> tuple[str, str]:
        team_id, message_id = await self.message()
        path = f"/api/teams/{team_id}/messages/{message_id}/cancel"
        answer = await self.person.client.post(path)
        assert answer.is_success, answer.text
        return team_id, message_id

    async def schedule(self) -> str:
        return await self._made(
            "/api/schedules",
            name=uuid7().hex,
            every_seconds=3600,
            team_id=await self.team(),
            prompt="Theirs",
        )

    async def webhook(self) -> str:
        return str((await self._webhook())["id"])

    async def hook(self) -> str:
        """The token in the address of a webhook."""
        return str((await self._webhook())["token"])

    async def post_action(self) -> str:
        return await self._made(
            "/api/post-actions",
            name="theirs",
            schedule_id=await self.schedule(),
            url="https://example.com/done",
        )

    async def run(self) -> str:
        return await self._made(f"/api/schedules/{await self.schedule()}/run")

    async def _team(self, *, deploy: bool) -> str:
        return await self._made(
            "/api/teams",
            name=uuid7().hex,
            model="demo",
            leader={"name": "lead"},
            workers=[{"name": WORKER}],
            deploy=deploy,
        )

    async def _webhook(self) -> dict[str, Any]:
        return await self._answer(
            "/api/webhooks", name=uuid7().hex, team_id=await self.team(), prompt="Theirs"
        )

    async def _after(self, session_id: str, action: str) -> str:
        answer = await self.person.client.post(f"/api/sessions/{session_id}/{action}")
        assert answer.is_success, answer.text
        return session_id

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self._answer(path, **body))["id"])

    async def _answer(self, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.person.client.post(path, json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def _put(self, path: str, **body: Any) -> str:
        answer = await self.person.client.put(path, json=body)
        assert answer.is_success, answer.text
        return str(answer.json().get("id"))


Maker = Callable[[Neighbour], Awaitable[Name]]


def _missing_id() -> str:
    return str(uuid7())


def _missing_part() -> tuple[str, str]:
    return _missing_id(), _missing_id()


# For every path with a parameter: how the neighbour makes such a thing, so that every method of
# the path works on it, and a name nobody has.
THINGS: dict[str, tuple[Maker, Callable[[], Name]]] = {
    "/api/auth/logins/{login_id}": (Neighbour.login, _missing_id),
    "/api/tenants/{tenant_id}": (Neighbour.tenant, _missing_id),
    "/api/members/{user_id}": (Neighbour.member, _missing_id),
    "/api/invitations/{invitation_id}": (Neighbour.invitation, _missing_id),
    "/api/keys/{key_id}": (Neighbour.key, _missing_id),
    "/api/vault/{name}": (Neighbour.secret, lambda: f"SECRET_{uuid7().hex}"),
    "/api/objects/{key}": (Neighbour.object, lambda: f"reports/{uuid7().hex}.txt"),
    "/api/models/providers/{provider_id}": (Neighbour.provider, _missing_id),
    "/api/models/providers/{provider_id}/test": (Neighbour.provider, _missing_id),
    "/api/models/providers/{provider_id}/models": (Neighbour.provider, _missing_id),
    "/api/models/prices/{price_id}": (Neighbour.price, _missing_id),
    "/api/budgets/{budget_id}": (Neighbour.budget, _missing_id),
    "/api/usage/calls/{call_id}": (Neighbour.call, _missing_id),
    "/api/platform/tenants/{tenant_id}": (Neighbour.tenant, _missing_id),
    "/api/sessions/{session_id}": (Neighbour.session, _missing_id),
    "/api/sessions/{session_id}/run": (Neighbour.session, _missing_id),
    "/api/sessions/{session_id}/pause": (Neighbour.queued_session, _missing_id),
    "/api/sessions/{session_id}/resume": (Neighbour.paused_session, _missing_id),
    "/api/sessions/{session_id}/cancel": (Neighbour.queued_session, _missing_id),
    "/api/sessions/{session_id}/continue": (Neighbour.ended_session, _missing_id),
    "/api/sessions/{session_id}/live": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/steps": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/steps/{seq}": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/steps/{seq}/whole": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/checkpoints": (Neighbour.queued_session, _missing_id),
    "/api/sessions/{session_id}/rollback": (Neighbour.ended_session, _missing_id),
    "/api/sessions/{session_id}/fork": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/files": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/files/content": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/files/diff": (Neighbour.worked_session, _missing_id),
    "/api/sessions/{session_id}/cost": (Neighbour.session, _missing_id),
    "/api/checkpoints/{checkpoint_id}/restore": (Neighbour.checkpoint, _missing_id),
    "/api/approvals/{approval_id}": (Neighbour.approval, _missing_id),
    "/api/approvals/{approval_id}/approve": (Neighbour.approval, _missing_id),
    "/api/approvals/{approval_id}/reject": (Neighbour.approval, _missing_id),
    "/api/chains/{chain_id}": (Neighbour.chain, _missing_id),
    "/api/chains/{chain_id}/run": (Neighbour.chain, _missing_id),
    "/api/chains/{chain_id}/cancel": (Neighbour.chain, _missing_id),
    "/api/chains/{chain_id}/retry": (Neighbour.ended_chain, _missing_id),
    "/api/tools/policies/{policy_id}": (Neighbour.policy, _missing_id),
    "/api/teams/{team_id}": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/leader": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/workers/{name}": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/export": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/logs": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/deploy": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/stop": (Neighbour.deployed_team, _missing_id),
    "/api/teams/{team_id}/restart": (Neighbour.deployed_team, _missing_id),
    "/api/teams/{team_id}/chat": (Neighbour.team, _missing_id),
    "/api/teams/{team_id}/messages": (Neighbour.deployed_team, _missing_id),
    "/api/teams/{team_id}/messages/{message_id}": (Neighbour.message, _missing_part),
    "/api/teams/{team_id}/messages/{message_id}/cancel": (Neighbour.message, _missing_part),
    # One that has not ended would be waited for.
    "/api/teams/{team_id}/messages/{message_id}/wait": (Neighbour.ended_message, _missing_part),
    "/api/team-templates/{template_id}/create": (Neighbour.template, _missing_id),
    "/api/schedules/{schedule_id}": (Neighbour.schedule, _missing_id),
    "/api/schedules/{schedule_id}/pause": (Neighbour.schedule, _missing_id),
    "/api/schedules/{schedule_id}/resume": (Neighbour.schedule, _missing_id),
    "/api/schedules/{schedule_id}/run": (Neighbour.schedule, _missing_id),
    "/api/schedules/{schedule_id}/runs": (Neighbour.schedule, _missing_id),
    "/api/webhooks/{webhook_id}": (Neighbour.webhook, _missing_id),
    "/api/webhooks/{webhook_id}/rotate": (Neighbour.webhook, _missing_id),
    "/api/webhooks/{webhook_id}/runs": (Neighbour.webhook, _missing_id),
    "/api/hooks/{token}": (Neighbour.hook, lambda: new_token(HOOK, TenantId(uuid7())).text),
    "/api/runs/{run_id}": (Neighbour.run, _missing_id),
    "/api/runs/{run_id}/deliveries": (Neighbour.run, _missing_id),
    "/api/post-actions/{post_action_id}": (Neighbour.post_action, _missing_id),
}
# Parameters that name a part of a thing: one that each of the neighbour's things has.
_PARTS = {"seq": "2", "name": WORKER}


def path_values(path: str, name: Name) -> dict[str, str]:
    """The path's parameters for one thing; what it does not name is a part that all such have."""
    parameters = re.findall(r"{(\w+)}", path)
    names = (name,) if isinstance(name, str) else name
    parts = [_PARTS[part] for part in parameters[len(names) :]]
    return dict(zip(parameters, [*names, *parts], strict=True))
