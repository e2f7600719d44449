"""A pydantic-ai model on the router: no SDK, no client, and a few microseconds to make."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    StreamedResponse,
    check_allow_model_requests,
)
from pydantic_ai.output import StructuredOutputMode
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettingName, ModelSettings
from pydantic_ai.usage import RequestUsage

from agentos.integrations.models.conversation import Conversation
from agentos.integrations.models.exchanges import failure_of
from agentos.integrations.models.failures import ModelCallFailed
from agentos.integrations.models.native import schemas
from agentos.integrations.models.native.answers import RouterStream, response_of
from agentos.integrations.models.native.asking import Asking, check_carried
from agentos.integrations.models.native.dialects import dialect
from agentos.integrations.models.native.errors import NotCarried
from agentos.integrations.models.native.extras import Extras
from agentos.integrations.models.native.messages import history
from agentos.integrations.models.open_call import OpenCall
from agentos.integrations.models.providers.demo import CONTEXT_WINDOW as DEMO_WINDOW
from agentos.integrations.models.router import ModelRequest, ModelRouter
from agentos.integrations.models.routing import Target, targets
from agentos.integrations.models.wires.anthropic_count_tokens import COUNT_TOKENS
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import WIRE_HEADERS, MalformedAnswer, Wire
from agentos.integrations.models.wires.decoding import UNREADABLE
from agentos.tenancy.ledger.calls import FinishedCall, Reservation, Spender

if TYPE_CHECKING:
    from agentos.integrations.models.native.sdk import SdkModel

Book = Callable[[Reservation, FinishedCall], None]

# What Anthropic takes to count tokens; the rest of a request it refuses.
_COUNTED = {"model", "messages", "system", "tools", "tool_choice", "thinking"}
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Counted(msgspec.Struct):
    input_tokens: int


_COUNT = msgspec.json.Decoder(_Counted)


class RouterModel(Model[Any]):
    """A pydantic-ai model whose calls the router serves.

    What fails, fails with the errors of the router; a stream that ends before its end, with
    AnswerBrokeOff.

    A request goes to the router directly, by way of a Conversation, unless it holds something that
    a Conversation has no place for: native tools and what they did before, cache points, files that
    have to be fetched, were uploaded, or are neither image, PDF nor sound, and settings that are
    one vendor's own (`anthropic_…`, `openai_…`, `service_tier`). Such a request is written by the
    vendor's SDK, as pydantic-ai does it, and takes the same road from there; only the first of
    them loads the SDK.
    """

    unsupported_settings: ClassVar[frozenset[ModelSettingName]] = frozenset(
        {"timeout", "max_retries"}
    )

    def __init__(
        self,
        router: ModelRouter,
        model: str,
        target: Target,
        spender: Spender,
        *,
        principal: tuple[str, str],
        book: Book | None = None,
    ):
        spoken = dialect(target, _window(router, target))
        super().__init__(profile=spoken.profile)
        self._router = router
        self._asked = model
        self._target = target
        self._dialect = spoken
        self._spender = spender
        self._principal = principal
        self._book = book
        self._sdk: SdkModel | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        # Without the profile, which is long: agents ask for this at every run.
        return f"RouterModel({self._asked!r})"

    @property
    def model_name(self) -> str:
        return self._asked

    @property
    def system(self) -> str:
        return self._dialect.system

    @property
    def profile(self) -> ModelProfile:
        return self._dialect.profile

    def customize_request_parameters(
        self, model_request_parameters: ModelRequestParameters
    ) -> ModelRequestParameters:
        transformer = self.profile.get("json_schema_transformer")
        if transformer is None:
            return model_request_parameters
        return schemas.fitted(model_request_parameters, transformer)

    def _default_structured_output_mode(
        self, model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> StructuredOutputMode:
        thinking = model_request_parameters.thinking
        if thinking and model_request_parameters.output_tools and self._dialect.thinks_in_budget:
            # Claude cannot be made to use a tool while it thinks within a budget.
            native = self.profile.get("supports_json_schema_output", False)
            return "native" if native else "prompted"
        return super()._default_structured_output_mode(model_settings, model_request_parameters)

    # Calls

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        check_allow_model_requests()
        try:
            asked = self._asked_for(messages, model_settings, model_request_parameters)
        except NotCarried:
            sdk = self._by_sdk()
            return await sdk.request(messages, model_settings, model_request_parameters)
        async with self._open(asked.written) as call:
            return await self._response(call, asked.params)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        check_allow_model_requests()
        try:
            asked = self._asked_for(messages, model_settings, model_request_parameters, stream=True)
        except NotCarried:
            asked = None
        if asked is None:
            sdk = self._by_sdk()
            async with sdk.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream
            return
        async with self._open(asked.written) as call:
            yield self._stream(call, asked.params)

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        """Counted by the provider if it can, and else by the built-in model, roughly."""
        try:
            conversation, extras, _ = self._conversation(
                messages, model_settings, model_request_parameters, stream=False
            )
        except NotCarried:
            sdk = self._by_sdk()
            return await sdk.count_tokens(messages, model_settings, model_request_parameters)
        body = MESSAGES.write_request(conversation, self._asked)
        if self._dialect.claude:
            body = extras.added_to(body)
        fields = {name: raw for name, raw in _FIELDS.decode(body).items() if name in _COUNTED}
        body = msgspec.json.encode(fields)
        async with self._open(self._request(COUNT_TOKENS, body, model_settings)) as call:
            assert call.whole is not None, "counts do not stream"
            try:
                return RequestUsage(input_tokens=_COUNT.decode(call.whole).input_tokens)
            except UNREADABLE as error:
                raise _malformed(call, MalformedAnswer(str(error))) from None

    @asynccontextmanager
    async def _open(self, asked: ModelRequest) -> AsyncGenerator[OpenCall]:
        call = self._router.open(asked)
        await call.__aenter__()
        try:
            yield call
        finally:
            # Whatever happened to the caller is not the provider's failure.
            await call.__aexit__(None, None, None)

    # From what is asked to bytes

    def _asked_for(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        params: ModelRequestParameters,
        *,
        stream: bool = False,
    ) -> _Asked:
        """Raises NotCarried."""
        conversation, extras, prepared = self._conversation(
            messages, settings, params, stream=stream
        )
        wire = self._dialect.wire
        body = extras.added_to(wire.write_request(conversation, self._dialect.model))
        return _Asked(self._request(wire, body, settings), prepared)

    def _conversation(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        params: ModelRequestParameters,
        *,
        stream: bool,
    ) -> tuple[Conversation, Extras, ModelRequestParameters]:
        """Raises NotCarried."""
        check_carried(settings, params, self._dialect)
        told = history(messages, self._dialect, self.accepts_stateless_artifacts)
        prepared, params = self.prepare_request(settings, params)
        told.system += [
            part.content for part in self._get_instruction_parts(messages, params) or ()
        ]
        asking = Asking(self._dialect, self._asked, prepared or {}, params)
        return *asking.conversation(told, stream=stream), params

    def _request(self, face: Wire, body: bytes, settings: ModelSettings | None) -> ModelRequest:
        kind, principal_id = self._principal
        return ModelRequest(
            face=face,
            body=body,
            # Routed by what was asked for; written for what that means first.
            glance=msgspec.structs.replace(face.glance(body), model=self._asked),
            spender=self._spender,
            principal_kind=kind,
            principal_id=principal_id,
            forwarded=_wire_headers(settings),
            book=self._book,
        )

    # And back

    async def _response(self, call: OpenCall, params: ModelRequestParameters) -> ModelResponse:
        if call.whole is None:
            stream = self._stream(call, params)
            async for _ in stream:
                pass
            return stream.get()
        try:
            answer = self._dialect.wire.read_answer(call.whole)
        except MalformedAnswer as error:
            raise _malformed(call, error) from None
        return response_of(answer, call.whole, call, self._dialect)

    def _stream(self, call: OpenCall, params: ModelRequestParameters) -> RouterStream:
        return RouterStream(
            model_request_parameters=params,
            _call=call,
            _dialect=self._dialect,
            _model=call.target.model,
        )

    def _by_sdk(self) -> SdkModel:
        """The model that writes requests with the vendor's SDK, which takes seconds to load."""
        if self._sdk is None:
            from agentos.integrations.models.native.sdk import sdk_model

            self._sdk = sdk_model(
                self._router,
                self._asked,
                self._target,
                self._spender,
                principal=self._principal,
                book=self._book,
            )
        return self._sdk


