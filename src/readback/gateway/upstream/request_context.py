"""A client's request while in work: the way back to the client, also for a server's questions.

A handshake-era client is asked directly. A stateless client receives the questions as an interim answer
(`input_required`). The request then waits here until the client returns with the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Notification,
    Request,
)
from pydantic import Field, RootModel

from readback.gateway.upstream.connection import PROGRESS
from readback.gateway.wire import client_roots
from readback.gateway.wire.text_marks import over_http, unmarked, written_out

CAPABILITY: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
ASKED_BY: Final = frozenset(CAPABILITY.values())
WHAT: Final = ("name", "arguments", "uri")
"""Parameters identifying a request. A retry with different values would receive another request's outcome."""
GONE: Final = (NoBackChannelError, anyio.BrokenResourceError, anyio.ClosedResourceError)

Context = ServerRequestContext[Any, Any]


class RawRequest(Request[dict[str, Any] | None, str]):
    """Any request, in the server's own form.

    The SDK validates an answer against its model for `method`, and has no model for an empty name. The server judges a
    client's answer, such as a task instead of a result.
    """

    method: str = Field(default="", exclude=True)
    asked: str = Field(serialization_alias="method")
    params: dict[str, Any] | None = None


class RawNotification(Notification[dict[str, Any] | None, str]):
    """Any notification, in the server's own form."""

    method: str
    params: dict[str, Any] | None = None


class RawResult(RootModel[dict[str, Any]]):
    """Any result, in the client's own form."""


