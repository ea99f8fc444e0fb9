"""What a contract file may name: sources to read from, and executors to act with.

`contracts.files` knows their words and never an adapter: it is handed a `SystemFactory`. The one of the built-in
systems is made in `sdk.fittings`; a test, or a surface with systems of its own, hands in another. Whatever a fitting
is given was rendered from the contract's templates and checked; nothing in it is evaluated again.
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
    """Where a value is that no file holds: `kind` is env or file. It is resolved when it is needed."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class TemplateParts(NamedTuple):
    """Fixed texts with values between them, for whatever binds or encodes values: `texts` is one longer."""

    texts: tuple[str, ...]
    values: tuple[object, ...]


Fixed: TypeAlias = Mapping[str, object]
"""What a file says for good: texts, numbers, lists, and references."""
TAKES_VALUES: Final = "takes_values"
"""Set for a command: whether a value of a request is among its arguments or is its standard input."""
Given: TypeAlias = Mapping[str, object]
"""What a template came to for one call."""


class SourceAdapter(Protocol):
    """One reader's source. Safe from any thread; keeps nothing open between two calls. `place`: see `acting.Hand`.

    `located`: where a path of it lies on this machine; None where it has no files. Raises ReadbackError.
    """

    place: Callable[[], str] | None
    located: Callable[[str], str] | None

    def read(self, ctx: Context, given: Given) -> Reading:
        """One look. Raises what the adapter raises; never takes a failure for absence."""
        ...

    def glance(self, ctx: Context, given: Callable[[], Given]) -> Reading | None:
        """The same look, where it surely takes but a moment: for an event loop. None where it is not known to, or where
        it did not come to a present or absent object at once: then nothing was looked at.
        """
        ...

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        """Every effect with the context's stamp. Raises ReaderFailedError where not everything could be seen."""
        ...

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        """What became of the attempt with the context's key."""
        ...

    def ping(self) -> None:
        """Returns where the source can be reached. Raises ReaderFailedError, SettingsError, OSError."""
        ...


class ExecutorAdapter(Protocol):
    """What one contract acts with. Safe from any thread. `place`: see `acting.Hand`; `located`: as a source's."""

    place: Callable[[], str] | None
    located: Callable[[str], str] | None

    def execute(self, ctx: Context, given: Given) -> object:
        """Acts once. What it returns or raises is evidence."""
        ...


class ToolAdapter(Protocol):
    """One tool of a server, called on an event loop."""

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """The raw result, whatever it says. Raises NotDispatchedError where provably nothing was written to the server;
        whatever else it raises leaves open what the call did.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServerTerms:
    """A server as a contract file names it. `key`: its name among `servers`; "" for the file's own `server`.

    Either `command` or `url` is given. What is a reference is resolved by whoever starts it.
    """

    key: str
    folder: str
    command: tuple[str, ...] = ()
    url: str | Reference = ""
    env: Mapping[str, str | Reference] = field(default_factory=dict)
    headers: Mapping[str, str | Reference] = field(default_factory=dict)
    cwd: str | Reference = ""


class SystemFactory(Protocol):
    """Makes fittings when a contract is loaded; a system is reached only when one is used.

    `kind`: a word of `contracts.files.words`. `folder`: where relative paths begin: the contract file's own.
    `timeout_us`: what one call may take. Raises FittingError for what cannot be had here.
    """

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceAdapter: ...

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorAdapter: ...

    def tool(self, server: str, name: str, timeout_us: int) -> ToolAdapter:
        """`server`: a name of the file's `servers`; "" for the server that the file's tools belong to."""
        ...
