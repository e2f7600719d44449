"""Checks a session's configuration before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from agentos.execution.pulse.engine_tools.names import ENGINE_TOOLS
from agentos.execution.pulse.errors import BadConfig
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.gates.schemas import FileGate, Gate, RubricGate, SchemaGate
from agentos.execution.pulse.json_schemas import JsonSchema
from agentos.execution.pulse.schemas import SessionConfig
from agentos.integrations.models.directory import TenantModels
from agentos.integrations.models.routing import ModelNotFound, targets
from agentos.integrations.tools.allowed_hosts import AllowedHosts
from agentos.integrations.tools.arguments import BadSchema
from agentos.integrations.tools.built_in import built_in_tools
from agentos.integrations.tools.toolbox import unknown_tool
from agentos.integrations.workspaces.errors import BadPath, BadPattern, SearchTooSlow
from agentos.integrations.workspaces.search import check_patterns
from agentos.integrations.workspaces.workspace import checked_path
from agentos.tenancy.vault import service as vault
from agentos.tenancy.work import Work

_MOST_FILES = 1_000
_MOST_BYTES = 4_000_000
# For all patterns of a request together.
PATTERN_SECONDS = 3.0


class SecretMissing(BadConfig):
    """A secret that an MCP server needs is not in the vault."""

    code = "secret_missing"
    hint = "Store it first: `agentos vault set NAME`."


async def checked_config(work: Work, front: PulseFront, given: SessionConfig) -> SessionConfig:
    """The configuration alone, if a session can run with it.

    Raises ModelNotFound, UnknownTool, BadSchema, BadPattern, BadPath, BadAllowedHost,
    SecretMissing, and BadConfig for the rest.
    """
    config = await checked_but_patterns(work, front, given)
    patterns = patterns_of(config)
    try:
        await check_patterns([pattern for _, pattern in patterns], PATTERN_SECONDS)
    except BadPattern as error:
        where, _ = patterns[error.details["number"]]
        raise BadPattern(f"{where}: {error.message}") from None
    except SearchTooSlow as error:
        raise BadPattern(f"The patterns of its gates: {error.message}") from None
    return config


async def checked_but_patterns(
    work: Work, front: PulseFront, given: SessionConfig
) -> SessionConfig:
    """As `checked_config`, but without `patterns_of`: to check those takes a process."""
    config = SessionConfig(**given.model_dump(include=set(SessionConfig.model_fields)))
    check_storable(config.model_dump(mode="python"))
    models = await front.directory.within(work.tx, work.tenant_id)
    targets(models, config.model)
    for agent in config.agents:
        if agent.model is not None:
            _check_model(f"The agent {agent.name}", models, agent.model)
    _check_tools(config)
    AllowedHosts.parse(config.allowed_hosts, front.hosts)
    if config.output_schema is not None:
        _check_schema("output_schema", config.output_schema)
    _check_files(config.files)
    for gate in config.gates:
        _check_gate(gate, models)
    await _check_secrets(work, config)
    return config


def patterns_of(config: SessionConfig) -> list[tuple[str, str]]:
    """The regular expressions of its gates, each with where it is."""
    return [
        (f"The gate {gate.name}", gate.matches)
        for gate in config.gates
        if isinstance(gate, FileGate) and gate.matches is not None
    ]


def check_storable(shown: dict[str, Any]) -> None:
    """Raises BadConfig for what no row can hold as it is."""
    try:
        size = len(msgspec.json.encode(shown))
    except (UnicodeEncodeError, RecursionError):
        raise BadConfig("It contains half of a surrogate pair, or is nested too deeply.") from None
    if size > _MOST_BYTES:
        raise BadConfig(f"It has more than {_MOST_BYTES:,} bytes in all.")
    for where, value in _leaves(shown, ""):
        if isinstance(value, str) and "\0" in value:
            raise BadConfig(f"{where.lstrip('.')} contains a zero byte.")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadConfig(f"{where.lstrip('.')} is not a number that JSON has.")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every text and number in a value, with where it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"A name in {where.lstrip('.') or 'it'}", str(key)
            yield from _leaves(item, f"{where}.{key}"[:200])
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{where}.{number}"[:200])
    else:
        yield where, value


def _check_tools(config: SessionConfig) -> None:
    known = [*built_in_tools(), *ENGINE_TOOLS]
    for name in config.tools or []:
        if name not in known:
            raise unknown_tool(name, known)
    names = [server.name for server in config.mcp_servers]
    if len(set(names)) < len(names):
        raise BadConfig("Two MCP servers have the same name.")


def _check_schema(where: str, schema: dict[str, Any]) -> None:
    try:
        JsonSchema(schema)
    except BadSchema as error:
        raise BadSchema(f"{where}: {error.message}") from None


def _check_files(files: dict[str, str]) -> None:
    if len(files) > _MOST_FILES:
        raise BadConfig(f"files has more than {_MOST_FILES:,} files.")
    places = {_checked_path("files", path): path for path in files}
    if len(places) < len(files):
        raise BadConfig("files has two names for the same path.")
    for place, path in places.items():
        above = [place[:n] for n, byte in enumerate(place) if byte == ord("/")]
        if any(directory in places for directory in above):
            raise BadConfig(f"files: a part of {path[:200]} is a file itself.")


def _check_gate(gate: Gate, models: TenantModels) -> None:
    where = f"The gate {gate.name}"
    if isinstance(gate, SchemaGate):
        _check_schema(where, gate.json_schema)
    elif isinstance(gate, FileGate):
        _checked_path(where, gate.path)
    elif isinstance(gate, RubricGate) and gate.model is not None:
        _check_model(where, models, gate.model)


def _check_model(where: str, models: TenantModels, model: str) -> None:
    try:
        targets(models, model)
    except ModelNotFound as error:
        raise ModelNotFound(f"{where}: {error.message}") from None


def _checked_path(where: str, path: str) -> bytes:
    try:
        place = checked_path(path)
    except BadPath as error:
        raise BadPath(f"{where}: {path[:200]!r}: {error.message}") from None
    if place == b".":
        raise BadPath(f"{where}: {path[:200]!r} is the workspace itself.")
    return place


async def _check_secrets(work: Work, config: SessionConfig) -> None:
    for server in config.mcp_servers:
        for name in sorted(server.secrets):
            if not await vault.exists(work, name):
                raise SecretMissing(f"The MCP server {server.name} needs the secret {name}.")
