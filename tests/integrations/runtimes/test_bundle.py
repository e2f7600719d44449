"""The sidecar as a directory of its own."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.runtimes.teams import Teams

from agentos.integrations.runtimes.base import RuntimeMissing
from agentos.integrations.runtimes.bundle import Bundle, find_interpreter, sidecar_bundle
from agentos.integrations.runtimes.local import Local
from agentos.integrations.runtimes.parts import needed_files
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import find_cgroups

ENTRY = "standin.side.main:main"
SOURCES = {
    "__init__.py": "",
    "huge.py": "import aiohttp",
    "shared/__init__.py": "import h11",
    "shared/words.py": "WORD = 'hello'\n\n\ndef unused():\n    import cryptography\n",
    "shared/other.py": "import aiohttp",
    "side/__init__.py": "",
    "side/main.py": (
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "import msgspec, nkeys, sys\n"
        "from ..shared import words\n"
        "if TYPE_CHECKING:\n    import standin.huge\n"
        "def main():\n"
        "    from standin.side import late\n"
        "    print(words.WORD, late.WHEN, len(msgspec.json.encode([1])), sys.path)\n"
        "    return 4\n"
    ),
    "side/late.py": "WHEN = 'late'",
}


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources of a small program, beside which lies what it does not need."""
    home = tmp_path / "sources" / "standin"
    for name, text in SOURCES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    monkeypatch.syspath_prepend(str(home.parent))
    return home


@pytest.mark.usefixtures("standin")
def test_only_what_is_needed() -> None:
    names = needed_files("standin.side")
    own = {name for name in names if name.startswith("standin/")}
    assert own == {
        "standin/__init__.py",
        "standin/shared/__init__.py",
        "standin/shared/words.py",
        "standin/side/__init__.py",
        "standin/side/late.py",
        "standin/side/main.py",
    }
    tops = {name.partition("/")[0] for name in names}
    # What nkeys needs, and what that needs in turn.
    assert {"msgspec", "nkeys", "nacl", "cffi", "h11"} <= tops
    assert not {"aiohttp", "cryptography", "bin"} & tops


def test_the_sidecar_is_small() -> None:
    tops = {name.partition("/")[0] for name in needed_files("agentos.sidecar")}
    assert {"agentos", "msgspec", "nats", "nkeys", "nacl"} <= tops
    assert not {"pydantic", "aiohttp", "cryptography", "fastapi", "asyncpg"} & tops


@pytest.mark.usefixtures("standin")
async def test_it_runs_in_the_sandbox(teams: Teams, place: Path) -> None:
    bundle = await sidecar_bundle(place / "bundles", ENTRY)
    ended = await _ended(bundle, teams, bundle.argv)
    bundle.close()
    assert ended.startswith("4: hello late 3 ['/opt/sidecar', ")
    assert "packages" not in ended


async def test_the_sidecar_can_be_imported_in_the_sandbox(teams: Teams, place: Path) -> None:
    bundle = await sidecar_bundle(place / "bundles")
    program = "import sys; sys.path[:0] = ['/opt/sidecar']; import agentos.sidecar.main as m; print(m.main)"
    ended = await _ended(bundle, teams, [*bundle.argv[:-1], "-c", program])
    bundle.close()
    assert ended.startswith("0: <function main")


async def _ended(bundle: Bundle, teams: Teams, argv: object) -> str:
    local = Local(Bubblewrap(find_cgroups()), bundle.mounts)
    running = await local.start(teams().place(argv=argv, sidecar=bundle.path))
    ended = await running.ended()
    return f"{ended.exit_code}: {ended.output}"


async def test_made_once_and_named_by_its_content(standin: Path, tmp_path: Path) -> None:
    first = await sidecar_bundle(tmp_path / "bundles", ENTRY)
    made = first.path.stat().st_ino
    again = await sidecar_bundle(tmp_path / "bundles", ENTRY)
    assert (again.path, again.path.stat().st_ino) == (first.path, made)
    (standin / "side" / "late.py").write_text("WHEN = 'later'")
    changed = await sidecar_bundle(tmp_path / "bundles", ENTRY)
    assert changed.path != first.path
    for bundle in (first, again, changed):
        bundle.close()


async def test_removed_when_nobody_uses_it(standin: Path, tmp_path: Path) -> None:
    directory = tmp_path / "bundles"
    old = await sidecar_bundle(directory, ENTRY)
    (directory / ".new-left-behind").mkdir()
    (standin / "side" / "late.py").write_text("WHEN = 'later'")
    new = await sidecar_bundle(directory, ENTRY)
    assert _bundles(directory) == {old.path, new.path}
    old.close()
    new.close()
    new = await sidecar_bundle(directory, ENTRY)
    assert _bundles(directory) == {new.path}
    new.close()


def _bundles(directory: Path) -> set[Path]:
    return {path for path in directory.iterdir() if path.is_dir()}


@pytest.mark.usefixtures("standin")
async def test_every_account_can_read_it(tmp_path: Path) -> None:
    bundle = await sidecar_bundle(tmp_path / "bundles", ENTRY)
    for path in [bundle.path.parent, bundle.path, *bundle.path.rglob("*")]:
        wanted = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    bundle.close()


@pytest.mark.usefixtures("standin")
def test_made_by_several_at_once(tmp_path: Path) -> None:
    """Each process that asks gets the whole of it."""
    program = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from agentos.integrations.runtimes.bundle import sidecar_bundle\n"
        f"print(asyncio.run(sidecar_bundle(Path({str(tmp_path / 'bundles')!r}), {ENTRY!r})).path)"
    )
    argv = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
    asked = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(3)]
    said = {each.communicate()[0] for each in asked}
    assert len(said) == 1
    path = Path(said.pop().decode().strip())
    done = subprocess.run([sys.executable, "-I", "-S", str(path)], capture_output=True, check=False)
    assert done.returncode == 4, done.stderr


def test_the_interpreter(place: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"

    def prefix(name: str) -> Path:
        made = place / name
        (made / "bin").mkdir(parents=True)
        (made / "bin" / version).touch()
        return made

    assert find_interpreter(prefix("system") / "bin").mounts == ()
    own = prefix("own")
    found = find_interpreter(place / "none", own)
    assert found.program == str(own / "bin" / version)
    assert [(m.source, m.target, m.writable) for m in found.mounts] == [(own, str(own), False)]
    own.chmod(0o700)
    with pytest.raises(RuntimeMissing, match="no Python"):
        find_interpreter(place / "none", own)
    with pytest.raises(RuntimeMissing, match="no Python"):
        find_interpreter(place / "none", place / "none")


async def test_sources_that_are_missing(tmp_path: Path) -> None:
    for entry in ("no_such_package.main:main", "agentos.no_such_part.main:main"):
        with pytest.raises(RuntimeMissing, match="cannot be found"):
            await sidecar_bundle(tmp_path / "bundles", entry)
