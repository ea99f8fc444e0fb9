"""Serve the gateway to clients over stdio and streamable HTTP, in both protocol eras.

The SDK's server handles transports, sessions and the choice of era. One middleware receives every request in raw form,
so that forwarded messages are never parsed into models.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import uvicorn
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from readback.canon import ReadbackError
from readback.errors import SettingsError
from readback.gateway.call import ToolGate
from readback.gateway.serving.http_guard import HttpGuard
from readback.gateway.serving.http_reader import http_reader
from readback.gateway.serving.http_sessions import FAILED, SESSION_IDLE_S, SESSIONS_MAX, HttpSessions
from readback.gateway.serving.http_shutdown import HttpEnd
from readback.gateway.serving.stdio import PATIENCE_S, own_streams
from readback.gateway.serving.stdio_fast_path import CALL, Admitted, CallLane, envelope_of
from readback.gateway.serving.texts_from_clients import HttpTexts
from readback.gateway.session.client_session import ClientSession
from readback.gateway.session.lists import Names
from readback.gateway.session.own_session import OwnSession
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.request_context import Context
from readback.gateway.upstream.upstream import Upstream
from readback.gateway.wire.text_marks import over_http, written_out

GRACE_S: Final = 2.0
"""How long HTTP calls may still run at the gateway's end. Then they are answered with the current knowledge."""
SHUTDOWN_S: Final = 3
"""How long HTTP clients may take to finish at the gateway's end, including the last answers."""
HTTP_PORT: Final = 8765


