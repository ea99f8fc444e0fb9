"""A server as used by one client session or by the gateway: connected on first use, and reconnected after a loss.

Classifies a failed call: nothing was sent, the server rejected the call, or the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
)

from readback.agent_errors import ToolRefusedError, UpstreamDeniedError, UpstreamLostError
from readback.canon import Json
from readback.errors import NotDispatchedError
from readback.gateway.call import ClientLink
from readback.gateway.upstream.connection import Connection, OnProgress, Peer, UnsentError
from readback.gateway.upstream.handshake import ClientInfo, ServerInfo
from readback.gateway.upstream.request_context import Exchange
from readback.gateway.upstream.target import Server
from readback.gateway.wire.cancellation import SENT_FOR
from readback.gateway.wire.http_client import DENIED
from readback.systems.configured.settings import Credentials

log = logging.getLogger(__name__)

LIST_TIMEOUT_S: Final = 60.0
LIST_ALL_S: Final = 120.0
"""Time limit for all pages of a list, including the server's start."""
PROBE_S: Final = 5.0
"""Time limit for a ping after a call timed out. A server without an answer is restarted."""
RETIRE_S: Final = 60.0
"""How long an unused connection stays open beyond the time limit of its calls in flight. A disconnected client does not
end its calls.
"""
ASKS_ON_S: Final = 60.0
"""How long a server may still ask and notify about an abandoned request."""
PAGES_MAX: Final = 1000
ROUNDS_MAX: Final = 10
"""How often a server may ask before answering."""
STARTS_FREE: Final = 4
"""How many immediate restarts of a short-lived server are allowed. Later pauses double each time."""
LIVED_S: Final = 10.0
PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0
UNANSWERED: Final = ("Unexpected content type", "server answered a request with 202 Accepted", "Redirect to ")
"""Prefixes of the HTTP transport's errors for a response other than the request's answer."""

ERROR_RESPONSE: Final = "Server returned an error response"
"""The HTTP transport's error for a status without an MCP error."""

UnderWay = tuple[str, Exchange | None]
"""The method of a request to a server, and the client's request behind it, if any."""


