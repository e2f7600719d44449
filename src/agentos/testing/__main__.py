"""`python -m agentos.testing <vendor>`: a test server as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

import msgspec

from agentos.testing.scripts import Fault, FaultKind, Reply
from agentos.testing.vendors import SERVERS


def main(argv: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(argv)
    asyncio.run(_serve(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agentos.testing",
        description="Speaks a model vendor's wire format on this machine. Prints its URL and key as one line of JSON when it is ready.",
    )
    parser.add_argument("vendor", choices=sorted(SERVERS))
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--key", help="the key to accept; a made-up one otherwise")
    parser.add_argument("--model", action="append", dest="models", help="a model to know")
    parser.add_argument("--text", help="what to answer; an echo of the user otherwise")
    parser.add_argument("--chunks", type=int, help="in how many pieces a stream has it")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between the pieces")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        choices=[kind.value for kind in FaultKind],
        help="how the next call fails; again for the one after it",
    )
    parser.add_argument("--after-chunks", type=int, default=0, help="how far a fault lets it get")
    parser.add_argument("--first-byte", type=float, default=0.0, help="seconds if it is slow")
    return parser


async def _serve(options: argparse.Namespace) -> None:
    server = SERVERS[options.vendor](port=options.port, key=options.key, models=options.models)
    server.reply(Reply(text=options.text, chunks=options.chunks, delay=options.delay))
    server.queue(
        *(
            Fault(FaultKind(kind), after_chunks=options.after_chunks, seconds=options.first_byte)
            for kind in options.fault
        )
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with server:
        ready = {"vendor": server.vendor, "url": server.url, "key": server.key}
        sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    main()
