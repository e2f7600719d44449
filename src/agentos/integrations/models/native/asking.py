"""From a request of pydantic-ai to a conversation, and what its wire can say beyond one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models._tool_choice import (
    resolve_tool_choice,
    support_tool_forcing,
    tool_forcing_unavailable_reason,
)
from pydantic_ai.profiles.anthropic import (
    ANTHROPIC_THINKING_BUDGET_MAP,
    resolve_anthropic_effort,
)
from pydantic_ai.profiles.openai import OPENAI_REASONING_EFFORT_MAP
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from agentos.integrations.models.conversation import (
    Conversation,
    OutputFormat,
    Tool,
    ToolChoice,
)
from agentos.integrations.models.native.dialects import Dialect
from agentos.integrations.models.native.errors import NotCarried
from agentos.integrations.models.native.extras import CacheMarks, Extras
from agentos.integrations.models.native.messages import History
from agentos.integrations.models.wires import openai_chat_models

# What is heeded here, and what pydantic-ai sees to by itself.
_HEEDED = {
    *("max_tokens", "temperature", "top_p", "stop_sequences", "seed", "thinking"),
    *("parallel_tool_calls", "tool_choice", "extra_body", "extra_headers"),
    *("request_timeout", "first_event_timeout"),
    # The router waits and tries again by its own rules.
    *("timeout", "max_retries"),
}
# Heeded where the dialect has a place for them, as pydantic-ai does.
_CHAT_ONLY = {"presence_penalty", "frequency_penalty", "logit_bias"}
_CLAUDE_ONLY = {"top_k"}

# `cache` is for those that have to be told; most chat models keep what they read anyway.
_SETTINGS = _HEEDED | _CHAT_ONLY | _CLAUDE_ONLY | {"cache"}

_EFFORT_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# When nobody says how much Claude may write, and its profile does not know its most.
_DEFAULT_MAX_TOKENS = 16_384
_CAUTIOUS_MAX_TOKENS = 4_096
_LEAST_AFTER_THINKING = 4_096
# A longer answer is awaited as a stream: nobody can tell a long silence from a lost connection.
_MOST_IN_ONE_PIECE = 21_333


def check_carried(
    settings: ModelSettings | None, params: ModelRequestParameters, dialect: Dialect
) -> None:
    """Raises NotCarried for settings and tools that only the vendor's own SDK model knows."""
    if params.native_tools:
        raise NotCarried("native tools")
    if not settings:
        return
    for name in settings:
        if name not in _SETTINGS:
            raise NotCarried(name)
    marked: object = dialect.profile.get("openai_supports_prompt_cache_breakpoints")
    if marked and settings.get("cache"):
        raise NotCarried("cache")
    body = settings.get("extra_body")
    if body is not None and not isinstance(body, dict):
        raise NotCarried("extra_body")


