"""What every sandbox asks of a command before it starts anything."""

from __future__ import annotations

import os
import re

from agentos.integrations.sandboxes.base import Command, SandboxMissing
from agentos.kernel.errors import Invalid

# What may be read of /etc: how programs are found, and whom to trust on the network.
READABLE_ETC = ("/etc/alternatives", "/etc/ssl/certs", "/etc/ld.so.cache")
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PATH = "/usr/local/bin:/usr/bin:/bin"
# The kernel's own limit for one string, less the room for its end.
_LONGEST = 128 * 1024 - 1
# All of argv and the environment together; the kernel allows a quarter of the stack, 2 MiB.
_LONGEST_TOGETHER = 1024 * 1024


class CommandInvalid(Invalid):
    """The command cannot be run as it is written."""

    code = "command_invalid"


def check(command: Command) -> None:
    """Raises CommandInvalid for what no system could run."""
    if not command.argv or not command.argv[0]:
        raise CommandInvalid("The command is empty.")
    texts = [*command.argv, *command.env, *command.env.values()]
    lengths = [len(os.fsencode(text)) for text in texts]
    if any("\0" in text for text in texts):
        raise CommandInvalid("A command and its environment cannot hold NUL characters.")
    if max(lengths) > _LONGEST or sum(lengths) > _LONGEST_TOGETHER:
        raise CommandInvalid(
            "The command is too long.", hint="Write it to a file in the workspace, and run that."
        )
    # Shells drop all others without a word.
    if wrong := [name for name in command.env if not _VARIABLE.fullmatch(name)]:
        raise CommandInvalid(f"{wrong[0]!r} cannot be the name of an environment variable.")


def account_of(command: Command) -> int:
    """The account to run as, which is never root."""
    uid = os.geteuid() if command.uid is None else command.uid
    if uid == 0:
        raise SandboxMissing(
            "Commands are not run as root.", hint="Give the workspace an account of its own."
        )
    if os.geteuid() not in (0, uid):
        raise SandboxMissing(
            f"Commands cannot be run as account {uid} by account {os.geteuid()}.",
            hint="Run the worker as root, or as the account that owns the workspace.",
        )
    return uid


def environment(command: Command, home: str) -> dict[str, str]:
    """All that the command sees of an environment; nothing of ours is in it."""
    return {"PATH": _PATH, "HOME": home, "LANG": "C.UTF-8", **command.env}
