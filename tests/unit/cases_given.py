"""Cases for the reconciliation, written by hand: contracts, readings and what was evaluated over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from readback.canon import Json
from readback.domain.contract.contract import Contract, Execution, Noop, ReaderTerms
from readback.domain.kind import Kind
from readback.domain.predicate import Evaluation, Postcondition, Truth
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reading import Fault, Lookup, Presence, Reading, Role, TakenReading
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, IdentityMatch, Reconciliation

STAMP: Final = "rb-mine"
HOLDS, VIOLATED, UNTOLD = Truth.HOLDS, Truth.VIOLATED, Truth.UNDETERMINED
READER: Final = ReaderTerms("row", "orders", Consistency.STRONG, Independence.OTHER_CLIENT, 1_000_000)
STATE: Final[dict[str, Json]] = {"id": "o-17", "status": "shipped"}
OLD: Final[dict[str, Json]] = {"id": "o-17", "status": "open"}


def contract(kind: Kind = Kind.SET, side_effect: SideEffect = SideEffect.LOW_RISK_INTERNAL, **changes: Any) -> Contract:
    """A contract of this kind and class."""
    made = Contract(
        name="ship",
        version="1",
        kind=kind,
        side_effect=side_effect,
        target="order/{requested.id}",
        identity=(("target", "authoritative.id"), ("tenant", "authoritative.tenant")),
        require=(),
        expected_version="",
        execution=Execution(1_000_000),
        readers=(READER,),
        quorum=1,
        ensure=(Postcondition("shipped", "authoritative.status == 'shipped'"),),
        fails_when=(),
        may_change=None,
        noop=Noop.ALLOW if kind is Kind.SET else Noop.REFUSE,
        within_us=10_000_000,
        polls_us=(0,),
        stable_for_us=0,
        deadline_us=10_000_000,
        late_window_us=None,
        key_fields=(),
        principals=(),
        redact=(),
        tell=(),
        unverifiable="",
        proves="",
        has_find=False,
        has_lookup=False,
        has_compensation=False,
        has_rollback=False,
        schema_hash="",
    )
    return replace(made, **changes)


def grouped(*names: str) -> tuple[Postcondition, ...]:
    """One postcondition in each of these effect groups."""
    return tuple(Postcondition(name, "true", group=name) for name in names)


def judged(
    *truths: Truth,
    presence: Presence = Presence.PRESENT,
    scope: Truth = HOLDS,
    consistency: Consistency = Consistency.STRONG,
    independence: Independence = Independence.OTHER_CLIENT,
    fault: Fault = Fault.NONE,
    failing: bool = False,
    marks: tuple[IdentityMatch, ...] = (),
    groups: tuple[str, ...] = (),
    verifier_fault: bool = False,
    role: Role = Role.CHECK,
    value: Json = None,
    **reading: Any,
) -> EvaluatedReading:
    """One reading with the truths of its postconditions; keywords beyond the named ones are the reading's own."""
    if presence is Presence.PRESENT and value is None:
        value = STATE
    taken = TakenReading(
        role, "row", "orders", consistency, independence, Reading(presence, value, **reading), 0, 0, fault
    )
    identity = ()
    if presence is Presence.PRESENT:
        identity = (IdentityMatch("target", scope, "o-17", "o-17"), *marks)
    named = groups or tuple(f"p{n}" for n in range(len(truths)))
    ensure = tuple(
        Evaluation(name, truth, "x", verifier_fault=verifier_fault, group=name if groups else None)
        for name, truth in zip(named, truths, strict=True)
    )
    return EvaluatedReading(taken, identity, ensure, failing)


def gone(*truths: Truth, **changes: Any) -> EvaluatedReading:
    """The object is not there; its predicates have nothing to stand on unless said otherwise."""
    return judged(*(truths or (UNTOLD,)), presence=Presence.ABSENT, **changes)


def mark(key: str, truth: Truth, actual: Json = "x") -> IdentityMatch:
    return IdentityMatch(key, truth, "mine", actual)


def observed(status: ObservationStatus = ObservationStatus.SUCCESS) -> Observation:
    return Observation(status, status is not ObservationStatus.NOT_DISPATCHED, "x", "", None, None, 0)


def case(*checks: EvaluatedReading, of: Contract | None = None, **known: Any) -> Case:
    """A case whose window has closed, unless said otherwise."""
    known.setdefault("observation", observed())
    known.setdefault("window_closed", True)
    return Case(of or contract(), STAMP, checks=checks, **known)


def result(*checks: EvaluatedReading, of: Contract | None = None, **known: Any) -> Reconciliation:
    """The judgement of such a case."""
    return reconcile(case(*checks, of=of, **known))


BEFORE: Final = judged(VIOLATED, role=Role.BEFORE, value=OLD, version=1)
BEFORE_SO: Final = judged(HOLDS, role=Role.BEFORE, version=1)
BEFORE_GONE: Final = replace(gone(), taken=replace(gone().taken, role=Role.BEFORE))
LANDED, DEAD, PENDING = Lookup.landed(), Lookup.failed(), Lookup.pending()
