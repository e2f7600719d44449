"""Workers that are processes, beside the gateway of the lab."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.conftest import SECRET_KEY, Engines
from tests.execution.pulse.conftest import Lab
from tests.execution.pulse.faults.processes import Crew, Zygote

from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from agentos.kernel.settings import Settings


@pytest.fixture
def settings() -> Iterator[Settings]:
    """With a data directory that sandboxes can get into, and tools that may reach this machine."""
    place = Path(tempfile.mkdtemp(prefix="aos-faults-", dir="/tmp"))
    place.chmod(0o711)
    yield Settings(
        data_dir=place,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        tool_hosts="any",
    )
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
async def crew(
    zygote: Zygote, lab: Lab, engines: Engines, database: str, settings: Settings, tmp_path: Path
) -> AsyncIterator[Crew]:
    # A worker that is not the owner of the schema looks whether it is new enough.
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DATABASE_RUNTIME_URL": engines.dsn(RUNTIME_ROLE, database),
        "DATABASE_PLATFORM_URL": engines.dsn(PLATFORM_ROLE, database),
        "NATS_URL": engines.nats.url,
        "AGENTOS_SECRET_KEY": SECRET_KEY.hex(),
        "AGENTOS_KEK": f"k1:{SECRET_KEY.hex()}",
        "AGENTOS_DATA_DIR": str(settings.data_dir),
        "AGENTOS_TOOL_HOSTS": "any",
        "AGENTOS_LOG_FORMAT": "json",
        "RECEIPTS": str(tmp_path / "receipts"),
    }
    crew = Crew(zygote, env, tmp_path, lab.superuser)
    yield crew
    await crew.close()
