"""Servers for tests that speak the wire formats of model vendors, and fail as they do.

Each is a real HTTP server on this machine. Point any client at its `url` with its `key`, say what
it should answer or how it should fail, and look at what it was asked:

```python
import asyncio

from openai import AsyncOpenAI, RateLimitError

from agentos.testing import Fault, OpenAIServer, Reply, ToolCall


async def main() -> None:
    async with (
        OpenAIServer() as server,
        AsyncOpenAI(base_url=server.url, api_key=server.key, max_retries=0) as client,
    ):
        server.reply(Reply("It is sunny.", input_tokens=12))
        server.queue(
            Fault.rate_limit(retry_after=2),
            Reply(tool_calls=[ToolCall("weather", {"city": "Graz"})]),
        )

        async def ask() -> str:
            answer = await client.chat.completions.create(
                model="gpt-4o-mini", messages=[{"role": "user", "content": "How is it?"}]
            )
            return answer.choices[0].finish_reason

        try:
            await ask()
        except RateLimitError as error:
            assert error.response.headers["retry-after"] == "2"
        assert await ask() == "tool_calls"
        assert await ask() == "stop"
        assert [request.status for request in server.requests] == [429, 200, 200]


asyncio.run(main())
```

What is queued comes first, one step for each model call; after that, and if nothing was said, the
reply is what `server.reply()` set, or an echo of the user. Tokens are words, so that usage can be
predicted. See `Fault` for all the ways to fail, and `VendorServer` for what can be waited for:
requests, stalls, clients that leave.

From another process: `python -m agentos.testing openai --port 8080`.
"""

from agentos.testing.records import RecordedRequest
from agentos.testing.scripts import Fault, FaultKind, Reply, ToolCall
from agentos.testing.vendors import (
    SERVERS,
    AnthropicServer,
    CustomServer,
    GoogleServer,
    GroqServer,
    MistralServer,
    OllamaServer,
    OpenAIServer,
    OpenRouterServer,
    VendorServer,
)

__all__ = [
    "SERVERS",
    "AnthropicServer",
    "CustomServer",
    "Fault",
    "FaultKind",
    "GoogleServer",
    "GroqServer",
    "MistralServer",
    "OllamaServer",
    "OpenAIServer",
    "OpenRouterServer",
    "RecordedRequest",
    "Reply",
    "ToolCall",
    "VendorServer",
]
