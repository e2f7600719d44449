"""What can go wrong when agent CLIs are installed."""

from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Kind


class UnknownAgent(AgentOSError):
    """There is no such agent CLI."""

    code = "unknown_agent"
    kind = Kind.INVALID


class UnsupportedMachine(AgentOSError):
    """There are no agent CLIs for this kind of machine."""

    code = "unsupported_machine"
    kind = Kind.SETUP
    hint = "Run teams with the native provider, or workers on an x86-64 or arm64 machine."


class NpmMissing(AgentOSError):
    """npm is needed to install agent CLIs, and is not on this machine."""

    code = "npm_missing"
    kind = Kind.SETUP
    hint = "Install it: `apt-get install npm`."


class InstallFailed(AgentOSError):
    """An agent CLI could not be installed."""

    code = "install_failed"
    kind = Kind.SETUP
