"""One request of a client's while it is answered: the way back to its client, and to what a server asks meanwhile.

A client of the handshake era is asked directly. One of the stateless era is not: its request is answered with what is
asked (`input_required`), and goes on waiting here until the client comes again with the answers.
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
"""What a request is about: a retry that says otherwise would be told another request's outcome."""
GONE: Final = (NoBackChannelError, anyio.BrokenResourceError, anyio.ClosedResourceError)

Context = ServerRequestContext[Any, Any]


class RawRequest(Request[dict[str, Any] | None, str]):
    """Any request, as it came from the server.

    The SDK holds an answer against its own model of what `method` names, and has none for the name of nothing: what a
    client answers, such as a task in the result's place, is for the server to judge.
    """

    method: str = Field(default="", exclude=True)
    asked: str = Field(serialization_alias="method")
    params: dict[str, Any] | None = None


class RawNotification(Notification[dict[str, Any] | None, str]):
    """Any notification, as it came from the server."""

    method: str
    params: dict[str, Any] | None = None


class RawResult(RootModel[dict[str, Any]]):
    """Any result, as it came from the client."""


class Exchange:
    """A client's request, and a `ClientLink`."""

    put_off: Callable[[Exchange], None] | None = None
    """Answers for now where a server asks first: the request is answered in its own task, which goes on."""

    def __init__(self, context: Context, *, modern: bool) -> None:
        self.context = context
        self.meta = _meta_of(context)
        """The `_meta` of the client's request; empty where there is none."""
        self.modern = modern
        self.task: asyncio.Task[Any] | None = None
        """What gives the result, where that is not whoever asked for it."""
        self._asked: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._given: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._turn: asyncio.Future[None] | None = None
        """Done when there is something to go on with: the result, or a question."""
        self._numbered = 0
        self.suspended = False
        self.cancelled: Mapping[str, Any] | None = None
        """What the client said when it cancelled the request."""

    @property
    def wants_progress(self) -> bool:
        """Whether the client listens for progress: by a token, or, in the same program, by a function of its own."""
        return self.meta.get("progressToken") is not None or _hearing(self.context) is not None

    @property
    def may_be_asked(self) -> bool:
        """Whether a client of the stateless era takes anything of what a server may ask first."""
        declared = self.meta.get(CLIENT_CAPABILITIES_META_KEY)
        return isinstance(declared, Mapping) and not ASKED_BY.isdisjoint(declared)

    async def progress(self, report: Mapping[str, Any]) -> None:
        """Hands a server's report on as it came, by the client's token, where the client wants it and still listens."""
        if self.suspended:
            return
        token = self.meta.get("progressToken")
        if token is not None:
            await tell(self.context, PROGRESS, {**report, "progressToken": token}, within=True)
        elif (hears := _hearing(self.context)) is not None and (known := _numbers(report)) is not None:
            await hears(*known)

    async def tell(self, method: str, params: Mapping[str, Any] | None) -> None:
        """A notification that belongs to this request."""
        if not self.suspended:
            await tell(self.context, method, params, within=True)

    async def ask(self, method: str, params: Mapping[str, Any] | None, key: str = "") -> dict[str, Any]:
        """The client's answer to a server's request. Raises MCPError."""
        if not self.modern:
            return await ask(self.context, method, params, within=True)
        capability = CAPABILITY.get(method)
        declared = self.meta.get(CLIENT_CAPABILITIES_META_KEY)
        if capability is None or not isinstance(declared, Mapping) or declared.get(capability) is None:
            raise MCPError(code=INVALID_REQUEST, message=f"The client takes no {method}.")
        number = key
        if not key or key in self._asked or key in self._given:
            self._numbered += 1
            number = f"{key}#{self._numbered}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        request = {"method": method} if params is None else {"method": method, "params": dict(params)}
        self._asked[number] = (request, answer)
        if self.put_off is not None:
            asyncio.get_running_loop().call_soon(self._put_off)  # behind whoever asks beside it
        self._go_on()
        try:
            return _checked(method, await answer)
        finally:
            self._asked.pop(number, None)
            self._given.pop(number, None)

    async def outcome(self) -> dict[str, Any] | None:
        """The result once it is there; None where the server asks first (see `questions`). Cancels with its caller."""
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
        put_off, task = self.put_off, self.task
        if put_off is not None and self._asked and not (task is not None and task.cancelling()):
            self.put_off = None
            put_off(self)

    def _go_on(self, _: object = None) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def questions(self) -> dict[str, Any]:
        """What the server asks, for the client to answer; from now on the request waits for that."""
        asked, self._asked = self._asked, {}
        self._given.update({key: answer for key, (_, answer) in asked.items()})
        self.suspended = True
        return {key: request for key, (request, _) in asked.items()}

    def resume(self, context: Context, answers: object) -> None:
        """Goes on with the client's answers. Raises MCPError where they are none, or to another request."""
        waits, again = self.context.params or {}, context.params or {}
        if any(waits.get(key) != again.get(key) for key in WHAT) or context.method != self.context.method:
            raise MCPError(code=INVALID_PARAMS, message="The retry is of another request than the one that waits.")
        if not isinstance(answers, Mapping) or not set(self._given) <= set(answers):
            raise MCPError(code=INVALID_PARAMS, message="inputResponses does not answer what was asked.")
        self.context, self.meta = context, _meta_of(context)
        self.suspended = False
        for key, answer in list(self._given.items()):
            if not answer.done():
                answer.set_result(dict(answers[key]) if isinstance(answers[key], Mapping) else {})

    def abandon(self) -> None:
        """Ends the wait for a client that does not come again: the server's requests fail, and it goes on as it can."""
        for answer in (*self._given.values(), *(answer for _, answer in self._asked.values())):
            if not answer.done():
                answer.set_exception(MCPError(code=INVALID_REQUEST, message="The client did not answer."))