@dataclass(frozen=True, slots=True)
class Asking:
    """A prepared request, before it is written."""

    dialect: Dialect
    # Named as it was asked for, for error messages.
    name: str
    settings: ModelSettings
    params: ModelRequestParameters

    def conversation(self, told: History, *, stream: bool) -> tuple[Conversation, Extras]:
        """Raises UserError if a tool is to be used that may not be."""
        settings, dialect = self.settings, self.dialect
        thinking = _claude_thinking(self.params.thinking, dialect) if dialect.claude else None
        tools, choice = self._tools(thinking)
        most = settings.get("max_tokens")
        if most is None and dialect.claude:
            most = _most_tokens(thinking, dialect)
        extras = self._extras(told, tools, thinking)
        cool = thinking is not None and "budget_tokens" in thinking
        conversation = Conversation(
            model=dialect.model,
            messages=told.turns,
            system="\n\n".join(text for text in told.system if text),
            tools=[
                Tool(tool.name, tool.description or "", tool.parameters_json_schema)
                for tool in tools
            ],
            tool_choice=choice,
            parallel_tools=settings.get("parallel_tool_calls"),
            max_tokens=most,
            # Thinking within a budget takes neither.
            temperature=None if cool else settings.get("temperature"),
            top_p=None if cool else settings.get("top_p"),
            stop=settings.get("stop_sequences") or (),
            seed=settings.get("seed"),
            output_format=self._output_format(),
            stream=stream or (dialect.claude and most is not None and most > _MOST_IN_ONE_PIECE),
        )
        return conversation, extras

    # Tools

    def _tools(
        self, thinking: Mapping[str, Any] | None
    ) -> tuple[list[ToolDefinition], ToolChoice | None]:
        tools = list(self.params.declared_tool_defs.values())
        if not tools:
            # Also says so if tools are required that are not there.
            resolve_tool_choice(self.settings, self.params)
            return [], None
        resolved = resolve_tool_choice(self.settings, self.params)
        if resolved == "auto":
            return tools, None
        if resolved == "none":
            return tools, ToolChoice("none")
        if resolved == "required":
            return tools, ToolChoice("any") if self._may_force(thinking) else None
        mode, names = resolved
        forced = mode == "required" and self._may_force(thinking)
        if forced and len(names) == 1:
            return tools, ToolChoice("tool", next(iter(names)))
        chosen = [tool for tool in tools if tool.name in names]
        return chosen, ToolChoice("any") if forced else None

    def _may_force(self, thinking: Mapping[str, Any] | None) -> bool:
        profile = self.dialect.profile
        thinks = self.thinks()
        reason = tool_forcing_unavailable_reason(
            profile, thinking=thinks, thinking_remedy="Disable thinking with `thinking=False`"
        )
        if reason is None and thinking is not None and "budget_tokens" in thinking:
            reason = "Claude cannot be made to use a tool while it thinks within a budget."
        disables = thinks and profile.get("forced_tool_choice_disables_thinking", False)
        return support_tool_forcing(
            self.name, self.settings, reason, disables_thinking=disables and self.dialect.claude
        )

    def thinks(self) -> bool:
        """Whether the model will think before it answers."""
        profile, thinking = self.dialect.profile, self.params.thinking
        always = profile.get("thinking_always_enabled", False)
        if thinking is None:
            return always or profile.get("thinking_enabled_by_default", False)
        return thinking is not False or always

    def _output_format(self) -> OutputFormat | None:
        params = self.params
        if params.output_mode == "native" and params.output_object is not None:
            output = params.output_object
            return OutputFormat(
                output.json_schema, output.name or "final_result", bool(output.strict)
            )
        if params.output_mode != "prompted" or self.dialect.claude:
            return None
        return OutputFormat() if self.dialect.profile.get("supports_json_object_output") else None

    # What a conversation has no place for

    def _extras(
        self, told: History, tools: list[ToolDefinition], thinking: Mapping[str, Any] | None
    ) -> Extras:
        profile: Mapping[str, Any] = cast("Mapping[str, Any]", self.dialect.profile)
        strict: frozenset[str] = frozenset()
        if self.dialect.claude:
            fields = self._claude_fields(thinking)
            takes_strict = profile.get("supports_json_schema_output", False)
        else:
            fields = self._chat_fields(profile)
            takes_strict = profile.get("openai_supports_strict_tool_definition", True)
        if takes_strict:
            strict = frozenset(tool.name for tool in tools if tool.strict)
        body = self.settings.get("extra_body")
        if body:
            fields |= cast("dict[str, Any]", body)
        cache = CacheMarks.of(self.params.cache) if self.params.cache else None
        return Extras(fields, strict, told.thoughts, told.redacted, cache)

    def _claude_fields(self, thinking: Mapping[str, Any] | None) -> dict[str, Any]:
        fields: dict[str, Any] = {} if thinking is None else {"thinking": thinking}
        effort = _claude_effort(self.params.thinking, self.dialect)
        if effort is not None:
            fields["output_config"] = {"effort": effort}
        if "top_k" in self.settings:
            fields["top_k"] = self.settings["top_k"]
        return fields

    def _chat_fields(self, profile: Mapping[str, Any]) -> dict[str, Any]:
        settings: Mapping[str, Any] = cast("Mapping[str, Any]", self.settings)
        fields = {name: settings[name] for name in _CHAT_ONLY if name in settings}
        thinking = self.params.thinking
        if thinking is not None:
            if thinking is False and "openai_chat_thinking_false_body" in profile:
                fields |= profile["openai_chat_thinking_false_body"]
            elif (effort := _chat_effort(thinking, profile)) is not None:
                fields["reasoning_effort"] = effort
        if openai_chat_models.reasons(self.dialect.model) and self._may_sample(profile):
            # The wire itself goes by the name, and leaves these out.
            fields |= {
                name: settings[name] for name in ("temperature", "top_p") if name in settings
            }
        return fields

    def _may_sample(self, profile: Mapping[str, Any]) -> bool:
        """Whether a model that can reason may be told a temperature: while it does not."""
        efforts = profile.get("openai_reasoning_efforts")
        none = (
            profile.get("openai_supports_reasoning_effort_none", False)
            if efforts is None
            else "none" in efforts
        )
        return bool(none) and not self.thinks()


