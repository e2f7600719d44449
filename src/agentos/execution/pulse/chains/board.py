"""The board of a chain: where each node stands, and what may happen to it next. Nothing here waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from agentos.contracts.events import (
    ChainNodeCompleted,
    ChainNodeFailed,
    ChainNodeSkipped,
    Event,
)
from agentos.execution.pulse.chains.plans import Plan, PlannedNode
from agentos.execution.pulse.chains.schemas import NodeState
from agentos.execution.pulse.states import ENDED, State

# The row of a node itself; those of its items are counted from 0.
WHOLE = -1

Prospect = Literal["wait", "ready"]


@dataclass
class Row:
    """A row of `chain_nodes`, with what its session says."""

    node: str
    item: int
    state: NodeState
    tries: int = 0
    session_id: UUID | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    session_state: str | None = None
    session_error: str | None = None
    session_code: str | None = None
    # What is to be written.
    changed: bool = False
    takes_output: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state not in ("PENDING", "RUNNING")


@dataclass
class Board:
    chain_id: UUID
    plan: Plan
    now: datetime
    rows: dict[str, Row] = field(default_factory=dict)
    # Items that have not completed; of those that have, only how many there are.
    items: dict[str, list[Row]] = field(default_factory=dict)
    complete_items: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def all_rows(self) -> Iterator[Row]:
        for node in self.plan.nodes:
            yield self.rows[node]
            yield from self.items.get(node, ())

    @property
    def has_ended(self) -> bool:
        return all(row.has_ended for row in self.rows.values())

    def failures(self) -> list[Row]:
        """Nodes whose failure is the chain's."""
        return [row for row in self.rows.values() if self._is_bad(row)]

    # What sessions have come to ----------------------------------------------------------------

    def settle(self) -> None:
        """Takes over what the sessions of nodes have come to."""
        for row in list(self.all_rows()):
            if row.session_id is None:
                continue
            if row.state == "RUNNING":
                self._settle_running(row)
            elif row.state == "FAILED" and row.session_state in _GOES_ON:
                self._revive(row)
        for node in self.plan.nodes.values():
            if node.fans_out:
                self.settle_items(node)

    def _settle_running(self, row: Row) -> None:
        if row.session_state == State.COMPLETE:
            self.complete(row, takes_output=True)
        elif row.session_state is None:
            self.fail(row, "Its session is gone.")
        elif row.session_state in ENDED:
            reason = row.session_error or f"Its session is {row.session_state}."
            retry = self.plan.nodes[row.node].config.retry
            # What a person has ended is not to come back by itself.
            if row.tries <= retry.times and row.session_code != "cancelled":
                self._to(row, "PENDING", error=reason, ended=True)
            else:
                self.fail(row, reason)

    def _revive(self, row: Row) -> None:
        """Somebody has gone on with a session that had failed: it counts again, and what it held up."""
        if row.session_state == State.COMPLETE:
            self.complete(row, takes_output=True)
        else:
            self._to(row, "RUNNING")
        if row.item != WHOLE:
            self._to(self.rows[row.node], "RUNNING")
        for node in self.plan.after([row.node]) - {row.node}:
            if self.rows[node].state == "SKIPPED":
                self._to(self.rows[node], "PENDING")

    def settle_items(self, node: PlannedNode) -> None:
        """Ends a node once all of its items have ended."""
        row, items = self.rows[node.id], self.items.get(node.id, [])
        if row.state != "RUNNING" or not all(item.has_ended for item in items):
            return
        failed = [item for item in items if item.state == "FAILED"]
        if failed:
            total = len(items) + self.complete_items.get(node.id, 0)
            self.fail(row, f"{len(failed)} of {total} items failed: {failed[0].error}")
        else:
            self.complete(row)

    # What nodes may do -------------------------------------------------------------------------

    def prospect(self, node: PlannedNode) -> Prospect | str:
        """Whether a node waits or may run; otherwise why it never will."""
        needs = [self.rows[need] for need in node.needs]
        held_up = [row for row in needs if self._is_bad(row) or row.state in _NEVER]
        if node.config.join == "any" and needs:
            if not all(row.has_ended for row in needs):
                return "wait"
            return "ready" if len(held_up) < len(needs) else "None of what it needs was done."
        if held_up:
            first = held_up[0]
            return f"It needs {first.node}, which {_BECAME[first.state]}."
        return "ready" if all(row.has_ended for row in needs) else "wait"

    def may_try_at(self, row: Row) -> datetime:
        """When a pending row may be started: at once, unless it failed a moment ago."""
        if row.tries == 0 or row.finished_at is None:
            return self.now
        delay = self.plan.nodes[row.node].config.retry.delay_seconds
        return max(self.now, row.finished_at + timedelta(seconds=delay))

    def running_items(self, node: PlannedNode) -> int:
        return sum(row.state == "RUNNING" for row in self.items.get(node.id, ()))

    # Changes -----------------------------------------------------------------------------------

    def start(self, row: Row, session_id: UUID) -> None:
        self._to(row, "RUNNING")
        row.tries += 1
        row.session_id, row.session_state = session_id, State.QUEUED

    def expand(self, node: PlannedNode, count: int) -> None:
        """Gives a node its items."""
        self.items[node.id] = [Row(node.id, item, "PENDING") for item in range(count)]
        self._to(self.rows[node.id], "RUNNING")

    def complete(self, row: Row, *, takes_output: bool = False) -> None:
        self._to(row, "COMPLETE", ended=True)
        row.takes_output = takes_output
        self.events.append(ChainNodeCompleted(chain_id=self.chain_id, node=row.node, item=row.item))

    def fail(self, row: Row, reason: str) -> None:
        self._to(row, "FAILED", error=reason, ended=True)
        self.events.append(
            ChainNodeFailed(chain_id=self.chain_id, node=row.node, item=row.item, error=reason)
        )

    def skip(self, row: Row, reason: str) -> None:
        self._to(row, "SKIPPED", error=reason, ended=True)
        self.events.append(ChainNodeSkipped(chain_id=self.chain_id, node=row.node))

    def _to(
        self, row: Row, state: NodeState, *, error: str | None = None, ended: bool = False
    ) -> None:
        row.state, row.error, row.changed = state, error, True
        row.finished_at = self.now if ended else None
        if state == "RUNNING":
            row.started_at = row.started_at or self.now

    def _is_bad(self, row: Row) -> bool:
        return row.state == "FAILED" and self.plan.nodes[row.node].config.on_fail == "fail"


_NEVER = ("SKIPPED", "CANCELLED")
_BECAME = {"FAILED": "failed", "SKIPPED": "was skipped", "CANCELLED": "was cancelled"}
# States of a session in which it may yet come to something.
_GOES_ON = frozenset(set(State) - {State.FAILED, State.ROLLED_BACK})
