"""How native agents talk to a target: the wire their calls are written in, and what its model takes.

What pydantic-ai knows of a model it keeps in profiles, which come without any vendor's SDK. The
few facts that it keeps beside the SDKs are stated here again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from pydantic_ai.profiles import DEFAULT_PROFILE, ModelProfile, merge_profile
from pydantic_ai.profiles.amazon import amazon_model_profile
from pydantic_ai.profiles.anthropic import anthropic_model_profile
from pydantic_ai.profiles.cohere import cohere_model_profile
from pydantic_ai.profiles.deepseek import deepseek_model_profile
from pydantic_ai.profiles.google import google_model_profile
from pydantic_ai.profiles.grok import grok_model_profile
from pydantic_ai.profiles.groq import groq_model_profile
from pydantic_ai.profiles.meta import meta_model_profile
from pydantic_ai.profiles.mistral import mistral_model_profile
from pydantic_ai.profiles.moonshotai import moonshotai_model_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, openai_model_profile
from pydantic_ai.profiles.qwen import qwen_model_profile

from agentos.integrations.models.native.schemas import ClaudeSchema
from agentos.integrations.models.routing import Target
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Translating, WireName
from agentos.integrations.models.wires.openai_chat import CHAT

_MOST_REMEMBERED = 1024

# Whose model it is, by the part of its name before the slash.
_VENDORS: dict[str, Callable[[str], ModelProfile | None]] = {
    "amazon": amazon_model_profile,
    "anthropic": anthropic_model_profile,
    "cohere": cohere_model_profile,
    "deepseek": deepseek_model_profile,
    "google": google_model_profile,
    "groq": groq_model_profile,
    "meta": meta_model_profile,
    "meta-llama": meta_model_profile,
    "mistral": mistral_model_profile,
    "mistralai": mistral_model_profile,
    "moonshotai": moonshotai_model_profile,
    "openai": openai_model_profile,
    "qwen": qwen_model_profile,
    "x-ai": grok_model_profile,
}

# What a conversation has no place for: said by pydantic-ai in another way, or left out.
_NEUTRAL = ModelProfile(
    # A system prompt in the middle is told to the model in a tag, in the user's turn.
    supports_inline_system_prompts=False,
    supports_request_scoped_system_prompts=False,
    supports_mid_conversation_effort=False,
    supports_image_output=False,
    supports_video_input=False,
    tool_addition_mode=None,
    tool_deferral_mode=None,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to talk to one model."""

    # The kind of its provider: whose signatures it takes back.
    system: str
    # Its name at its provider.
    model: str
    wire: Translating
    profile: ModelProfile

    @property
    def claude(self) -> bool:
        return self.wire is MESSAGES

    @property
    def thinks_in_budget(self) -> bool:
        """Whether its thinking is limited by tokens, and then forbids to force a tool on it."""
        adaptive: object = self.profile.get("anthropic_supports_adaptive_thinking")
        return self.claude and not adaptive


def dialect(target: Target, context_window: int | None) -> Dialect:
    """The dialect of a target: Anthropic's where only that is spoken, and else OpenAI's chat.

    Both are their vendors' own, so that most calls pass untranslated; a provider that speaks
    neither (Google) is reached through chat, which the router translates.
    """
    provider = target.provider.provider
    claude = WireName.MESSAGES in provider.paths and WireName.CHAT not in provider.paths
    return _dialect(provider.kind, target.model, claude, context_window)


@lru_cache(_MOST_REMEMBERED)
def _dialect(kind: str, model: str, claude: bool, context_window: int | None) -> Dialect:
    known = _claude(model) if claude else _chat(kind, model)
    profile = merge_profile(
        DEFAULT_PROFILE, known, _NEUTRAL, ModelProfile(context_window=context_window)
    )
    return Dialect(kind, model, MESSAGES if claude else CHAT, profile)


def _claude(model: str) -> ModelProfile:
    return merge_profile(
        anthropic_model_profile(model),
        ModelProfile(
            json_schema_transformer=ClaudeSchema,
            supports_audio_file_input=False,
            supports_cache=True,
            supports_auto_cache=True,
            supported_cache_retentions=("5m", "1h"),
            default_cache_retention=timedelta(minutes=5),
        ),
    )


def _chat(kind: str, model: str) -> ModelProfile:
    # A model's family is found under `vendor/model`, which some models are named already.
    vendor, _, name = (model if "/" in model else f"{kind}/{model}").partition("/")
    family = _VENDORS.get(vendor)
    known = family(name) if family is not None else None
    profile = merge_profile(
        ModelProfile(json_schema_transformer=OpenAIJsonSchemaTransformer),
        openai_model_profile(model) if known is None else known,
    )
    if vendor in ("mistral", "mistralai") and not name.startswith("magistral"):
        # Of these its family only tells how long the ids of tool calls are.
        profile = merge_profile(openai_model_profile(name), profile)
    searches = profile.get("openai_chat_supports_web_search", False)
    tools = profile.get("supported_native_tools", frozenset())
    kept = frozenset(tool for tool in tools if searches and tool.kind == "web_search")
    return merge_profile(profile, ModelProfile(supported_native_tools=kept, supports_cache=False))
