"""The port to verifiers' scripts: the operator's text reads the world through a few counted calls.

Called by delegated verification. Implemented by script adapters. A `ScriptHost`, an adapter of its own, provides the
permitted calls. `testing.conformance_scripts` tests an engine. A script changes nothing: every call is a read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions

Functions = Mapping[str, Mapping[str, Callable[..., object]]]
"""Host functions by module and name."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call made by a script.

    `failed`: the call could not read (5xx, no answer, refused), so the result is unknown. `digest`: the SHA-256 of the
    answer.
    """

    name: str
    asked: str
    failed: bool = False
    detail: str = ""
    digest: str = ""
    unavailable: bool = False
    """The system itself was unreachable, so an error outside the script stopped it."""

    def as_json(self) -> dict[str, Json]:
        """For the reading."""
        return {
            "name": self.name,
            "asked": self.asked,
            "failed": self.failed,
            "detail": self.detail,
            "digest": self.digest,
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """A script's return value and its calls."""

    value: Json
    calls: tuple[HostCall, ...] = ()

    @property
    def failed(self) -> tuple[HostCall, ...]:
        """The calls without a result."""
        return tuple(each for each in self.calls if each.failed)


class Script(Protocol):
    """A script, compiled and loaded once. Immutable; any thread may run it."""

    @property
    def name(self) -> str:
        """The name in error messages."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        ...

    def run(self, arguments: Sequence[Json], given: Mapping[str, Json] | None = None) -> Ran:
        """Call the script's function, in a fresh sandbox without traces of earlier runs.

        `given`: further available names. Raises ScriptError with the calls so far in `details["calls"]`,
        ScriptLimitError after a stop, and ScriptUnavailableError for an unreachable system. Never harms this process,
        and returns within its limits.
        """
        ...


class ScriptEngine(Protocol):
    """Compiles scripts, and runs them."""

    def compile(
        self, source: str, name: str, *, entry: str, takes: int, allow: ScriptPermissions, limits: ScriptLimits
    ) -> Script:
        """Check the script: it compiles, loads without a host call, and defines `entry` with this many parameters.

        With `entry` "", `source` is an expression over the `given` names. Raises ScriptCompileError.
        """
        ...

    def close(self) -> None:
        """End the sandbox processes. A later use starts them again."""
        ...


class ScriptHost(Protocol):
    """The host functions of one run."""

    def functions(self, record: Callable[[HostCall], None]) -> Functions:
        """Functions from JSON values to JSON values, in bounded time. Each notes every call by `record`, and raises
        PermissionError for a forbidden request and ValueError for a meaningless request.
        """
        ...
