"""How a command in a sandbox gets to the egress proxy: from its own loopback to the unix socket.

No HTTP client takes a unix socket as its proxy. So a few lines of Python listen on a port that
exists only inside the sandbox's network namespace, and hand every connection on.
"""

from __future__ import annotations

from collections.abc import Iterable

PORT = 3128
SOCKET_VARIABLE = "AGENTOS_EGRESS"
SOCKET = "/run/egress.sock"
_PROXY = f"http://127.0.0.1:{PORT}"

# Listens before the command starts, so that its first request finds the port open. The command
# takes the place of the first process: its exit code and its signals are its own. In a sandbox
# that allows no sockets at all it runs without a network.
_SCRIPT = f"""
import os, socket, sys
try:
    listening = socket.create_server(("127.0.0.1", {PORT}), backlog=128)
except OSError:
    listening = None
if listening is None or os.fork():
    if listening is not None:
        listening.close()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{{sys.argv[1]}}: {{error.strerror}}")
import asyncio
os.setsid()
nothing = os.open("/dev/null", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)
path = os.environ.get("{SOCKET_VARIABLE}", "{SOCKET}")
async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()
async def serve(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
    far_writer.close()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, sock=listening)
    await server.serve_forever()
asyncio.run(main())
"""


def proxy_environment(allowed_hosts: Iterable[str]) -> dict[str, str]:
    """What tells HTTP clients inside to use the proxy. Servers inside are reached without it,
    unless the same address outside is allowed."""
    own = ["localhost", "127.0.0.1", "::1"]
    direct = ",".join(name for name in own if not any(name in host for host in allowed_hosts))
    lower = {"http_proxy": _PROXY, "https_proxy": _PROXY, "no_proxy": direct}
    return lower | {name.upper(): value for name, value in lower.items()}


def forwarded(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with a way to the egress proxy beside it."""
    return ("python3", "-I", "-c", _SCRIPT, *argv)
