"""`agentos agents` and `agentos sidecar` on this machine, with an npm that is none."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agentos.integrations.agents.packages import AGENTS, packages

from .conftest import Cli

# Makes of `npm install … --prefix DIR name@version…` what the real one would.
NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
prefix=$2; shift 2
for spec; do
  folder="$prefix/node_modules/${spec%@*}"
  mkdir -p "$folder/bin"
  printf '{"version": "%s"}' "${spec##*@}" > "$folder/package.json"
  for program in claude bin/opencode bin/rg; do
    printf '#!/bin/sh\\n' > "$folder/$program"
    chmod 755 "$folder/$program"
  done
done
"""


@pytest.fixture
def machine(cli: Cli, tmp_path: Path) -> Cli:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npm").write_text(NPM)
    (programs / "npm").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return Cli(cli.env | {"PATH": path, "AGENTOS_AGENTS_DIR": str(tmp_path / "agents")})


async def test_installing(machine: Cli, tmp_path: Path) -> None:
    before = (await machine("agents", "list", "--json")).json
    assert [row["name"] for row in before] == list(AGENTS)
    assert not any(row["installed"] for row in before)
    done = await machine("agents", "install", "opencode", "ripgrep")
    version = packages(["opencode"])["opencode"].version
    assert f"Installed in {tmp_path / 'agents'}: opencode {version}, ripgrep" in done.out
    assert f"Installing opencode {version}" in done.err
    listed = (await machine("agents", "list")).out
    assert re.search(rf"opencode +{re.escape(version)} +yes +/", listed)
    assert re.search(r"claude-code +\S+ +no ", listed)
    again = await machine("agents", "install", "--all", "--json")
    assert [row["installed"] for row in again.json["agents"]] == [True] * len(AGENTS)
    assert "opencode" not in again.err, "what is there is not installed again"


async def test_what_cannot_be_installed(machine: Cli, tmp_path: Path) -> None:
    assert "claude-code, opencode, ripgrep" in (await machine("agents", "install", code=2)).err
    assert (await machine("agents", "install", "opencode", "--all", code=2)).err
    assert "frobnicator" in (await machine("agents", "install", "frobnicator", code=2)).err
    (tmp_path / "bin/npm").write_text("#!/bin/sh\necho no such registry >&2\nexit 7\n")
    failed = await machine("agents", "install", "ripgrep", code=11)
    assert "no such registry" in failed.err


async def test_a_sidecar_alone_says_what_it_misses(machine: Cli, tmp_path: Path) -> None:
    alone = await machine("sidecar", code=1, AGENTOS_RUN_DIR=str(tmp_path / "none"))
    assert "the sidecar cannot go on" in alone.err
    assert "spec.json" in alone.err