def _claude_thinking(thinking: ThinkingLevel | None, dialect: Dialect) -> dict[str, Any] | None:
    """Anthropic's `thinking`, if it has to be said."""
    profile: Mapping[str, Any] = cast("Mapping[str, Any]", dialect.profile)
    if thinking is None:
        return None
    if thinking is False:
        if profile.get("thinking_always_enabled"):
            return {"type": "adaptive"} if profile.get("anthropic_supports_effort") else None
        if profile.get("anthropic_disables_thinking_with_between_tools"):
            return {"type": "between_tools"}
        return {"type": "disabled"} if profile.get("thinking_enabled_by_default") else None
    if profile.get("anthropic_supports_adaptive_thinking"):
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": ANTHROPIC_THINKING_BUDGET_MAP[thinking]}


def _claude_effort(thinking: ThinkingLevel | None, dialect: Dialect) -> str | None:
    profile: Mapping[str, Any] = cast("Mapping[str, Any]", dialect.profile)
    if not profile.get("anthropic_supports_effort"):
        return None
    if isinstance(thinking, str):
        return resolve_anthropic_effort(
            thinking,
            supports_xhigh=profile.get("anthropic_supports_xhigh_effort", False),
            supports_max=profile.get("anthropic_supports_max_effort", True),
        )
    return "low" if thinking is False and profile.get("thinking_always_enabled") else None


def _most_tokens(thinking: Mapping[str, Any] | None, dialect: Dialect) -> int:
    """How much Claude may write when nobody says: all it can, as far as its profile knows."""
    profile: Mapping[str, Any] = cast("Mapping[str, Any]", dialect.profile)
    most = profile.get("anthropic_max_output_tokens") or _DEFAULT_MAX_TOKENS
    if profile.get("anthropic_rejects_max_tokens_beyond_context_window"):
        most = _CAUTIOUS_MAX_TOKENS
    budget = (thinking or {}).get("budget_tokens", 0)
    return max(int(most), int(budget) + _LEAST_AFTER_THINKING)


def _chat_effort(thinking: ThinkingLevel, profile: Mapping[str, Any]) -> str | None:
    """The nearest effort that the model takes; None if it is to be left at its own."""
    highest = bool(profile.get("openai_chat_supports_max_reasoning_effort"))
    wanted = OPENAI_REASONING_EFFORT_MAP[thinking]
    if thinking == "max" and highest:
        wanted = "max"
    taken = profile.get("openai_reasoning_efforts")
    if taken is None:
        if thinking is False and profile.get("thinking_always_enabled"):
            return None
        if wanted == "minimal" and not profile.get(
            "openai_supports_minimal_reasoning_effort", True
        ):
            return "low"
        return wanted
    efforts = [e for e in _EFFORT_ORDER if e in taken and (e != "max" or highest)]
    if thinking is False:
        return efforts[0] if efforts else None
    active = [e for e in efforts if e != "none"]
    at = _EFFORT_ORDER.index(str(wanted))
    above = (e for e in active if _EFFORT_ORDER.index(e) >= at)
    return next(above, active[-1] if active else None)