class NoClient:
    """A `Peer` without a client: rejects a server's requests, and ignores notifications."""

    async def asked(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        raise MCPError(code=METHOD_NOT_FOUND, message=f"No client answers {method}.")

    async def told(self, method: str, params: Mapping[str, Any] | None) -> None:
        return


class Attachment:
    """A `Toolserver` with connections of its own. At most one connection takes new requests."""

    def __init__(self, server: Server, hello: ClientInfo | None = None, peer: Peer | None = None) -> None:
        self._server = server
        self.key = server.key
        self.hello = hello or ClientInfo()
        self.peer: Peer = peer or NoClient()
        self.room = asyncio.Semaphore(server.at_once) if server.at_once else None
        self.fallback: Attachment | None = None
        """Takes calls after this attachment is closed."""
        self.under_way: list[UnderWay] = []
        """Requests in flight, about which servers may ask and notify."""
        self._current: Connection | None = None
        self._listed: Connection | None = None
        """The connection of the last tool list."""
        self._opening: asyncio.Task[Connection] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False
        self._short_lives = 0
        self._opened_at = 0.0
        self._may_open_at = 0.0

    # --- connections ------------------------------------------------------------------------------------

    def introduce(self, hello: ClientInfo, peer: Peer) -> None:
        """Use this client's info from now on.

        An existing connection stays if the server received the same info. Otherwise the connection ends after its
        requests in flight.
        """
        current, told = self._current, self.hello
        self.hello, self.peer = hello, peer
        if current is None or current.closed:
            return
        same = told.modern is hello.modern and told.capabilities == hello.capabilities
        if same and (current.greeting.modern or current.greeting.version == hello.version):
            current.hello, current.peer = hello, peer
        else:
            self._leave(current)
            self._current = None

    async def connection(self) -> Connection:
        """Return the connection for new requests. Raises NotDispatchedError."""
        current = self._current
        if current is not None and not current.closed:
            return current
        opening = self._opening
        if opening is None or opening.done():
            opening = self._opening = asyncio.create_task(self._reopen())
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            # A cancelled caller does not end a start awaited by the next caller.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if not opening.cancelled() or waiting is None or waiting.cancelling():
                raise
            raise NotDispatchedError(f"The connection to {self._server.said} was closed.") from None

    async def _reopen(self) -> Connection:
        if self._current is not None:
            self._lost(self._current)
        self._current = None
        found = await self._open()
        if self._closed:
            await found.close()
            raise NotDispatchedError(f"The connection to {self._server.said} was closed.")
        self._current = found
        return found

    async def _open(self) -> Connection:
        now = asyncio.get_running_loop().time()
        if self._closed:
            raise NotDispatchedError(f"The connection to {self._server.said} was closed.")
        if now < self._may_open_at:
            wait_s = self._may_open_at - now
            raise NotDispatchedError(
                f"{self._server.said} keeps ending.".capitalize(),
                remedy=f"Check its stderr. The next start is allowed in {wait_s:.0f} s at the earliest.",
            )
        self._opened_at = now
        try:
            return await self._greeted()
        except (MCPError, OSError, ValueError) as error:
            self._short_life()
            if self._server.denied:
                raise UpstreamDeniedError(f"{self._server.said} refuses: {DENIED[self._server.denied]}.") from error
            raise NotDispatchedError(
                f"{self._server.said} could not be started or reached: {self.secrets.text(str(error))}",
                remedy="Check its command and its stderr, or its address: the server must speak streamable HTTP there.",
            ) from error

    async def _greeted(self) -> Connection:
        server = self._server
        streams = server.streams if self.fallback is None else server.session_streams
        try:
            found = await Connection.open(streams, self.hello, self.peer, modern=server.modern)
        except ConnectionError:
            if server.modern is not None:
                raise
            found = await Connection.open(streams, self.hello, self.peer, modern=False)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED or server.modern is not None or self.hello.modern:
                raise
            # The server ended at the handshake: it may speak only the stateless era.
            found = await self._greeted_as_stateless(streams, error)
        found.posts = server.posts()
        if found.greeting.modern is not self.hello.modern:
            server.modern = found.greeting.modern
        return found

    async def _greeted_as_stateless(self, streams: Any, closed: MCPError) -> Connection:
        """Try the stateless era. Raises the first error if this fails too."""
        try:
            return await Connection.open(streams, self.hello, self.peer, modern=True)
        except (MCPError, OSError, ValueError) as error:
            raise closed from error

    def _lost(self, connection: Connection) -> None:
        lived_s = asyncio.get_running_loop().time() - self._opened_at
        if lived_s < LIVED_S:
            self._short_life()
        else:
            self._short_lives = 0
        self._leave(connection)

    def _short_life(self) -> None:
        self._short_lives += 1
        beyond = self._short_lives - STARTS_FREE
        if beyond > 0:
            pause_s = min(PAUSE_S * 2.0 ** (beyond - 1), PAUSE_MAX_S)
            self._may_open_at = asyncio.get_running_loop().time() + pause_s

    def _leave(self, connection: Connection) -> None:
        async def leave() -> None:
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(connection.idle.wait(), self._server.timeout_s + RETIRE_S)
            finally:
                await connection.close()

        task = asyncio.create_task(leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def rest(self) -> None:
        """Release the idle connection. The next request opens a new one."""
        if self._current is not None:
            self._leave(self._current)
            self._current = None

    def retire(self) -> None:
        """Take no new requests, and end after the requests in flight."""
        self._closed = True
        self.rest()

    async def settled(self) -> None:
        """Wait for ending connections."""
        if self._leaving:
            await asyncio.wait(set(self._leaving))

    async def aclose(self) -> None:
        """Close every connection now."""
        self._closed = True
        connections = [self._current] if self._current is not None else []
        self._current = None
        ending: list[asyncio.Task[Any]] = [*self._leaving]
        if self._opening is not None:
            ending.append(self._opening)
        for task in ending:
            task.cancel()
        await asyncio.gather(*(each.close() for each in connections), *ending, return_exceptions=True)

    def header_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool with arguments repeated in HTTP headers, else None."""
        return self._server.header_schemas.get(name)

    # --- requests ---------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout_s: float | None = None,
        exchange: Exchange | None = None,
        drive: bool = True,
    ) -> dict[str, Any]:
        """Return the raw result. `drive`: forward a stateless server's questions to the client here.

        Raises NotDispatchedError, MCPError.
        """
        asked = params or {}
        for _ in range(ROUNDS_MAX):
            result = await self._noted(method, asked, timeout_s, exchange)
            if not drive or result.get("resultType") != "input_required":
                return result
            if not result.get("inputRequests") and result.get("requestState") is None:
                # Sending the request again would be a second call: this one may have had its effect.
                raise MCPError(code=PARSE_ERROR, message="The server asks for input without a question.")
            asked = {**asked, **await self._input(result, exchange)}
        raise MCPError(code=INTERNAL_ERROR, message=f"The server asked more than {ROUNDS_MAX} times.")

    async def _noted(
        self, method: str, params: Mapping[str, Any], timeout_s: float | None, exchange: Exchange | None
    ) -> dict[str, Any]:
        noted = method, exchange
        self.under_way.append(noted)
        sent_for = SENT_FOR.set(exchange)
        try:
            return await self._once(method, params, timeout_s, exchange)
        except (asyncio.CancelledError, MCPError) as error:
            if not isinstance(error, MCPError) or error.code == REQUEST_TIMEOUT:
                given_up = method, None  # an abandoned request
                self.under_way.append(given_up)
                asyncio.get_running_loop().call_later(ASKS_ON_S, self.under_way.remove, given_up)
            raise
        finally:
            SENT_FOR.reset(sent_for)
            self.under_way.remove(noted)

    async def _once(
        self, method: str, params: Mapping[str, Any], timeout_s: float | None, exchange: Exchange | None
    ) -> dict[str, Any]:
        waits_s = timeout_s if timeout_s is not None else self._server.timeout_s
        on_progress = exchange.progress if exchange is not None and exchange.wants_progress else None
        name = params.get("name")
        headers = self._server.header_maps.get(name) if method == "tools/call" and isinstance(name, str) else None
        for last in (False, True):
            connection = self._current
            if connection is None or connection.closed:
                connection = await self.connection()
            if connection.unintroduced:
                await connection.introduced()
            try:
                result = await connection.request(
                    method, params, timeout_s=waits_s, on_progress=on_progress, header_map=headers
                )
            except UnsentError as error:
                if last:
                    raise NotDispatchedError(f"{self._server.said} ended before it was called.") from error
            except MCPError as error:
                self._judge(connection, error)
                if (denied := self._denied(error)) is not None:
                    raise denied from error
                raise
            else:
                if method == "tools/list":
                    self._listed = connection
                    self._server.learn(result.get("tools"))
                if not connection.greeting.modern:  # no word of its era: as one of the other it would be called again
                    result.pop("resultType", None)
                return result
        raise AssertionError  # the second round returns or raises

    async def _input(self, result: Mapping[str, Any], exchange: Exchange | None) -> dict[str, Any]:
        """Return the parameters of a retry: the client's answers and the server's state."""
        wanted = result.get("inputRequests")
        requests = {str(key): each for key, each in wanted.items()} if isinstance(wanted, dict) else {}
        if exchange is None and requests:
            raise MCPError(code=INVALID_REQUEST, message="The server asks for input, and no client is connected.")
        answers = {}
        if exchange is not None and requests:
            found = await asyncio.gather(
                *(exchange.ask(str(each.get("method")), each.get("params"), key=key) for key, each in requests.items())
            )
            answers = dict(zip(requests, found, strict=True))
        retry: dict[str, Any] = {"inputResponses": answers} if answers else {}
        if result.get("requestState") is not None:
            retry["requestState"] = result["requestState"]
        return retry

    def _denied(self, error: MCPError) -> MCPError | None:
        """Return the error for status 401 or 403. The SDK reports both like any error response."""
        status = self._server.denied
        if not status or error.code != INTERNAL_ERROR or error.message != ERROR_RESPONSE:
            return None
        return MCPError(code=INTERNAL_ERROR, message=f"{DENIED[status]}. {UpstreamDeniedError.remedy_default}")

    def _judge(self, connection: Connection, error: MCPError) -> None:
        """Decide from a failure whether the connection is lost."""
        if error.code == INVALID_REQUEST and error.message == "Session terminated":
            self._leave(connection)  # by the HTTP transport: the server has forgotten the session
            self._current = None if self._current is connection else self._current
        elif error.code == REQUEST_TIMEOUT:
            task = asyncio.create_task(self._probe(connection))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _probe(self, connection: Connection) -> None:
        method = "server/discover" if connection.greeting.modern else "ping"
        try:
            await connection.request(method, None, timeout_s=PROBE_S)
        except MCPError as error:
            if error.code in (REQUEST_TIMEOUT, CONNECTION_CLOSED):
                log.warning("%s gives no sign of life and is ended.", self._server.said)
                await connection.close()

    @property
    def greeting(self) -> ServerInfo | None:
        """The server's greeting, if connected."""
        return None if self._current is None else self._current.greeting

    async def introduced(self) -> None:
        """Notify the server that the client is ready."""
        if self._current is not None and not self._current.closed:
            await self._current.introduced()

    @property
    def modern(self) -> bool:
        """Whether the connected server speaks the stateless era."""
        return self._current is not None and self._current.greeting.modern

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification, if connected."""
        current = self._current
        if current is not None and not current.closed:
            await current.notify(method, params)

    # --- as a Toolserver --------------------------------------------------------------------------------

    @property
    def secrets(self) -> Credentials:
        """See `Toolserver`."""
        return self._server.secrets

    @property
    def unlisted(self) -> bool:
        """See `Toolserver`."""
        if self._closed and self.fallback is not None:
            return self.fallback.unlisted
        current = self._current
        return current is None or current is not self._listed or current.closed

    @property
    def origin(self) -> Mapping[str, Json]:
        """See `Toolserver`."""
        current = self._current
        return self._server.origin(current.greeting.version if current is not None else "")

    async def call(
        self, params: Mapping[str, Json], *, timeout_s: float | None, link: ClientLink | None = None
    ) -> dict[str, Json]:
        """Send `tools/call`; see `Toolserver`."""
        if self._closed and self.fallback is not None:
            return await self.fallback.call(params, timeout_s=timeout_s, link=link)
        exchange = link if isinstance(link, Exchange) else None
        try:
            return await self.request("tools/call", params, timeout_s=timeout_s, exchange=exchange)
        except MCPError as error:
            raise self._meaning(error) from error

    def _meaning(self, error: MCPError) -> UpstreamLostError | ToolRefusedError:
        said = {"code": error.code, "message": error.message, "data": error.data}
        clear = self.secrets.text(error.message)
        if is_lost(error):
            return UpstreamLostError(f"{self._server.said} did not answer the call: {clear}", details=said)
        return ToolRefusedError(f"{self._server.said} refused the call: {clear}", details=said)

    async def tools(self) -> Sequence[Mapping[str, Json]]:
        """Return all tools; see `Toolserver`."""
        if self._closed and self.fallback is not None:
            return await self.fallback.tools()
        try:
            async with asyncio.timeout(LIST_ALL_S):
                return await self._every_page()
        except TimeoutError:
            said = f"{self._server.said} does not list its tools within {LIST_ALL_S:g} s."
            raise UpstreamLostError(said) from None

    async def _every_page(self) -> list[Mapping[str, Json]]:
        found: list[Mapping[str, Json]] = []
        cursors: list[str] = []
        for _ in range(PAGES_MAX):
            try:
                asked = {"cursor": cursors[-1]} if cursors else None
                page = await self.request("tools/list", asked, timeout_s=LIST_TIMEOUT_S)
            except (MCPError, NotDispatchedError) as error:
                if self._has_none(error):
                    return []
                said = f"{self._server.said} does not list its tools: {self.secrets.text(error.message)}"
                remedy = error.remedy if isinstance(error, NotDispatchedError) else ""
                details = {"denied": self._server.denied} if self._server.denied else {}
                raise UpstreamLostError(said, remedy=remedy, details=details) from error
            found += paged(page, found, cursors)
            if not goes_on(page, cursors):
                return found
        raise UpstreamLostError(f"{self._server.said} lists more than {PAGES_MAX} pages of tools.")

    def _has_none(self, error: Exception) -> bool:
        """Return whether the server has no tools: the method is unknown and no tool capability was announced."""
        greeting = self.greeting
        unknown = isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND
        return unknown and greeting is not None and "tools" not in greeting.capabilities


def paged(
    page: Mapping[str, Any], before: Sequence[Mapping[str, Json]], cursors: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the tools of a page, without earlier tools if the server repeats a page."""
    tools = page.get("tools")
    found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [tool for tool in found if tool not in before] if page.get("nextCursor") in cursors else found


def goes_on(page: Mapping[str, Any], cursors: list[str]) -> bool:
    """Return whether another page follows, and append its cursor to `cursors`.

    An empty cursor is valid. A repeated cursor means the end, since some servers repeat the cursor instead of omitting
    it.
    """
    cursor = page.get("nextCursor")
    if not isinstance(cursor, str) or cursor in cursors:
        return False
    cursors.append(cursor)
    return True


def is_lost(error: MCPError) -> bool:
    """Return whether a request's outcome is unknown: no answer, or an unreadable one."""
    if error.code in (REQUEST_TIMEOUT, CONNECTION_CLOSED, PARSE_ERROR):
        return True
    said = error.message  # the HTTP transport's own words, for a status that no server of MCP gave
    return (error.code == INTERNAL_ERROR and said == ERROR_RESPONSE) or (
        error.code == INVALID_REQUEST and said.startswith(UNANSWERED)
    )
