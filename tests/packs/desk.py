"""A gateway as a process, with a real server behind a proxy that lies on demand, and the official client before it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from readback.kit.wording import OUTCOME_KEY
from tests.architecture.tree import ROOT
from tests.packs.lying_proxy import LIE
from tests.workers import forks

SERVERS = Path(ROOT, ".venv", "servers")
PROXY = Path(__file__).with_name("lying_proxy.py")
WITHIN, TIMEOUT = "400ms", "2s"
T = TypeVar("T")


def installed(*parts: str) -> str:
    """A server's program. Fails where it is not installed: a pack without its server is not known to work."""
    path = SERVERS.joinpath(*parts)
    if not path.exists():
        pytest.fail(f"{path.name} is not installed, so its pack is tested by nobody: run scripts/mcp_servers.sh")
    return str(path)


@dataclass(frozen=True, slots=True)
class Told:
    """A result as the client sees it."""

    result: CallToolResult

    @property
    def outcome(self) -> dict[str, Any]:
        """What became of the call, as data."""
        found = (self.result.meta or {})[OUTCOME_KEY]
        assert isinstance(found, dict)
        return found

    @property
    def verified(self) -> bool:
        """Whether the client is told that it is done; it is told so everywhere, or nowhere."""
        said = bool(self.outcome["verdict"] == "verified")
        assert said is not self.result.is_error, self.result
        return said

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.result.content if block.type == "text")


class Desk:
    """One gateway with one server behind it, and one client, for as long as a module's tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self._log = open(folder.parent / "gateway.log", "w", encoding="utf-8")  # noqa: SIM115 - closed in `close`
        self._stop: asyncio.Event | None = None
        self._life: asyncio.Task[None] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def open(self, pack: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._thread.start()
        self.run(self._open(pack, command, env))

    async def _open(self, pack: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        argv = ["mcp", "--contracts", pack, "--ledger-url", f"sqlite:///{self.folder.parent}/readback.db"]
        program, *words = forks.launched([forks.READBACK, *argv, "--", sys.executable, str(PROXY), *command])
        gateway = StdioServerParameters(
            command=program,
            args=words,
            env={**os.environ, **env},
            cwd=self.folder.parent,
        )
        ready: asyncio.Future[Client] = self._loop.create_future()
        self._stop = asyncio.Event()
        # One task opens and closes, as the client's own scopes want it.
        self._life = asyncio.create_task(self._live(gateway, ready))
        done, _ = await asyncio.wait({ready, self._life}, return_when=asyncio.FIRST_COMPLETED)
        if self._life in done:
            self._life.result()
        self._client = ready.result()

    async def _live(self, gateway: StdioServerParameters, ready: asyncio.Future[Client]) -> None:
        async with Client(stdio_client(gateway, errlog=self._log)) as client:
            ready.set_result(client)
            assert self._stop is not None
            await self._stop.wait()

    def close(self) -> None:
        async def end() -> None:
            if self._stop is not None and self._life is not None:
                self._stop.set()
                await self._life

        try:
            self.run(end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()
            self._log.close()

    # --- what tests do -------------------------------------------------------------------------------------------

    def call(self, tool: str, arguments: Mapping[str, Any], lie: str = "") -> Told:
        """One call; `lie`: what the proxy is to do with it."""
        assert self._client is not None
        meta: Any = {LIE: lie} if lie else None
        return Told(self.run(self._client.call_tool(tool, dict(arguments), meta=meta)))

    def call_all(self, tool: str, several: Sequence[Mapping[str, Any]]) -> list[Told]:
        """Calls at the same time."""
        client = self._client
        assert client is not None

        async def calls() -> list[CallToolResult]:
            return await asyncio.gather(*(client.call_tool(tool, dict(each)) for each in several))

        return [Told(each) for each in self.run(calls())]

    def tools(self) -> set[str]:
        """What the client is shown."""
        assert self._client is not None
        return {tool.name for tool in self.run(self._client.list_tools()).tools}


@contextmanager
def desk_of(folder: Path, pack: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[Desk]:
    """`folder`: what the server works in; the ledger lies beside it. `pack`: with more parameters, or without."""
    folder.mkdir(parents=True, exist_ok=True)
    desk = Desk(folder)
    mark = "&" if "?" in pack else "?"
    try:
        desk.open(f"{pack}{mark}within={WITHIN}&timeout={TIMEOUT}", command, env or {})
        yield desk
    finally:
        desk.close()


@dataclass(frozen=True, slots=True)
class Case:
    """One tool in one situation. `prepare`: makes the situation, and gives the arguments; `done`: whether the effect
    is there as it was meant, and once, by the test's own look at the system of record.
    """

    name: str
    tool: str
    prepare: Callable[[Path, str], Mapping[str, Any]]
    done: Callable[[Path, str], bool]
    lies: tuple[str, ...] = ("", "drop", "elsewhere", "twice")

    def __str__(self) -> str:
        return self.name


def every(cases: Sequence[Case]) -> list[Any]:
    """Each case with each of its lies."""
    return [pytest.param(case, lie, id=f"{case.name}-{lie or 'honest'}") for case in cases for lie in case.lies]


def nothing_was_changed(told: Told) -> None:
    """The client is told that the call changed nothing: it failed, and asks for no person."""
    assert told.verified is False
    assert (told.outcome["state"], told.outcome["discrepancy"]) == ("failed", "no_op_failure"), told.text
    assert "nothing was changed" in told.outcome["message"].lower()
    assert "completed" not in told.outcome["message"].replace("no verified completion", "")


ALL = ("", "drop", "elsewhere", "twice", "hang", "close", "late", "too_late")


def held_against_the_truth(desk: Desk, case: Case, lie: str) -> Told:
    """Makes the call, and holds what the client is told against the system of record."""
    unique = f"{case.name.replace(' ', '-')}-{lie or 'honest'}"
    arguments = case.prepare(desk.folder, unique)
    told = desk.call(case.tool, arguments, lie)
    if lie == "close":
        desk.tools()  # the server is there again before another call is measured by its patience
    true = case.done(desk.folder, unique)
    if lie in ("drop", "elsewhere"):
        assert not true, "the proxy did not lie"
        assert told.outcome["verdict"] == "refuted", (told.text, told.outcome)
    if lie in ("", "late", "hang", "close", "too_late"):
        assert true, (told.result, "the server did not do it")
    assert told.verified is true, (told.text, told.outcome)
    return told
