"""Which sandbox is used, and that none is better than a broken one."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integrations.sandboxes.conftest import ROOT

from agentos.cli.checks.outcomes import Site, State
from agentos.cli.checks.sandbox import sandbox as check
from agentos.integrations.sandboxes import bubblewrap, choosing, landlock
from agentos.integrations.sandboxes.base import Command, Outcome, SandboxMissing
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.choosing import Choice, Refusing, choose_sandbox, why_not
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.kernel.errors import Kind
from agentos.kernel.settings import Settings


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which

    def which(name: str, path: str | None = None) -> str | None:
        return None if name == "bwrap" else found(name, path=path)

    monkeypatch.setattr(shutil, "which", which)
    bubblewrap._program.cache_clear()


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(Landlock):
        def __init__(self, cgroups: object = None) -> None:
            super().__init__(None, version=0)

    monkeypatch.setattr(choosing, "Landlock", Missing)
    monkeypatch.setattr(landlock, "Landlock", Missing)


@dataclass
class Unsafe:
    """Runs commands as they are: what a sandbox that does not work is like."""

    name: str = "unsafe"

    async def run(self, command: Command) -> Outcome:
        done = await asyncio.to_thread(
            subprocess.run, command.argv, cwd=command.workspace, capture_output=True, check=False
        )
        return Outcome("exited", done.returncode, done.stdout, 0, 0.0)


async def test_bubblewrap_comes_first() -> None:
    assert isinstance(await choose_sandbox(), Bubblewrap)


@pytest.mark.parametrize(("choice", "kind"), [("bubblewrap", Bubblewrap), ("landlock", Landlock)])
async def test_one_can_be_chosen(choice: Choice, kind: type) -> None:
    assert isinstance(await choose_sandbox(choice), kind)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_landlock_stands_in() -> None:
    assert isinstance(await choose_sandbox(), Landlock)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_the_chosen_one_is_not_replaced() -> None:
    assert isinstance(await choose_sandbox("bubblewrap"), Refusing)


@pytest.mark.usefixtures("without_bubblewrap", "without_landlock")
async def test_without_any_commands_are_refused(tmp_path: Path) -> None:
    sandbox = await choose_sandbox()
    marker = tmp_path / "ran"
    with pytest.raises(SandboxMissing, match=r"bwrap is not installed.*no Landlock") as refused:
        await sandbox.run(Command(("touch", str(marker)), tmp_path))
    assert not marker.exists()
    assert refused.value.advice == "Install bubblewrap: apt-get install bubblewrap"
    assert refused.value.kind == Kind.SETUP
    assert sandbox.name == "none"


async def test_none_can_be_chosen(tmp_path: Path) -> None:
    sandbox = await choose_sandbox("none")
    with pytest.raises(SandboxMissing, match="turned off"):
        await sandbox.run(Command(("true",), tmp_path))


async def test_a_sandbox_that_does_not_isolate_is_found_out() -> None:
    fault = await why_not(Unsafe())
    assert fault is not None
    assert "does not isolate" in fault.message


async def test_old_landlock_needs_an_account_of_its_own() -> None:
    """It cannot keep a command from signalling processes of the same account."""
    if ROOT:
        assert await why_not(Landlock(version=1)) is None
    with pytest.raises(SandboxMissing, match="signalling"):
        Landlock(version=5)._check_kernel(uid=os.geteuid())


@pytest.mark.parametrize(
    ("reason", "switch", "value", "advice"),
    [
        (
            "bwrap: No permissions to create new namespace, likely because …",
            "kernel/unprivileged_userns_clone",
            "0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: setting up uid map: Permission denied",
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            "bwrap: Creating new namespace failed: nesting depth or … exceeded (ENOSPC)",
            "user/max_user_namespaces",
            "0",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        ("bwrap: Can't mount proc on /newroot/proc", "kernel/x", "0", "--security-opt"),
    ],
)
def test_advice(
    reason: str,
    switch: str,
    value: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / switch
    file.parent.mkdir(parents=True)
    file.write_text(value)
    monkeypatch.setattr(choosing, "_SWITCHES", tmp_path)
    assert advice in choosing.mending("bubblewrap", reason)


@pytest.fixture
def site(settings: Settings) -> Site:
    return Site(settings, None, None, None)


async def test_doctor_is_content(site: Site) -> None:
    outcome = await check(site)
    assert outcome.state is State.OK
    assert outcome.detail.startswith("bubblewrap works")


@pytest.mark.usefixtures("without_bubblewrap")
async def test_doctor_without_bubblewrap(site: Site) -> None:
    outcome = await check(site)
    assert outcome.state is State.WARNING
    assert outcome.detail.startswith("Landlock works, bubblewrap does not: bwrap is not installed")
    assert outcome.fix == "Install bubblewrap: apt-get install bubblewrap"


@pytest.mark.usefixtures("without_bubblewrap", "without_landlock")
async def test_doctor_without_any(site: Site) -> None:
    outcome = await check(site)
    assert outcome.state is State.WARNING
    assert outcome.detail.startswith("tools are refused:")
