"""The port to verifiers' scripts: text of an operator that looks at the world through a few counted calls.

Called by lifecycle.delegating. Implemented by `script_*` adapters; what a script may call is a `ScriptHost`, an adapter
of its own. `testing.conformance_scripts` holds an engine to it. A script changes nothing: every call is a look.
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
    """One call that a script made. `failed`: it could not look (5xx, no answer, refused); what it found is not known.

    `digest` is the SHA-256 of what it was answered.
    """

    name: str
    asked: str
    failed: bool = False
    detail: str = ""
    digest: str = ""
    unavailable: bool = False
    """The system itself could not be reached, so the script was stopped by an error that is not its own."""

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
    """What a script returned, and what it asked for on the way."""

    value: Json
    calls: tuple[HostCall, ...] = ()

    @property
    def failed(self) -> tuple[HostCall, ...]:
        """The calls that could not look."""
        return tuple(each for each in self.calls if each.failed)


class Script(Protocol):
    """A script that was compiled and loaded once. Immutable; any thread may run it."""

    @property
    def name(self) -> str:
        """What its errors call it."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of its text."""
        ...

    def run(self, arguments: Sequence[Json], given: Mapping[str, Json] | None = None) -> Ran:
        """Calls its function, in a sandbox of its own that nothing of an earlier run is in.

        `given`: further names that it may use. Raises ScriptError with the calls so far in `details["calls"]`,
        ScriptLimitError where it was stopped, and ScriptUnavailableError where a system could not be reached. Never
        harms this process, and returns within its limits.
        """
        ...


class ScriptEngine(Protocol):
    """Compiles scripts, and runs them."""

    def compile(
        self, source: str, name: str, *, entry: str, takes: int, allow: ScriptPermissions, limits: ScriptLimits
    ) -> Script:
        """Checks that it compiles, loads without a host call, and defines `entry` with that many parameters.

        `entry` "" makes an expression of `source`, over the names that it is `given`. Raises ScriptCompileError.
        """
        ...

    def close(self) -> None:
        """Ends what it runs scripts in. It begins again where it is used again."""
        ...


class ScriptHost(Protocol):
    """The host functions of one run."""

    def functions(self, record: Callable[[HostCall], None]) -> Functions:
        """They take and give JSON values, note every call by `record`, raise PermissionError for what is not allowed
        and ValueError for what has no meaning, and end in bounded time.
        """
        ...
