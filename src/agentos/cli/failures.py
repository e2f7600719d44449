"""How a command ends when it does not succeed: a sentence on stderr and an exit code by kind."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import typer

from agentos.cli.output import printable
from agentos.kernel.errors import AgentOSError, Kind

EXIT_CODES: dict[Kind, int] = {
    Kind.INTERNAL: 1,
    Kind.INVALID: 2,
    Kind.UNAUTHENTICATED: 3,
    Kind.FORBIDDEN: 4,
    Kind.NOT_FOUND: 5,
    Kind.CONFLICT: 6,
    Kind.TOO_LARGE: 7,
    Kind.LIMITED: 8,
    Kind.PLAN: 9,
    Kind.TRANSIENT: 10,
    Kind.SETUP: 11,
}
INTERRUPTED = 130
# What a shell reports for a program that was ended by SIGPIPE.
READER_GONE = 141


class GatewayError(Exception):
    """An error the gateway answered with, or what kept it from answering."""

    def __init__(
        self,
        kind: Kind,
        code: str,
        message: str,
        advice: str | None = None,
        request_id: str | None = None,
    ):
        self.kind = kind
        self.code = code
        self.message = message
        self.advice = advice
        self.request_id = request_id
        super().__init__(message)


def report(error: BaseException, *, as_json: bool) -> int:
    """Tells the user what went wrong and returns the exit code."""
    match error:
        case AgentOSError():
            return _tell(error.kind, error.code, error.message, error.advice, None, as_json)
        case GatewayError():
            return _tell(
                error.kind, error.code, error.message, error.advice, error.request_id, as_json
            )
        case typer.TyperException():
            # Wrong usage knows how to show itself, with the usage of the command.
            show = getattr(error, "show", None)
            print(f"Error: {error}", file=sys.stderr) if show is None else show()
            return error.exit_code
        case typer.Exit():
            return error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            print("Interrupted.", file=sys.stderr)
            return INTERRUPTED
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):
            # Python would complain again while it closes stdout at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
            return READER_GONE
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            reason = error.strerror or type(error).__name__
            return _tell(Kind.SETUP, "os_error", f"{where}{reason}.", None, None, as_json)
        case _:
            return _tell(
                Kind.INTERNAL,
                "unexpected",
                f"Something went wrong that AgentOS did not expect: {type(error).__name__}.",
                "Set AGENTOS_DEBUG=1 to see where; please report it.",
                None,
                as_json,
            )


def _tell(
    kind: Kind, code: str, message: str, hint: str | None, request_id: str | None, as_json: bool
) -> int:
    if as_json:
        told: dict[str, Any] = {"code": code, "kind": kind, "message": message}
        told |= {"hint": hint, "request_id": request_id}
        print(json.dumps(told, ensure_ascii=False), file=sys.stderr)
        return EXIT_CODES[kind]
    print(f"Error: {printable(message, lines=True)}", file=sys.stderr)
    if hint:
        print(f"  {printable(hint)}", file=sys.stderr)
    if request_id and kind is Kind.INTERNAL:
        print(f"  Request id: {printable(request_id)}", file=sys.stderr)
    return EXIT_CODES[kind]
