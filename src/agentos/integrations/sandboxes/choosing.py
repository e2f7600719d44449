"""Which sandbox this machine can give: bubblewrap, else Landlock, else none at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from agentos.integrations.sandboxes.base import Command, Limits, Sandbox, SandboxMissing
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import Cgroups, find_cgroups
from agentos.integrations.sandboxes.landlock import Landlock, sweep_temporary_directories
from agentos.kernel.errors import AgentOSError

Choice = Literal["auto", "bubblewrap", "landlock", "none"]

_PROBE_SECONDS = 5.0
_NOBODY = 65534
# Writes where it may, and then tries to read and to change a file that is not its own.
_PROBE = 'echo inside > seen && cat seen; cat "$1"; echo changed >> "$1"'
_OUTSIDE = "outside"
_SWITCHES = Path("/proc/sys")


@dataclass(frozen=True)
class Refusing:
    """Runs nothing, and says why."""

    reason: str
    mending: str | None = None

    @property
    def name(self) -> str:
        return "none"

    async def run(self, command: Command) -> NoReturn:  # noqa: ARG002 - what a sandbox is asked
        raise SandboxMissing(self.reason, hint=self.mending)


async def choose_sandbox(choice: Choice = "auto") -> Sandbox:
    """The best sandbox that was seen to work here, or the chosen one, or one that refuses."""
    if choice == "none":
        return Refusing("Running commands is turned off.", "Set AGENTOS_SANDBOX=auto.")
    await asyncio.to_thread(_sweep)
    cgroups = await usable_cgroups()
    known: dict[str, Bubblewrap | Landlock] = {
        "bubblewrap": Bubblewrap(cgroups),
        "landlock": Landlock(cgroups),
    }
    reasons: list[AgentOSError] = []
    for name, sandbox in known.items():
        if choice in ("auto", name):
            fault = await why_not(sandbox)
            if fault is None:
                return sandbox
            reasons.append(fault)
    # The first one says what to do: it is the better sandbox.
    message = "This machine cannot isolate commands: " + " ".join(r.message for r in reasons)
    return Refusing(message, reasons[0].advice)


async def usable_cgroups() -> Cgroups | None:
    """Control groups that commands can really be put into; None: limits are by process only."""
    cgroups = find_cgroups()
    if cgroups is None or not await asyncio.to_thread(cgroups.can_be_entered):
        return None
    return cgroups


def _sweep() -> None:
    if (cgroups := find_cgroups()) is not None:
        cgroups.sweep()
    sweep_temporary_directories()


async def why_not(sandbox: Sandbox) -> AgentOSError | None:
    """What keeps the sandbox from working, seen by running something; None: nothing does."""
    place = Path(tempfile.mkdtemp(prefix="agentos-probe-"))
    secret = place / "secret"
    try:
        outcome = await sandbox.run(_probe(place, secret))
        unchanged = secret.read_text() == _OUTSIDE
    except SandboxMissing as error:
        return error
    except AgentOSError as error:
        return SandboxMissing(error.message, hint=mending(sandbox.name, error.message))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if b"inside" not in outcome.output or outcome.ending != "exited":
        return SandboxMissing(f"{sandbox.name} cannot run a command.", hint=mending(sandbox.name))
    if _OUTSIDE.encode() in outcome.output or not unchanged:
        return SandboxMissing(f"{sandbox.name} does not isolate here.", hint=mending(sandbox.name))
    return None


def _probe(place: Path, secret: Path) -> Command:
    """A command that would reach the secret if nothing but the sandbox kept it away."""
    workspace = place / "workspace"
    workspace.mkdir()
    secret.write_text(_OUTSIDE)
    uid = _NOBODY if os.geteuid() == 0 else None
    if uid is not None:
        os.chown(workspace, uid, uid)
        place.chmod(0o711)
        secret.chmod(0o666)
    argv = ("/bin/sh", "-c", _PROBE, "sh", str(secret))
    return Command(argv, workspace, uid=uid, limits=Limits(seconds=_PROBE_SECONDS))


def mending(name: str, reason: str = "") -> str:
    """The one command that would make this sandbox work, as far as its complaint tells."""
    if name != "bubblewrap":
        return "Install bubblewrap: apt-get install bubblewrap"
    for sign, remedy in _REMEDIES.items():
        if sign in reason and _has(remedy):
            return f"Allow user namespaces: sysctl -w {remedy}"
    return (
        "Allow user namespaces; in a container, run it with "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined."
    )


# What bubblewrap says, and the switch that the distribution has set against it.
_REMEDIES = {
    "No permissions to create new namespace": "kernel.unprivileged_userns_clone=1",
    "setting up uid map": "kernel.apparmor_restrict_unprivileged_userns=0",
    "Creating new namespace failed": "user.max_user_namespaces=15000",
}


def _has(remedy: str) -> bool:
    """Whether this kernel knows the switch, and it is not yet set."""
    name, _, wanted = remedy.partition("=")
    switch = Path(_SWITCHES, *name.split("."))
    if not switch.exists():
        return False
    value = switch.read_text().strip()
    return value != wanted if wanted in ("0", "1") else value == "0"
