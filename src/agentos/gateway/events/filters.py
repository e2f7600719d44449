"""Which events a client wants."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.contracts.events import EVENT_TYPES
from agentos.gateway.events.errors import BadTypeFilter


@dataclass(frozen=True, slots=True)
class TypeFilter:
    """Exact types and prefixes that end with a dot; without either, everything passes."""

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.exact and not self.prefixes

    def wants(self, event_type: str) -> bool:
        return event_type in self.exact or event_type.startswith(self.prefixes) or self.everything


EVERYTHING = TypeFilter()


def parse_types(text: str | None) -> TypeFilter:
    """Reads `session.*,member.invited`; raises BadTypeFilter for a type that does not exist."""
    if text is None:
        return EVERYTHING
    exact: set[str] = set()
    prefixes: set[str] = set()
    for item in (part.strip() for part in text.split(",")):
        if item.endswith(".*") and any(kind.startswith(item[:-1]) for kind in EVENT_TYPES):
            prefixes.add(item[:-1])
        elif item in EVENT_TYPES:
            exact.add(item)
        else:
            raise BadTypeFilter(f"There is no event type '{item[:100]}'.")
    return TypeFilter(frozenset(exact), tuple(sorted(prefixes)))
