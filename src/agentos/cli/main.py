"""The `agentos` command. Only what `--help` needs is imported here; a command brings its own."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from agentos import __version__

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class Lazy(NamedTuple):
    """A command that is imported when it is used. `only`: one command of the module, else all."""

    module: str
    help: str
    only: bool = False


COMMANDS: dict[str, Lazy] = {
    "login": Lazy("auth", "Sign in and remember it on this machine.", only=True),
    "logout": Lazy("auth", "End the sign-in and forget it.", only=True),
    "whoami": Lazy("auth", "Who you are signed in as, where, and what you may do.", only=True),
    "run": Lazy("run", "Let an agent do something, and watch it.", only=True),
    "sessions": Lazy("sessions", "Sessions: what agents did, are doing, and shall do."),
    "approvals": Lazy("approvals", "What needs you: tool calls, gates and questions that wait."),
    "chains": Lazy("chains", "Sessions that build upon each other."),
    "teams": Lazy("teams", "Teams of agents: a leader and its workers."),
    "chat": Lazy("chat", "Talk to a team.", only=True),
    "messages": Lazy("messages", "What teams were asked, and what they answered."),
    "schedules": Lazy("schedules", "Ask teams and start sessions by the clock."),
    "webhooks": Lazy("webhooks", "Let other systems ask teams and start sessions."),
    "post-actions": Lazy("post_actions", "HTTP calls after runs of schedules and webhooks."),
    "tools": Lazy("tools", "What agents may use, and what people approve first."),
    "tenants": Lazy("tenants", "The tenants you belong to; for platform admins, all of them."),
    "members": Lazy("members", "The people of the tenant, and invitations."),
    "keys": Lazy("keys", "API keys of the tenant."),
    "vault": Lazy("vault", "Secrets of the tenant, and the keys that protect them."),
    "audit": Lazy("audit", "What was changed in the tenant, and by whom."),
    "events": Lazy("events", "What happens in the tenant, live or from history."),
    "objects": Lazy("objects", "Files of the tenant."),
    "models": Lazy("models", "Models, providers, fallback chain and prices."),
    "usage": Lazy("usage", "What was used and what it costs."),
    "budgets": Lazy("budgets", "Hard caps on what is spent."),
    "config": Lazy("config", "Every setting of this installation and its value.", only=True),
    "agents": Lazy("agents", "Agent CLIs on this machine, for teams."),
    "db": Lazy("db", "The database schema of this installation."),
    "nats": Lazy("nats", "What an external NATS needs to know."),
    "platform": Lazy("platform", "Who runs this installation."),
    "doctor": Lazy("doctor", "Check every part and say how to fix what is wrong.", only=True),
    "sidecar": Lazy("sidecar", "Run the process beside a team's agent CLI.", only=True),
}


class LazyGroup(TyperGroup):
    """Lists all commands, imports one."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"agentos.cli.{lazy.module}")
        group = typer.main.get_group(module.app)
        if lazy.only:
            return group.commands[cmd_name]
        group.name, group.help = cmd_name, lazy.help
        return group

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"There is no command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: Context, formatter: HelpFormatter) -> None:
        own = {name: command.get_short_help_str(200) for name, command in self.commands.items()}
        rows = own | {name: lazy.help for name, lazy in COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(list(rows.items()))


app = typer.Typer(
    name="agentos",
    cls=LazyGroup,
    no_args_is_help=True,
    # Rich help would cost another 50 ms, and looks broken in pipes.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"agentos {__version__}")
        raise typer.Exit


@app.callback()
def agentos(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """AgentOS: the operating system for autonomous AI agents."""


@app.command()
def up(
    data_dir: Annotated[
        Path | None, typer.Option(help="Where everything is kept. Default: AGENTOS_DATA_DIR.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Make no demo tenant.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document once it is running.")
    ] = False,
) -> None:
    """Start everything on this machine."""
    from agentos.cli import runner

    runner.up(data_dir=data_dir, host=host, port=port, demo=not no_demo, as_json=as_json)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Run the gateway alone, beside engines that are running."""
    from agentos.cli import runner

    runner.serve(host=host, port=port)


@app.command()
def worker() -> None:
    """Run a worker alone, beside engines that are running."""
    from agentos.cli import runner

    runner.worker()


def main() -> int:
    """Runs the command line and returns its exit code."""
    return run(sys.argv[1:])


def run(args: list[str]) -> int:
    """One command. However it ends, the user sees a sentence; a traceback only for developers."""
    from agentos.cli.failures import report

    try:
        result: Any = typer.main.get_command(app).main(
            args, prog_name="agentos", standalone_mode=False
        )
        sys.stdout.flush()
    # The process's edge: nothing may get past it, not even what a command did not expect.
    except BaseException as error:
        if os.environ.get("AGENTOS_DEBUG") == "1":
            raise
        return report(error, as_json="--json" in args)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
