"""What Claude models take, as far as their names tell: the list of the old ones is closed."""

from __future__ import annotations

import re

# Claude 3 to 4.6 take a temperature; later ones answer an error to it.
_WITH_SAMPLING = re.compile(
    r"claude-(?:[23]|instant|4-).*|claude-(?:opus|sonnet|haiku)-4(?:-[0-6])?(?:[-@]\d{8}|-latest)?"
)
# Claude 3.7 to 4.5 are told how many tokens to think; later ones how hard.
_WITH_BUDGET = re.compile(
    r"claude-(?:3|4-).*|claude-(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:[-@]\d{8}|-latest)?"
)


def takes_sampling(model: str) -> bool:
    """Whether it may be told a temperature; models that are not Claude may."""
    return not model.startswith("claude") or _WITH_SAMPLING.fullmatch(model) is not None


def takes_budget(model: str) -> bool:
    """Whether its thinking is limited by tokens rather than by effort."""
    return not model.startswith("claude") or _WITH_BUDGET.fullmatch(model) is not None
