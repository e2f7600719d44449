"""How the server writes a frame that was built once for all clients."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

# An extension of the ASGI scope: `{"write": Callable[[bytes], bool]}`.
WRITE_NOW = "agentos.write_now"


class PreframedProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket that also takes `{"type": "websocket.send", "frame": bytes}`.

    A text for two hundred clients would be framed two hundred times, which costs more than
    writing it. Nothing else may be open on the connection then: no compression, no fragments.
    """

    async def run_asgi(self) -> None:
        self.scope["extensions"][WRITE_NOW] = {"write": self._write_now}
        await super().run_asgi()

    def _write_now(self, frame: bytes) -> bool:
        """Writes without waiting, unless the client is gone or has more than it takes."""
        if not self.writable.is_set() or self.disconnected or self.close_sent:
            return False
        self.transport.write(frame)
        return True

    async def send(self, message: Any) -> None:
        if self.close_sent:
            # Its own keep-alive has given the client up; a RuntimeError would blame the sender.
            raise ClientDisconnected()
        frame = message.get("frame")
        if frame is None:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected()
        self.transport.write(frame)


def framed(payload: bytes) -> bytes:
    """A whole text message, unmasked, as servers send it (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        return b"\x81%c%b" % (size, payload)
    if size < 65_536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2), payload)
    return b"\x81\x7f%b%b" % (size.to_bytes(8), payload)
