"""The assembled gateway: servers, contracts, a ledger, and the gate for clients.

Used by programs (`readback.mcp.Gateway`) and by `readback mcp`. The gateway ends everything it started, in bounded
time. The next gateway on the same ledger, or a worker, resumes unsettled actions.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Final

import readback.bootstrap as bootstrap
from readback.agent_errors import OwnToolError
from readback.client import validation
from readback.client.sealing import SealLike
from readback.contracts.documents.own_files import keep, refuse_reach
from readback.contracts.packs import completed
from readback.domain.contract.approval import Approver
from readback.domain.contract.limits import TenantLimits
from readback.domain.verification.observation_signs import one_line
from readback.errors import SettingsError, UsageError
from readback.gateway.policy.active_contracts import Loader, Path
from readback.gateway.policy.builtin_tools import OWN_NAMES
from readback.gateway.policy.catalogue import Catalogue
from readback.gateway.policy.due_worker import DueActionWorker
from readback.gateway.policy.gate import HOLD_S, IN_FLIGHT_MAX, Gate
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.reload import Reloading
from readback.gateway.policy.servers import Servers
from readback.gateway.policy.ungoverned import Policy
from readback.gateway.policy.watched import Watching
from readback.gateway.serving import serve
from readback.gateway.serving.http_sessions import SESSION_IDLE_S, SESSIONS_MAX
from readback.gateway.upstream.target import PROCESSES_MAX
from readback.gateway.upstream.upstream import Command, Endpoint, Upstream
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore
from readback.ports.system_factory import ServerTerms
from readback.systems.configured.settings import Settled

HOLD_MAX_S: Final = 3_600.0
IDLE_MAX_S: Final = 86_400.0
COUNT_MAX: Final = 10_000
"""Largest limit for sessions, and for processes of a server."""
GRACE_S: Final = 5.0
"""How long calls in flight may still run at the gateway's end."""
LINE_MAX_CHARACTERS: Final = 2_000


