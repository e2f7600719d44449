"""Stands in for a sidecar: runs the Python it is sent over a unix socket, and answers with `result`.

It is copied to where a sidecar is, and run there by the runtime under test.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

BYE = 7


def main() -> int:
    signal.signal(signal.SIGTERM, _leave)
    _say("the stand-in has begun")
    with socket.socket(socket.AF_UNIX) as link:
        link.connect("/run/agentos/test.sock")
        with link.makefile("rw", encoding="utf-8") as lines:
            for line in lines:
                names: dict[str, object] = {}
                exec(json.loads(line), names)
                print(json.dumps(names.get("result")), file=lines, flush=True)
    return 0


def _say(text: str) -> None:
    # Not through a buffer: it may be said in the middle of other writing.
    os.write(1, f"{text}\n".encode())


def _leave(_number: int, _frame: object) -> None:
    _say("asked to leave")
    # At once, whatever is being done: an exception would be lost in some of it.
    os._exit(BYE)


if __name__ == "__main__":
    sys.exit(main())
