from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class CheckpointNotFound(NotFound):
    """There is no such checkpoint."""

    code = "checkpoint_not_found"


class NoWholeOutput(NotFound):
    """The step has no output beside what it shows."""

    code = "no_whole_output"


class NotStopped(Conflict):
    """The session is being worked on."""

    code = "session_not_stopped"
    hint = "Pause it first, or wait until it has ended."


class BetweenCalls(Conflict):
    """There the model had asked for tools whose results were not in yet."""

    code = "between_calls"


class PromptNeeded(Invalid):
    """The conversation ends there with an answer: there is nothing to go on with."""

    code = "prompt_needed"
    hint = "Give a prompt, or choose a step before the answer to have it given anew."


class ReservedName(Invalid):
    """AgentOS itself makes checkpoints of this name."""

    code = "reserved_name"
    hint = "Choose another name than `start` and `end`."


class FileTooLarge(AgentOSError):
    """The file is too large to be shown."""

    code = "file_too_large"
    kind = Kind.TOO_LARGE
    hint = "Have the session put it into parts, or send it elsewhere."


class NotText(Invalid):
    """The file is not text."""

    code = "not_text"
    hint = "Read its contents at both steps instead."
