"""A server behind the gateway: its address, and the gateway's own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from readback.canon import Json
from readback.client import validation
from readback.gateway.call import ClientLink
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.target import CALL_TIMEOUT_S, Command, Endpoint, Server
from readback.gateway.wire.http_client import CALLS_MAX
from readback.systems.configured.settings import Credentials

__all__ = ["CALL_TIMEOUT_S", "Command", "Endpoint", "Upstream"]


class Upstream:
    """One server behind the gateway, and a `Toolserver` over the gateway's own connection, opened on first use.

    Client sessions get connections of their own. Usable in one event loop; `aclose` ends everything.

    >>> from readback.mcp import Upstream
    >>> Upstream.command(["python", "book_server.py"], key="book").key
    'book'
    >>> Upstream.url("http://127.0.0.1:8080/mcp", headers={"Authorization": "Bearer TOKEN"}).key
    ''
    """

    def __init__(
        self,
        target: Command | Endpoint,
        *,
        key: str = "",
        timeout_s: float = CALL_TIMEOUT_S,
        secrets: Credentials | None = None,
    ) -> None:
        self.target = target
        self.key = key
        at_once = CALLS_MAX if isinstance(target, Endpoint) else 0
        self.server = Server(target, key, timeout_s, at_once=at_once, secrets=secrets or Credentials())
        self.own = Attachment(self.server)
        self._attached: set[Attachment] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def room(self) -> asyncio.Semaphore | None:
        """The call limit of the gateway's own connection."""
        return self.own.room

    @property
    def unlisted(self) -> bool:
        """See `Toolserver`, for the gateway's own connection."""
        return self.own.unlisted

    @property
    def origin(self) -> Mapping[str, Json]:
        """See `Toolserver`, for the gateway's own connection."""
        return self.own.origin

    @property
    def secrets(self) -> Credentials:
        """The target's secrets."""
        return self.server.secrets

    @classmethod
    def command(
        cls, argv: Sequence[str], *, key: str = "", env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Upstream:
        """Return a server started as a process.

        Args:
            argv: The program and its arguments, as a list. No shell reads them.
            key: The server's name among several servers.
            env: Additions to the gateway's environment.
            cwd: Working directory of the process.

        Raises:
            SettingsError: The command is not a list of words.
        """
        words = validation.several(
            "argv", argv, str, "Pass the program and its arguments as a list: no shell reads them."
        )
        return cls(Command(words, env, cwd), key=key)

    @classmethod
    def url(cls, url: str, *, key: str = "", headers: Mapping[str, str] | None = None) -> Upstream:
        """Return a server over streamable HTTP.

        Args:
            url: The address.
            key: The server's name among several servers.
            headers: HTTP headers of every request.
        """
        return cls(Endpoint(url, headers), key=key)

    def attach(self) -> Attachment:
        """Return connections for one client session."""
        attachment = Attachment(self.server)
        attachment.fallback = self.own
        self._attached.add(attachment)
        return attachment

    def detach(self, attachment: Attachment) -> None:
        """End the connections of a closed client session after its calls in flight."""
        if attachment is self.own or attachment not in self._attached:
            return
        attachment.retire()

        async def leave() -> None:
            await attachment.settled()
            self._attached.discard(attachment)

        task = asyncio.create_task(leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def call(
        self, params: Mapping[str, Json], *, timeout_s: float | None, link: ClientLink | None = None
    ) -> dict[str, Json]:
        """Send `tools/call`; see `Toolserver`."""
        return await self.own.call(params, timeout_s=timeout_s, link=link)

    async def tools(self) -> Sequence[Mapping[str, Json]]:
        """Return all tools; see `Toolserver`."""
        return await self.own.tools()

    async def aclose(self) -> None:
        """Close every connection and process, in bounded time."""
        for task in tuple(self._leaving):
            task.cancel()
        await asyncio.gather(self.own.aclose(), *(each.aclose() for each in tuple(self._attached)))
