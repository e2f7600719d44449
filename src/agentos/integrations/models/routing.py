"""Which providers a call is tried at, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentos.integrations.models.directory import ConnectedProvider, TenantModels
from agentos.integrations.models.wires.base import Translating, Wire, WireName
from agentos.integrations.models.wires.registry import TRANSLATING
from agentos.kernel.errors import AgentOSError, Kind

# Asks for the first model of the tenant's chain, whatever it is.
AUTO = "auto"
# As long as any name that a tenant can set a price for.
_LONGEST_NAME = 200


class ModelNotFound(AgentOSError):
    """There is no such model here."""

    code = "model_not_found"
    kind = Kind.NOT_FOUND
    hint = "Write `provider/model`; `agentos models list` shows what there is."


class FaceNotServed(AgentOSError):
    """This model cannot be called in this way."""

    code = "not_served"
    kind = Kind.NOT_FOUND
    hint = "Choose a model whose provider offers it; `agentos models list` shows what there is."


@dataclass(frozen=True, slots=True)
class Target:
    provider: ConnectedProvider
    model: str

    @property
    def name(self) -> str:
        return f"{self.provider.name}/{self.model}"


def targets(models: TenantModels, asked: str) -> Sequence[Target]:
    """Where a call for `asked` goes: first its own model, then what the chain has after it.

    Raises ModelNotFound.
    """
    found: Sequence[Target] | None = models.routes.get(asked)
    if found is None:
        found = models.routes[asked] = _targets(models, asked)
    return found


def _targets(models: TenantModels, asked: str) -> list[Target]:
    if len(asked) > _LONGEST_NAME or not asked.isprintable():
        # It goes into headers and into the books, which could not take it.
        raise ModelNotFound("No model has a name like this.")
    chain = [target for name in models.chain.targets if (target := _named(models, name))]
    if asked == AUTO:
        return chain or [Target(models.providers[-1], models.providers[-1].provider.kind)]
    first = _named(models, asked) or _in_chain(chain, asked) or _bare(models, asked)
    if first is None:
        raise ModelNotFound(f"There is no model {asked[:100]} here.")
    position = next((i for i, target in enumerate(chain) if target.name == first.name), -1)
    return [first, *chain[position + 1 :]]


def way(target: Target, face: Wire) -> Wire | None:
    """The wire a call takes to a target: its own if the provider speaks it, else the first that
    it can be translated to, else none.
    """
    paths = target.provider.provider.paths
    if face.name in paths:
        return face
    if face.name not in TRANSLATING:
        return None
    return next((TRANSLATING[name] for name in paths if name in TRANSLATING), None)


def translating(name: WireName) -> Translating:
    return TRANSLATING[name]


def _named(models: TenantModels, name: str) -> Target | None:
    prefix, slash, model = name.partition("/")
    if not slash or not model:
        return None
    provider = next((p for p in models.providers if p.name == prefix), None)
    return None if provider is None else Target(provider, model)


def _in_chain(chain: list[Target], asked: str) -> Target | None:
    return next((target for target in chain if target.model == asked), None)


def _bare(models: TenantModels, asked: str) -> Target | None:
    for provider in models.providers:
        if provider.provider.owns(asked):
            return Target(provider, asked)
    # Machines of one's own name their models as they like; if there is one such, it is meant.
    anything = [
        p for p in models.providers if not p.provider.price_ids and p.provider.kind != "demo"
    ]
    return Target(anything[0], asked) if len(anything) == 1 else None
