"""One server for each model vendor."""

from agentos.testing.vendors.anthropic import AnthropicServer
from agentos.testing.vendors.base import VendorServer
from agentos.testing.vendors.custom import CustomServer
from agentos.testing.vendors.google import GoogleServer
from agentos.testing.vendors.groq import GroqServer
from agentos.testing.vendors.mistral import MistralServer
from agentos.testing.vendors.ollama import OllamaServer
from agentos.testing.vendors.openai import OpenAIServer
from agentos.testing.vendors.openrouter import OpenRouterServer

# By the vendor's name, as a command or a parametrised test says it.
SERVERS: dict[str, type[VendorServer]] = {
    server.vendor: server
    for server in (
        OpenAIServer,
        AnthropicServer,
        GoogleServer,
        MistralServer,
        GroqServer,
        OpenRouterServer,
        OllamaServer,
        CustomServer,
    )
}

__all__ = [
    "SERVERS",
    "AnthropicServer",
    "CustomServer",
    "GoogleServer",
    "GroqServer",
    "MistralServer",
    "OllamaServer",
    "OpenAIServer",
    "OpenRouterServer",
    "VendorServer",
]
