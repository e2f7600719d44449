"""Commands of the operator, who works on the installation and not through the gateway."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import pytest

from agentos.kernel import schema
from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.crypto import derive
from agentos.kernel.installation import embedded_engines, prepare_database
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings

from .conftest import Cli

SECRET_KEY = bytes(range(32))
PASSWORD = "correct horse battery staple"


class Engines(Protocol):
    def dsn(self, role: str, database: str) -> str: ...

    @property
    def nats(self) -> Any: ...


@pytest.fixture
def operator(cli: Cli, engines: Engines, database: str) -> Cli:
    """The command on a machine whose engines are external."""
    external = {
        "DATABASE_URL": engines.dsn("agentos_owner", database),
        "NATS_URL": engines.nats.url,
        "NATS_MONITOR_URL": engines.nats.monitor_url,
        "AGENTOS_SECRET_KEY": SECRET_KEY.hex(),
        "AGENTOS_PORT": "9",
    }
    return Cli(cli.env | external)


async def _doctor(cli: Cli, *, code: int = 0, **env: str) -> dict[str, dict[str, Any]]:
    report = (await cli("doctor", "--json", code=code, **env)).json
    assert report["healthy"] == (code == 0)
    return {check["part"]: check for check in report["checks"]}


async def test_db(operator: Cli, superuser: asyncpg.Connection[Any]) -> None:
    needed = schema.head()
    assert (await operator("db", "status", "--json")).json["revision"] == needed
    assert (await operator("db", "upgrade", "--json")).json["changed"] is False
    assert "--yes" in (await operator("db", "downgrade", "base", code=2)).err
    await operator("db", "downgrade", "base", "--yes")
    assert await superuser.fetchval("select to_regclass('public.tenants')") is None
    assert (await operator("db", "status", "--json", code=1)).json["up_to_date"] is False
    checks = await _doctor(operator, code=1)
    assert checks["Schema"]["fix"] == "Run `agentos db upgrade`."
    assert (await operator("db", "upgrade")).out.endswith(f"to {needed}.\n")
    await operator("db", "downgrade", "nonsense", "--yes", code=2)


async def test_db_where_migrating_is_not_ours(operator: Cli) -> None:
    told = await operator("db", "upgrade", DATABASE_URL="", DATABASE_RUNTIME_URL="postgresql://r@h/d",
                          DATABASE_PLATFORM_URL="postgresql://p@h/d", code=11)  # fmt: skip
    assert "DATABASE_URL is not set" in told.err


async def test_db_needs_no_nats(operator: Cli) -> None:
    await operator("db", "status", NATS_URL="")


async def test_nats_config(operator: Cli) -> None:
    trust = BusAuthority(derive(SECRET_KEY, "bus")).cluster_config()
    assert (await operator("nats", "config", "--json")).json == {"config": trust}
    assert (await operator("nats", "config")).out.endswith(trust)


async def test_platform_admin(operator: Cli, superuser: asyncpg.Connection[Any]) -> None:
    await superuser.execute(
        """insert into users (id, email, name, password_hash)
           values (gen_random_uuid(), 'ada@test.example', 'Ada', 'x')"""
    )
    for _ in range(2):
        await operator("platform", "grant-admin", "Ada@test.example")
    assert await superuser.fetchval("select platform_admin from users")
    await operator("platform", "revoke-admin", "ada@test.example")
    assert not await superuser.fetchval("select platform_admin from users")
    rows = await superuser.fetch(
        "select actor_id, action, details from platform_audit_log order by id"
    )
    assert [(row["actor_id"], row["action"]) for row in rows] == [
        ("operator", "platform_admin.granted"),
        ("operator", "platform_admin.revoked"),
    ]
    assert "ada@test.example" in rows[0]["details"]
    assert "invite" in (await operator("platform", "grant-admin", "nobody@x.yz", code=5)).err


async def test_kek_rotation(operator: Cli, superuser: asyncpg.Connection[Any]) -> None:
    keys = Path(operator.env["AGENTOS_DATA_DIR"]) / "vault.keys"
    told = await operator("vault", "rewrap", code=11)
    assert "AGENTOS_KEK" in told.err, "no machine makes a key of its own for a shared database"
    keys.parent.mkdir(exist_ok=True)
    keys.write_text(f"first:{'11' * 32}\n")
    keys.chmod(0o600)
    first = (await operator("vault", "rewrap", "--json")).json
    assert first == {"kek_id": "first", "rewrapped": 0}
    second = (await operator("vault", "rotate-kek", "--json")).json["kek_id"]
    assert second != first["kek_id"]
    assert [line.partition(":")[0] for line in keys.read_text().splitlines()] == [
        second,
        first["kek_id"],
    ]
    told = await operator("vault", "rotate-kek", AGENTOS_KEK=f"a:{'00' * 32}", code=11)
    assert "AGENTOS_KEK" in told.err


def _files(cli: Cli) -> list[Path]:
    return sorted(Path(cli.env["HOME"]).rglob("*"))


def _make_data_directory(cli: Cli, mode: int) -> Path:
    data_dir = Path(cli.env["AGENTOS_DATA_DIR"])
    data_dir.mkdir()
    data_dir.chmod(mode)
    return data_dir


async def test_doctor_with_external_engines(operator: Cli) -> None:
    _make_data_directory(operator, 0o700)
    checks = await _doctor(operator)
    wrong = {part for part, check in checks.items() if check["state"] not in ("ok", "skipped")}
    assert wrong <= {"Gateway", "Sandbox"}, checks
    for part in ("PostgreSQL", "Schema", "Runtime role", "Platform role", "Row security", "Clock"):
        assert checks[part]["state"] == "ok"
    assert "external" in checks["NATS"]["detail"]
    assert (await _doctor(operator, NATS_MONITOR_URL=""))["NATS durability"]["state"] == "warning"


async def test_doctor_finds_what_is_wrong(
    operator: Cli, engines: Engines, database: str, superuser: asyncpg.Connection[Any]
) -> None:
    data_dir = _make_data_directory(operator, 0o777)
    (data_dir / "vault.keys").write_text("a:00")
    (data_dir / "vault.keys").chmod(0o644)
    tenant = "11111111-1111-1111-1111-111111111111"
    await superuser.execute("create table bare (tenant_id uuid)")
    await superuser.execute(f"insert into tenants (id, name, slug) values ('{tenant}', 'x', 'x')")
    await superuser.execute(
        f"""insert into outbox (tenant_id, id, type, data, at)
            values ('{tenant}', '{tenant}', 'x', '{{}}', now() - interval '10 minutes')"""
    )
    owner = engines.dsn("agentos_owner", database)
    checks = await _doctor(
        operator,
        code=1,
        DATABASE_RUNTIME_URL=owner,
        DATABASE_PLATFORM_URL=engines.dsn("postgres", database),
    )
    expected = {
        "Data directory": "chmod o-w",
        "Key files": "chmod 600",
        "Runtime role": "NOSUPERUSER",
        "Platform role": "NOSUPERUSER",
        "Row security": "protect_tenant_table('bare'",
        "Event relay": "agentos worker",
    }
    for part, fix in expected.items():
        assert checks[part]["state"] == "problem", checks[part]
        assert fix in checks[part]["fix"]
    assert "owns" in checks["Runtime role"]["detail"]
    assert "superuser" in checks["Platform role"]["detail"]


async def test_doctor_when_a_role_can_become_another(
    operator: Cli, superuser: asyncpg.Connection[Any], engines: Engines, database: str
) -> None:
    # A role of its own: the engines serve other tests, too.
    name = f"sly_{database}"
    await superuser.execute(f"create role {name} login password 'sly'")
    await superuser.execute(f"grant agentos_owner to {name}")
    try:
        owner = engines.dsn("agentos_owner", database)
        sly = f"postgresql://{name}:sly@{owner.partition('@')[2]}"
        checks = await _doctor(operator, code=1, DATABASE_RUNTIME_URL=sly)
        assert "member of agentos_owner, which owns tables" in checks["Runtime role"]["detail"]
    finally:
        await superuser.execute(f"drop role {name}")


async def test_doctor_with_wrong_addresses(operator: Cli) -> None:
    checks = await _doctor(
        operator,
        code=1,
        DATABASE_URL="postgresql://a:b@127.0.0.1:9/x",
        NATS_URL="nats://127.0.0.1:9",
        OBJECT_STORE_URL="s3://no-such-bucket/x",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="y",
    )
    assert "DATABASE_URL" in checks["PostgreSQL"]["detail"]
    assert checks["Schema"]["detail"] == "needs PostgreSQL"
    assert "agentos nats config" in checks["NATS"]["fix"]
    assert checks["Object store"]["state"] == "problem"
    checks = await _doctor(operator, code=1, AGENTOS_SECRET_KEY="ff" * 32)
    assert checks["Runtime role"]["state"] in ("problem", "skipped")
    assert checks["NATS"]["state"] == "problem"


async def test_doctor_never_hangs(operator: Cli) -> None:
    """Servers that accept and then say nothing."""
    connections: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    silent = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(30):
            checks = await _doctor(
                operator,
                code=1,
                DATABASE_URL=f"postgresql://a:b@127.0.0.1:{port}/x",
                NATS_URL=f"nats://127.0.0.1:{port}",
                NATS_MONITOR_URL=f"http://127.0.0.1:{port}",
                AGENTOS_URL=f"http://127.0.0.1:{port}",
            )
    finally:
        for writer in connections:
            writer.close()
        silent.close()
        await silent.wait_closed()
    assert checks["PostgreSQL"]["state"] == checks["NATS"]["state"] == "problem"


async def test_with_nothing_at_all(cli: Cli) -> None:
    before = _files(cli)
    checks = await _doctor(cli, code=1, AGENTOS_PORT="9")
    for part in ("Data directory", "PostgreSQL", "NATS"):
        assert "agentos up" in checks[part]["fix"]
    assert checks["Gateway"]["state"] == "warning"
    for command in (("db", "status"), ("vault", "rotate-kek"), ("nats", "config")):
        assert "agentos up" in (await cli(*command, code=11)).err
    assert _files(cli) == before, "looking made nothing"


async def test_invalid_settings(cli: Cli) -> None:
    checks = await _doctor(cli, code=1, AGENTOS_PORT="many")
    assert "AGENTOS_PORT" in checks["Settings"]["detail"]


@pytest.fixture
async def embedded() -> AsyncIterator[Settings]:
    """An installation with engines of its own, as `agentos up` starts it."""
    data_dir = tempfile.mkdtemp(prefix="aos-cli-", dir="/tmp")
    os.chmod(data_dir, 0o711)  # noqa: PTH101 - mkdtemp's 0700 would keep the engines' account out
    settings = Settings(data_dir=Path(data_dir))
    key = load_secret_key(settings)
    try:
        async with embedded_engines(settings, key, lambda _: None) as where:
            await prepare_database(settings, key, where, lambda _: None)
            yield settings
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


async def test_doctor_with_embedded_engines(cli: Cli, embedded: Settings) -> None:
    cli = Cli(cli.env | {"AGENTOS_DATA_DIR": str(embedded.data_dir), "AGENTOS_PORT": "9"})
    checks = await _doctor(cli)
    wrong = {part for part, check in checks.items() if check["state"] not in ("ok", "skipped")}
    assert wrong <= {"Gateway", "Sandbox"}, checks
    assert "embedded" in checks["PostgreSQL"]["detail"]
    assert "embedded" in checks["NATS"]["detail"]
    assert checks["Passwords"]["state"] == "ok"
    assert checks["NATS durability"]["state"] == "ok"
    assert (await cli("db", "status")).code == 0
    shown = await cli("doctor")
    assert "FAIL" not in shown.out
