"""A real PostgreSQL 18 from a wheel, private to this installation."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import asyncpg

from agentos.kernel.engines.account import Account, create_data_directory, make_directory
from agentos.kernel.engines.postgres_config import HBA, configuration
from agentos.kernel.engines.postgres_install import find_install
from agentos.kernel.engines.postgres_leftovers import (
    quit_backends,
    remove_stale_lock,
    stop_orphan,
)
from agentos.kernel.engines.process import EngineFailed, EngineProcess, spawn, wait_exit
from agentos.kernel.errors import SetupError

_MAJOR = "18"
_PORT = 5432  # only names the socket; nothing listens on the network
_SOCKET = f".s.PGSQL.{_PORT}"
# The kernel allows 107 bytes; the margin is for the lock file's name beside the socket.
_SOCKET_PATH_MAX = 100
_SUPERUSER = "postgres"
_SCRATCH = ".postgres-init-"


class EmbeddedPostgres:
    """The PostgreSQL server of one data directory, reachable through a private socket only.

    Whoever starts it holds the `DataDirectoryLock`: a postmaster found running on the directory
    is taken for an orphan and stopped.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        superuser_password: str,
        account: Account | None,
        on_notice: Callable[[str], None],
        fsync: bool = True,
    ) -> None:
        self.data_dir = data_dir.expanduser().resolve()
        self.pgdata = self.data_dir / "postgres"
        self.socket_dir = _socket_directory(self.data_dir)
        self.version: str | None = None
        self._password = superuser_password
        self._account = account
        self._notice = on_notice
        self._durable = fsync
        self._config_dir = self.data_dir / "config"
        self._cluster = f"agentos-{_digest(self.data_dir)}"
        self._install = find_install(self.data_dir, account)
        self.process = EngineProcess(
            name="PostgreSQL",
            argv=self._argv(),
            ready=self._answers,
            log_path=self.data_dir / "logs" / "postgres.log",
            account=account,
            stop_signal=signal.SIGINT,  # fast shutdown: open transactions end, nothing is lost
            on_notice=on_notice,
            before_start=self._clear_leftovers,
        )

    @property
    def pid(self) -> int | None:
        return self.process.pid

    async def start(self) -> None:
        """Make the cluster if there is none, and return when it accepts connections."""
        create_data_directory(self.data_dir, self._account)
        if self._install.missing:
            self._notice(f"copying PostgreSQL to {self._install.root}")
            self._install.copy()
        self._prepare_directories()
        await self._ensure_cluster()
        if self.pid is None:
            await stop_orphan(self.pgdata, self._notice)
        await self.process.start()

    async def stop(self, timeout: float = 30.0) -> None:
        """Shut down in order: connections end, a checkpoint is written."""
        await self.process.stop(timeout)

    def dsn(self, user: str, password: str, database: str) -> str:
        """A connection string for asyncpg and every libpq client. It holds the password."""
        who = f"{quote(user, safe='')}:{quote(password, safe='')}"
        where = f"host={quote(str(self.socket_dir))}&port={_PORT}"
        return f"postgresql://{who}@/{quote(database, safe='')}?{where}"

    def superuser_dsn(self, database: str = "postgres") -> str:
        return self.dsn(_SUPERUSER, self._password, database)

    def _argv(self) -> list[str]:
        # On the command line, where ALTER SYSTEM cannot open the server to the network.
        fixed = {
            "config_file": self._config_dir / "postgresql.conf",
            "listen_addresses": "",
            "port": _PORT,
            "unix_socket_directories": self.socket_dir,
            "unix_socket_permissions": "0700",
            "cluster_name": self._cluster,
        }
        options = [part for key, value in fixed.items() for part in ("-c", f"{key}={value}")]
        return [str(self._install.postgres), "-D", str(self.pgdata), *options]

    def _prepare_directories(self) -> None:
        make_directory(self.data_dir / "logs", mode=0o700)
        make_directory(self.socket_dir, mode=0o700, owner=self._account)
        if self._account is not None and self.socket_dir.parent == self.data_dir:
            os.chown(self.socket_dir, self._account.uid, self._account.gid, follow_symlinks=False)
        self._check_socket_directory()
        # Ours and not the account's, so that a compromised server cannot rewrite its own rules.
        make_directory(self._config_dir, mode=0o755)
        hba_file = self._config_dir / "pg_hba.conf"
        _write(hba_file, HBA)
        _write(
            self._config_dir / "postgresql.conf",
            configuration(hba_file=hba_file, durable=self._durable),
        )

    def _check_socket_directory(self) -> None:
        # Anybody may have made a directory of that name in /tmp, to be asked for our passwords.
        info = self.socket_dir.lstat()
        private = stat.S_ISDIR(info.st_mode) and not stat.S_IMODE(info.st_mode) & 0o077
        if not private or info.st_uid != self._engine_uid:
            raise SetupError(
                f"The socket directory {self.socket_dir} is not private to PostgreSQL.",
                hint=f"Remove it with `rm -r {self.socket_dir}`; AgentOS makes it again.",
            )

    async def _ensure_cluster(self) -> None:
        for scratch in self.data_dir.glob(f"{_SCRATCH}*"):
            # What cannot go now goes at the next start.
            shutil.rmtree(scratch, ignore_errors=True)
        if (self.pgdata / "PG_VERSION").exists():
            self._check_version()
            self._adopt()
            return
        if self.pgdata.exists() and any(self.pgdata.iterdir()):
            raise SetupError(
                f"{self.pgdata} holds something that is not a PostgreSQL cluster.",
                hint="Move it away, or choose another data directory.",
            )
        self._notice("creating the database cluster")
        await self._create_cluster()

    async def _create_cluster(self) -> None:
        # Made aside and renamed, so that a crash on the way leaves no half-made cluster.
        scratch = self._scratch_directory()
        try:
            await self._initdb(scratch)
            (scratch / "data").rename(self.pgdata)
            _sync_directory(self.data_dir)
        finally:
            shutil.rmtree(scratch)

    def _scratch_directory(self) -> Path:
        scratch = Path(tempfile.mkdtemp(dir=self.data_dir, prefix=_SCRATCH))
        if self._account is not None:
            scratch.chmod(0o711)
        make_directory(scratch / "data", mode=0o700, owner=self._account)
        _write_private(scratch / "password", self._password, self._account)
        return scratch

    async def _initdb(self, scratch: Path) -> None:
        argv = [
            str(self._install.initdb),
            *("-D", str(scratch / "data"), "-U", _SUPERUSER),
            *("--auth=scram-sha-256", f"--pwfile={scratch / 'password'}"),
            # Built in, so that indexes stay right when the system's C library changes.
            *("--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--data-checksums", "--no-instructions"),
            *(() if self._durable else ("--no-sync",)),
        ]
        log_path = scratch / "initdb.log"
        with log_path.open("wb") as log:
            child = spawn(
                argv, account=self._account, death_signal=signal.SIGKILL, output=log.fileno()
            )
            try:
                status = await wait_exit(child)
            except BaseException:
                # With all of its own children, which would go on writing.
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise
        if status != 0:
            raise EngineFailed(
                f"The database cluster could not be made:\n{log_path.read_text()[-2000:]}",
                hint=f"Check the free space and the permissions of {self.data_dir}.",
            )

    def _check_version(self) -> None:
        found = (self.pgdata / "PG_VERSION").read_text().strip()
        if found != _MAJOR:
            raise SetupError(
                f"{self.pgdata} was made by PostgreSQL {found}; this is PostgreSQL {_MAJOR}.",
                hint="Dump it with the AgentOS that made it, and restore into a new directory.",
            )

    def _adopt(self) -> None:
        """Give the cluster to today's account: its number may change when an image is rebuilt."""
        if self.pgdata.stat().st_uid == self._engine_uid:
            return
        if self._account is None:
            raise SetupError(
                f"{self.pgdata} belongs to another user.",
                hint="Run AgentOS as the user who made it, or choose another data directory.",
            )
        uid, gid = self._account.uid, self._account.gid
        for _, directories, files, here in os.fwalk(self.pgdata):
            for name in [*directories, *files]:
                os.chown(name, uid, gid, dir_fd=here, follow_symlinks=False)
        os.chown(self.pgdata, uid, gid)

    @property
    def _engine_uid(self) -> int:
        return os.geteuid() if self._account is None else self._account.uid

    def _clear_leftovers(self) -> None:
        quit_backends(self._cluster, self._engine_uid)
        remove_stale_lock(self.pgdata / "postmaster.pid", self.pgdata)
        remove_stale_lock(self.socket_dir / f"{_SOCKET}.lock", self.pgdata)

    async def _answers(self) -> bool:
        try:
            connection = await asyncpg.connect(self.superuser_dsn())
        except asyncpg.InvalidPasswordError as error:
            raise SetupError(
                f"PostgreSQL in {self.pgdata} does not accept the superuser password.",
                hint="Restore the secrets that belong to this data directory from a backup.",
            ) from error
        except asyncpg.TooManyConnectionsError:
            return True
        except (
            OSError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,  # a server that dies in the middle of the handshake
        ):
            return False
        self.version = connection.get_settings().server_version
        await connection.close()
        return True


def _socket_directory(data_dir: Path) -> Path:
    usual = data_dir / "run"
    # A comma separates directories for PostgreSQL, hosts for its clients.
    if len(os.fsencode(usual / _SOCKET)) <= _SOCKET_PATH_MAX and "," not in str(usual):
        return usual
    # Not the temporary directory of the environment: every process must find the same one.
    return Path("/tmp", f"agentos-{_digest(data_dir)}")  # noqa: S108 -- checked before each use


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _write_private(path: Path, text: str, owner: Account | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