class Door:
    """The middleware: finds the session of a request. `one_client`: all requests come from one client."""

    def __init__(
        self, gate: ToolGate, upstreams: Sequence[Upstream], *, one_client: bool, lane: CallLane | None = None
    ) -> None:
        Names([each.key for each in upstreams])  # refuses those that would not tell them apart
        self._gate = gate
        self._upstreams = tuple(upstreams)
        self._one_client = one_client
        self._stateless: ClientSession | None = None
        self._lane = lane

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        relay = self._relay(ctx)
        if self._lane is not None:
            self._admit(self._lane, relay, ctx)
            if ctx.method == CALL:
                self._watch(self._lane)
        if ctx.request_id is not None:
            try:
                result = await relay.answer(ctx)
            except Exception:
                if ctx.method == "initialize" and ctx.request is not None:
                    ctx.request.scope[FAILED] = True
                raise
            return written_out(result) if over_http(ctx) else result  # other transports take the values unchanged
        await relay.hear(ctx)
        if ctx.method == "notifications/initialized":
            return await call_next(ctx)
        return None

    def _watch(self, lane: CallLane) -> None:
        """Register the task answering this call, so that the process waits for the task at its end."""
        task = asyncio.current_task()
        if task is not None and task not in lane.beside:
            lane.beside.add(task)
            task.add_done_callback(lane.beside.discard)

    def _admit(self, lane: CallLane, relay: ClientSession, context: Context) -> None:
        """Open the fast path after the session is open.

        A handshake-era session opens with the client's notification.
        """
        modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
        if context.method == "notifications/initialized" or (modern and context.request_id is not None):
            meta = (context.params or {}).get("_meta")
            lane.admitted = Admitted(relay, context.session, envelope_of(meta if modern and meta else {}))

    def _relay(self, context: Context) -> ClientSession:
        if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.stateless()
        # The SDK has no public name for a session's state.
        connection = context.session._connection  # noqa: SLF001
        relay = connection.state.get("readback")
        if not isinstance(relay, ClientSession):
            attachments = self._own() if self._one_client else [each.attach() for each in self._upstreams]
            relay = connection.state["readback"] = self._made(attachments, modern=False, private=True)
            connection.exit_stack.callback(self._left, relay, attachments)
        return relay

    def stateless(self) -> ClientSession:
        """Return the session shared by all stateless clients."""
        if self._stateless is None:
            self._stateless = self._made(self._own(), modern=True, private=self._one_client)
        return self._stateless

    def header_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, by its client-side name, if calls repeat arguments in headers."""
        return self.stateless().header_schema(tool)

    def _own(self) -> list[Attachment]:
        return [each.own for each in self._upstreams]

    def _made(self, attachments: Sequence[Attachment], *, modern: bool, private: bool) -> ClientSession:
        if not self._upstreams:
            return OwnSession(self._gate, modern=modern, private=private)
        return ClientSession(self._gate, attachments, modern=modern, private=private)

    def _left(self, relay: ClientSession, attachments: Sequence[Attachment]) -> None:
        relay.close()
        for upstream, attachment in zip(self._upstreams, attachments, strict=True):
            upstream.detach(attachment)


def sdk_server(
    gate: ToolGate,
    upstreams: Sequence[Upstream],
    *,
    name: str = "readback",
    one_client: bool = False,
    lane: CallLane | None = None,
) -> Server[Any]:
    """Return the gateway as an `mcp.server.lowlevel.Server`, for any transport or for tests in memory.

    `one_client`: the only client may use the gateway's own connections. The creator of the upstreams closes them
    (`Upstream.aclose`) after serving. `lane`: the fast path for this client's calls.
    """
    return _served(name, Door(gate, upstreams, one_client=one_client, lane=lane))


def _served(name: str, door: Door) -> Server[Any]:
    server: Server[Any] = Server(name, get_tool_input_schema=door.header_schema)
    server.middleware[:] = [door]
    return server


async def serve_stdio(
    gate: ToolGate,
    upstreams: Sequence[Upstream],
    *,
    name: str = "readback",
    stop: asyncio.Event | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Serve one client on this process's stdin and stdout, until the client closes stdin or `stop` is set.

    Requests open at the end of stdin are still answered within `patience_s`. Does not close the upstreams, so that
    calls in flight can end in order.
    """
    lane = CallLane()
    server = sdk_server(gate, upstreams, name=name, one_client=True, lane=lane)
    async with own_streams(stop, lane, patience_s=patience_s, answer_held=gate.answer_held) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(
    gate: ToolGate,
    upstreams: Sequence[Upstream],
    *,
    host: str = "127.0.0.1",
    port: int = HTTP_PORT,
    path: str = "/mcp",
    name: str = "readback",
    allow_hosts: Collection[str] = (),
    stop: asyncio.Event | None = None,
    on_listening: Callable[[str], None] | None = None,
    sessions_max: int = SESSIONS_MAX,
    session_idle_s: float = SESSION_IDLE_S,
) -> None:
    """Serve clients over streamable HTTP until `stop` is set. `on_listening` receives the URL.

    `port` 0 takes a free port. `allow_hosts`: more names used by clients (see `HttpGuard`). `sessions_max` and
    `session_idle_s` concern handshake-era clients; stateless clients have no sessions. Raises SettingsError for an
    unavailable or nameless address. Does not close the upstreams.
    """
    door = Door(gate, upstreams, one_client=False)

    def crowded() -> ReadbackError | None:
        return next(filter(None, (each.server.crowded() for each in upstreams)), None)

    served = _served(name, door)
    sessions = HttpSessions(served, path, sessions_max=sessions_max, idle_s=session_idle_s, crowded=crowded)
    app = HttpEnd(HttpGuard(HttpTexts(sessions), host, allow_hosts))
    with _listening(host, port) as listener:
        config = uvicorn.Config(
            app,
            http=http_reader(),
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # the client's address is never used
            lifespan="off",
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        server = _Uvicorn(config)
        ending = _stopped(server, app, gate, stop) if stop is not None else None
        stopping = asyncio.ensure_future(ending) if ending is not None else None
        if on_listening is not None:
            shown = f"[{host}]" if ":" in host else host
            on_listening(f"http://{shown}:{listener.getsockname()[1]}{path}")
        try:
            async with sessions.run():
                await server.serve(sockets=[listener])
        finally:
            if stopping is not None:
                stopping.cancel()


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: asyncio disables Nagle's delay only then. Otherwise each answer waits 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(1024)
        except (OSError, OverflowError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SettingsError(
                f"The gateway cannot listen at {host:.80} port {port}: {why}.",
                remedy="Name another port (--port; 0 takes a free one) or an address of this machine (--host).",
            ) from error
        yield listener


async def _stopped(server: uvicorn.Server, app: HttpEnd, gate: ToolGate, stop: asyncio.Event) -> None:
    await stop.wait()
    app.end()
    server.should_exit = True
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = asyncio.get_running_loop().call_later(GRACE_S, gate.answer_held)
    try:
        await over  # cancelled when serving ends
    finally:
        timer.cancel()


class _Uvicorn(uvicorn.Server):
    """Leaves signal handling to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