def _meta_of(context: Context) -> Mapping[str, Any]:
    found = context.params.get("_meta") if context.params else None
    return found if isinstance(found, Mapping) else {}


def _hearing(context: Context) -> Callable[[float, float | None, str | None], Awaitable[None]] | None:
    """Where a stateless client in the same program gave a function for progress: such a one sends no token.

    The SDK says it nowhere in public; where it keeps it otherwise one day, such clients are told of no progress.
    """
    outbound = getattr(context.session, "_request_outbound", None)
    inner = getattr(outbound, "_inner", outbound)
    return None if getattr(inner, "_on_progress", None) is None else context.session.report_progress


def _numbers(report: Mapping[str, Any]) -> tuple[float, float | None, str | None] | None:
    """What such a function takes of a report. None where that says nothing."""
    progress, total, message = report.get("progress"), report.get("total"), report.get("message")
    if not isinstance(progress, int | float):
        return None
    return progress, total if isinstance(total, int | float) else None, message if isinstance(message, str) else None


async def ask(context: Context, method: str, params: Mapping[str, Any] | None, *, within: bool) -> dict[str, Any]:
    """Asks a client of the handshake era. `within`: on the stream of the context's own request."""
    given = None if params is None else written_out(params) if over_http(context) else dict(params)
    request = RawRequest(asked=method, params=given)
    scope = ServerMessageMetadata(related_request_id=context.request_id) if within else None
    send: Any = context.session.send_request  # is typed for the requests of the protocol alone
    found: RawResult = await send(request, RawResult, metadata=scope)
    return _checked(method, unmarked(found.root))


def _checked(method: str, answer: dict[str, Any]) -> dict[str, Any]:
    """A client's answer as a server may have it."""
    return client_roots.permitted(answer) if method == client_roots.METHOD else answer


async def tell(context: Context, method: str, params: Mapping[str, Any] | None, *, within: bool) -> None:
    """Tells a client something; lost where it does not listen any more."""
    notification = RawNotification(method=method, params=None if params is None else dict(params))
    send: Any = context.session.send_notification
    try:
        await send(notification, related_request_id=context.request_id if within else None)
    except GONE:
        return
