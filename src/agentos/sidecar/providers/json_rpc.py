"""JSON-RPC 2.0 in both directions over a pair of streams, one message on each line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from agentos.sidecar.json_reading import NotJson, read_json
from agentos.sidecar.tasks import end

_INTERNAL_ERROR = -32603
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602


class RpcError(Exception):
    """The other side, or this one, answers a request with an error."""

    def __init__(self, message: str, code: int = _INTERNAL_ERROR, data: Any = None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class RpcClosed(Exception):
    """The other side has closed its stream."""


Params = Mapping[str, Any]
Serve = Callable[[str, Params], Awaitable[Any]]
Notice = Callable[[str, Params], None]


class Rpc:
    """One connection. `serve` answers requests of the other side, each in a task of its own;
    `notice` hears its notifications, in the order in which they come."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        serve: Serve,
        notice: Notice,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._notice = notice
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    async def request(self, method: str, params: Params) -> Any:
        """The result. Raises RpcError, RpcClosed."""
        if self._reading.done():
            raise RpcClosed
        self._last += 1
        number = self._last
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            return await answer
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: Params) -> None:
        self._send({"method": method, "params": params})

    async def close(self) -> None:
        await end(self._reading, *self._serving)

    def _send(self, message: Mapping[str, Any]) -> None:
        # To a process that has ended it is lost: reading tells of the end.
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                try:
                    message = read_json(line)
                except NotJson:
                    # Agents print other things as well.
                    continue
                if isinstance(message, dict):
                    self._take(message)
        except (OSError, ValueError):
            # A line beyond all limits: nothing after it can be understood.
            return
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(RpcClosed())

    def _take(self, message: Mapping[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if isinstance(method, str) and number is not None:
            task = asyncio.create_task(self._answer(number, method, params))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        elif isinstance(method, str):
            self._notice(method, params)
        elif isinstance(number, int) and (answer := self._waiting.get(number)) is not None:
            _settle(answer, message)

    async def _answer(self, number: Any, method: str, params: Params) -> None:
        try:
            answer = {"result": await self._serve(method, params)}
        except RpcError as error:
            answer = {"error": {"code": error.code, "message": error.message}}
        except (KeyError, TypeError, AttributeError) as error:
            why = f"{method} cannot be read: {error!r}"
            answer = {"error": {"code": INVALID_PARAMS, "message": why}}
        self._send({"id": number, **answer})


def _settle(answer: asyncio.Future[Any], message: Mapping[str, Any]) -> None:
    if answer.done():
        return
    error = message.get("error")
    if isinstance(error, dict):
        answer.set_exception(
            RpcError(str(error.get("message", "")), error.get("code", 0), error.get("data"))
        )
    else:
        answer.set_result(message.get("result"))
