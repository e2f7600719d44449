"""Advances chains: takes over what sessions came to, starts what can start, ends what has ended.

One transaction for each advance, under the lock of the chain's row. Whoever changes something that
matters to a chain sets its `due_at` in the same transaction, and only an advance that committed
clears it; so a worker may die anywhere, and any other goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
from pydantic import ValidationError

from agentos.contracts.events import ChainCompleted, ChainFailed
from agentos.execution.pulse.chains import repository
from agentos.execution.pulse.chains.board import Board, Row
from agentos.execution.pulse.chains.errors import BadExpression, BadNode
from agentos.execution.pulse.chains.expressions import Expression, Template
from agentos.execution.pulse.chains.hints import CHAINS_SUBJECT
from agentos.execution.pulse.chains.plans import Plan, PlannedNode, plan_of, restored
from agentos.execution.pulse.chains.repository import Chain
from agentos.execution.pulse.chains.starting import config_of, start_session
from agentos.execution.pulse.parts import WAKE_SUBJECT, PulseParts
from agentos.kernel.bus import Message
from agentos.kernel.errors import AgentOSError, Invalid, Unavailable
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.tenancy.principals import Principal, PrincipalKind, Scope
from agentos.tenancy.work import Work

log = get_logger(__name__)

# Sessions that one transaction starts; the rest follows in the next one, after other chains.
BATCH = 25
MOST_ITEMS = 1_000
_CHAINS_AT_ONCE = 20
# A hint that got lost delays a chain by this much at most.
_POLL_SECONDS = 0.5
# Between two looks, however many hints come: every session that ends is one.
_BREATH_SECONDS = 0.02
# After an error that was not foreseen, so that a chain that breaks does not keep a worker busy.
_POSTPONED = timedelta(seconds=10)


async def keep_advancing(parts: PulseParts) -> None:
    """Advances whatever chain is due, of any tenant, until cancelled. For every worker."""
    woken = asyncio.Event()
    async with _listening(parts, woken):
        while True:
            woken.clear()
            advanced = 0
            try:
                advanced = await advance_due(parts)
            except (AgentOSError, asyncpg.PostgresError) as error:
                log.warning("chains cannot be advanced right now", error=repr(error))
            if not advanced:
                # Not wait_for: it loses a cancellation that comes together with the wake-up.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await woken.wait()
                        await asyncio.sleep(_BREATH_SECONDS)


@asynccontextmanager
async def _listening(parts: PulseParts, woken: asyncio.Event) -> AsyncIterator[None]:
    async def wake(_: Message) -> None:
        woken.set()

    # A session that ends wakes the queue; what it belongs to may go on.
    subjects = (CHAINS_SUBJECT, WAKE_SUBJECT)
    subscriptions = [await parts.bus.subscribe(subject, wake) for subject in subjects]
    try:
        yield
    finally:
        for subscription in subscriptions:
            with suppress(AgentOSError):
                await subscription.unsubscribe()


async def advance_due(parts: PulseParts) -> int:
    """Advances the chains that are due, each once; returns how many."""
    advanced = 0
    now = parts.clock.now()
    for tenant_id, chain_id in await repository.due(parts.platform_db, now, _CHAINS_AT_ONCE):
        try:
            advanced += await advance(parts, TenantId(tenant_id), chain_id)
        except (Unavailable, asyncpg.DeadlockDetectedError) as error:
            log.warning("a chain waits", chain=str(chain_id), error=repr(error))
        except Exception:
            # A process edge: one chain that breaks must not hold up the others.
            log.exception("a chain broke", chain=str(chain_id))
            async with parts.db.transaction(tenant_id=tenant_id) as tx:
                await repository.postpone(tx, tenant_id, chain_id, now + _POSTPONED)
    return advanced


async def advance(parts: PulseParts, tenant_id: TenantId, chain_id: UUID) -> bool:
    """Brings a chain as far as it gets now. False: it is not due, or somebody else is at it."""
    async with parts.db.transaction(tenant_id=tenant_id) as tx:
        now = parts.clock.now()
        chain = await repository.lock_due(tx, tenant_id, chain_id, now)
        if chain is None:
            return False
        work = Work(tx, _principal(chain), parts.outbox, parts.clock)
        try:
            plan = plan_of(restored(chain.definition))
        except (ValidationError, Invalid) as error:
            # It was valid when it was made; an update of AgentOS may have outdated it.
            await repository.cancel_nodes(tx, chain, now)
            await _fail(work, chain, f"This AgentOS cannot read the chain any more: {error}")
            return True
        board = await repository.load_board(tx, chain, plan, now)
        advancing = _Advancing(work, chain, plan, board)
        await advancing.run()
        if advancing.started:
            tx.after_commit(parts.wake)
    return True


def _principal(chain: Chain) -> Principal:
    """Whoever made the chain, as far as its sessions go."""
    return Principal(
        kind=PrincipalKind(chain.principal_kind),
        id=chain.principal_id,
        name=chain.created_by,
        tenant_id=chain.tenant_id,
        scopes=frozenset({Scope.SESSIONS_READ, Scope.SESSIONS_WRITE}),
        plan=chain.plan,
    )


@dataclass
class _Advancing:
    """One advance of one chain, in its transaction."""

    work: Work
    chain: Chain
    plan: Plan
    board: Board
    started: int = 0
    # When there is more to do that no session's end will tell of.
    again_at: datetime | None = None
    _outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def run(self) -> None:
        tx, chain, board = self.work.tx, self.chain, self.board
        board.settle()
        # First: what follows reads the outputs from there.
        await self._save()
        for node in self.plan.nodes.values():
            await self._take_up(node)
        await self._save()
        if board.has_ended:
            await self._finish()
        else:
            await repository.set_due(tx, chain, self.again_at, board.now)

    async def _save(self) -> None:
        """Writes what has changed so far, and announces it."""
        tx, chain, board = self.work.tx, self.chain, self.board
        await repository.save(tx, chain, board.all_rows())
        await self.work.outbox.announce(tx, chain.tenant_id, board.now, *board.events)
        board.events.clear()

    async def _take_up(self, node: PlannedNode) -> None:
        row = self.board.rows[node.id]
        if row.state == "PENDING":
            await self._decide(node, row)
        if node.fans_out and row.state == "RUNNING":
            await self._start_items(node)

    async def _decide(self, node: PlannedNode, row: Row) -> None:
        prospect = self.board.prospect(node)
        if prospect == "wait":
            return
        if prospect != "ready":
            self.board.skip(row, prospect)
            return
        try:
            context = await self._context(node)
            if node.when is not None and not node.when.is_true(context):
                self.board.skip(row, f"Its condition is not true: {node.when.text}")
            elif node.fans_out:
                await self._expand(node, context)
            elif self._may_start(row):
                await self._start(node, row, context)
        except (BadExpression, BadNode) as error:
            self.board.fail(row, error.message)

    async def _expand(self, node: PlannedNode, context: Mapping[str, Any]) -> None:
        items = node.for_each
        if isinstance(items, Expression):
            items = items.value(context)
        if not isinstance(items, list):
            raise BadNode(f"nodes.{node.id}.for_each: this is {_kind(items)}, not a list.")
        if len(items) > MOST_ITEMS:
            raise BadNode(
                f"nodes.{node.id}.for_each: {len(items):,} items; {MOST_ITEMS:,} is the most."
            )
        await repository.add_items(self.work.tx, self.chain, node.id, items)
        self.board.expand(node, len(items))

    async def _start_items(self, node: PlannedNode) -> None:
        board = self.board
        room = node.config.max_parallel - board.running_items(node)
        pending = [row for row in board.items.get(node.id, ()) if row.state == "PENDING"]
        startable: list[Row] = []
        for row in pending:
            # Those over the limit are started when one of the others ends.
            if len(startable) >= room:
                break
            if self._may_start(row, len(startable)):
                startable.append(row)
        if startable:
            context = await self._context(node)
            numbers = [row.item for row in startable]
            values = await repository.item_values(self.work.tx, self.chain, node.id, numbers)
            for row in startable:
                inner = {**context, "item": values[row.item], "index": row.item}
                try:
                    await self._start(node, row, inner)
                except (BadExpression, BadNode) as error:
                    board.fail(row, error.message)
                    # Its place is free, and nobody else will say so.
                    self._again(board.now)
        board.settle_items(node)

    def _may_start(self, row: Row, besides: int = 0) -> bool:
        """Whether a row that is ready can be started in this transaction; notes when otherwise."""
        at = self.board.may_try_at(row)
        if at <= self.board.now and self.started + besides < BATCH:
            return True
        self._again(at)
        return False

    def _again(self, at: datetime) -> None:
        self.again_at = at if self.again_at is None else min(self.again_at, at)

    async def _start(self, node: PlannedNode, row: Row, context: Mapping[str, Any]) -> None:
        config = config_of(node, row, context)
        snapshot_id = None
        if node.config.files_from is not None:
            source = self.board.rows[node.config.files_from]
            snapshot_id = await repository.snapshot_of(
                self.work.tx, self.chain.tenant_id, source.session_id
            )
        definition = self.plan.definition
        session_id = await start_session(
            self.work,
            self.chain,
            row,
            config,
            priority=definition.priority,
            team_id=definition.team_id,
            snapshot_id=snapshot_id,
        )
        self.board.start(row, session_id)
        self.started += 1

    async def _context(self, node: PlannedNode) -> dict[str, Any]:
        return await self._seen(node.needs)

    async def _seen(self, nodes: tuple[str, ...]) -> dict[str, Any]:
        """What expressions see: the inputs, and these nodes."""
        unread = [name for name in nodes if name not in self._outcomes]
        if unread:
            # What this advance has decided is not written yet.
            await self._save()
            found = await repository.outcomes(self.work.tx, self.chain, unread)
            self._outcomes |= {
                name: _gathered(seen) if self.plan.nodes[name].fans_out else seen
                for name, seen in found.items()
            }
        return {
            "inputs": self.chain.inputs,
            "nodes": {name: self._outcomes[name] for name in nodes},
        }

    async def _finish(self) -> None:
        failures = self.board.failures()
        if failures:
            first = failures[0]
            await _fail(self.work, self.chain, f"{first.node} failed: {first.error}")
            return
        try:
            output = await self._output()
        except BadExpression as error:
            await _fail(self.work, self.chain, error.message)
            return
        await repository.finish(self.work.tx, self.chain, "COMPLETE", self.board.now, output=output)
        await self.work.record(
            "chain.completed",
            ChainCompleted(chain_id=self.chain.id),
            target=("chain", self.chain.id),
        )

    async def _output(self) -> Any:
        rule = self.plan.output
        if rule is None:
            seen = await self._seen(tuple(self.plan.leaves))
            return {name: node["output"] for name, node in seen["nodes"].items()}
        context = await self._seen(tuple(self.plan.nodes))
        return rule.render(context) if isinstance(rule, Template) else rule.value(context)


async def _fail(work: Work, chain: Chain, reason: str) -> None:
    await repository.finish(work.tx, chain, "FAILED", work.now(), error=reason)
    await work.record(
        "chain.failed",
        ChainFailed(chain_id=chain.id, error=reason),
        target=("chain", chain.id),
        after={"error": reason},
    )


def _gathered(seen: dict[str, Any]) -> dict[str, Any]:
    """What a node with for_each came to: that of its items."""
    items = seen["items"]
    texts = [item["text"] for item in items if item["text"]]
    return {**seen, "output": [item["output"] for item in items], "text": "\n\n".join(texts)}


def _kind(value: object) -> str:
    names = {dict: "a mapping", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
