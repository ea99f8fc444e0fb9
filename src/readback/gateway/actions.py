"""Decorated actions and sagas as a server of the Model Context Protocol, for any host of that protocol.

Used by programs (`readback.mcp.ActionServer`) and by `readback mcp --actions MODULE`. The transports, the rules of
sessions, and the checks of requests are those of the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from readback.client import validation
from readback.errors import UsageError
from readback.gateway.gateway import GRACE_S, checked_count, checked_hold, checked_idle, on_stderr
from readback.gateway.policy.action_gate import ActionGate
from readback.gateway.policy.due_worker import DueActionWorker
from readback.gateway.policy.gate import HOLD_S
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.serving import serve
from readback.gateway.serving.http_sessions import SESSION_IDLE_S, SESSIONS_MAX
from readback.kit.kit import Kit


class ActionServer:
    """A server of actions and sagas. Use as an async context manager.

    Args:
        actions: Decorated actions, actions of contract files, and sagas made with `readback.kit.saga`.
        url: The ledger; this and the further parameters are those of `Readback.open`.
        hold: How long a caller waits before the answer "pending", in seconds.
        say: Receives one line for each event of the operator's interest; standard error where left out.

    Raises:
        SettingsError: a parameter is invalid.

    Example:
        >>> import asyncio
        >>> from readback import verified
        >>> from readback.mcp import ActionServer
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> async def main() -> bool:
        ...     async with ActionServer([switch], url="memory:") as server:
        ...         return callable(server.serve_stdio)
        >>> print(asyncio.run(main()))
        True
    """

    def __init__(
        self,
        actions: Iterable[object],
        *,
        url: str | None = None,
        hold: float = HOLD_S,
        say: Callable[[str], None] | None = None,
        **opened: Any,
    ) -> None:
        self._actions, self._url, self._opened = [*actions], url, opened
        self._hold_s, self._say = checked_hold(hold), say or on_stderr
        self._kit: Kit | None = None
        self._gate: ActionGate | None = None
        self._ledger: GatewayClient | None = None
        self._tending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ActionServer:
        """Open the ledger, load the contracts, and start resuming due actions. Raises as `Kit.open` does."""
        self._kit = Kit.open(self._url, actions=self._actions, wait=self._hold_s, **self._opened)
        self._ledger = GatewayClient(self._kit.client.shared)
        tending = DueActionWorker(self._ledger, self._say)
        self._gate = ActionGate(self._kit, hold_s=self._hold_s, notify=tending.notify)
        self._tending = asyncio.create_task(tending.stay(), name="readback-tending")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kit, gate, ledger, tending = self._kit, self._gate, self._ledger, self._tending
        self._kit = self._gate = self._ledger = self._tending = None
        left = 0 if gate is None else await gate.close(GRACE_S)
        if left:
            self._say(f"{left} calls are left to the process that opens the ledger next.")
        if tending is not None:
            tending.cancel()
            await asyncio.wait({tending})
        if ledger is not None:
            ledger.give_back()
            ledger.leave()
        if kit is not None:
            await kit.aclose()

    @property
    def gate(self) -> ActionGate:
        """The gate for the wire. Raises UsageError outside the server's context."""
        if self._gate is None:
            raise UsageError(
                "This server is not running.", remedy="Use it as `async with ActionServer(...) as server`."
            )
        return self._gate

    @property
    def server(self) -> Any:
        """An `mcp.server.lowlevel.Server` for any transport, or in memory: `mcp.Client(server.server)`."""
        return serve.sdk_server(self.gate, ())

    async def serve_stdio(self, *, stop: asyncio.Event | None = None) -> None:
        """Serve one client on this process's stdin and stdout, until the client goes or `stop` is set."""
        await serve.serve_stdio(self.gate, (), stop=stop, patience_s=self._hold_s + GRACE_S)

    async def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8765,
        *,
        path: str = "/mcp",
        allow_hosts: Sequence[str] = (),
        stop: asyncio.Event | None = None,
        on_listening: Callable[[str], None] | None = None,
        sessions_max: int = SESSIONS_MAX,
        session_idle: float = SESSION_IDLE_S,
    ) -> None:
        """Serve clients over streamable HTTP until `stop` is set. The parameters are those of `Gateway.serve_http`."""
        await serve.serve_http(
            self.gate,
            (),
            host=host,
            port=port,
            path=path,
            allow_hosts=validation.several("allow_hosts", allow_hosts, str, "Pass allow_hosts=['actions.example']."),
            stop=stop,
            on_listening=on_listening,
            sessions_max=checked_count("sessions_max", sessions_max),
            session_idle_s=checked_idle(session_idle),
        )

    def reload_on_hangup(self) -> None:
        """Ignore SIGHUP: the actions of a module are those of the start."""
