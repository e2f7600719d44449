"""What a team's container and network look like to Docker."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from agentos.integrations.runtimes.base import (
    AGENTS_DIRECTORY,
    RUN_DIRECTORY,
    SIDECAR_DIRECTORY,
    WORKSPACE,
    Place,
    RuntimeMissing,
)
from agentos.kernel.errors import SetupError

INSTALLATION, TENANT, TEAM = "agentos.installation", "agentos.tenant", "agentos.team"

_MIB = 1024 * 1024
# As in the sandbox on this machine: see local.py.
_TMP = f"rw,nosuid,nodev,mode=1777,size={512 * _MIB}"
_SHM_BYTES = 16 * _MIB
_NANO = 1_000_000_000
_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": WORKSPACE, "LANG": "C.UTF-8"}


class MountInvalid(SetupError):
    """A mount for containers is not written as `host:container`."""

    code = "docker_mount_invalid"
    hint = 'Write AGENTOS_DOCKER_MOUNTS as ["/on/this/machine:/in/the/container"].'


@dataclass(frozen=True)
class Shown:
    """A directory or file of the engine's machine, and where a container sees it."""

    source: str
    target: str
    writable: bool = False

    def mount(self) -> dict[str, Any]:
        # Unlike the older form, this one does not make what is missing.
        return {
            "Type": "bind",
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": not self.writable,
        }


def parse_mounts(mounts: list[str]) -> tuple[Shown, ...]:
    """Raises MountInvalid."""
    found = []
    for mount in mounts:
        source, _, target = mount.partition(":")
        if not (source.startswith("/") and target.startswith("/")) or ":" in target:
            raise MountInvalid(f"{mount!r} is not written as `host:container`.")
        found.append(Shown(source, target))
    return tuple(found)


def labels(installation: str, tenant_id: UUID, team_id: UUID) -> dict[str, str]:
    return {INSTALLATION: installation, TENANT: str(tenant_id), TEAM: str(team_id)}


def name(installation: str, tenant_id: UUID, team_id: UUID) -> str:
    """Short enough to read, and no other team's: ids of one second begin alike."""
    whole = sha256(f"{installation}/{tenant_id}/{team_id}".encode()).hexdigest()
    return f"agentos-{str(tenant_id)[:8]}-{str(team_id)[:8]}-{whole[:16]}"


def network(called: str, marks: dict[str, str]) -> dict[str, Any]:
    return {
        "Name": called,
        "CheckDuplicate": True,
        "Driver": "bridge",
        "Internal": True,
        # Without an address of its own in it, this machine cannot be reached from there either:
        # what listens on all of its addresses would be open to every team.
        "Options": {"com.docker.network.bridge.inhibit_ipv4": "true"},
        "EnableIPv6": False,
        "Labels": marks,
    }


def account_of(place: Place) -> int:
    uid = os.geteuid() if place.uid is None else place.uid
    if uid == 0:
        raise RuntimeMissing(
            "Teams are not run as root.", hint="Give the workspace an account of its own."
        )
    return uid


def shown(place: Place) -> list[Shown]:
    """What each container sees of the team's files. For the sockets it need not be writable."""
    # An image may bring the agent CLIs itself, which an empty directory would hide.
    installed = place.agents.is_dir() and any(place.agents.iterdir())
    agents = [Shown(str(place.agents.resolve()), AGENTS_DIRECTORY)] if installed else []
    return [
        Shown(str(place.workspace.resolve()), WORKSPACE, writable=True),
        Shown(str(place.run_directory.resolve()), RUN_DIRECTORY),
        *agents,
        Shown(str(place.sidecar.resolve()), SIDECAR_DIRECTORY),
        *(Shown(str(place.run_directory.resolve() / n), f"/etc/{n}") for n in ("passwd", "group")),
    ]


def name_account(place: Place) -> None:
    """Node, git and others give up where the account they run as has no name."""
    uid = account_of(place)
    _write(place.run_directory, "passwd", f"agent:x:{uid}:{uid}:agent:{WORKSPACE}:/bin/sh\n")
    _write(place.run_directory, "group", f"agent:x:{uid}:\n")


def _write(directory: Path, file: str, text: str) -> None:
    """A new file, whatever was there: a link would lead elsewhere."""
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file, dir_fd=place)
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=place)
        with os.fdopen(made, "w") as opened:
            opened.write(text)
            os.fchmod(made, 0o644)
    finally:
        os.close(place)


def container(
    place: Place, *, image: str, network: str, mounts: list[Shown], marks: dict[str, str]
) -> dict[str, Any]:
    """No right, no privilege, nothing to write but the workspace and a small /tmp."""
    uid, resources = account_of(place), place.resources
    return {
        "Image": image,
        "Entrypoint": [],
        "Cmd": list(place.argv),
        "Env": [f"{key}={value}" for key, value in {**_ENV, **place.env}.items()],
        "User": f"{uid}:{uid}",
        "WorkingDir": WORKSPACE,
        "Hostname": "sandbox",
        "Labels": marks,
        "HostConfig": {
            # It passes signals on to the sidecar, and reaps what others leave behind.
            "Init": True,
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": _TMP},  # noqa: S108 - its own, in there
            "ShmSize": _SHM_BYTES,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "Memory": resources.memory_bytes,
            # The same: nothing is swapped.
            "MemorySwap": resources.memory_bytes,
            "NanoCpus": resources.cpu_percent * _NANO // 100,
            "PidsLimit": resources.processes,
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "NetworkMode": network,
            "Mounts": [each.mount() for each in mounts],
            "RestartPolicy": {"Name": "no"},
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
        },
    }
