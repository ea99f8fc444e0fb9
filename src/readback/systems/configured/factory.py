"""The built-in systems for contract files: `ports.system_factory` over the classes of `readback.systems`.

References are resolved when a system is reached. The resolved values are removed from readings, answers and errors.
Nothing stays open between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypeVar
from urllib.parse import urlsplit

from readback.canon import ReadbackError, payload_bytes
from readback.contracts.documents.own_files import refuse_folder
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Presence, Reading
from readback.errors import FittingError, NotDispatchedError, OwnFileError, SandboxEscapeError, SettingsError, ToolError
from readback.ports.system_factory import (
    TAKES_VALUES,
    ExecutorAdapter,
    Fixed,
    Given,
    Reference,
    SourceAdapter,
    ToolAdapter,
)
from readback.systems.configured.executors import EXECUTORS
from readback.systems.configured.settings import Settled, located
from readback.systems.configured.sources import SOURCES, in_folder
from readback.systems.files.local_disk import LocalDiskCheck

T = TypeVar("T")
_SEEN: Final = frozenset({Presence.PRESENT, Presence.ABSENT})
_WHERE: Final = (
    "url", "host", "port", "endpoint", "bucket", "region", "database", "repository", "remote", "root", "user",
    "access_key",
)  # fmt: skip
_UNRESOLVED: Final = "unresolved"


class ConfiguredSource:
    """A `SourceAdapter` over one row of `configured.sources`."""

    def __init__(
        self,
        kind: str,
        settle: Callable[[], Settled],
        *,
        refers: bool = False,
        place: Callable[[], str] | None = None,
    ) -> None:
        self.place = place
        self.located = (lambda path: in_folder(settle(), path)) if kind == "file" else None
        self._row = SOURCES[kind]
        self._near = None if refers else self._row.near  # resolving a reference may take time
        self._settle = settle
        self._files = LocalDiskCheck()
        self._is_strange = False
        """Whether the last file for an event-loop read was unknown."""

    def read(self, ctx: Context, given: Given) -> Reading:
        settled = self._settle()
        if self._is_strange:
            self._learn(settled, given)
        return self._cleaned(settled, _cleared(settled, lambda: self._row.read(settled, ctx, given)))

    def _learn(self, settled: Settled, given: Given) -> None:
        self._is_strange = False
        if self._near is not None:
            with suppress(ReadbackError):
                if file := self._near.file(settled, given):
                    self._files.learn(file)

    def _cleaned(self, settled: Settled, found: Reading) -> Reading:
        if not settled.hides:
            return found
        return replace(
            found,
            value=settled.without(found.value),
            version=settled.hidden(found.version) if isinstance(found.version, str) else found.version,
            stamp=None if found.stamp is None else settled.hidden(found.stamp),
            author=None if found.author is None else settled.hidden(found.author),
            detail=settled.hidden(found.detail),
        )

    def glance(self, ctx: Context, given: Callable[[], Given]) -> Reading | None:
        """Read briefly, or return None. After an error, the read in a thread meets and reports the same error."""
        near = self._near
        if near is None:
            return None
        try:
            settled, values = self._settle(), given()
            file = near.file(settled, values)
            if not file or not self._files.hold(file, near.most_bytes, near.beside):
                self._is_strange = True
                return None
            found = _cleared(settled, lambda: near.read(settled, ctx, values))
        except (ReadbackError, OSError):
            return None
        return self._cleaned(settled, found) if found.presence in _SEEN else None

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        settled = self._settle()
        found = _cleared(settled, lambda: self._row.find(settled, ctx, given))
        return [self._cleaned(settled, each) for each in found]

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        settled = self._settle()
        found = _cleared(settled, lambda: self._row.lookup(settled, ctx, given))
        return replace(found, value=settled.without(found.value), detail=settled.hidden(found.detail))

    def ping(self) -> None:
        settled = self._settle()
        _cleared(settled, lambda: self._row.ping(settled))


class ConfiguredExecutor:
    """An `ExecutorAdapter` over one row of `configured.executors`."""

    def __init__(self, kind: str, settle: Callable[[], Settled], *, place: Callable[[], str] | None = None) -> None:
        self.place = place
        self.located = (lambda path: in_folder(settle(), path)) if kind == "file" else None
        self._act = EXECUTORS[kind]
        self._settle = settle

    def execute(self, ctx: Context, given: Given) -> object:
        try:
            settled = self._settle()
        except SettingsError as error:
            raise NotDispatchedError(f"Nothing was sent: {error.message}") from error
        try:
            answer = _cleared(settled, lambda: self._act(settled, ctx, given))
        except SandboxEscapeError as error:  # raised before any effect, so no review is needed
            raise NotDispatchedError(f"Nothing was done: {error.message}", remedy=error.remedy) from error
        return settled.without(answer) if isinstance(answer, dict) else answer


class BuiltInSystems:
    """The `SystemFactory` of this release's adapters."""

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceAdapter:

        def settle() -> Settled:
            return Settled(name, fixed, folder, timeout_us)

        return ConfiguredSource(kind, settle, refers=_refers(fixed), place=place_of(kind, fixed, settle))

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorAdapter:
        """Raises FittingError for a command with values whose working folder holds Readback's own files."""
        cwd = fixed.get("cwd", ".")
        if kind == "command" and fixed.get(TAKES_VALUES, True) and isinstance(cwd, str):
            try:
                refuse_folder(located(folder, cwd), name)
            except OwnFileError as error:
                raise FittingError(error.message, remedy=error.remedy) from error

        def settle() -> Settled:
            return Settled(name, fixed, folder, timeout_us)

        return ConfiguredExecutor(kind, settle, place=place_of(kind, fixed, settle))

    def tool(self, server: str, name: str, timeout_us: int) -> ToolAdapter:
        """Raises FittingError: no server runs here."""
        raise FittingError(f"The tool {name!r} is called through a gateway.", remedy="Run it behind `readback mcp`.")

    @property
    def kinds(self) -> tuple[Collection[str], Collection[str]]:
        """Return the names of all sources and executors."""
        return SOURCES.keys(), EXECUTORS.keys()


