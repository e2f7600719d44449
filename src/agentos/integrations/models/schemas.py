from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from agentos.integrations.models.failures import ErrorClass
from agentos.tenancy.schemas import Body

ProviderKind = Literal[
    "anthropic", "openai", "google", "mistral", "groq", "openrouter", "ollama", "custom"
]
# What a chain may name: see failures.FALLBACK_CLASSES for why the others are missing.
FallbackClass = Literal["overload", "rate_limit", "auth", "timeout", "context_length"]
DEFAULT_FALLBACK: tuple[FallbackClass, ...] = ("overload", "rate_limit", "timeout")
PriceSource = Literal["catalogue", "own", "free"]

# Names under which something is there already.
_RESERVED = frozenset({"demo", "auto"})
_LONGEST_KEY = 4096


def _unreserved(name: str) -> str:
    if name in _RESERVED:
        raise ValueError("is the name of something built in; choose another")
    return name


def _sendable(key: SecretStr) -> SecretStr:
    """A key as it can stand in a header, without what came along when it was pasted."""
    value = key.get_secret_value().strip()
    if not value or len(value) > _LONGEST_KEY:
        raise ValueError(f"must have 1 to {_LONGEST_KEY} characters")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("must be printable ASCII without spaces")
    return SecretStr(value)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not contain control characters")
    return text


ProviderName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"),
    AfterValidator(_unreserved),
]
ProviderKey = Annotated[SecretStr, AfterValidator(_sendable)]
BaseUrl = Annotated[str, StringConstraints(min_length=1, max_length=500)]
RequestsPerMinute = Annotated[int, Field(ge=1, le=1_000_000)]
ModelName = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_printable)
]
# Micro-dollars for a million tokens: up to a million dollars.
Rate = Annotated[int, Field(ge=0, le=10**12)]
Tokens = Annotated[int, Field(ge=0, le=100_000_000)]


# Providers


class ProviderCreate(Body):
    kind: ProviderKind = Field(examples=["ollama"])
    name: ProviderName | None = Field(
        None, description="How models name it, as in `name/model`. Default: its kind."
    )
    key: ProviderKey | None = Field(
        None, description="Its API key. It goes to the vault and can never be read back."
    )
    base_url: BaseUrl | None = Field(
        None,
        description="Where it is, if not at its usual address; required for `custom`.",
        examples=["http://127.0.0.1:11434"],
    )
    requests_per_minute: RequestsPerMinute | None = Field(
        None, description="So many calls a minute at most; more wait for their turn."
    )


class ProviderUpdate(Body):
    """What is left out stays; null goes back to the default, or removes the key."""

    key: ProviderKey | None = None
    base_url: BaseUrl | None = None
    requests_per_minute: RequestsPerMinute | None = Field(None, examples=[60])


class ProviderRead(BaseModel):
    id: UUID
    name: str
    kind: str
    base_url: str | None = Field(description="Null: the usual address of its kind.")
    last_four: str | None = Field(
        description="The end of its key, to recognise it by; empty for short keys, null without."
    )
    requests_per_minute: int | None
    created_by: str
    created_at: datetime
    updated_at: datetime


class ProviderTest(BaseModel):
    ok: bool
    models: int | None = Field(description="How many models it offers; null if the test failed.")
    latency_ms: int
    error_class: ErrorClass | None = None
    message: str | None = Field(None, description="What the provider said, or why it did not.")
    advice: str | None = None


class DetectedProvider(BaseModel):
    kind: str
    base_url: str
    models: list[str]


class DetectedProviders(BaseModel):
    items: list[DetectedProvider]


# Models


class ModelRead(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    id: str = Field(description="`provider/model`, as calls name it.")
    provider: str
    model: str
    input_price: int | None = Field(
        description="Micro-dollars for a million input tokens; null: not known."
    )
    output_price: int | None = Field(
        description="Micro-dollars for a million output tokens; null: not known."
    )
    price_source: PriceSource | None
    context_window: int | None


class UnavailableProvider(BaseModel):
    provider: str
    error_class: ErrorClass
    message: str
    advice: str | None


class ModelList(BaseModel):
    items: list[ModelRead]
    unavailable: list[UnavailableProvider] = Field(
        description="Providers that could not be asked; their models are missing here."
    )


# The fallback chain


class ChainPut(Body):
    targets: Annotated[list[ModelName], Field(min_length=1, max_length=10)] = Field(
        description="`provider/model`, in the order in which they are tried.",
        examples=[["demo/demo"]],
    )
    fall_back_on: Annotated[list[FallbackClass], Field(min_length=1, max_length=10)] = Field(
        list(DEFAULT_FALLBACK), description="Which failures lead to the next target."
    )


class ChainRead(BaseModel):
    targets: list[str] = Field(description="Empty: there is no chain.")
    fall_back_on: list[str]
    updated_at: datetime | None


# Prices


class PricePut(Body):
    """Micro-dollars for a million tokens: 3000000 is $3."""

    provider: Annotated[str, StringConstraints(min_length=1, max_length=40)] = Field(
        description="Name of a connected provider, or `demo`.", examples=["demo"]
    )
    model: ModelName = Field(examples=["demo"])
    input: Rate = Field(examples=[3_000_000])
    output: Rate = Field(examples=[15_000_000])
    cache_read: Rate | None = Field(
        None, description="For input read from a cache. Default: as input."
    )
    cache_write: Rate | None = Field(
        None, description="For input written to a cache. Default: as input."
    )


class PriceRead(BaseModel):
    id: UUID
    provider: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    updated_at: datetime


# Estimates


class EstimateAsk(Body):
    model: ModelName = Field(
        description="As a call would name it: `provider/model`, a model's own name, or `auto`.",
        examples=["demo/demo"],
    )
    input_tokens: Tokens | None = Field(None, examples=[1000])
    text: Annotated[str, Field(max_length=1_000_000)] | None = Field(
        None, description="In place of input_tokens: counted by its length."
    )
    messages: Annotated[list[dict[str, Any]], Field(max_length=1000)] | None = Field(
        None, description="In place of input_tokens, in any dialect: counted by their length."
    )
    max_tokens: Tokens = Field(1000, description="How long the answer may become.")

    @model_validator(mode="after")
    def _one_of_them(self) -> EstimateAsk:
        given = [self.input_tokens, self.text, self.messages]
        if sum(value is not None for value in given) != 1:
            raise ValueError("give one of input_tokens, text and messages")
        return self


class Estimate(BaseModel):
    model: str
    provider: str
    input_tokens: int
    output_tokens: int
    cost_micros: int | None = Field(
        description="What the provider charges for so many tokens, nothing of it from a cache; "
        "null: its price is not known."
    )
    rated_micros: int | None = Field(description="What AgentOS charges for it.")
    price_source: PriceSource | None
