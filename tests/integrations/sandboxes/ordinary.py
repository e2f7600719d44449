"""Runs commands in a sandbox as an ordinary user, for tests that are run by root.

Usage: python3 ordinary.py bubblewrap|landlock, with pickled commands on stdin, outcomes on stdout.
"""

from __future__ import annotations

import asyncio
import pickle
import sys

from agentos.integrations.sandboxes.base import Sandbox
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.kernel.errors import AgentOSError


def main() -> None:
    sandbox: Sandbox = {"bubblewrap": Bubblewrap, "landlock": Landlock}[sys.argv[1]]()
    while True:
        try:
            command = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = asyncio.run(sandbox.run(command))
        except AgentOSError as error:
            answer = error.message
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
