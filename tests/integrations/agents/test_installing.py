"""Installing agent CLIs, with an npm of our own: the real one needs a network."""

from __future__ import annotations

import asyncio
import os
import platform
from pathlib import Path

import pytest

from agentos.integrations.agents.errors import (
    InstallFailed,
    NpmMissing,
    UnknownAgent,
    UnsupportedMachine,
)
from agentos.integrations.agents.installing import install
from agentos.integrations.agents.packages import AGENTS, agents_missing, packages, where

# Makes what npm would make of its arguments, as unfriendly to others as it can.
NPM = """#!/bin/sh
umask 077
echo "$@" >> "$NPM_LOG"
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix) prefix="$2"; shift ;;
    *@*.*) specs="$specs $1" ;;
  esac
  shift
done
[ -n "$NPM_FAILS" ] && { echo "npm error 404 $NPM_FAILS"; exit 1; }
for spec in $specs; do
  name="${spec%@*}"; version="${spec##*@}"; folder="$prefix/node_modules/$name"
  case "$name" in "${NPM_LEAVES_OUT:-nothing}"*) continue ;; esac
  mkdir -p "$folder/bin"
  echo "{\\"name\\": \\"$name\\", \\"version\\": \\"$version\\"}" > "$folder/package.json"
  for program in claude bin/opencode bin/rg; do
    echo "#!/bin/sh" > "$folder/$program"; chmod 700 "$folder/$program"
  done
done
"""


@pytest.fixture
def npm_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of npm, one line each."""
    programs = tmp_path / "programs"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    log = tmp_path / "npm.log"
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(log))
    return log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "agents"


def quiet(_: str) -> None:
    pass


def calls_of(npm_log: Path) -> list[str]:
    return npm_log.read_text().splitlines()


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_what_is_missing_is_installed_once(npm_log: Path, directory: Path) -> None:
    said: list[str] = []
    assert agents_missing(directory, "opencode") == ("opencode", "ripgrep")
    await install(["claude-code", "ripgrep"], directory, said.append)
    assert agents_missing(directory, "claude-code") == ()
    assert agents_missing(directory, "opencode") == ("opencode",)
    assert agents_missing(directory, "acp") == ()
    assert said == ["Installing claude-code 2.1.325", "Installing ripgrep 1.18.0"]
    await install(["claude-code", "opencode", "ripgrep"], directory, said.append)
    assert set(where(directory)) == set(AGENTS)
    calls = calls_of(npm_log)
    assert len(calls) == 2
    assert "claude-code" not in calls[1]
    for call in calls:
        assert "--ignore-scripts" in call
        assert "://" not in call
    await install(AGENTS, directory, said.append)
    assert len(calls_of(npm_log)) == 2


async def test_other_accounts_can_use_it_and_nothing_is_left_over(
    npm_log: Path, directory: Path
) -> None:
    await install(AGENTS, directory, quiet)
    for path in (directory, *(directory / "node_modules").rglob("*")):
        wanted = 0o755 if path.is_dir() or path in where(directory).values() else None
        if wanted is not None:
            assert path.stat().st_mode & 0o777 == wanted, path
        assert path.stat().st_mode & 0o044 == 0o044, path
    assert names_in(directory) == {"node_modules", ".lock"}


async def test_an_older_version_gives_way(npm_log: Path, directory: Path) -> None:
    await install(["ripgrep"], directory, quiet)
    (package,) = packages(["ripgrep"]).values()
    about = package.folder(directory) / "package.json"
    about.write_text('{"version": "0.1.0"}')
    (package.folder(directory) / "old").write_text("")
    assert where(directory).keys() == {"ripgrep"}
    await install(["ripgrep"], directory, quiet)
    assert package.version in about.read_text()
    assert not (package.folder(directory) / "old").exists()


async def test_two_at_once_install_it_once(npm_log: Path, directory: Path) -> None:
    await asyncio.gather(*(install(AGENTS, directory, quiet) for _ in range(4)))
    assert len(calls_of(npm_log)) == 1
    assert set(where(directory)) == set(AGENTS)


async def test_npm_that_fails_leaves_what_was_there(
    npm_log: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await install(["ripgrep"], directory, quiet)
    monkeypatch.setenv("NPM_FAILS", "not in this registry")
    with pytest.raises(InstallFailed, match="exit code 1:\nnpm error 404 not in") as failed:
        await install(AGENTS, directory, quiet)
    assert "npm install --ignore-scripts" in (failed.value.advice or "")
    assert where(directory).keys() == {"ripgrep"}
    assert names_in(directory) == {"node_modules", ".lock"}


async def test_npm_that_leaves_a_package_out_has_failed(
    npm_log: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_LEAVES_OUT", "opencode")
    with pytest.raises(InstallFailed, match="opencode is not there"):
        await install(AGENTS, directory, quiet)
    assert where(directory) == {}


async def test_without_npm_it_says_how_to_get_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NpmMissing) as missing:
        await install(["claude-code"], directory, quiet)
    assert "apt-get install npm" in (missing.value.advice or "")


async def test_a_directory_that_cannot_be_made(npm_log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InstallFailed) as failed:
        await install(["claude-code"], tmp_path / "file" / "agents", quiet)
    assert "AGENTOS_AGENTS_DIR" in (failed.value.advice or "")


async def test_names_and_machines_that_are_not_known(directory: Path) -> None:
    with pytest.raises(UnknownAgent) as unknown:
        await install(["claude-code", "gemini"], directory, quiet)
    assert "claude-code, opencode, ripgrep" in (unknown.value.advice or "")
    with pytest.raises(UnsupportedMachine):
        packages(AGENTS, machine="riscv64")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_machine_has_packages_of_its_own(machine: str) -> None:
    found = packages(AGENTS, machine)
    suffix = {"x86_64": "-x64", "aarch64": "-arm64"}[machine]
    assert all(package.npm_name.endswith(suffix) for package in found.values())
    assert found["claude-code"].program_in(Path("/opt/agents")) == Path(
        f"/opt/agents/node_modules/@anthropic-ai/claude-code-linux{suffix}/claude"
    )


def test_this_machine_is_known() -> None:
    assert packages(AGENTS, platform.machine())