@dataclass(frozen=True, slots=True)
class _Asked:
    written: ModelRequest
    # As they were prepared for the model.
    params: ModelRequestParameters


def _window(router: ModelRouter, target: Target) -> int | None:
    provider = target.provider.provider
    if provider.kind == "demo":
        return DEMO_WINDOW
    return router.catalogue.context_window(provider.price_ids, target.model)


def _wire_headers(settings: ModelSettings | None) -> dict[str, str]:
    headers = (settings or {}).get("extra_headers") or {}
    return {name.lower(): value for name, value in headers.items() if name.lower() in WIRE_HEADERS}


def _malformed(call: OpenCall, error: MalformedAnswer) -> ModelCallFailed:
    return ModelCallFailed([(call.target.name, failure_of(error))])


async def router_model(
    router: ModelRouter,
    model: str,
    spender: Spender,
    *,
    principal: tuple[str, str],
    book: Book | None = None,
) -> RouterModel:
    """A model for native agents: `model` is named as everywhere (`provider/model`, `auto`, …).

    `book` takes the calls' reservations, for callers that settle in their own transaction
    (Escrow.settle_in). Raises ModelNotFound.
    """
    models = await router.directory.of(spender.tenant_id)
    first = targets(models, model)[0]
    return RouterModel(router, model, first, spender, principal=principal, book=book)
