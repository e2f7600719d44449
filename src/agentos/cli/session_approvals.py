"""What needs a person, decided where the session is watched."""

from __future__ import annotations

import json
from typing import Any

from agentos.cli.client import Client, segment
from agentos.cli.failures import GatewayError
from agentos.cli.output import Row, note, printable
from agentos.kernel.errors import Kind

_LONGEST = 2_000


def tell_once(waiting: list[dict[str, Any]], told: set[str]) -> None:
    """Says what needs a person, and how to decide it elsewhere; each only once."""
    for approval in waiting:
        if approval["id"] not in told:
            told.add(approval["id"])
            note(f"Needs you. {question_of(approval)}\nDecide with {_how(approval)}.")


def _how(approval: Row) -> str:
    extra = " --answer TEXT" if approval["kind"] == "question" else ""
    return (
        f"`agentos approvals approve {approval['id']}{extra}` or "
        f"`agentos approvals reject {approval['id']}`"
    )


def question_of(approval: Row) -> str:
    """What is to be decided, in full."""
    details = approval["details"]
    match approval["kind"]:
        case "question":
            choices = [f"  {n}. {c}" for n, c in enumerate(details.get("choices") or [], 1)]
            return printable("\n".join([approval["subject"], *choices]), lines=True)
        case "gate":
            return printable(str(details.get("question") or approval["subject"]), lines=True)
        case _:
            arguments = details.get("arguments", {})
            told = "\n".join(f"  {name}: {_short(value)}" for name, value in arguments.items())
            text = f"It wants to use {approval['subject']}:\n{told}"
            return printable(text.rstrip(":\n"), lines=True)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return cut.replace("\n", "\n    ")


def decide(client: Client, approval: Row) -> None:
    """Asks at the terminal and passes the answer on. Nothing but a clear yes is one."""
    print(f"\nNeeds you. {question_of(approval)}")
    path = f"/api/approvals/{segment(approval['id'])}"
    try:
        if approval["kind"] == "question":
            _answer(client, path, approval["details"].get("choices") or [])
        else:
            _say_yes_or_no(client, path, tool=approval["kind"] == "tool")
    except GatewayError as error:
        # Somebody else was faster, or it has expired meanwhile.
        if error.kind not in (Kind.CONFLICT, Kind.NOT_FOUND):
            raise
        note(error.message)


def _answer(client: Client, path: str, choices: list[str]) -> None:
    said = _asked("Your answer (empty: none): ")
    if not said:
        client.post(f"{path}/reject", {})
        return
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        said = choices[int(said) - 1]
    client.post(f"{path}/approve", {"answer": said})


def _say_yes_or_no(client: Client, path: str, *, tool: bool) -> None:
    offered = "y/N/always" if tool else "y/N"
    said = _asked(f"Approve? [{offered}] ").lower()
    always = tool and said in ("a", "always")
    if always or said in ("y", "yes"):
        client.post(f"{path}/approve", {"always": always})
        return
    reason = _asked("Why not? The agent is told (empty: nothing): ")
    client.post(f"{path}/reject", {"reason": reason} if reason else {})


def _asked(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        return ""