class Gateway:
    """Governed access to the tools of MCP servers. Use as an async context manager.

    Args:
        upstreams: The servers. With several servers, each needs a key; clients see the key as a prefix of tool names.
        contracts: Contract files.
        ungoverned: Policy for tools without a contract: "pass", "unverified" or "deny".
        url: The ledger; this and the other ledger options are the same as in `Readback.open`.
        hold: How long a caller waits before the answer "pending", in seconds.
        pins: Required SHA-256 of contract files, by absolute path.
        servers_max: Most processes of each server for client sessions.
        shadow: Watch tools without a contract, and run contracts in shadow mode where the settings allow.
        reads: Reading tools of the servers, called before and after a watched call: `TOOL`, or `TOOL=READING`.

    Raises:
        SettingsError: An option is invalid, or servers share a key.

    >>> from readback.mcp import Gateway, Upstream
    >>> server = Upstream.command(["python", "book_server.py"])
    >>> gateway = Gateway([server], ["book.yaml"], url="sqlite:///readback.db", ungoverned="deny")
    >>> async def main() -> None:
    ...     async with gateway:
    ...         await gateway.serve_stdio()
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        contracts: Sequence[Path] = (),
        *,
        url: str | None = None,
        tenant: str | None = None,
        principal: str | None = None,
        run: str = "",
        scopes: Iterable[str] | None = None,
        limits: TenantLimits | None = None,
        approvers: Iterable[Approver] | None = None,
        seal: SealLike = None,
        runtime: Runtime | None = None,
        store: LedgerStore | None = None,
        hold: float = HOLD_S,
        ungoverned: str = Policy.UNVERIFIED,
        in_flight_max: int = IN_FLIGHT_MAX,
        pins: Mapping[str, str] | None = None,
        say: Callable[[str], None] | None = None,
        servers_max: int = PROCESSES_MAX,
        shadow: bool = False,
        reads: Sequence[str] = (),
    ) -> None:
        self._upstreams = _sound(upstreams)
        for upstream in self._upstreams:
            upstream.server.processes_max = checked_count("servers_max", servers_max)
        named = validation.several("contracts", contracts, (str, os.PathLike), "Pass contracts=['FILE.yaml'].")
        self._contracts, self._pins = tuple(_told(each, self._upstreams) for each in named), pins
        self._policy = _policy(ungoverned)
        self._hold_s, self._in_flight_max = checked_hold(hold), in_flight_max
        self._say = say or on_stderr
        self._ledger_terms: dict[str, Any] = {
            "url": url,
            "tenant": tenant,
            "principal": principal,
            "run": run,
            "scopes": scopes,
            "limits": limits,
            "approvers": approvers,
            "seal": seal,
            "runtime": runtime,
            "store": store,
        }
        self._shadow, self._reads = _watched(shadow, reads, self._policy)
        self._ledger: GatewayClient | None = None
        self._gate: Gate | None = None
        self._reloading: Reloading | None = None
        self._tending: asyncio.Task[None] | None = None
        self._reached: set[Upstream] = set()
        """Servers only read by contracts. The gateway ends these too."""

    # --- its life ---

    async def __aenter__(self) -> Gateway:
        """Open the ledger, list the servers' tools, load the contracts, and start resuming due actions.

        Raises SettingsError, StoreError, ContractFileError with every fault, and UpstreamLostError for a server unable
        to list its tools.
        """
        try:
            await self._start()
        except BaseException:
            await self._end(GRACE_S)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(GRACE_S)

    async def _start(self) -> None:
        opened = GatewayClient.open(**self._ledger_terms, shadow=self._shadow and self._allows_shadow())
        assert isinstance(opened, GatewayClient)
        self._ledger = opened
        for each in self._contracts:
            if not os.fspath(each).startswith("pack:"):
                keep(os.fspath(each))
        for upstream in self._upstreams:
            _refuse_own_files(upstream)
        catalogue = Catalogue()
        servers = Servers(catalogue, opened.runtime)
        for upstream in self._upstreams:
            servers.front(upstream)
        loader = Loader(
            self._contracts,
            servers,
            catalogue,
            pins=self._pins,
            reach=upstream_of,
            know=opened.know,
            say=self._say,
        )
        self._reached = loader.reached
        self._reloading = Reloading(self._contracts, opened.runtime, loader.load, self._say)
        tending = DueActionWorker(opened, self._say)
        self._gate = Gate(
            opened,
            servers,
            catalogue,
            self._reloading,
            policy=self._policy,
            hold_s=self._hold_s,
            in_flight_max=self._in_flight_max,
            watching=Watching(servers, catalogue, self._reads, self._say) if self._shadow else None,
            say=self._say,
            notify=tending.notify,
        )
        await self._reloading.begin()
        self._gate.watch()
        self._check_names(catalogue)
        self._tending = asyncio.create_task(tending.stay(), name="readback-tending")

    def _allows_shadow(self) -> bool:
        """Whether the operator's settings allow a contract in shadow mode. Without this the contracts are enforced."""
        allowed = bool(bootstrap.settings(url=self._ledger_terms["url"]).shadow)
        if self._contracts and not allowed:
            self._say("The contracts stay enforced: the settings' `shadow` allows none of them in shadow mode.")
        return allowed

    def _check_names(self, catalogue: Catalogue) -> None:
        if len(self._upstreams) > 1:
            return  # their tools bear the servers' keys
        for upstream in self._upstreams:
            taken = sorted(OWN_NAMES & catalogue.tools(upstream.key).keys())
            if taken:
                raise OwnToolError(f"The server's tool {taken[0]!r} has the name of a gateway tool.")

    async def _end(self, grace_s: float) -> None:
        gate, ledger, tending, reloading = self._gate, self._ledger, self._tending, self._reloading
        self._gate = self._ledger = self._tending = self._reloading = None
        try:
            if reloading is not None:
                await reloading.close()
            left = 0 if gate is None else await gate.close(grace_s)
            if left:
                self._say(f"{left} calls remain open. The next program that opens the ledger continues them.")
            if tending is not None:
                tending.cancel()
                await asyncio.wait({tending})
        finally:
            await asyncio.gather(*(each.aclose() for each in (*self._upstreams, *self._reached)))
            if ledger is not None:
                try:
                    ledger.give_back()
                finally:
                    await ledger.close()

    # --- serving ---

    @property
    def gate(self) -> Gate:
        """The gate for the wire. Raises UsageError outside the gateway's context."""
        if self._gate is None:
            raise UsageError("This gateway is not running.", remedy="Use it as `async with Gateway(...) as gateway`.")
        return self._gate

    @cached_property
    def server(self) -> Any:
        """An `mcp.server.lowlevel.Server` for any transport, or in memory: `mcp.Client(gateway.server)`."""
        return serve.sdk_server(self.gate, self._upstreams)

    async def serve_stdio(self, *, stop: asyncio.Event | None = None) -> None:
        """Serve one client on this process's stdin and stdout, until the client goes or `stop` is set.

        Requests open at the end of stdin have the hold time plus some seconds, since every call is answered after the
        hold.
        """
        patience_s = self._hold_s + GRACE_S
        await serve.serve_stdio(self.gate, self._upstreams, stop=stop, patience_s=patience_s)

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
        """Serve clients over streamable HTTP until `stop` is set.

        Args:
            host: The listening address.
            port: The port; 0 takes a free port.
            allow_hosts: Names used by clients besides `host`; required at 0.0.0.0 and ::.
            sessions_max: Most open sessions.
            session_idle: Seconds without a request or an open stream after which a session ends.
            stop: Ends serving when set.

        Raises:
            SettingsError: The address is unavailable.
        """
        await serve.serve_http(
            self.gate,
            self._upstreams,
            host=host,
            port=port,
            path=path,
            allow_hosts=validation.several("allow_hosts", allow_hosts, str, "Pass allow_hosts=['gateway.example']."),
            stop=stop,
            on_listening=on_listening,
            sessions_max=checked_count("sessions_max", sessions_max),
            session_idle_s=checked_idle(session_idle),
        )

    def reload(self) -> None:
        """Load the contract files again before the next call, even if unchanged."""
        if self._reloading is not None:
            self._reloading.ask()

    def reload_on_hangup(self) -> None:
        """Reload on every SIGHUP. Call from the main thread."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)


def upstream_of(name: str, terms: ServerTerms) -> Upstream:
    """Return a server named by a contract file, with resolved references. Raises SettingsError."""
    fixed = {"url": terms.url, "cwd": terms.cwd, "env": dict(terms.env), "headers": dict(terms.headers)}
    settled = Settled(name, fixed, terms.folder, 0)
    if terms.command:
        folder = os.path.join(terms.folder, settled.get("cwd"))
        found = Upstream(Command(terms.command, settled.get("env"), folder), key=name, secrets=settled.secrets)
        _refuse_own_files(found)
        return found
    return Upstream(Endpoint(settled.get("url"), settled.get("headers")), key=name, secrets=settled.secrets)


def _refuse_own_files(upstream: Upstream) -> None:
    """Raise SettingsError for a server with access to a folder of contracts, settings, the ledger or keys."""
    target = upstream.target
    if isinstance(target, Command):
        given = (*target.argv[1:], *(target.env or {}).values())
        refuse_reach(upstream.server.said.capitalize(), given, target.cwd)


def _sound(upstreams: Sequence[Upstream]) -> tuple[Upstream, ...]:
    found = validation.several(
        "upstreams", upstreams, Upstream, "Pass [Upstream.command([...])], or Upstream.url(...)."
    )
    keys = [each.key for each in found]
    if not keys:
        raise SettingsError("The gateway has no server behind it.", remedy="Name a command or an address.")
    if len(set(keys)) < len(keys) or (len(keys) > 1 and "" in keys):
        raise SettingsError("Several servers need different keys.", remedy="Give each a `key=`.")
    return found


def _told(contracts: Path, upstreams: Sequence[Upstream]) -> Path:
    """Pass the reading place to a contract pack through its server's command."""
    named = os.fspath(contracts)
    for target in [each.target for each in upstreams]:
        if isinstance(target, Command):
            named = completed(named, target.argv, target.env)
    return named


