"""The lists of models, as the SDKs of OpenAI and Anthropic ask for them."""

from __future__ import annotations

import msgspec

from agentos.integrations.models.listing import Listing
from agentos.kernel.errors import NotFound
from agentos.tenancy.principals import Principal

_OPENAI = "/api/ai/openai/v1/models"
_ANTHROPIC = "/api/ai/anthropic/v1/models"
# Providers do not tell when a model was made, and the SDKs want a moment.
_CREATED = 0
_CREATED_AT = "1970-01-01T00:00:00Z"


class ModelLists:
    def __init__(self, listing: Listing):
        self._listing = listing

    async def answer(self, path: str, principal: Principal) -> bytes | None:
        """The list, or one model of it; None if the path is not about models."""
        for prefix, one, many in (
            (_OPENAI, _openai, _openai_list),
            (_ANTHROPIC, _anthropic, _anthropic_list),
        ):
            if path == prefix:
                return msgspec.json.encode(many(await self._names(principal)))
            if path.startswith(f"{prefix}/"):
                name = path.removeprefix(f"{prefix}/")
                if name not in await self._names(principal):
                    raise NotFound("There is no such model here.")
                return msgspec.json.encode(one(name))
        return None

    async def _names(self, principal: Principal) -> list[str]:
        listed = await self._listing.all_models(principal)
        # As callers may write them: the built-in model and `auto` have short names.
        return ["auto", "demo", *(item.id for item in listed.items if item.provider != "demo")]


def _openai(name: str) -> dict[str, object]:
    provider = name.partition("/")[0]
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": provider}


def _openai_list(names: list[str]) -> dict[str, object]:
    return {"object": "list", "data": [_openai(name) for name in names]}


def _anthropic(name: str) -> dict[str, object]:
    return {"id": name, "type": "model", "display_name": name, "created_at": _CREATED_AT}


def _anthropic_list(names: list[str]) -> dict[str, object]:
    return {
        "data": [_anthropic(name) for name in names],
        "has_more": False,
        "first_id": names[0],
        "last_id": names[-1],
    }
