"""Foreign tools under contracts of files: the loading of the files, and the way to each tool.

A foreign tool is a callable, sync or async. The tool itself is not changed. A call may bring its own way to the tool,
which lives as long as the call. Any other attempt, as by a worker, takes the registered way.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from threading import Lock
from typing import Any, Final, cast

from readback.agent_errors import UnknownToolError
from readback.canon import Json
from readback.client.files import ContractFiles, FileAction, loaded_files
from readback.contracts.files.tools.listing import Toolbox
from readback.contracts.functions.callables import is_async
from readback.contracts.problems import did_you_mean
from readback.domain.context import Context
from readback.drivers.thread_pool import DaemonThreadPool, ThreadJob
from readback.errors import NotDispatchedError, UsageError
from readback.kit.clients import ActionHandle
from readback.kit.content import as_result
from readback.kit.results import Foreign
from readback.ports.system_factory import ExecutorAdapter, Fixed, SourceAdapter
from readback.systems.configured.factory import BuiltInSystems

Way = Callable[[dict[str, Any]], Any]
"""The way to a foreign tool: a sync or async callable of the arguments by name."""
ToolName = tuple[str, str]
"""A server's name in the contract files ("" for the file's own server), and a tool's name."""
THREADS_MAX: Final = 64


class InFlight:
    """One call under way: the call's own way to the tool, and the tool's answer."""

    __slots__ = ("answer", "name", "ticket", "way")

    def __init__(self, name: str, way: Way | None = None, ticket: ActionHandle | None = None) -> None:
        self.name, self.way, self.ticket = name, way, ticket or ActionHandle()
        self.answer: Foreign | None = None


_FLIGHT: contextvars.ContextVar[InFlight | None] = contextvars.ContextVar("readback_kit_flight", default=None)


@contextmanager
def flying(flight: InFlight | None) -> Iterator[None]:
    """Make a call the one under way in this context."""
    token = _FLIGHT.set(flight)
    try:
        yield
    finally:
        _FLIGHT.reset(token)


class ForeignTools:
    """The foreign tools of one kit, by the contract files. Safe from any thread."""

    def __init__(self, paths: Sequence[str | PathLike[str]]) -> None:
        """Raises ContractFileError, SettingsError."""
        self._paths = paths
        self._ways: dict[ToolName, Way] = {}
        self._known: dict[str, Mapping[str, object]] = {}
        """The definitions of governed tools; argument schemas alone count as definitions too."""
        self._lock = Lock()
        self._threads = DaemonThreadPool(THREADS_MAX)
        self.files = self._load({}) if paths else None

    @property
    def actions(self) -> tuple[FileAction, ...]:
        """Every contract of the files."""
        return () if self.files is None else tuple(self.files.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The governed tools, by the names of their server."""
        return tuple(each.written.tool for each in self.actions if each.written.tool)

    def govern(self, name: str, definition: Mapping[str, object], way: Way | None) -> FileAction:
        """Load the contracts against the tool's definition, and return the tool's contract.

        Raises UnknownToolError, UsageError, ContractFileError.
        """
        self._check_governed(name)
        with self._lock:
            known = {**self._known, name: dict(definition)}
            files = self._load(known)
            self._known, self.files = known, files
            self._ways.pop(("", name), None)
            if way is not None:
                self._ways["", name] = way
        return next(each for each in files.values() if each.written.tool == name)

    def _check_governed(self, name: str) -> None:
        if name in self.names:
            return
        if self.files is not None and name in self.files:
            raise UsageError(
                f"The contract {name!r:.80} governs no tool: the contract acts by itself.",
                remedy="Pass the contract's action to Kit.open(actions=...), or remove its `execute`.",
            )
        raise UnknownToolError(
            f"No contract file of this kit governs the tool {name!r:.80}.{did_you_mean(name, self.names)}"
        )

    def reads(self, server: str, name: str, way: Way) -> None:
        """Register a tool that contracts read with."""
        self._ways[server, name] = way

    def close(self) -> None:
        """End the threads of finished calls. Threads with a hanging call are abandoned."""
        self._threads.close()

    def _load(self, known: Mapping[str, Mapping[str, object]]) -> ContractFiles:
        """Load every file. A tool without a definition so far takes any arguments."""
        loaded = loaded_files(self._paths, fittings=_Systems(self), toolbox=Toolbox(known, partial=True))
        return ContractFiles(loaded.sound())

    async def answer(self, key: ToolName, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Call the tool once, and return the answer as a `tools/call` result. The tool's errors pass through."""
        flight = _FLIGHT.get()
        if flight is not None and ("", flight.name) == key and flight.ticket.action_id == ctx.action_id:
            way = flight.way or self._ways.get(key)
        else:
            flight, way = None, self._ways.get(key)
        if way is None:
            raise NotDispatchedError(
                f"The tool {key[1]!r:.80} was not called: this process has no way to the tool.",
                remedy="Pass call= to Kit.govern, so that workers can execute the action.",
            )
        value = await self._called(way, dict(arguments))
        raw = as_result(value)
        if flight is not None:
            flight.answer = Foreign(value, raw)
        return raw

    async def _called(self, way: Way, arguments: dict[str, Any]) -> Any:
        """Await an async way in this task. Run a sync way in a daemon thread, with this context."""
        if is_async(way):
            return await cast("Awaitable[Any]", way(arguments))
        value = await self._in_thread(lambda: way(arguments))
        return await value if inspect.isawaitable(value) else value

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(value: Any, error: BaseException | None) -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)

        def run() -> bool:
            value, error = None, None
            try:
                value = context.run(work)
            except BaseException as raised:  # tidy: boundary -- carried to the waiting task
                error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__} in a tool")
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:  # the loop is closed: no task waits
                return False
            return True

        errand = ThreadJob()
        self._threads.begin(errand, run)
        try:
            return await future
        except asyncio.CancelledError:
            self._threads.drop(errand)
            raise


class _Tool:
    """Implements `ToolAdapter` for one foreign tool."""

    def __init__(self, tools: ForeignTools, key: ToolName) -> None:
        self._tools, self._key = tools, key

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        return await self._tools.answer(self._key, ctx, arguments)


class _Systems:
    """Implements the system factory: the built-in systems, and the foreign tools of a kit."""

    def __init__(self, tools: ForeignTools) -> None:
        self._tools, self._built_in = tools, BuiltInSystems()

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceAdapter:
        return self._built_in.source(kind, name, fixed, folder, timeout_us)

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorAdapter:
        return self._built_in.executor(kind, name, fixed, folder, timeout_us)

    def tool(self, server: str, name: str, timeout_us: int) -> _Tool:
        return _Tool(self._tools, (server, name))
