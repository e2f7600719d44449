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


async def test_the_demo_key_keeps_up_with_what_is_new(empty: str) -> None:
    await schema.migrate(empty)
    await schema.migrate(empty, "0001")
    connection = await asyncpg.connect(empty)
    # As the owner, who sees no rows while row-level security is forced.
    await connection.execute("alter table api_keys no force row level security")
    await connection.execute("alter table tenants no force row level security")
    await connection.execute(
        """insert into tenants (id, name, slug) values (gen_random_uuid(), 'T', 't');
           insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
           select t.id, gen_random_uuid(), k.name, 'aaaa', k.name::bytea, '{vault:read}', k.maker
           from tenants t, (values ('demo', 'AgentOS'), ('demo-2', 'AgentOS'), ('ci', 'Ada')) k (name, maker)"""
    )
    await schema.migrate(empty)
    await connection.execute("alter table api_keys no force row level security")
    rows = await connection.fetch("select name, scopes from api_keys")
    await connection.close()
    scopes = {row["name"]: set(row["scopes"]) for row in rows}
    assert {"vault:read", "models:use", "budgets:write"} <= scopes["demo"]
    assert scopes["demo-2"] == scopes["ci"] == {"vault:read"}
