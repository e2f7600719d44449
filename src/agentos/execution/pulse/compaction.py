"""Compaction: when the conversation fills the model's context, a summary takes its place.

The last few turns stay as they were; what came before them is summed up by one call of the
session's model. The journal keeps everything: a compaction is a step, and only what the model is
told from then on is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from agentos.execution.pulse import conversation
from agentos.execution.pulse.journal import Change, Step, encoded
from agentos.execution.pulse.model_calls import Asked, ask_model, context_window, settle
from agentos.execution.pulse.prompts import SUMMARISE, SUMMARISER, summary_message
from agentos.execution.pulse.run import Run
from agentos.integrations.models.failures import ErrorClass, ModelCallFailed
from agentos.integrations.tools.outputs import ends
from agentos.kernel.errors import AgentOSError, Kind

# From here on a turn may not fit any more.
_FULL = 0.8
# What is kept as it was, at most.
_KEPT_TURNS = 4
_KEPT_SHARE = 0.25
# A summary is worth its call if it frees this share of the context.
_WORTH = 0.1
# Rough, and on the careful side: in code and in many languages a token has fewer letters.
_LETTERS_PER_TOKEN = 3
_UNKNOWN_WINDOW = 32_000
_SUMMARY_TOKENS = 4096
_LONGEST_TASK = 20_000
_LONGEST_TEXT = 4_000
_LONGEST_RESULT = 1_000


class ContextFull(AgentOSError):
    """The conversation does not fit into the model's context, and cannot be made shorter."""

    code = "context_full"
    kind = Kind.TOO_LARGE
    hint = "Use a model with a larger context, or give it a smaller task, fewer tools or files."


async def is_due(run: Run) -> bool:
    """Whether the conversation nearly fills the context, and a summary would change that."""
    window = await context_window(run)
    shown = conversation.in_context(run.path)
    newest = next((n for n in reversed(range(len(shown))) if shown[n].kind == "model"), None)
    # A turn that was kept says how full it was before, not how full it is.
    if window is None or newest is None or shown[newest].seq < _compacted_at(run):
        return False
    answer = shown[newest]
    since = sum(_tokens(step) for step in shown[newest + 1 :])
    if answer.input_tokens + answer.output_tokens + since <= window * _FULL:
        return False
    old = shown[: _first_kept(shown, window)]
    return _can_go(old) and sum(_tokens(step) for step in old) >= window * _WORTH


async def compact(run: Run) -> bool:
    """Sums up all but the last turns. If that was just done in vain, the last turns, too.

    Raises ContextFull if nothing is left to be summed up; what a model call raises.
    """
    shown = conversation.in_context(run.path)
    window = await context_window(run) or _UNKNOWN_WINDOW
    first = len(shown) if _just_compacted(run) else _first_kept(shown, window)
    if not _can_go(shown[:first]):
        first = len(shown)
    if not _can_go(shown):
        raise ContextFull()
    asked = await _summarised(run, shown[:first], window)
    text = (asked.answer.text or "").strip()
    if not text:
        settle(run, asked.booked)
        raise ContextFull("The conversation is too long, and the model gave no summary of it.")
    kept_from = shown[first].seq if first < len(shown) else run.session.seq + 1
    step = _step(run, asked, kept_from, text)
    summary = f"{first} steps of the conversation were summed up."
    await run.commit(
        Change(steps=[step], events=[run.progress(step, summary)], turns=1), booked=asked.booked
    )
    return True


def _compacted_at(run: Run) -> int:
    return next((s.seq for s in reversed(run.path) if s.kind == "compaction"), 0)


def _just_compacted(run: Run) -> bool:
    """Nothing was said since: the summary itself, with what it kept, is too long."""
    last = conversation.last_spoken(run.path)
    return last is not None and last.kind == "compaction"


def _can_go(old: Sequence[Step]) -> bool:
    """Whether there is anything to sum up that is not a summary, or the task."""
    return any(step.kind in ("model", "tool") for step in old)


def _first_kept(shown: Sequence[Step], window: int) -> int:
    """Where the last turns begin that are kept as they are."""
    first, size = len(shown), 0
    turns = [n for n, step in enumerate(shown) if step.kind == "model"]
    for n in reversed(turns[-_KEPT_TURNS:]):
        begin = n
        # What it was told just before goes with its answer. Never so far that results are parted
        # from their calls: those stand after the answer that asked for them.
        while begin > 1 and shown[begin - 1].kind == "message":
            begin -= 1
        size += sum(_tokens(step) for step in shown[begin:first])
        if size > window * _KEPT_SHARE:
            break
        first = begin
    return first


async def _summarised(run: Run, old: Sequence[Step], window: int) -> Asked:
    room = round(window * _LETTERS_PER_TOKEN * 0.5)
    transcript = _cut("\n\n".join(map(_told, old)), room)
    prompt = UserPromptPart(content=f"{SUMMARISE}\n\n<conversation>\n{transcript}\n</conversation>")
    told: list[ModelMessage] = [ModelRequest(parts=[prompt], instructions=SUMMARISER)]
    try:
        return await ask_model(
            run, run.config.model, told, ModelRequestParameters(), most_tokens=_SUMMARY_TOKENS
        )
    except ModelCallFailed as error:
        if error.error_class == ErrorClass.CONTEXT_LENGTH:
            raise ContextFull() from error
        raise


def _step(run: Run, asked: Asked, kept_from: int, summary: str) -> Step:
    text = summary_message(_task(run.path, kept_from), summary)
    usage = asked.answer.usage
    return Step(
        kind="compaction",
        name=asked.answer.model_name or run.config.model,
        at=run.parts.clock.now(),
        key=f"compaction.{run.session.seq + 1}",
        input={"kept_from": kept_from},
        output={"text": text, "summary": summary},
        call_id=asked.booked[-1][0].call_id if asked.booked else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_micros=asked.cost_micros,
        duration_ms=asked.duration_ms,
    )


def _task(path: Sequence[Step], before: int) -> str:
    """What people told it, first and last, word for word: a summary must not bend that."""
    wanted = [
        str(step.output["text"])
        for step in path
        if step.kind == "message" and step.name == "user" and step.seq < before
    ]
    return "\n\n".join(_cut(text, _LONGEST_TASK) for text in [*wanted[:1], *wanted[1:][-1:]])


def _told(step: Step) -> str:
    """A step as the summariser reads it."""
    if step.kind == "tool":
        return f"[result of {step.name}] {_cut(step.output['text'], _LONGEST_RESULT)}"
    if step.kind == "compaction":
        return f"[summary of what was before] {step.output['summary']}"
    if step.kind == "message":
        return f"[user] {_cut(step.output['text'], _LONGEST_TEXT)}"
    calls = [
        f"[call of {call.name}] {_cut(encoded(call.arguments) or '', _LONGEST_RESULT)}"
        for call in conversation.calls_of(step)
    ]
    text = conversation.text_of(step)
    said = [f"[assistant] {_cut(text, _LONGEST_TEXT)}"] if text else []
    return "\n".join([*said, *calls])


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = ends(text, most)
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


def _tokens(step: Step) -> int:
    return len(encoded(step.output) or "") // _LETTERS_PER_TOKEN
