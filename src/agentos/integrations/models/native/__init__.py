"""The router for native agents: any pydantic-ai agent, through the same road as the HTTP proxy.

`router_model` makes a model; see RouterModel for what it promises.
"""

from agentos.integrations.models.native.errors import AnswerBrokeOff
from agentos.integrations.models.native.model import RouterModel, router_model

__all__ = ["AnswerBrokeOff", "RouterModel", "router_model"]