class Exchange:
    """A client's request, and a `ClientLink`."""

    suspend: Callable[[Exchange], None] | None = None
    """Sends an interim answer when a server asks first. The request's task continues."""

    def __init__(self, context: Context, *, modern: bool) -> None:
        self.context = context
        self.meta = _meta_of(context)
        """The `_meta` of the client's request; empty if absent."""
        self.modern = modern
        self.task: asyncio.Task[Any] | None = None
        """The task computing the result, if separate from the caller."""
        self._asked: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._given: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._turn: asyncio.Future[None] | None = None
        """Done when a result or a question is available."""
        self._numbered = 0
        self.suspended = False
        self.cancelled: Mapping[str, Any] | None = None
        """The client's cancellation parameters, if cancelled."""

    @property
    def wants_progress(self) -> bool:
        """Whether the client wants progress: by a token, or by a callback in the same program."""
        return self.meta.get("progressToken") is not None or _hearing(self.context) is not None

    @property
    def may_be_asked(self) -> bool:
        """Whether a stateless client accepts any kind of question."""
        declared = self.meta.get(CLIENT_CAPABILITIES_META_KEY)
        return isinstance(declared, Mapping) and not ASKED_BY.isdisjoint(declared)

    async def progress(self, report: Mapping[str, Any]) -> None:
        """Forward a server's progress report under the client's token, if the client wants progress and still
        listens.
        """
        if self.suspended:
            return
        token = self.meta.get("progressToken")
        if token is not None:
            await tell(self.context, PROGRESS, {**report, "progressToken": token}, within=True)
        elif (hears := _hearing(self.context)) is not None and (known := _numbers(report)) is not None:
            await hears(*known)

    async def tell(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Forward a notification belonging to this request."""
        if not self.suspended:
            await tell(self.context, method, params, within=True)

    async def ask(self, method: str, params: Mapping[str, Any] | None, key: str = "") -> dict[str, Any]:
        """Return the client's answer to a server's request. Raises MCPError."""
        if not self.modern:
            return await ask(self.context, method, params, within=True)
        capability = CAPABILITY.get(method)
        declared = self.meta.get(CLIENT_CAPABILITIES_META_KEY)
        if capability is None or not isinstance(declared, Mapping) or declared.get(capability) is None:
            raise MCPError(code=INVALID_REQUEST, message=f"The client does not support {method}.")
        number = key
        if not key or key in self._asked or key in self._given:
            self._numbered += 1
            number = f"{key}#{self._numbered}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        request = {"method": method} if params is None else {"method": method, "params": dict(params)}
        self._asked[number] = (request, answer)
        if self.suspend is not None:
            asyncio.get_running_loop().call_soon(self._put_off)  # after other questions of this turn
        self._go_on()
        try:
            return _checked(method, await answer)
        finally:
            self._asked.pop(number, None)
            self._given.pop(number, None)

    async def outcome(self) -> dict[str, Any] | None:
        """Wait for the result; None if the server asks first (see `questions`). Cancels the task with its caller."""
        task = self.task
        assert task is not None
        while not (task.done() or self._asked):
            self._turn = asyncio.get_running_loop().create_future()
            task.add_done_callback(self._go_on)
            try:
                await self._turn
            except asyncio.CancelledError:
                task.cancel()
                raise
            finally:
                task.remove_done_callback(self._go_on)
        return task.result() if task.done() else None

    def _put_off(self) -> None:
        suspend, task = self.suspend, self.task
        if suspend is not None and self._asked and not (task is not None and task.cancelling()):
            self.suspend = None
            suspend(self)

    def _go_on(self, _: object = None) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def questions(self) -> dict[str, Any]:
        """Return the server's questions for the client, and suspend the request until the answers."""
        asked, self._asked = self._asked, {}
        self._given.update({key: answer for key, (_, answer) in asked.items()})
        self.suspended = True
        return {key: request for key, (request, _) in asked.items()}

    def resume(self, context: Context, answers: object) -> None:
        """Resume with the client's answers. Raises MCPError for missing answers or another request."""
        waits, again = self.context.params or {}, context.params or {}
        if any(waits.get(key) != again.get(key) for key in WHAT) or context.method != self.context.method:
            raise MCPError(code=INVALID_PARAMS, message="The retry does not match the suspended request.")
        if not isinstance(answers, Mapping) or not set(self._given) <= set(answers):
            raise MCPError(code=INVALID_PARAMS, message="inputResponses does not answer every question.")
        self.context, self.meta = context, _meta_of(context)
        self.suspended = False
        for key, answer in list(self._given.items()):
            if not answer.done():
                answer.set_result(dict(answers[key]) if isinstance(answers[key], Mapping) else {})

    def abandon(self) -> None:
        """Stop waiting for a client. The server's questions fail, and the server proceeds without answers."""
        for answer in (*self._given.values(), *(answer for _, answer in self._asked.values())):
            if not answer.done():
                answer.set_exception(MCPError(code=INVALID_REQUEST, message="The client did not answer."))


def _meta_of(context: Context) -> Mapping[str, Any]:
    found = context.params.get("_meta") if context.params else None
    return found if isinstance(found, Mapping) else {}


def _hearing(context: Context) -> Callable[[float, float | None, str | None], Awaitable[None]] | None:
    """Return the progress callback of a stateless client in the same program. Such a client sends no token.

    The SDK has no public name for the callback. If its private place changes, such clients receive no progress.
    """
    outbound = getattr(context.session, "_request_outbound", None)
    inner = getattr(outbound, "_inner", outbound)
    return None if getattr(inner, "_on_progress", None) is None else context.session.report_progress


def _numbers(report: Mapping[str, Any]) -> tuple[float, float | None, str | None] | None:
    """Return the callback's arguments from a report, or None."""
    progress, total, message = report.get("progress"), report.get("total"), report.get("message")
    if not isinstance(progress, int | float):
        return None
    return progress, total if isinstance(total, int | float) else None, message if isinstance(message, str) else None


async def ask(context: Context, method: str, params: Mapping[str, Any] | None, *, within: bool) -> dict[str, Any]:
    """Ask a handshake-era client. `within`: on the stream of the context's own request."""
    given = None if params is None else written_out(params) if over_http(context) else dict(params)
    request = RawRequest(asked=method, params=given)
    scope = ServerMessageMetadata(related_request_id=context.request_id) if within else None
    send: Any = context.session.send_request  # is typed for the requests of the protocol alone
    found: RawResult = await send(request, RawResult, metadata=scope)
    return _checked(method, unmarked(found.root))


def _checked(method: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return a client's answer in the form permitted for servers."""
    return client_roots.permitted(answer) if method == client_roots.METHOD else answer


async def tell(context: Context, method: str, params: Mapping[str, Any] | None, *, within: bool) -> None:
    """Notify a client. The notification is lost if the client no longer listens."""
    notification = RawNotification(method=method, params=None if params is None else dict(params))
    send: Any = context.session.send_notification
    try:
        await send(notification, related_request_id=context.request_id if within else None)
    except GONE:
        return
