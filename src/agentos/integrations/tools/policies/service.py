"""Tool policies: what a tenant's sessions may use, and what a person has to approve first."""

from __future__ import annotations

from uuid import UUID

from agentos.contracts.events import ToolPolicyRemoved, ToolPolicySet
from agentos.integrations.tools.built_in import DEFAULT_TOOLS, built_in_tools
from agentos.integrations.tools.policies import repository
from agentos.integrations.tools.policies.deciding import Decision, Policies, decide
from agentos.integrations.tools.policies.schemas import (
    ToolList,
    ToolPolicyPut,
    ToolPolicyRead,
    ToolRead,
)
from agentos.kernel.database import Transaction
from agentos.kernel.errors import AgentOSError, Kind, NotFound
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_RESOURCE = "tool_policies"
# Every session reads all of them; nobody decides about more tools one by one.
_MOST = 500


class TooManyToolPolicies(AgentOSError):
    """There are as many tool policies as there can be."""

    code = "too_many_tool_policies"
    kind = Kind.LIMITED
    hint = "Use a pattern such as mcp__github__*, or remove some."


async def policies_of(tx: Transaction, tenant_id: TenantId) -> Policies:
    """A tenant's decisions by subject, for `decide`."""
    rows = await repository.decisions(tx, tenant_id)
    return {row["subject"]: Decision(row["decision"]) for row in rows}


async def list_tools(work: Work) -> ToolList:
    """The built-in tools, each with what the tenant has decided about it."""
    work.require(Scope.TOOLS_READ)
    policies = await policies_of(work.tx, work.tenant_id)
    return ToolList(
        items=[
            ToolRead(
                name=tool.spec.name,
                description=tool.spec.description,
                tier=tool.spec.tier,
                repeat=tool.spec.repeat,
                default=tool.spec.name in DEFAULT_TOOLS,
                decision=decide(policies, tool.spec),
                arguments=dict(tool.spec.schema),
            )
            for tool in built_in_tools().values()
        ]
    )


async def list_policies(work: Work, page: PageRequest) -> RowPage[ToolPolicyRead]:
    work.require(Scope.TOOLS_READ)
    rows = await repository.policies(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(ToolPolicyRead, rows)


async def set_policy(work: Work, body: ToolPolicyPut) -> ToolPolicyRead:
    """Sets or changes a decision. Setting it to what it is changes and announces nothing."""
    work.require(Scope.TOOLS_WRITE)
    # Two sets at once take turns: each records the decision that was there before it.
    await work.hold(_RESOURCE)
    there = await repository.of_subject(work.tx, work.tenant_id, body.subject)
    if there is not None and there["decision"] == body.decision:
        return ToolPolicyRead(**there)
    if there is None and await repository.count(work.tx, work.tenant_id) >= _MOST:
        raise TooManyToolPolicies()
    row = await repository.upsert(
        work.tx,
        work.tenant_id,
        uuid7(),
        body.subject,
        body.decision,
        work.principal.name,
        work.now(),
    )
    await work.record(
        "tool.policy_set",
        ToolPolicySet(subject=body.subject, decision=body.decision),
        target=("tool_policy", row["id"]),
        before=None if there is None else _shown(there["subject"], there["decision"]),
        after=_shown(body.subject, body.decision),
    )
    return ToolPolicyRead(**row)


async def remove_policy(work: Work, policy_id: UUID) -> None:
    """Removes a decision; the next less specific one, or the default, holds again."""
    work.require(Scope.TOOLS_WRITE)
    await work.hold(_RESOURCE)
    row = await repository.delete(work.tx, work.tenant_id, policy_id)
    if row is None:
        raise NotFound()
    await work.record(
        "tool.policy_removed",
        ToolPolicyRemoved(subject=row["subject"]),
        target=("tool_policy", policy_id),
        before=_shown(row["subject"], row["decision"]),
    )


def _shown(subject: str, decision: str) -> dict[str, str]:
    return {"subject": subject, "decision": decision}
