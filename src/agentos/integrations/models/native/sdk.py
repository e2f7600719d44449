"""The vendors' SDKs on the router, for requests that a Conversation has no place for.

pydantic-ai's own model classes speak their vendor's wire, so that nothing they know about it is
lost; only their HTTP client is ours, and hands the bytes to the router in this process. Loading
them takes seconds and tens of megabytes, and a call some milliseconds: see RouterModel for when.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anthropic
import httpx2
import openai
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from agentos.integrations.models.native.errors import AnswerBrokeOff
from agentos.integrations.models.open_call import OpenCall
from agentos.integrations.models.router import ModelRequest, ModelRouter
from agentos.integrations.models.routing import FaceNotServed, Target
from agentos.integrations.models.wires.base import WIRE_HEADERS, Wire, WireName
from agentos.integrations.models.wires.registry import WIRES
from agentos.kernel.errors import AgentOSError
from agentos.tenancy.ledger.calls import FinishedCall, Reservation, Spender

# A host that nothing is ever sent to: the transport below takes every request.
_NOWHERE = "http://router.invalid"
_FACES = {
    "/v1/messages": WireName.MESSAGES,
    "/v1/messages/count_tokens": WireName.COUNT_TOKENS,
    "/v1/chat/completions": WireName.CHAT,
    "/v1/responses": WireName.RESPONSES,
}


class RouterTransport(httpx2.AsyncBaseTransport):
    """Hands requests of an SDK to the router. What the router raises, comes out as it is."""

    def __init__(
        self,
        router: ModelRouter,
        spender: Spender,
        *,
        principal: tuple[str, str],
        book: Callable[[Reservation, FinishedCall], None] | None = None,
    ):
        self._router = router
        self._spender = spender
        self._principal = principal
        self._book = book

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        face = _face(request.url.path)
        body = await request.aread()
        stack = AsyncExitStack()
        forwarded = {
            name: request.headers[name] for name in WIRE_HEADERS if name in request.headers
        }
        call = await stack.enter_async_context(
            self._router.open(self._request(face, body, forwarded))
        )
        if call.whole is not None:
            await stack.aclose()
            return httpx2.Response(
                200, headers={"content-type": "application/json"}, content=call.whole
            )
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, stream=_CallStream(call, stack)
        )

    def _request(self, face: Wire, body: bytes, forwarded: dict[str, str]) -> ModelRequest:
        kind, principal_id = self._principal
        return ModelRequest(
            face=face,
            body=body,
            glance=face.glance(body),
            spender=self._spender,
            principal_kind=kind,
            principal_id=principal_id,
            forwarded=forwarded,
            book=self._book,
        )


class _CallStream(httpx2.AsyncByteStream):
    """The chunks of a call. Closing it before its end cancels the call."""

    def __init__(self, call: OpenCall, stack: AsyncExitStack):
        self._call = call
        self._stack = stack

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._call.chunks():
            yield chunk

    async def aclose(self) -> None:
        await self._stack.aclose()


def _face(path: str) -> Wire:
    if path not in _FACES:
        raise FaceNotServed(f"The router has no {path}.")
    return WIRES[_FACES[path]]


class SdkModel(WrapperModel):
    """A pydantic-ai model of a vendor whose calls the router serves.

    What fails, fails with the errors of the router; a stream that ends before its end, with
    AnswerBrokeOff.
    """

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        with _own_errors():
            return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        with _own_errors():
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        with _own_errors():
            return await super().count_tokens(messages, model_settings, model_request_parameters)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Takes the router's errors out of what the SDK and pydantic-ai have wrapped them in."""
    try:
        yield
    except ModelAPIError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, AgentOSError):
            cause = cause.__cause__
        if cause is not None:
            raise cause from None
        if error.in_stream:
            raise AnswerBrokeOff(_message(error)) from error
        raise


def _message(error: ModelAPIError) -> str:
    """What was said in the stream, without pydantic-ai's words around it."""
    body = error.body.get("error", error.body) if isinstance(error.body, dict) else None
    message = body.get("message") if isinstance(body, dict) else None
    return message if isinstance(message, str) else error.message


def sdk_model(
    router: ModelRouter,
    model: str,
    target: Target,
    spender: Spender,
    *,
    principal: tuple[str, str],
    book: Callable[[Reservation, FinishedCall], None] | None = None,
) -> SdkModel:
    """The vendor's own model for a target, with its calls on the router."""
    client = httpx2.AsyncClient(
        transport=RouterTransport(router, spender, principal=principal, book=book)
    )
    return SdkModel(_model_for(target, model, client))


def _model_for(target: Target, model: str, client: httpx2.AsyncClient) -> Model:
    """The model class that speaks the target's own wire, so that most calls pass untranslated.

    What it knows about a model goes by the target's name for it, not by ours.
    """
    kind, paths = target.provider.provider.kind, target.provider.provider.paths
    if WireName.MESSAGES in paths and WireName.CHAT not in paths:
        claude = anthropic.AsyncAnthropic(
            api_key="none", base_url=_NOWHERE, http_client=client, max_retries=0
        )
        return AnthropicModel(
            model,
            provider=AnthropicProvider(anthropic_client=claude),
            profile=AnthropicProvider.model_profile(target.model),
        )
    other = openai.AsyncOpenAI(
        api_key="none", base_url=f"{_NOWHERE}/v1", http_client=client, max_retries=0
    )
    if kind == "openai":
        return OpenAIChatModel(
            model,
            provider=OpenAIProvider(openai_client=other),
            profile=OpenAIProvider.model_profile(target.model),
        )
    # Its profiles are found under `vendor/model`, which some models are named already.
    named = target.model if "/" in target.model else f"{kind}/{target.model}"
    return OpenAIChatModel(
        model,
        provider=OpenAICompatibleProvider(kind, openai_client=other),
        profile=OpenAICompatibleProvider.model_profile(named),
    )
