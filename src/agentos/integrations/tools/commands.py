"""Tools that run what the model wrote: `shell` and `python`, in the sandbox and nowhere else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentos.integrations.models.hosts import Hosts
from agentos.integrations.sandboxes.base import Command, Limits, Outcome
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import BuiltInTool, arguments_of
from agentos.integrations.tools.egress import Egress, egress_proxy
from agentos.integrations.tools.forwarder import forwarded, proxy_environment
from agentos.integrations.tools.outputs import shown
from agentos.integrations.tools.routes import session_routes
from agentos.kernel.errors import Invalid

_LONGEST_SECONDS = 3600
# The kernel takes 128 KiB in one argument.
_LONGEST_COMMAND = 100_000
_TIMEOUT = {
    "type": "integer",
    "minimum": 1,
    "maximum": _LONGEST_SECONDS,
    "description": "Seconds after which it is ended. The session's limit holds in any case.",
}
_OFFLINE = "There is no network."
_ONLINE = "Only the hosts allowed for this session can be reached, over HTTP and HTTPS."


class _CommandTool(BuiltInTool):
    def __init__(self, *, networked: bool, hosts: Hosts = "public"):
        self._hosts = hosts
        # With a way out, a command may have done something that no rollback takes back.
        self.spec = self._described(
            _ONLINE if networked else _OFFLINE, Repeat.NEVER if networked else Repeat.WORKSPACE
        )

    @abstractmethod
    def _described(self, network: str, repeat: Repeat) -> ToolSpec: ...

    @abstractmethod
    def _command(self, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], bytes]:
        """What to run, and what it reads."""

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        argv, stdin = self._command(arguments)
        command = Command(
            argv=argv,
            workspace=context.workspace.root,
            uid=context.workspace.uid,
            stdin=stdin,
            env={**context.env, "AGENTOS_IDEMPOTENCY_KEY": context.idempotency_key},
            limits=_limits(arguments, context.limits),
        )
        routes = session_routes(context.allowed_hosts, self._hosts)
        if not context.allowed_hosts:
            return await _result(await context.sandbox.run(command), command, context, None)
        async with egress_proxy(routes, context.workspace.uid) as egress:
            command = replace(
                command,
                argv=forwarded(command.argv),
                env={**command.env, **proxy_environment(context.allowed_hosts)},
                egress=egress.socket,
            )
            return await _result(await context.sandbox.run(command), command, context, egress)


class Shell(_CommandTool):
    """Runs a line or a script of bash."""

    def _described(self, network: str, repeat: Repeat) -> ToolSpec:
        return ToolSpec(
            name="shell",
            description=(
                "Run a command with bash in the workspace, which is the current directory. "
                "Returns what it printed on both streams, and the exit code if it is not 0. "
                "Each call is a new shell: variables, `cd` and background processes do not "
                "last, files in the workspace do. Nothing can be typed in while it runs. " + network
            ),
            schema=arguments_of(
                {
                    "command": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": _LONGEST_COMMAND,
                        "description": "For `bash -c`; may have many lines.",
                    },
                    "timeout_seconds": _TIMEOUT,
                },
                "command",
            ),
            tier=Tier.DANGEROUS,
            repeat=repeat,
        )

    def _command(self, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], bytes]:
        text: str = arguments["command"]
        if "\0" in text:
            raise Invalid("A command cannot contain a zero byte.")
        if len(text.encode()) > _LONGEST_COMMAND:
            raise Invalid(
                f"The command has more than {_LONGEST_COMMAND} bytes.",
                hint="Write it to a file with write_file, and run that.",
            )
        return ("bash", "-c", text), b""


class Python(_CommandTool):
    """Runs Python code."""

    def _described(self, network: str, repeat: Repeat) -> ToolSpec:
        return ToolSpec(
            name="python",
            description=(
                "Run Python 3 code in the workspace, which is the current directory. Returns what "
                "it printed; use print() for what you want to see. Each call is a new "
                "interpreter: variables do not last, files in the workspace do. " + network
            ),
            schema=arguments_of(
                {
                    "code": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 1_000_000,
                        "description": "A whole program.",
                    },
                    "timeout_seconds": _TIMEOUT,
                },
                "code",
            ),
            tier=Tier.DANGEROUS,
            repeat=repeat,
        )

    def _command(self, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], bytes]:
        # On stdin, and not as an argument: programs may be longer than that.
        return ("python3", "-"), arguments["code"].encode()


def _limits(arguments: Mapping[str, Any], limits: Limits) -> Limits:
    return replace(
        limits, seconds=min(limits.seconds, arguments.get("timeout_seconds", limits.seconds))
    )


async def _result(
    outcome: Outcome, command: Command, context: ToolContext, egress: Egress | None
) -> ToolResult:
    ended = _ended(outcome, command.limits)
    output = await shown(outcome.output, context.keep, dropped=outcome.dropped_bytes)
    refused = list(egress.refused) if egress is not None else []
    notes = [output.rstrip("\n")] if output.strip() else []
    if refused:
        notes.append(f"[Not allowed for this session: connections to {', '.join(refused)}.]")
    if ended is not None:
        notes.append(ended)
    return ToolResult(
        "\n".join(notes) or "[It printed nothing, and succeeded.]",
        failed=ended is not None,
        details={
            "ending": outcome.ending,
            "exit_code": outcome.exit_code,
            "seconds": round(outcome.seconds, 3),
            "output_bytes": len(outcome.output) + outcome.dropped_bytes,
            **({"refused_hosts": refused} if refused else {}),
        },
    )


def _ended(outcome: Outcome, limits: Limits) -> str | None:
    """Why a command is not a success, or None if it is one."""
    if outcome.ending == "timed_out":
        return f"[Ended after {limits.seconds:g} seconds: it took too long.]"
    if outcome.ending == "out_of_memory":
        return f"[Ended: it needed more than {limits.memory_bytes // 2**20} MiB of memory.]"
    if outcome.ending == "killed":
        return "[It was killed before it ended.]"
    if outcome.exit_code == 0:
        return None
    if outcome.exit_code is not None and outcome.exit_code > 128:
        return f"[Exit code {outcome.exit_code}: ended by signal {outcome.exit_code - 128}.]"
    return f"[Exit code {outcome.exit_code}.]"
