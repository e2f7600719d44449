"""The router for native agents: any pydantic-ai agent, through the same road as the HTTP proxy.

pydantic-ai's own model classes keep speaking their vendor's wire, so that nothing they know about
it is lost; only their HTTP client is ours, and hands the bytes to the router in this process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anthropic
import httpx2
import openai
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from agentos.integrations.models.router import ModelRequest, ModelRouter, OpenCall
from agentos.integrations.models.routing import targets
from agentos.integrations.models.wires.base import WIRE_HEADERS, Wire, WireName
from agentos.integrations.models.wires.registry import WIRES
from agentos.kernel.errors import AgentOSError
from agentos.tenancy.ledger.calls import FinishedCall, Reservation, Spender

# A host that nothing is ever sent to: the transport below takes every request.
_NOWHERE = "http://router.invalid"
_FACES = {
    "/v1/messages": WireName.MESSAGES,
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
        face = WIRES[_FACES[request.url.path]]
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


class RouterModel(WrapperModel):
    """A pydantic-ai model whose calls the router serves. Errors of ours stay errors of ours."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        with _our_own_errors():
            return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        with _our_own_errors():
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream


async def router_model(
    router: ModelRouter,
    model: str,
    spender: Spender,
    *,
    principal: tuple[str, str],
    book: Callable[[Reservation, FinishedCall], None] | None = None,
) -> RouterModel:
    """A model for native agents: `model` is named as everywhere (`provider/model`, `auto`, …).

    `book` takes the calls' reservations, for callers that settle in their own transaction
    (Escrow.settle_in). Raises ModelNotFound.
    """
    models = await router.directory.of(spender.tenant_id)
    first = targets(models, model)[0]
    client = httpx2.AsyncClient(
        transport=RouterTransport(router, spender, principal=principal, book=book)
    )
    return RouterModel(_model_for(first.provider.provider.paths, model, client))


def _model_for(paths: Mapping[WireName, str], model: str, client: httpx2.AsyncClient) -> Model:
    """The model class that speaks the target's own wire, so that most calls pass untranslated."""
    native = next((name for name in paths if name in _FACES.values()), WireName.CHAT)
    if native is WireName.MESSAGES:
        own = anthropic.AsyncAnthropic(
            api_key="none", base_url=_NOWHERE, http_client=client, max_retries=0
        )
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=own))
    other = openai.AsyncOpenAI(
        api_key="none", base_url=f"{_NOWHERE}/v1", http_client=client, max_retries=0
    )
    kind = OpenAIResponsesModel if native is WireName.RESPONSES else OpenAIChatModel
    return kind(model, provider=OpenAIProvider(openai_client=other))


@contextmanager
def _our_own_errors() -> Iterator[None]:
    """SDKs wrap what their HTTP client raises in a connection error; this takes it out again."""
    try:
        yield
    except Exception as error:
        ours = _ours(error)
        if ours is None:
            raise
        raise ours from None


def _ours(error: BaseException | None) -> AgentOSError | None:
    while error is not None:
        if isinstance(error, AgentOSError):
            return error
        error = error.__cause__ or error.__context__
    return None
