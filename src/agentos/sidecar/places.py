"""Where a sidecar finds things, and where it keeps its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from agentos.contracts.crew import SidecarCredentials, TeamSpec
from agentos.kernel.bus_credentials import BusCredentials

_T = TypeVar("_T")


class BadFile(Exception):
    """A file that the keeper writes is missing or cannot be read."""


@dataclass(frozen=True, slots=True)
class Places:
    """The three directories that a runtime gives to a sidecar."""

    run: Path
    workspace: Path
    agents: Path

    @classmethod
    def of_environment(cls, env: Mapping[str, str] = os.environ) -> Places:
        """Where every runtime puts them; tests say otherwise by the environment."""
        return cls(
            run=Path(env.get("AGENTOS_RUN_DIR", "/run/agentos")),
            workspace=Path(env.get("AGENTOS_WORKSPACE", "/workspace")),
            agents=Path(env.get("AGENTOS_AGENTS", "/opt/agents")),
        )

    @property
    def state(self) -> Path:
        """What survives a restart: answers, the conversation, the CLI's home."""
        return self.workspace / ".agentos"

    @property
    def home(self) -> Path:
        return self.state / "home"

    @property
    def bus_socket(self) -> Path:
        return self.run / "bus.sock"

    @property
    def gateway_socket(self) -> Path:
        return self.run / "gateway.sock"

    @property
    def egress_socket(self) -> Path:
        return self.run / "egress.sock"

    def spec(self) -> TeamSpec:
        """The team as the keeper wrote it last. Raises BadFile."""
        return _read(self.run / "spec.json", TeamSpec)

    def credentials(self) -> BusCredentials:
        """The team's rights on the bus, as the keeper wrote them last. Raises BadFile."""
        written = _read(self.run / "credentials.json", SidecarCredentials)
        return BusCredentials(
            public_key=written.public_key,
            inbox_prefix=written.inbox_prefix,
            expires_at=None,
            jwt=written.jwt,
            seed=written.seed,
        )


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        # Where it is wrong, not what it says: the file holds secrets.
        raise BadFile(f"{path} is not what this sidecar understands: {error}") from None
