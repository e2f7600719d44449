"""Chains: create, check, run, cancel, retry; and what there is to see of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agentos.contracts.events import ChainCancelled, ChainCreated, ChainStarted
from agentos.execution.pulse.chains import repository
from agentos.execution.pulse.chains.board import WHOLE
from agentos.execution.pulse.chains.errors import BadNode, ChainBusy, ChainNotFound, UnknownNode
from agentos.execution.pulse.chains.hints import chain_is_due
from agentos.execution.pulse.chains.plans import (
    Plan,
    check_given,
    checked_values,
    plan_of,
    restored,
    stored,
)
from agentos.execution.pulse.chains.repository import Chain
from agentos.execution.pulse.chains.schemas import (
    ChainChecked,
    ChainCreate,
    ChainDefinition,
    ChainDetails,
    ChainRead,
    ChainRetry,
    ChainState,
    ItemRead,
    NodeRead,
)
from agentos.execution.pulse.configs import (
    PATTERN_SECONDS,
    check_storable,
    checked_but_patterns,
    patterns_of,
)
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.journal import Session
from agentos.execution.pulse.service import end_session, locked
from agentos.execution.pulse.states import ENDED
from agentos.integrations.workspaces.errors import BadPattern, SearchTooSlow
from agentos.integrations.workspaces.search import check_patterns
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_LAST = UUID(int=2**128 - 1)
# What the fault of a node's configuration may be; anything else is no fault of the chain.
_FAULTS = (Kind.INVALID, Kind.NOT_FOUND)


async def create_chain(work: Work, front: PulseFront, body: ChainCreate) -> ChainDetails:
    """A new chain, running unless the caller wants to run it later."""
    work.require(Scope.SESSIONS_WRITE)
    plan = await _checked_plan(work, front, body)
    values = checked_values(plan, body.values)
    chain_id, principal = uuid7(), work.principal
    await repository.insert(
        work.tx,
        work.tenant_id,
        chain_id,
        name=body.name,
        definition=stored(body),
        inputs=values,
        nodes=list(plan.nodes),
        principal=(principal.kind, principal.id, principal.name),
        run=body.run,
        now=work.now(),
    )
    events: list[ChainCreated | ChainStarted] = [ChainCreated(chain_id=chain_id, name=body.name)]
    if body.run:
        events.append(ChainStarted(chain_id=chain_id))
        _hint(work, front)
    await work.record(
        "chain.created", *events, target=("chain", chain_id), after={"name": body.name}
    )
    return await _details(work, chain_id)


async def check_chain(work: Work, front: PulseFront, body: ChainCreate) -> ChainChecked:
    """Says whether a chain is valid, and in which order it would run; makes nothing."""
    work.require(Scope.SESSIONS_WRITE)
    plan = await _checked_plan(work, front, body)
    check_given(plan, body.values)
    return ChainChecked(
        name=body.name,
        layers=[list(layer) for layer in plan.layers],
        needs={node.id: list(node.needs) for node in plan.nodes.values()},
        missing_inputs=plan.missing_inputs(body.values),
    )


async def _checked_plan(work: Work, front: PulseFront, definition: ChainDefinition) -> Plan:
    check_storable(definition.model_dump(mode="python"))
    plan = plan_of(definition)
    for node in plan.nodes.values():
        try:
            await checked_but_patterns(work, front, node.config)
        except AgentOSError as error:
            if error.kind not in _FAULTS:
                raise
            raise _bad_node(node.id, "", error) from error
    await _check_patterns(plan)
    return plan


async def _check_patterns(plan: Plan) -> None:
    """All of them at once: each by itself would take a process, and a chain has thousands."""
    found = [
        (node.id, where, pattern)
        for node in plan.nodes.values()
        for where, pattern in patterns_of(node.config)
    ]
    try:
        await check_patterns([pattern for _, _, pattern in found], PATTERN_SECONDS)
    except BadPattern as error:
        node_id, where, _ = found[error.details["number"]]
        raise _bad_node(node_id, f"{where}: ", error) from error
    except SearchTooSlow as error:
        raise BadPattern(f"The patterns of its gates: {error.message}") from error


def _bad_node(node_id: str, where: str, error: AgentOSError) -> BadNode:
    return BadNode(
        f"nodes.{node_id}: {where}{error.message}",
        hint=error.advice,
        node=node_id,
        reason=error.code,
    )


async def list_chains(
    work: Work, page: PageRequest, *, state: ChainState | None = None
) -> RowPage[ChainRead]:
    """The chains of the tenant, newest first."""
    work.require(Scope.SESSIONS_READ)
    before = page.after_id if page.after is not None else _LAST
    rows = await repository.page(work.tx, work.tenant_id, state, before, page.limit + 1)
    return page.of(ChainRead, rows)


async def read_chain(work: Work, chain_id: UUID) -> ChainDetails:
    work.require(Scope.SESSIONS_READ)
    return await _details(work, chain_id)


async def run_chain(work: Work, front: PulseFront, chain_id: UUID) -> ChainDetails:
    """Runs a chain that was only created."""
    work.require(Scope.SESSIONS_WRITE)
    chain = await _locked(work, chain_id)
    if chain.state != "CREATED":
        raise ChainBusy(
            f"The chain was told to run before; it is {chain.state}.",
            hint="To run nodes again, retry it.",
        )
    await _run(work, front, chain)
    await work.record("chain.run", target=("chain", chain_id))
    return await _details(work, chain_id)


async def cancel_chain(work: Work, front: PulseFront, chain_id: UUID) -> ChainDetails:
    """Ends a chain and its sessions at once, whatever they are at."""
    work.require(Scope.SESSIONS_WRITE)
    chain, sessions = await _locked_with_sessions(work, chain_id)
    if chain.finished_at is not None:
        raise ChainBusy(f"The chain is {chain.state} already.")
    reason = f"{work.principal.name} cancelled its chain."
    for session in sessions:
        if session.state not in ENDED:
            await end_session(work, front, session, "cancelled", reason)
    now = work.now()
    await repository.cancel_nodes(work.tx, chain, now)
    await repository.finish(
        work.tx, chain, "CANCELLED", now, error=f"{work.principal.name} cancelled it."
    )
    await work.record(
        "chain.cancelled", ChainCancelled(chain_id=chain_id), target=("chain", chain_id)
    )
    return await _details(work, chain_id)


async def retry_chain(
    work: Work, front: PulseFront, chain_id: UUID, body: ChainRetry
) -> ChainDetails:
    """Runs a node and all after it again, or all that has failed; earlier outputs stay."""
    work.require(Scope.SESSIONS_WRITE)
    chain = await _locked(work, chain_id)
    if chain.state == "CREATED":
        raise ChainBusy("The chain has not run yet.", hint="Run it.")
    plan = plan_of(restored(chain.definition))
    board = await repository.load_board(work.tx, chain, plan, work.now())
    if body.node is None:
        failed = [row.node for row in board.rows.values() if row.state in ("FAILED", "CANCELLED")]
        if not failed:
            raise ChainBusy("Nothing in the chain has failed.", hint="Name a node to run again.")
    elif body.node in plan.nodes:
        failed = [body.node]
    else:
        raise UnknownNode(f"The chain has no node {body.node}.")
    again = plan.after(failed)
    busy = [node for node in plan.nodes if node in again and board.rows[node].state == "RUNNING"]
    if busy:
        raise ChainBusy(
            f"{busy[0]} is running.", hint="Wait until it has ended, or cancel the chain."
        )
    await _reset(work, chain, plan, again, keep_items=set(failed) if body.node is None else set())
    await _run(work, front, chain)
    await work.record("chain.retried", target=("chain", chain_id), after={"nodes": sorted(again)})
    return await _details(work, chain_id)


async def _reset(
    work: Work, chain: Chain, plan: Plan, again: set[str], keep_items: set[str]
) -> None:
    """Makes nodes ready to run; of failed ones that fan out, the items that completed stay."""
    # Only where nothing before it runs again: otherwise its list may become another.
    keeping = {
        node
        for node in keep_items
        if plan.nodes[node].fans_out and again.isdisjoint(plan.nodes[node].needs)
    }
    kept = {node for node in keeping if await repository.reopen_items(work.tx, chain, node)}
    await repository.reset_nodes(work.tx, chain, again - kept)


async def _run(work: Work, front: PulseFront, chain: Chain) -> None:
    now = work.now()
    await repository.start(work.tx, chain, now)
    if chain.state != "RUNNING":
        started = ChainStarted(chain_id=chain.id)
        await work.outbox.announce(work.tx, work.tenant_id, now, started)
    _hint(work, front)


def _hint(work: Work, front: PulseFront) -> None:
    work.tx.after_commit(lambda: chain_is_due(front.hints.bus))


async def _locked(work: Work, chain_id: UUID) -> Chain:
    chain = await repository.lock(work.tx, work.tenant_id, chain_id)
    if chain is None:
        raise ChainNotFound()
    return chain


async def _locked_with_sessions(work: Work, chain_id: UUID) -> tuple[Chain, list[Session]]:
    """A chain and its sessions that have not ended, which nobody else changes any more.

    Sessions first, as their workers do when they end: the other way round, each would wait for
    the other. A session started meanwhile is found once the chain is ours; then the chain is let
    go of, and it all begins again.
    """
    held: dict[UUID, Session] = {}
    while True:
        for session_id in await repository.open_sessions(work.tx, work.tenant_id, chain_id):
            if session_id not in held:
                held[session_id] = await locked(work, session_id)
        await work.tx.execute("savepoint chain")
        chain = await _locked(work, chain_id)
        open_now = await repository.open_sessions(work.tx, work.tenant_id, chain_id)
        if held.keys() >= set(open_now):
            return chain, list(held.values())
        await work.tx.execute("rollback to savepoint chain")


async def _details(work: Work, chain_id: UUID) -> ChainDetails:
    row = await repository.find(work.tx, work.tenant_id, chain_id)
    if row is None:
        raise ChainNotFound()
    definition = restored(row["definition"])
    plan = plan_of(definition)
    rows = await repository.shown_nodes(work.tx, work.tenant_id, chain_id)
    whole = {each["node"]: dict(each) for each in rows if each["item"] == WHOLE}
    items: dict[str, list[ItemRead]] = {}
    for each in rows:
        if each["item"] != WHOLE:
            items.setdefault(each["node"], []).append(ItemRead(**each))
    nodes = [
        NodeRead(
            **whole[node.id],
            id=node.id,
            needs=list(node.needs),
            items=items.get(node.id, []) if node.fans_out and _is_known(whole[node.id]) else None,
        )
        for node in plan.nodes.values()
    ]
    return ChainDetails(
        **dict(row) | {"definition": definition.model_dump(mode="json", exclude_unset=True)},
        pct=round(100 * row["nodes_ended"] / row["nodes_total"], 1),
        layers=[list(layer) for layer in plan.layers],
        nodes=nodes,
    )


def _is_known(row: dict[str, Any]) -> bool:
    """Whether a node has worked out what its items are."""
    return row["started_at"] is not None
