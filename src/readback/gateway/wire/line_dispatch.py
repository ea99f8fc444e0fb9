"""Requests and answers over lines as raw JSON: the SDK's dispatcher without a model for each message.

Used by connections to servers over pipes, where dispatching dominates the gateway's cost. Implements the part of
`mcp.shared.dispatcher.Dispatcher` used by `Connection`. The SDK reads every line except plain answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT
from mcp_types.jsonrpc import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from readback.errors import NotDispatchedError
from readback.gateway.wire.cancellation import CANCELLED, given_up, heard
from readback.gateway.wire.jsonl import NotJsonError, TooLong, from_server, json_line, plain_json, unread, written
from readback.gateway.wire.pipes import Outgoing, give_way

log = logging.getLogger(__name__)

AS_TEXT: Final = "Send the number as a text, or leave it out."
FAILED: Final = 0
"""The SDK's error code for a failed handler."""
OnNotice = Callable[[str, Mapping[str, Any] | None], bool]


OnRequest = Callable[[Any, str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]


class LineDispatcher:
    """The dispatcher of one connection. `take` receives each line, and `end` marks the end of input."""

    def __init__(self, writer: Outgoing) -> None:
        self._writer = writer
        self._next_id = 1
        self._pending: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}
        self._answering: dict[RequestId, asyncio.Task[None]] = {}
        self._over = asyncio.Event()
        self._on_request: OnRequest | None = None
        self._on_notice: OnNotice | None = None
        self.ready = asyncio.Event()
        self.on_end: Callable[[], None] = lambda: None
        """Called before waiting requests fail."""

    # --- to the server ----------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Return the raw result. Raises MCPError: the server's own, a timeout, or a closed connection."""
        options = opts or {}
        wanted = options.get("request_id")
        request_id = self._fresh() if wanted is None else self._unused(wanted)
        key = coerce_request_id(request_id)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._pending[key] = answer
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params:
            message["params"] = params
        timeout_s = options.get("timeout")
        timer: asyncio.TimerHandle | None = None
        try:
            try:
                if not self._in_the_pipe(message):
                    await self._taken(method, timeout_s)
                elif len(self._pending) == 1:  # with several, the servers wait for this process
                    give_way()
            except NotJsonError as error:
                raise NotDispatchedError(f"Nothing was sent: {error}", remedy=AS_TEXT) from error
            timer = None if timeout_s is None else loop.call_later(timeout_s, self._late, key, method)
            return await answer
        except asyncio.CancelledError:
            try:
                await heard()
            finally:
                self._abandon(given_up(request_id), options)
            raise
        except _TimedOutError:
            self._abandon({"requestId": request_id, "reason": f"timed out after {timeout_s}s"}, options)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if self._pending.get(key) is answer:
                del self._pending[key]
            if answer.done() and not answer.cancelled():
                answer.exception()  # after a failed write no task reads the error: asyncio would report it

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification. It is lost if the server is gone."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        try:
            await self._write(message)
        except (MCPError, NotJsonError) as error:
            log.debug("dropped %s: %s", method, error)

    def _fresh(self) -> int:
        while self._next_id in self._pending:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def _unused(self, wanted: RequestId) -> RequestId:
        if coerce_request_id(wanted) in self._pending:
            raise ValueError(f"request id {wanted!r} is already in flight")
        return wanted

    async def _write(self, message: Mapping[str, Any]) -> None:
        """Write in call order, then wait for the server to read. Raises MCPError if the server is gone."""
        if not self._in_the_pipe(message):
            await self._drained()

    def _in_the_pipe(self, message: Mapping[str, Any]) -> bool:
        """Write, and return whether the pipe took everything at once. Raises MCPError if the server is gone."""
        if self._over.is_set() or self._writer.is_closing:
            raise MCPError(code=CONNECTION_CLOSED, message="Connection closed")
        return self._writer.write(json_line(message))

    async def _drained(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            self.end()
            raise MCPError(code=CONNECTION_CLOSED, message="Connection closed") from None

    async def _taken(self, method: str, timeout_s: float | None) -> None:
        """Wait until a slow server has read the request, within the request's time limit."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._drained()
        except TimeoutError:
            said = f"Request {method!r} timed out"
            raise _TimedOutError(code=REQUEST_TIMEOUT, message=said) from None

    def _late(self, key: RequestId, method: str) -> None:
        answer = self._pending.get(key)
        if answer is not None and not answer.done():
            answer.set_exception(_TimedOutError(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out"))

    def _abandon(self, params: Mapping[str, Any], options: CallOptions) -> None:
        """Notify the server of an abandoned request. Never waits."""
        if options.get("cancel_on_abandon", True) and not (self._over.is_set() or self._writer.is_closing):
            self._writer.write(json_line({"jsonrpc": "2.0", "method": CANCELLED, "params": params}))

    # --- from the server --------------------------------------------------------------------------------

    def take(self, line: bytes | TooLong) -> None:
        """Handle one line of the server."""
        found = None if isinstance(line, TooLong) else plain_json(line)
        if found is not None and "method" not in found and "error" not in found:
            result, answers = found.get("result"), found.get("id")
            if isinstance(result, dict) and type(answers) in (int, str):
                self._resolve(answers, result)
                return
        self._read(line)

    def _read(self, line: bytes | TooLong) -> None:
        """Read any line except a plain answer with the SDK's models."""
        message = from_server(line)
        if message is None or isinstance(message, Exception):
            log.debug("a line that is no message: %r", message)
            refused = None if isinstance(line, TooLong) else unread(line)
            if refused is not None and not self._writer.is_closing:
                self._writer.write(written(refused))
            return
        match message.message:
            case JSONRPCResponse(id=answers, result=result):
                self._resolve(answers, result)
            case JSONRPCError(id=answers, error=error):
                self._resolve(answers, error)
            case JSONRPCRequest(id=asked, method=method, params=params):
                key = coerce_request_id(asked)
                task = self._answering[key] = asyncio.create_task(self._answer(asked, method, params))
                task.add_done_callback(lambda done: self._answered(key, done))
            case JSONRPCNotification(method=method, params=params):
                cancelled = (params or {}).get("requestId") if method == CANCELLED else None
                if isinstance(cancelled, int | str) and (known := self._answering.get(coerce_request_id(cancelled))):
                    known.cancel()
                if self._on_notice is not None:
                    self._on_notice(method, params)

    def _resolve(self, answers: Any, outcome: dict[str, Any] | ErrorData) -> None:
        waiting = None if answers is None else self._pending.get(coerce_request_id(answers))
        if waiting is None or waiting.done():
            log.debug("dropping an answer to %r: no call waits for the answer", answers)
        elif isinstance(outcome, ErrorData):
            waiting.set_exception(MCPError(code=outcome.code, message=outcome.message, data=outcome.data))
        else:
            waiting.set_result(outcome)

    async def _answer(self, asked: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        """Answer a server's request. A request cancelled by the server gets no answer."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": asked}
        assert self._on_request is not None
        try:
            message["result"] = await self._on_request(self, method, params)
        except MCPError as error:
            message["error"] = error.error.model_dump(exclude_unset=True)
        except Exception as error:  # tidy: boundary -- one request's fault is answered, and ends nothing else
            log.exception("a server's %s could not be answered", method)
            message["error"] = {"code": FAILED, "message": str(error)}
        try:
            await self._write(message)
        except NotJsonError as error:
            await self._answer_with(asked, {"code": INVALID_PARAMS, "message": str(error)})
        except MCPError:
            log.debug("dropped the answer to %s: the connection is closed", method)

    async def _answer_with(self, asked: RequestId, error: Mapping[str, Any]) -> None:
        with suppress(MCPError):
            await self._write({"jsonrpc": "2.0", "id": asked, "error": error})

    def _answered(self, key: RequestId, task: asyncio.Task[None]) -> None:
        if self._answering.get(key) is task:
            del self._answering[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an answer to the server failed", exc_info=error)

    # --- its life ---------------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: object,
        on_notice: OnNotice,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run until the input ends. `on_notify`: unused, for the SDK's interface; `on_notice` receives every
        notification.
        """
        self._on_request, self._on_notice = on_request, on_notice
        self.ready.set()
        task_status.started()
        try:
            await self._over.wait()
        finally:
            self.end()
            tasks = [*self._answering.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self) -> None:
        """Fail all waiting requests: no further line will arrive."""
        if self._over.is_set():
            return
        self._over.set()
        self.on_end()
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(MCPError(code=CONNECTION_CLOSED, message="Connection closed"))


class _TimedOutError(MCPError):
    """Our own timeout, as opposed to an error of the server."""