def _watched(shadow: object, reads: Sequence[str], policy: Policy) -> tuple[bool, tuple[str, ...]]:
    """Return the checked terms of watching."""
    named = validation.several("reads", reads, str, "Pass reads=['TOOL', 'TOOL=READING'].")
    if not isinstance(shadow, bool):
        raise SettingsError(f"shadow must be True or False (got {shadow!r:.40}).", remedy="Pass shadow=True.")
    if named and not shadow:
        raise SettingsError("reads names reading tools, and nothing is watched.", remedy="Pass shadow=True, too.")
    if shadow and policy is Policy.PASS:
        said = "shadow watches calls by their record, and ungoverned='pass' records none."
        raise SettingsError(said, remedy="Leave ungoverned at 'unverified'.")
    return shadow, named


def _policy(named: str) -> Policy:
    try:
        return Policy(named)
    except ValueError:
        known = ", ".join(Policy)
        raise SettingsError(
            f"ungoverned must be one of {known} (got {named!r:.40}).", remedy=f"Pass one of {known}."
        ) from None


def checked_hold(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= HOLD_MAX_S:
        raise SettingsError(
            f"hold must be a number of seconds (got {seconds!r:.40}).", remedy=f"Pass 0 to {HOLD_MAX_S:g}."
        )
    return float(seconds)


def checked_count(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= COUNT_MAX:
        raise SettingsError(f"{name} must be an integer (got {given!r:.40}).", remedy=f"Pass 1 to {COUNT_MAX}.")
    return given


def checked_idle(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= IDLE_MAX_S:
        raise SettingsError(
            f"session_idle must be a number of seconds (got {seconds!r:.40}).",
            remedy=f"Pass a number up to {IDLE_MAX_S:g}.",
        )
    return float(seconds)


def on_stderr(text: str) -> None:
    sys.stderr.write(f"readback: {one_line(text, LINE_MAX_CHARACTERS)}\n")
    sys.stderr.flush()
