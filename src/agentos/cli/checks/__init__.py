"""What `agentos doctor` looks at. Looking changes nothing, and no check can hang or stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from agentos.cli.checks.database import (
    clock_skew,
    platform_role,
    postgres,
    relay,
    row_level_security,
    runtime_role,
    schema_revision,
    trusts_nobody,
)
from agentos.cli.checks.machine import data_directory, key_files, python_version
from agentos.cli.checks.outcomes import (
    Check,
    Finding,
    Outcome,
    PartDown,
    Site,
    ok,
    problem,
    skipped,
)
from agentos.cli.checks.parts import gateway, nats, nats_sync, objects
from agentos.cli.checks.sandbox import sandbox
from agentos.kernel.errors import AgentOSError

if TYPE_CHECKING:
    from agentos.kernel.installation import Addresses, DatabaseAddresses
    from agentos.kernel.settings import Settings

_LIMIT = 6.0  # seconds a check may take; all of them run at once


async def examine() -> AsyncIterator[Finding]:
    """All findings, in a fixed order, each as soon as it and those before it are there."""
    yield _named("Python", python_version())
    from agentos.kernel.settings import load_settings

    try:
        settings = load_settings()
    except AgentOSError as error:
        yield _named("Settings", problem(error.message, error.advice))
        return
    yield _named("Settings", ok("valid; `agentos config` shows them"))
    yield _named("Data directory", data_directory(settings))
    yield _named("Key files", key_files(settings))
    site, key_outcome = _survey(settings)
    yield _named("Secret key", key_outcome)
    running = [(part, asyncio.create_task(_limited(check, site))) for part, check in CHECKS]
    for part, task in running:
        yield _named(part, await task)


def _named(part: str, outcome: Outcome) -> Finding:
    return Finding(part, outcome.state, outcome.detail, outcome.fix)


async def _limited(check: Check, site: Site) -> Outcome:
    try:
        async with asyncio.timeout(_LIMIT):
            return await check(site)
    except PartDown as reason:
        return skipped(str(reason))
    except TimeoutError:
        return problem(f"no answer within {_LIMIT:g} s", "Check the address and the network.")
    except AgentOSError as error:
        return problem(error.message, error.advice)
    # The edge of a check: whatever it met must not keep the others from being reported.
    except Exception as error:  # noqa: BLE001
        return problem(f"{type(error).__name__}: {error}".splitlines()[0])


def _survey(settings: Settings) -> tuple[Site, Outcome]:
    from agentos.cli import machine
    from agentos.kernel.installation import addresses, database_addresses

    try:
        key = machine.secret_key(settings)
    except AgentOSError as error:
        return Site(settings, None, None, None), problem(error.message, error.advice)
    where = "AGENTOS_SECRET_KEY" if settings.secret_key else "the data directory"
    database: DatabaseAddresses | None = None
    everything: Addresses | None = None
    try:
        database = database_addresses(settings, key)
        everything = addresses(settings, key)
    except AgentOSError as error:
        if database is None:
            return Site(settings, key, None, None), problem(error.message, error.advice)
    return Site(settings, key, database, everything), ok(f"from {where}")


CHECKS: tuple[tuple[str, Check], ...] = (
    ("PostgreSQL", postgres),
    ("Schema", schema_revision),
    ("Runtime role", runtime_role),
    ("Platform role", platform_role),
    ("Row security", row_level_security),
    ("Passwords", trusts_nobody),
    ("Clock", clock_skew),
    ("Event relay", relay),
    ("NATS", nats),
    ("NATS durability", nats_sync),
    ("Object store", objects),
    ("Gateway", gateway),
    ("Sandbox", sandbox),
)
