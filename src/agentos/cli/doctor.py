from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import typer

from agentos.cli.output import AsJson, counted, print_json, printable

if TYPE_CHECKING:
    from agentos.cli.checks.outcomes import Finding

app = typer.Typer(rich_markup_mode=None)

_SIGNS = {
    "ok": ("ok", "32"),
    "warning": ("warn", "33"),
    "problem": ("FAIL", "31"),
    "skipped": ("-", "2"),
}


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check every part and say how to fix what is wrong."""
    findings = asyncio.run(_examine(as_json))
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    if as_json:
        print_json(
            {
                "healthy": problems == 0,
                "problems": problems,
                "warnings": warnings,
                "checks": [finding.as_dict() for finding in findings],
            }
        )
    else:
        print(f"\n{_summary(problems, warnings)}")
    if problems:
        raise typer.Exit(1)


async def _examine(as_json: bool) -> list[Finding]:
    from agentos.cli.checks import examine

    findings = []
    async for finding in examine():
        findings.append(finding)
        if not as_json:
            _print(finding)
    return findings


def _print(finding: Finding) -> None:
    sign, colour = _SIGNS[finding.state]
    mark = f"{sign:>4}"
    if _coloured():
        mark = f"\033[{colour}m{mark}\033[0m"
    print(f"{mark}  {finding.part:<18} {printable(finding.detail)}")
    if finding.fix:
        print(f"{'':<25}→ {printable(finding.fix)}")
    sys.stdout.flush()


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _summary(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "Everything is in order."
    parts = [
        counted(count, word)
        for count, word in ((problems, "problem"), (warnings, "warning"))
        if count
    ]
    return " and ".join(parts) + "."
