"""The systems available to a contract file: sources to read from, and executors to act with.

`contracts.files` knows their words and never an adapter, and receives a `SystemFactory`. The built-in factory serves
the built-in systems. To support other systems, pass your own. A fitting's input is already rendered from the contract's
templates and checked; nothing in the input is evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, NamedTuple, Protocol, TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Reading


@dataclass(frozen=True, slots=True)
class Reference:
    """The location of a value outside the file: `kind` is env or file. Resolved on use."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class TemplateParts(NamedTuple):
    """Fixed texts with values between, for binding or encoding: `texts` is longer by one."""

    texts: tuple[str, ...]
    values: tuple[object, ...]


Fixed: TypeAlias = Mapping[str, object]
"""Constant content of a file: texts, numbers, lists, and references."""
TAKES_VALUES: Final = "takes_values"
"""Set for a command: whether a request's value is among its arguments or on its standard input."""
Given: TypeAlias = Mapping[str, object]
"""A template's result for one call."""


class SourceAdapter(Protocol):
    """One reader's source. Safe from any thread; keeps nothing open between two calls. `place`: see `Handler`.

    `located`: the location of a path on this machine; None for a system without files. Raises ReadbackError.
    """

    place: Callable[[], str] | None
    located: Callable[[str], str] | None

    def read(self, ctx: Context, given: Given) -> Reading:
        """One reading. Raises the adapter's errors; a failure never counts as absence."""
        ...

    def glance(self, ctx: Context, given: Callable[[], Given]) -> Reading | None:
        """The same reading for an event loop, if surely fast. None if speed is uncertain, or without an immediately
        present or absent object: then nothing was read.
        """
        ...

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        """Every effect with the context's stamp. Raises ReaderFailedError after an incomplete search."""
        ...

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        """The result of the attempt with the context's key."""
        ...

    def ping(self) -> None:
        """Return if the source is reachable. Raises ReaderFailedError, SettingsError, OSError."""
        ...


class ExecutorAdapter(Protocol):
    """One contract's executor. Safe from any thread. `place`: see `Handler`; `located`: as a source's."""

    place: Callable[[], str] | None
    located: Callable[[str], str] | None

    def execute(self, ctx: Context, given: Given) -> object:
        """Act once. The return value or error is evidence."""
        ...


class ToolAdapter(Protocol):
    """One tool of a server, called on an event loop."""

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """The raw result, unchecked. Raises NotDispatchedError if provably nothing reached the server; after any other
        error the call's effect is open.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServerTerms:
    """A server as named in a contract file. `key`: its name among `servers`; "" for the file's own `server`.

    Either `command` or `url` is given. References are resolved at the server's start.
    """

    key: str
    folder: str
    command: tuple[str, ...] = ()
    url: str | Reference = ""
    env: Mapping[str, str | Reference] = field(default_factory=dict)
    headers: Mapping[str, str | Reference] = field(default_factory=dict)
    cwd: str | Reference = ""


class SystemFactory(Protocol):
    """Makes adapters when a contract is loaded; a system is reached only on use.

    `kind`: a word of the contract file's vocabulary. `folder`: the base of relative paths, the contract file's own.
    `timeout_us`: the limit of one call. Raises FittingError for unavailable systems.
    """

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceAdapter: ...

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorAdapter: ...

    def tool(self, server: str, name: str, timeout_us: int) -> ToolAdapter:
        """`server`: a name of the file's `servers`; "" for the file's own server."""
        ...
