"""A reconciliation: the verdict over the readings of one action, with what it stands on. And the ways in which it ends.

Made by `domain.reconcile`. Whatever is in doubt ends in `undetermined`.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Evaluation, Truth
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reading import Lookup, Presence, TakenReading

# A case: everything that is known of one attempt at the moment of judging, readings and searches included.

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


_NO_REASON: Final = Why.NONE
_ALREADY_SO: Final = Attribution.ALREADY_SO
_VERIFIED: Final = Verdict.VERIFIED
_FOUND_VERIFIED: Final = Finding.VERIFIED
_RECONCILED: Final = Level.RECONCILED


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The reconciled judgement: the only thing that may move the state of an action."""

    verdict: Verdict
    why: Why
    finding: Finding
    discrepancy: Discrepancy | None = None
    attribution: Attribution = Attribution.UNKNOWN
    effect_shown: bool = False
    level: Level = Level.NORMALISED
    ensure: tuple[Evaluation, ...] = ()
    identity: tuple[IdentityMatch, ...] = ()
    maybe_stale: bool = False
    parts_done: tuple[str, ...] = ()
    parts_open: tuple[str, ...] = ()
    deciding: int = 0
    """Index of the reading in `checks` that this stands on."""
    detail: str = ""

    @property
    def open(self) -> bool:
        return self.verdict is Verdict.UNDETERMINED


def success(whose: Attribution) -> Reconciliation:
    """Everything that was asked for is so, and whose doing it is."""
    shown = whose is not _ALREADY_SO
    return Reconciliation(_VERIFIED, _NO_REASON, _FOUND_VERIFIED, None, whose, effect_shown=shown, level=_RECONCILED)


def no_op() -> Reconciliation:
    """It was so before, and the contract allows that."""
    return Reconciliation(
        _VERIFIED,
        _NO_REASON,
        Finding.NO_OP_ALLOWED,
        Discrepancy.NO_OP_SUCCESS,
        _ALREADY_SO,
        level=_RECONCILED,
    )


def refuted(
    finding: Finding, discrepancy: Discrepancy, whose: Attribution, effect_shown: bool = False
) -> Reconciliation:
    """The readings say otherwise. `effect_shown`: something of ours landed all the same."""
    return Reconciliation(
        Verdict.REFUTED, _NO_REASON, finding, discrepancy, whose, effect_shown=effect_shown, level=Level.VERIFIED
    )


def undetermined(
    why: Why, finding: Finding, discrepancy: Discrepancy | None = None, detail: str = ""
) -> Reconciliation:
    """Neither success nor failure, and why."""
    return Reconciliation(Verdict.UNDETERMINED, why, finding, discrepancy, detail=detail)


def unexecuted(observation: Observation) -> bool:
    """The tool was provably never called: only then verification may be skipped."""
    return observation.status is ObservationStatus.NOT_DISPATCHED and not observation.dispatched