def _refers(fixed: object) -> bool:
    """Return whether the settings contain a reference."""
    return isinstance(fixed, Reference) or (isinstance(fixed, Mapping) and any(map(_refers, fixed.values())))


def _cleared(settled: Settled, work: Callable[[], T]) -> T:
    """Call a function. An error with a credential in its text is raised with other text and without its cause."""
    try:
        return work()
    except ReadbackError as error:
        clear, remedy = settled.hidden(error.message), settled.hidden(error.remedy)
        if (clear, remedy) == (error.message, error.remedy):
            raise
        raise type(error)(clear, remedy=remedy, code=error.code) from None
    except Exception as error:
        said = str(error)
        clear = settled.hidden(said)
        if clear == said:
            raise
        raise OSError(clear) if isinstance(error, OSError) else ToolError(clear) from None


def place_of(kind: str, fixed: Fixed, settle: Callable[[], Settled]) -> Callable[[], str] | None:
    """Return a function for the identity of the system, or None where the contract itself names the system.

    The identity matters for repeated sends. It is a digest without credentials: a service knows an idempotency key by
    address and account, and a changed password leaves both unchanged.
    """
    if not any(isinstance(fixed.get(key), Reference) for key in _WHERE):
        return None

    def place() -> str:
        try:
            settled = settle()
        except (ReadbackError, OSError):
            return _UNRESOLVED
        found = {key: _bare(str(settled.get(key))) for key in _WHERE if settled.get(key) is not None}
        return sha256(payload_bytes([kind, found])).hexdigest()

    return place


def _bare(value: str) -> str:
    """Return an address without login and query. Other text is unchanged."""
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path.rstrip('/')}"
    except ValueError:
        return value.partition("://")[0]
