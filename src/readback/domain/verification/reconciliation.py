"""A reconciliation: the verdict over the readings of one action, with its basis. Constructors for each result.

Made by `reconcile`. In doubt the result is `undetermined`.
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

# A case: the complete evidence about one attempt at judgement time, readings and searches included.

_HOLDS: Final = Truth.HOLDS
_VIOLATED: Final = Truth.VIOLATED
_UNDETERMINED: Final = Truth.UNDETERMINED

SCOPE_KEYS = frozenset({"target", "tenant", "region", "account", "permission_scope"})


@dataclass(frozen=True, slots=True)
class IdentityMatch:
    """One identity key compared with a reading. `actual` is null where the reading lacks the key."""

    key: str
    truth: Truth
    expected: Json
    actual: Json
    by_form: bool = False
    """Open: both are equal in the widest form only, and no narrower form of the system is known."""


@dataclass(frozen=True, slots=True)
class EvaluatedReading:
    """A reading with all its evaluations."""

    taken: TakenReading
    identity: tuple[IdentityMatch, ...] = ()
    ensure: tuple[Evaluation, ...] = ()
    terminal_failure: bool = False
    refused: bool = False
    """A state-independent `fails_when` holds: the contract declares this request refused."""
    intermediate: bool = False
    """An `intermediate` holds: the state is on its way to the required state."""

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
        """Whether the reading shows the intended object in our tenant. A mapped key without a value leaves the answer
        open.
        """
        said = _HOLDS
        for m in self.identity:
            if m.truth is not _HOLDS and m.key in SCOPE_KEYS:
                if m.truth is _VIOLATED:
                    return _VIOLATED
                said = _UNDETERMINED
        return said

    @property
    def maybe_foreign(self) -> bool:
        """The reading spells its tenant differently from ours, so the object may belong to another tenant."""
        tenant = self.match("tenant")
        return tenant is not None and tenant.truth is _UNDETERMINED and tenant.by_form

    @property
    def other_spelling(self) -> IdentityMatch | None:
        """The first scope key with a different spelling in the reading, possibly of the same name."""
        return next((m for m in self.identity if m.by_form and m.key in SCOPE_KEYS), None)

    @property
    def version(self) -> Json:
        own = self.taken.reading.version
        mapped = self.match("version")
        return own if own is not None else (mapped.actual if mapped else None)


@dataclass(frozen=True, slots=True)
class Case:
    """The complete evidence about one attempt at judgement time."""

    contract: Contract
    stamp: str
    observation: Observation
    checks: tuple[EvaluatedReading, ...]
    before: EvaluatedReading | None = None
    found: tuple[EvaluatedReading, ...] | None = None
    """Effects with our stamp, in any place; None without a search."""
    search_proven: bool = False
    """The search is complete and has found an earlier effect by this mark. An empty result then proves absence."""
    lookup: Lookup | None = None
    window_closed: bool = False
    stable: bool = True
    dead: bool = False
    """The attempt can have no effect any more."""
    seen: bool = False
    """A reading of an earlier round showed our stamp."""
    look_due: bool = False
    """The contract can search for duplicates, and must search (again) before a success is reported."""
    search_failed: str = ""
    """The failed search and its reason; empty without a failure."""


_NO_REASON: Final = Why.NONE
_ALREADY_SO: Final = Attribution.ALREADY_SO
_VERIFIED: Final = Verdict.VERIFIED
_FOUND_VERIFIED: Final = Finding.VERIFIED
_RECONCILED: Final = Level.RECONCILED


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The reconciled judgement: the only value allowed to move the state of an action."""

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
    """Index in `checks` of the deciding reading."""
    detail: str = ""

    @property
    def open(self) -> bool:
        return self.verdict is Verdict.UNDETERMINED


def success(whose: Attribution) -> Reconciliation:
    """Everything requested is fulfilled. `whose`: the author of the state."""
    shown = whose is not _ALREADY_SO
    return Reconciliation(_VERIFIED, _NO_REASON, _FOUND_VERIFIED, None, whose, effect_shown=shown, level=_RECONCILED)


def no_op() -> Reconciliation:
    """The state was fulfilled before, and the contract allows a no-op."""
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
    """The readings contradict the intent. `effect_shown`: an effect of ours landed nevertheless."""
    return Reconciliation(
        Verdict.REFUTED, _NO_REASON, finding, discrepancy, whose, effect_shown=effect_shown, level=Level.VERIFIED
    )


def undetermined(
    why: Why, finding: Finding, discrepancy: Discrepancy | None = None, detail: str = ""
) -> Reconciliation:
    """Neither success nor failure, and the reason."""
    return Reconciliation(Verdict.UNDETERMINED, why, finding, discrepancy, detail=detail)


def unexecuted(observation: Observation) -> bool:
    """The tool was provably never called. Only this result permits a skipped verification."""
    return observation.status is ObservationStatus.NOT_DISPATCHED and not observation.dispatched
