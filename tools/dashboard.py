"""The dashboard's sources: builds them, and runs what they bring with them.

Usage: .venv/bin/python tools/dashboard.py build|npm ARGUMENTS…
`build` brings src/agentos/_ui up to date. Where it cannot, it says why and goes on: AgentOS then
serves the API alone. `npm` runs npm in web/ with everything installed that it needs. With
AGENTOS_SKIP_UI=1 both do nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentos import web_build

ROOT = Path(__file__).resolve().parent.parent
_NODE = ROOT / "requirements" / "node.txt"


def main() -> int:
    if web_build.is_skipped():
        return 0
    try:
        if sys.argv[1] == "build":
            return build()
        npm(*sys.argv[2:])
    except web_build.BuildFailed as error:
        return fail(str(error))
    return 0


def build() -> int:
    try:
        if not web_build.is_stale(ROOT, web_build.UI):
            return 0
        bring_node()
        web_build.build(ROOT, say)
    except web_build.BuildFailed as error:
        old = (web_build.UI / "index.html").is_file()
        served = "the one built before" if old else "the API alone"
        fail(f"{error}\nThe dashboard could not be built; AgentOS serves {served}.")
    return 0


def npm(*arguments: str, web: Path = ROOT / "web") -> None:
    """Raises BuildFailed with what npm said."""
    bring_node()
    web_build.install(ROOT, say).npm(web, *arguments)


def bring_node() -> None:
    """Gets a Node from the package index where this machine has none that is new enough."""
    try:
        web_build.find_node()
    except web_build.NodeMissing:
        say("Installing Node (60 MB)")
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-input", "--require-hashes"]
        command += ["--disable-pip-version-check", "-r", str(_NODE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise web_build.NodeMissing(f"{done.stderr}{web_build.NO_NODE}") from None


def say(text: str) -> None:
    print(text, flush=True)


def fail(text: str) -> int:
    print(text, file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
