"""Teams, and runtimes for them to run in."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.integrations.runtimes.engine import DockerEngine, docker_engine
from tests.integrations.runtimes.teams import ROOT, Team, Teams


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every account can pass through."""
    place = Path(tempfile.mkdtemp(prefix="aos-team-", dir="/tmp"))
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def teams(place: Path) -> Teams:
    numbers = itertools.count()
    uids: dict[UUID, int] = {}

    def make(tenant_id: UUID | None = None) -> Team:
        tenant = tenant_id or uuid4()
        uid = uids.setdefault(tenant, 40_000_000 + os.getpid() * 16 + len(uids))
        return Team(place / str(next(numbers)), tenant, uid if ROOT else None)

    return make


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    """A Docker engine for all test processes that need one."""
    with docker_engine() as engine:
        yield engine
