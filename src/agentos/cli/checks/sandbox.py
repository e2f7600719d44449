"""The check of the sandbox: it runs something in it."""

from __future__ import annotations

from agentos.cli.checks.outcomes import Outcome, Site, ok, warning


async def sandbox(_: Site) -> Outcome:
    from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
    from agentos.integrations.sandboxes.choosing import usable_cgroups, why_not
    from agentos.integrations.sandboxes.landlock import Landlock

    cgroups = await usable_cgroups()
    better = await why_not(Bubblewrap(cgroups))
    if better is None and cgroups is not None:
        return ok("bubblewrap works, with control groups")
    if better is None:
        return ok("bubblewrap works; memory is limited by process, not by command")
    worse = await why_not(Landlock(cgroups))
    if worse is None:
        return warning(f"Landlock works, bubblewrap does not: {better.message}", better.advice)
    return warning(f"tools are refused: {better.message} {worse.message}", better.advice)
