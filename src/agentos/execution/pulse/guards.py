"""Guards: what ends a session that does not end by itself."""

from __future__ import annotations

from collections import Counter

from agentos.execution.pulse import outputs
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.run import Run

# How far back a circle is looked for, in rounds of as many calls as may repeat.
_ROUNDS = 10


async def reached(run: Run) -> tuple[str, str] | None:
    """The limit that keeps the model from being asked again: an error code, and the reason."""
    guards, turns = run.config.guards, run.session.turns
    if outputs.tries_so_far(run) >= outputs.MOST_TRIES:
        return "bad_output", (
            f"It gave no valid output in {outputs.MOST_TRIES} tries. {outputs.last_problem(run)}"
        )
    if turns >= guards.max_turns:
        return "turn_limit", f"It took {turns} turns, as many as it may (guards.max_turns)."
    if guards.max_tokens is not None and (used := await tokens_so_far(run)) >= guards.max_tokens:
        return "token_limit", (
            f"It used {used} tokens; it may use {guards.max_tokens} (guards.max_tokens)."
        )
    return None


async def tokens_so_far(run: Run) -> int:
    """The tokens since the session was made or last continued, those that a rollback undid included."""
    since = _continued_at(run)
    if not any(step.kind == "rollback" and step.seq > since for step in run.path):
        return sum(s.input_tokens + s.output_tokens for s in run.path if s.seq > since)
    session = run.session
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        used: int = await tx.value(
            """select coalesce(sum(input_tokens + output_tokens), 0)::bigint from steps
               where tenant_id = $1 and session_id = $2 and seq > $3""",
            session.tenant_id,
            session.id,
            since,
        )
    return used


def _continued_at(run: Run) -> int:
    """The step with which it was last put back to work: it keeps the count of turns until then."""
    return max(
        (s.seq for s in run.path if s.kind == "state" and "turns" in (s.input or {})), default=0
    )


def repeats_itself(run: Run) -> bool:
    """Whether it goes in circles: the newest call had the same answer too often before, and since
    the first of those times it did nothing that it did only once.
    """
    times = run.config.guards.max_repeats + 1
    shapes = [_shape(step) for step in _since_spoken_to(run)][-_ROUNDS * times :]
    if not shapes:
        return False
    same = [n for n, shape in enumerate(shapes) if shape == shapes[-1]]
    if len(same) < times:
        return False
    since = Counter(shapes[same[-times] :])
    return all(count > 1 for count in since.values())


def loop_reason(run: Run) -> str:
    last = next(step for step in reversed(run.path) if step.kind == "tool")
    times = run.config.guards.max_repeats + 1
    return (
        f"It goes in circles: it used {last.name} {times} times in the same way, with the same "
        "answer, and did nothing new in between (guards.max_repeats)."
    )


def _since_spoken_to(run: Run) -> list[Step]:
    """The tools it used since somebody told it something: that may be a reason to do it again."""
    used: list[Step] = []
    for step in reversed(run.path):
        if step.kind == "message":
            break
        if step.kind == "tool":
            used.append(step)
    return used[::-1]


def _shape(step: Step) -> str:
    """The same for the same call with the same answer."""
    output = step.output
    return repr((step.name, step.input["arguments"], output["text"], output["failed"]))
