"""Serve the application with uvicorn: start, limits of slow clients, and a clean stop with calls in flight.

At the stop the listener closes, requests in flight may end within the grace, and the workers end their actions in
progress. An attempt that is cut off is durable and belongs to the next process on the same ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast
from urllib.parse import quote

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from readback.bootstrap import MEMORY_URL
from readback.config import Settings
from readback.contracts.registry import Registry
from readback.errors import SettingsError
from readback.server.api import route_table
from readback.server.app import Application, Server
from readback.server.console.application import console_app
from readback.server.ledgers import Ledgers
from readback.server.openapi import described
from readback.server.processes import READY, connection_of
from readback.server.routing import RouteTable
from readback.server.settings import IN_MEMORY, ServerSettings

TESTS_FILE: Final = "tests.db"
GRACE_S: Final = 5
"""How long requests and workers may still run at the server's end, in seconds."""
ANSWER_S: Final = 2.0
"""After this time in seconds, waiting requests are answered with the current knowledge."""
HEAD_S: Final = 15.0
"""Time limit in seconds for a request's head, and for the first request of a new connection."""
HEAD_MAX_BYTES: Final = 65_536
"""The largest head, and the largest trailer section after a body, in bytes."""
UNREAD_S: Final = 30.0
"""Time limit in seconds for a client that does not read its answer."""
KEEP_ALIVE_S: Final = 30
BACKLOG: Final = 2_048
_FINAL_HEAD: Final = (b"HTTP/1.1 2", b"HTTP/1.1 3", b"HTTP/1.1 4", b"HTTP/1.1 5")
"""How the head of an answer begins, unlike `100 Continue`, which a client awaits before the body."""
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def create_app(
    settings: Settings, server_settings: ServerSettings, registry: Registry | None = None
) -> tuple[Application, Server]:
    """Return the application on an open ledger, and the server behind the application.

    The caller closes the server. Raises SettingsError, StoreError and ContractError before anything listens.
    """
    server_settings.check()
    tests = server_settings.shared_file(TESTS_FILE)
    test_url = MEMORY_URL if tests == IN_MEMORY else f"sqlite:///{quote(tests)}"
    ledgers = Ledgers(settings, registry, webhooks=dict(server_settings.webhooks), test_url=test_url)
    try:
        server = Server(server_settings, ledgers)
        return Application(server, whole_table(), console_app(server)), server
    except BaseException:
        ledgers.close()
        raise


def whole_table() -> RouteTable:
    """Return every route of the API, with the route of its description."""
    table = route_table()
    return route_table(described(table))


async def serve(
    settings: Settings,
    server_settings: ServerSettings,
    registry: Registry | None = None,
    *,
    stop: asyncio.Event,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until `stop` is set. `on_listening` receives the URL.

    Raises:
        SettingsError: a setting is invalid, or the address cannot be used.
        StoreError: the ledger cannot be opened.
        ContractError: a contract is invalid.
    """
    with listening(server_settings.host, server_settings.port) as listener:
        app, server = create_app(settings, server_settings, registry)
        try:
            told = partial(_tell, on_listening, url_of(server_settings.host, listener))
            await _serve(app, server, _Uvicorn(_config(app)), [listener], stop, told)
        finally:
            server.close()


async def serve_channel(
    settings: Settings,
    server_settings: ServerSettings,
    registry: Registry | None,
    channel: socket.socket,
    *,
    stop: asyncio.Event,
) -> None:
    """Serve the connections of a channel, as one of several processes, until the first one ends. Raises as `serve`."""
    app, server = create_app(settings, server_settings, registry)
    try:
        uvicorn_server = _Channelled(_config(app), channel, stop)
        await _serve(app, server, uvicorn_server, None, stop, lambda: channel.send(READY))
    finally:
        server.close()


def _tell(on_listening: Callable[[str], None] | None, url: str) -> None:
    if on_listening is not None:
        on_listening(url)


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _config(app: Application) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Timed,
        ws="none",
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # the client's address is never used
        server_header=False,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        backlog=BACKLOG,
    )


async def _serve(
    app: Application,
    server: Server,
    uvicorn_server: uvicorn.Server,
    listeners: list[socket.socket] | None,
    stop: asyncio.Event,
    on_listening: Callable[[], object],
) -> None:
    if server.settings.worker:
        server.ledgers.begin_work()
    ending = asyncio.create_task(_stopped(uvicorn_server, server, stop))
    on_listening()
    try:
        await uvicorn_server.serve(sockets=listeners)
    finally:
        ending.cancel()
        server.stopping.set()
        server.ledgers.hub.stop()
        await server.ledgers.end_work(GRACE_S)
        await server.ledgers.end()


async def _stopped(uvicorn_server: uvicorn.Server, server: Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.stopping.set()
    server.ledgers.hub.stop()
    uvicorn_server.should_exit = True
    asyncio.get_running_loop().call_later(ANSWER_S, server.ledgers.answer_waiting)


class _Uvicorn(uvicorn.Server):
    """Leaves signal handling to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Channelled(_Uvicorn):
    """Serves connections that another process has accepted. The end of the channel is the end of that process."""

    servers: list[asyncio.Server]

    def __init__(self, config: uvicorn.Config, channel: socket.socket, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._channel, self._stop = channel, stop
        self._opening: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers, self.started = [], True
        asyncio.get_running_loop().add_reader(self._channel, self._take)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()
        await super().shutdown(sockets)

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection = connection_of(self._channel)
        except (EOFError, ConnectionResetError):
            loop.remove_reader(self._channel)
            self._stop.set()
            return
        if connection is not None:
            opening = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _protocol(self) -> asyncio.Protocol:
        return _Timed(config=self.config, server_state=self.server_state, app_state={})


class _Joined:
    """A transport that sends an answer's head together with the first part of the body: one system call for both.

    uvicorn writes them apart. `close`, and the end of an answer without a body, send a head that still waits.
    """

    def __init__(self, transport: Any) -> None:
        self._transport, self._head = transport, b""
        self.is_closing, self.get_extra_info = transport.is_closing, transport.get_extra_info
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_FINAL_HEAD):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Timed(HttpToolsProtocol):
    """Closes a connection with an overdue or endless head or an unread answer, and ignores trailers. uvicorn does not.

    uvicorn adds a trailer to the headers, and a proxy checks headers alone (RFC 9110, section 6.5.1).
    """

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _framing_bytes = 0
    """Received since the last complete head, part of a body, or message."""
    _in_head = True

    def connection_made(self, transport: Any) -> None:
        self._joined = _Joined(transport)
        super().connection_made(cast("asyncio.Transport", self._joined))
        self._arm()

    def data_received(self, data: bytes) -> None:
        self._framing_bytes += len(data)
        super().data_received(data)
        if not self._framing_bytes or self.transport.is_closing():
            return
        if self._framing_bytes > HEAD_MAX_BYTES:
            self.send_400_response(f"The {'head' if self._in_head else 'trailer section'} of the request is too large.")
        elif self._in_head and self._timer is None:
            self._arm()

    def on_response_complete(self) -> None:
        self._joined.flush()
        super().on_response_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._framing_bytes = False, 0
        self._disarm()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._framing_bytes = True, 0

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self._joined.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def _arm(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(_LATE)
            self.transport.close()


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: asyncio disables Nagle's delay only then.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except (OSError, OverflowError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SettingsError(
                f"The server cannot listen at {host:.80} port {port}: {why}.",
                remedy="Name another port (--port; 0 takes a free one) or an address of this machine (--host).",
            ) from error
        yield listener
