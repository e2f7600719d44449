from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.conftest import Engines

from agentos.kernel import schema
from agentos.kernel.errors import SetupError


@pytest.fixture
async def empty(engines: Engines) -> AsyncIterator[str]:
    """The owner's address of a database with nothing in it."""
    admin = await asyncpg.connect(engines.postgres.superuser_dsn())
    await admin.execute("create database empty_one owner agentos_owner")
    yield engines.dsn("agentos_owner", "empty_one")
    await admin.execute("drop database empty_one with (force)")
    await admin.close()


async def _objects(dsn: str) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(dsn)
    rows: list[Any] = await connection.fetch(
        """select 'relation', relname from pg_class where relnamespace = 'public'::regnamespace
           union all
           select 'function', proname from pg_proc where pronamespace = 'public'::regnamespace"""
    )
    await connection.close()
    return sorted((row[0], row[1]) for row in rows if not row[1].startswith("alembic"))


async def test_upward_from_empty_and_down_again(empty: str) -> None:
    assert await schema.migrate(empty) is None
    assert len(await _objects(empty)) > 20
    assert await schema.migrate(empty, "base") == schema.head()
    assert await _objects(empty) == []
    await schema.migrate(empty)


async def test_a_database_from_the_future_is_left_alone(empty: str) -> None:
    await schema.migrate(empty)
    connection = await asyncpg.connect(empty)
    await connection.execute("update alembic_version set version_num = '9999'")
    await connection.close()
    with pytest.raises(SetupError, match="9999"):
        await schema.migrate(empty)


def test_head_is_what_alembic_says() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "agentos:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == schema.head()
