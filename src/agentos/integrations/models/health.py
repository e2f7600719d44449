"""How each connected provider is doing: cool-downs after rate limits, a breaker after failures."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from agentos.integrations.models.failures import ErrorClass, Failure

# So many failures in a row open the breaker: the provider is left alone for a while, then one
# call tries whether it is back.
_FAILURES_TO_OPEN = 5
_OPEN_SECONDS = 15.0
# When a provider says 429 without saying for how long.
_DEFAULT_COOL_DOWN = 2.0
_LONGEST_COOL_DOWN = 300.0
_MOST_ENTRIES = 20_000

_BREAKING = frozenset({ErrorClass.OVERLOAD, ErrorClass.TIMEOUT})


@dataclass(slots=True)
class _State:
    cool_until: float = 0.0
    failures: int = 0
    open_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a provider should not be called now, and in how many seconds it may be."""

    error_class: ErrorClass
    seconds: float


class Health:
    """Per process and key: what one process learns, the others learn by themselves."""

    def __init__(self) -> None:
        self._states: OrderedDict[UUID, _State] = OrderedDict()

    def closed(self, provider_id: UUID) -> Closed | None:
        """None if the provider may be called now. Of those that ask after a break, one may."""
        state = self._states.get(provider_id)
        if state is None:
            return None
        now = time.monotonic()
        if state.cool_until > now:
            return Closed(ErrorClass.RATE_LIMIT, state.cool_until - now)
        if state.failures < _FAILURES_TO_OPEN:
            return None
        if state.open_until > now:
            return Closed(ErrorClass.OVERLOAD, state.open_until - now)
        # Half open: this caller tries; the others wait for what becomes of it.
        state.open_until = now + _OPEN_SECONDS
        return None

    def succeeded(self, provider_id: UUID) -> None:
        if provider_id in self._states:
            del self._states[provider_id]

    def failed(self, provider_id: UUID, failure: Failure) -> None:
        if failure.error_class is ErrorClass.RATE_LIMIT:
            state = self._state(provider_id)
            wait = failure.retry_after or _DEFAULT_COOL_DOWN
            state.cool_until = time.monotonic() + min(wait, _LONGEST_COOL_DOWN)
        elif failure.error_class in _BREAKING:
            state = self._state(provider_id)
            state.failures += 1
            if state.failures >= _FAILURES_TO_OPEN:
                state.open_until = time.monotonic() + _OPEN_SECONDS

    def _state(self, provider_id: UUID) -> _State:
        state = self._states.get(provider_id)
        if state is None:
            if len(self._states) >= _MOST_ENTRIES:
                self._states.popitem(last=False)
            state = self._states[provider_id] = _State()
        return state
