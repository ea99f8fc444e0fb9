"""The built-in systems as what contract files may name: `ports.fittings` over the sources and executors of bootstrap.

Called by `sdk.files`. References are resolved here, when a system is reached, and what they stand for is kept out of
everything that comes back: readings, answers and errors. Nothing stays open between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from readback.canon import ReadbackError
from readback.domain.context import Context
from readback.domain.errors import NotDispatchedError, ReaderFailedError, SettingsError, ToolError, VerifierError
from readback.domain.errors.files import FittingError
from readback.domain.reading import Lookup, Reading
from readback.ports.fittings import ExecutorFitting, Fixed, Given, SourceFitting, ToolFitting
from readback.sdk.fitted_executors import EXECUTORS
from readback.sdk.fitted_settings import Settled
from readback.sdk.fitted_sources import SOURCES

T = TypeVar("T")


class FittedSource:
    """Keeps `SourceFitting` over one row of `fitted_sources`."""

    def __init__(self, kind: str, settle: Callable[[], Settled]) -> None:
        self._row = SOURCES[kind]
        self._settle = settle

    def read(self, ctx: Context, given: Given) -> Reading:
        settled = self._settle()
        found = _cleared(settled, lambda: self._row.read(settled, ctx, given))
        if not settled.hides:
            return found
        return replace(found, value=settled.without(found.value), detail=settled.hidden(found.detail))

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        settled = self._settle()
        found = _cleared(settled, lambda: self._row.find(settled, ctx, given))
        return [replace(each, value=settled.without(each.value)) for each in found]

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        settled = self._settle()
        found = _cleared(settled, lambda: self._row.lookup(settled, ctx, given))
        return replace(found, value=settled.without(found.value), detail=settled.hidden(found.detail))

    def ping(self) -> None:
        settled = self._settle()
        _cleared(settled, lambda: self._row.ping(settled))


class FittedExecutor:
    """Keeps `ExecutorFitting` over one row of `fitted_executors`."""

    def __init__(self, kind: str, settle: Callable[[], Settled]) -> None:
        self._act = EXECUTORS[kind]
        self._settle = settle

    def execute(self, ctx: Context, given: Given) -> object:
        try:
            settled = self._settle()
        except SettingsError as error:
            raise NotDispatchedError(f"Nothing was sent: {error.message}") from error
        return _cleared(settled, lambda: self._act(settled, ctx, given))


class BuiltInFittings:
    """Keeps `Fittings` over the adapters of this release."""

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceFitting:
        return FittedSource(kind, lambda: Settled(name, fixed, folder, timeout_us))

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorFitting:
        return FittedExecutor(kind, lambda: Settled(name, fixed, folder, timeout_us))

    def tool(self, server: str, name: str, timeout_us: int) -> ToolFitting:
        """Raises FittingError: no server runs here."""
        raise FittingError(f"The tool {name!r} is called through a gateway.", remedy="Run it behind `readback mcp`.")

    @property
    def kinds(self) -> tuple[Collection[str], Collection[str]]:
        """The sources and the executors that there are."""
        return SOURCES.keys(), EXECUTORS.keys()


def _cleared(settled: Settled, work: Callable[[], T]) -> T:
    """An error whose words hold what a reference stands for is raised with others, and without its cause."""
    try:
        return work()
    except Exception as error:
        said = str(error)
        clear = settled.hidden(said)
        if clear == said:
            raise
        if isinstance(error, OSError):
            raise OSError(clear) from None
        if isinstance(error, ReadbackError):
            raise type(error)(clear, remedy=error.remedy, code=error.code) from None
        raise ToolError(clear) if not isinstance(error, VerifierError) else ReaderFailedError(clear) from None
