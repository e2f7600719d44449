from __future__ import annotations

from agentos.kernel.errors import Invalid


class BadRange(Invalid):
    """A report covers at most 366 days."""

    code = "bad_range"


class TooManyRows(Invalid):
    """There are more than 50,000 rows, which is more than one file takes."""

    code = "too_many_rows"
    hint = "Ask for fewer days, or for one team or session."
