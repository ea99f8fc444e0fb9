"""A case: everything that is known of one attempt at the moment of judging, readings and searches included.

Made by lifecycle.verify, judged by reconciliation. It holds values and answers questions about a single reading; it
judges nothing.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract
from readback.domain.predicate import Evaluation, Truth
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Lookup, Presence, TakenReading

_HOLDS: Final = Truth.HOLDS
_VIOLATED: Final = Truth.VIOLATED
_UNDETERMINED: Final = Truth.UNDETERMINED

SCOPE_KEYS = frozenset({"target", "tenant", "region", "account", "permission_scope"})


@dataclass(frozen=True, slots=True)
class IdentityMatch:
    """One identity key held against a reading: `actual` is null where the reading does not say it."""

    key: str
    truth: Truth
    expected: Json
    actual: Json
    by_form: bool = False
    """It is open since both are equal in the widest form alone, and no narrower one is known of the system."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A reading with everything that could be evaluated over it."""

    taken: TakenReading
    identity: tuple[IdentityMatch, ...] = ()
    ensure: tuple[Evaluation, ...] = ()
    terminal_failure: bool = False
    refused: bool = False
    """A `fails_when` that does not look at the state holds: the contract says that this request is refused."""
    intermediate: bool = False
    """An `intermediate` holds: the state is on its way to the wanted one."""

    @property
    def presence(self) -> Presence:
        return self.taken.reading.presence

    def match(self, key: str) -> IdentityMatch | None:
        for m in self.identity:
            if m.key == key:
                return m
        return None

    @property
    def in_scope(self) -> Truth:
        """Is this the object we mean, in our tenant? A key that is mapped and not said leaves it open."""
        said = _HOLDS
        for m in self.identity:
            if m.truth is not _HOLDS and m.key in SCOPE_KEYS:
                if m.truth is _VIOLATED:
                    return _VIOLATED
                said = _UNDETERMINED
        return said

    @property
    def maybe_foreign(self) -> bool:
        """It names a tenant in another spelling than ours: nobody can say that it is not another one's."""
        tenant = self.match("tenant")
        return tenant is not None and tenant.truth is _UNDETERMINED and tenant.by_form

    @property
    def other_spelling(self) -> IdentityMatch | None:
        """The first key of its scope of which the reading says another spelling, and which may be the same name."""
        return next((m for m in self.identity if m.by_form and m.key in SCOPE_KEYS), None)

    @property
    def version(self) -> Json:
        own = self.taken.reading.version
        mapped = self.match("version")
        return own if own is not None else (mapped.actual if mapped else None)


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one attempt at the moment of judging."""

    contract: Contract
    stamp: str
    observation: Observation
    checks: tuple[Judged, ...]
    before: Judged | None = None
    found: tuple[Judged, ...] | None = None
    """Effects bearing our stamp, wherever they landed; None where nobody looked."""
    search_proven: bool = False
    """What the search does not show is not there: it is complete, and has found an earlier effect by this mark."""
    lookup: Lookup | None = None
    window_closed: bool = False
    stable: bool = True
    dead: bool = False
    """The attempt can have no effect any more."""
    seen: bool = False
    """A reading of an earlier round bore our stamp."""
    look_due: bool = False
    """The contract can search for duplicates, and has to do so (again) before success is told."""
    search_failed: str = ""
    """Which search gave no answer, and why; empty where none failed."""
