"""The story of one action: each entry adds to the counts of the contract, the tool and the sources.

Called by `feedback.fold`. A story is pure over the entries of its action. So a story can be dropped once the action is
settled, and made again from the ledger if a late entry comes. `marks` holds the numbers with this action.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, TypeAlias

from readback.audit.feedback.entry import Entry, Facts
from readback.audit.feedback.tally import (
    APPROVAL,
    LOOKS_MAX,
    OTHER,
    SAGA,
    VERSIONS_MAX,
    ContractFeedback,
    SourceFeedback,
    Spread,
    VersionFeedback,
    add_to,
)
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.kind import Kind
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation_signs import ObservationStatus
from readback.domain.verification.reading import Fault, Presence, Role

SETTLED: Final = frozenset(state.value for state in TERMINAL | {State.UNKNOWN})
"""States without further work of a worker."""
CLAIMS: Final = frozenset({ObservationStatus.SUCCESS.value})
ACKNOWLEDGED: Final = frozenset({ObservationStatus.ACCEPTED.value, ObservationStatus.PENDING.value})
LOST: Final = frozenset({ObservationStatus.TIMEOUT, ObservationStatus.NONE, ObservationStatus.CANCELLED})
VERSION_HASH_CHARACTERS: Final = 8

_VERIFIED, _REFUTED, _UNDETERMINED = (v.value for v in (Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDETERMINED))
_DECIDED: Final = frozenset({_VERIFIED, _REFUTED})
_UNKNOWN, _SUCCESS, _EXECUTING = State.UNKNOWN.value, State.RECONCILED_SUCCESS.value, State.EXECUTING.value
_REVIEW = State.REVIEW_REQUIRED.value
_NONE, _NOT_SENT = ObservationStatus.NONE.value, ObservationStatus.NOT_DISPATCHED.value
_READ_FAILED: Final = frozenset(
    why.value for why in (Why.UNREACHABLE, Why.STALE, Why.INCOMPLETE, Why.CONFLICTING, Why.PROPAGATING)
)
"""Reasons of an open judgement against the reading after the write."""
_NO_FAULT, _UNREACHABLE, _GONE = Fault.NONE.value, Fault.UNREACHABLE.value, Presence.UNAVAILABLE.value
_CHECK, _HAPPENED = Role.CHECK.value, "happened"


class Mark:
    """The numbers with this action, as bits. Plain integers: `IntFlag` triples the cost of an entry."""

    EXECUTED = 1
    ENDED = 2
    VERIFIED = 4
    REFUTED = 8
    UNDETERMINED = 16
    SETTLED_LATER = 32
    DRIFTED = 64
    UNKNOWN = 128
    PARTIAL = 256
    READ_FAILED = 512
    COMPENSATION = 1024
    COMPENSATED = 2048
    COMPENSATION_FAILED = 4096
    REVIEW = 8192
    RETRACTED = 16384
    TOLD = 32768
    FALSE = 65536
    CLAIMED = 131072
    ACKNOWLEDGED = 262144
    DOUBLED = 524288
    ADMITTED = 1048576
    OBSERVED = 2097152
    JUDGED = 4194304
    HELD = 8388608


_CLASS_SHIFT: Final = 32
_CLASS_MARK: Final = MappingProxyType({one.value: 1 << _CLASS_SHIFT + place for place, one in enumerate(Discrepancy)})

EXECUTED, ENDED = Mark.EXECUTED, Mark.ENDED


@dataclass(slots=True)
class Story:
    """The counted facts of one action. `cell`: the place of the contract's counts."""

    cell: int = -1
    tenant: str = ""
    contract: str = ""
    version: str = ""
    contract_ref: str = ""
    principal: str = ""
    mutates: bool = True
    saga: bool = False
    mode: str = ""
    state: str = ""
    since_us: int = 0
    """The time of the last change of state."""
    marks: int = 0
    looks: int = 0
    doubles: int = 0
    """Repeated dispatches without a verdict so far."""
    executed_us: int = 0
    answered_us: int = 0
    looked_us: int = 0
    decided_us: int = 0
    verified_us: int = 0
    answer: str = ""
    verdict: str = ""
    why: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether no worker has to continue."""
        return self.state in SETTLED


SourceOf: TypeAlias = Callable[["Story", str], SourceFeedback]


def step(story: Story, entry: Entry, cell: ContractFeedback, source_of: SourceOf) -> None:
    """Add an entry of an action to the counts."""
    kind, data, path = entry.kind, entry.data, entry.path
    before = story.state
    if path:
        _moved(story, path, entry, cell)
    handler = HANDLERS.get(kind)
    if handler is not None:
        handler(story, entry, cell, source_of)
    if kind not in _STEPS:
        _stops(data, cell)
    if path:
        _counted_states(story, before, entry, cell)
    if (path or kind == _JUDGED) and kind != _RESUMED and story.state in SETTLED:
        if story.marks & (EXECUTED | ENDED) == EXECUTED:
            _end(story, entry.at, cell)


def _stops(data: Facts, cell: ContractFeedback) -> None:
    """Count incidents and freezes."""
    if data.severity:
        add_to(cell.incidents, data.severity)
    if data.frozen_for:
        cell.freezes += 1


def _moved(story: Story, path: list[str], entry: Entry, cell: ContractFeedback) -> None:
    """Follow the states of an entry, and count the states with a number of their own."""
    story.state = path[-1]
    for state in path:
        counted = _COUNTED_STATES.get(state)
        if counted is not None:
            counted(story, entry, cell)
    if story.saga and _EXECUTING in path:
        _execute(story, cell, entry.at)


def _counted_states(story: Story, before: str, entry: Entry, cell: ContractFeedback) -> None:
    if before == story.state:
        return
    states = cell.states
    if before:
        states[before] -= 1
    states[story.state] = states.get(story.state, 0) + 1
    story.since_us = entry.at


def _once(story: Story, mark: int) -> bool:
    """Set a mark. Return whether the mark is new."""
    if story.marks & mark:
        return False
    story.marks |= mark
    return True


def _compensating(story: Story, _entry: Entry, cell: ContractFeedback) -> None:
    if _once(story, Mark.COMPENSATION):
        cell.compensations += 1


def _compensated(story: Story, entry: Entry, cell: ContractFeedback) -> None:
    _compensating(story, entry, cell)
    if _once(story, Mark.COMPENSATED):
        cell.compensated += 1


def _compensation_failed(story: Story, entry: Entry, cell: ContractFeedback) -> None:
    _compensating(story, entry, cell)
    if _once(story, Mark.COMPENSATION_FAILED):
        cell.compensations_failed += 1


def _partly(story: Story, _entry: Entry, cell: ContractFeedback) -> None:
    if _once(story, Mark.PARTIAL):
        cell.partial += 1


def _to_review(story: Story, entry: Entry, cell: ContractFeedback) -> None:
    data = entry.data
    if entry.kind == _APPROVAL_REQUESTED:
        return  # counted by the entry's kind
    _review(story, data.review or data.hold or data.discrepancy or data.reason or entry.kind, cell)


def _review(story: Story, reason: str, cell: ContractFeedback) -> None:
    if story.marks & EXECUTED:
        if _once(story, Mark.REVIEW):
            cell.reviews += 1
            add_to(cell.review_reasons, reason)
    elif reason == APPROVAL or _once(story, Mark.HELD):
        add_to(cell.review_reasons, reason)


_COUNTED_STATES: Final[dict[str, Callable[[Story, Entry, ContractFeedback], None]]] = {
    State.COMPENSATING.value: _compensating,
    State.COMPENSATED.value: _compensated,
    State.COMPENSATION_FAILED.value: _compensation_failed,
    State.PARTIALLY_COMMITTED.value: _partly,
    _REVIEW: _to_review,
}


# --- before and during the attempt ---


def _proposed(story: Story, _entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    if story.cell >= 0:
        cell.actions += 1


def _rejected(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    add_to(cell.rejections, entry.data.code or "unnamed")
    cell.outages += entry.data.code == "source.unavailable"


def _attempted(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    cell.attempts += 1
    if entry.data.attempt > 1 and story.marks & EXECUTED:
        cell.duplicate_attempts += 1
        story.doubles += 1
    story.executed_us = story.executed_us or entry.at
    story.answer, story.answered_us = _NONE, entry.at


def _observed(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    data = entry.data
    story.answer, story.answered_us = data.status, data.ended
    story.marks |= Mark.OBSERVED
    add_to(cell.tool.answers, data.status)
    cell.tool.took.add(data.ended - data.started)
    if data.status in CLAIMS and _once(story, Mark.CLAIMED):
        cell.tool.claimed += 1
    elif data.status in ACKNOWLEDGED and _once(story, Mark.ACKNOWLEDGED):
        cell.tool.acknowledged += 1
    if data.status != _NOT_SENT:
        _execute(story, cell, entry.at)


def _resumed(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    """The process died between the attempt and the answer: the call counts as lost."""
    if story.answer == _NONE and story.executed_us:
        story.marks |= Mark.OBSERVED
        add_to(cell.tool.answers, _NONE)
        _execute(story, cell, entry.at)


def _execute(story: Story, cell: ContractFeedback, at_us: int) -> None:
    if _once(story, EXECUTED):
        cell.executed += 1
        story.executed_us = story.executed_us or at_us


# --- readings and judgements ---


def _looked(story: Story, entry: Entry, cell: ContractFeedback, source_of: SourceOf) -> None:
    data = entry.data
    if not data.source:
        return
    source = source_of(story, data.source)
    if data.source not in cell.sources:
        cell.sources.add(source.name)
    source.readings += 1
    source.took.add(data.finished - data.started)
    failed = data.fault if data.fault != _NO_FAULT else _UNREACHABLE if data.presence == _GONE else ""
    if failed:
        add_to(source.faults, failed)
    else:
        source.last_answer_us = max(source.last_answer_us, data.finished)
    if not data.complete:
        source.incomplete += 1
    if data.withheld:
        source.withheld += 1
    if data.role == _CHECK:
        story.looks += 1
        story.looked_us = story.looked_us or data.started
        if failed:
            _read_failed(story, cell)


def _read_failed(story: Story, cell: ContractFeedback) -> None:
    if story.mutates and story.marks & EXECUTED and not story.marks & ENDED and _once(story, Mark.READ_FAILED):
        cell.read_failed += 1


def _judged(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    data = entry.data
    if story.state == _SUCCESS and story.marks & Mark.VERIFIED:
        if data.verdict == _REFUTED and _once(story, Mark.DRIFTED):
            cell.drifted += 1
        if data.review:
            _review(story, data.review, cell)
        return
    if story.answer == _NONE and story.executed_us:
        _execute(story, cell, entry.at)
    story.verdict, story.why = data.verdict, data.why
    if data.shadow is not None:
        add_to(cell.judgements, "refused" if data.shadow.refused else data.shadow.verdict)
    if entry.refs.judgement:
        story.marks |= Mark.JUDGED
    if data.review:
        _review(story, data.review, cell)
    if data.why in _READ_FAILED:
        _read_failed(story, cell)
    if data.verdict in _DECIDED and not story.decided_us:
        story.decided_us = entry.at
        if story.marks & EXECUTED:
            cell.verdict_after.add(entry.at - story.answered_us)
            cell.settled_after.add(entry.at - (story.looked_us or entry.at))
    if data.verdict == _VERIFIED and not story.verified_us:
        story.verified_us = entry.at
        look = min(story.looks, LOOKS_MAX)
        cell.verified_at.setdefault(look, Spread()).add(entry.at - story.executed_us)
    if story.state == _SUCCESS and data.verdict != _VERIFIED:
        _false_success(story, "told", cell)
    if story.state == _UNKNOWN and story.marks & EXECUTED and _once(story, Mark.UNKNOWN):
        cell.unknown += 1
    if data.discrepancy and story.marks & EXECUTED and _is_final(story, data):
        _differs(story, data.discrepancy, cell)
    if story.marks & ENDED:
        _settle_late(story, entry.at, cell)


def _is_final(story: Story, data: Facts) -> bool:
    """Whether a judgement is more than a look during the wait."""
    return story.state in SETTLED or data.verdict == _REFUTED


def _differs(story: Story, discrepancy: str, cell: ContractFeedback) -> None:
    if discrepancy == Discrepancy.DUPLICATE_SIDE_EFFECT.value:
        story.marks |= Mark.DOUBLED
    if discrepancy == Discrepancy.PARTIAL_APPLICATION.value and _once(story, Mark.PARTIAL):
        cell.partial += 1
    if _once(story, _CLASS_MARK.get(discrepancy, 1 << _CLASS_SHIFT - 1)):
        add_to(cell.discrepancies, discrepancy)


def _false_success(story: Story, how: str, cell: ContractFeedback) -> None:
    if _once(story, Mark.FALSE):
        add_to(cell.false_success, how)


# --- the end ---


def _end(story: Story, at_us: int, cell: ContractFeedback) -> None:
    """Count the result of an action at the first end."""
    story.marks |= ENDED
    cell.ended += 1
    cell.reconciled_after.add(at_us - story.executed_us)
    if not 0 < story.verified_us <= at_us:
        cell.unverified_after.add(at_us - story.executed_us)
    _complete(story, cell)
    if story.saga:
        story.verdict = _VERIFIED if story.state == _SUCCESS else "" if story.state in (_UNKNOWN, _REVIEW) else _REFUTED
    decided = story.verdict in _DECIDED and story.state != _UNKNOWN  # an unknown state refutes nothing
    _verdict(story, story.verdict if decided else _UNDETERMINED, at_us, cell)
    if not decided:
        add_to(cell.whys, story.why or story.verdict or "not_judged")
        cell.verifier_errors += story.why == Why.VERIFIER_ERROR.value


def _settle_late(story: Story, at_us: int, cell: ContractFeedback) -> None:
    """A later judgement decides an action without a verdict at the end."""
    late = story.marks & Mark.UNDETERMINED and not story.marks & (Mark.VERIFIED | Mark.REFUTED)
    if late and story.verdict in _DECIDED and story.state != _UNKNOWN and _once(story, Mark.SETTLED_LATER):
        cell.settled_later += 1
        _verdict(story, story.verdict, at_us, cell)


def _verdict(story: Story, verdict: str, at_us: int, cell: ContractFeedback) -> None:
    version = _version_of(story, at_us, cell)
    if verdict == _VERIFIED:
        story.marks |= Mark.VERIFIED
        cell.verified += 1
        version.verified += 1
        cell.last_verified_us = max(cell.last_verified_us, at_us)
    elif verdict == _REFUTED:
        story.marks |= Mark.REFUTED
        cell.refuted += 1
        version.refuted += 1
        cell.tool.claimed_refuted += story.answer in CLAIMS
        cell.tool.acknowledged_refuted += story.answer in ACKNOWLEDGED
    else:
        story.marks |= Mark.UNDETERMINED
        cell.undetermined += 1
        version.undetermined += 1
        return
    if story.doubles and not story.marks & Mark.DOUBLED:
        cell.duplicate_resolved += story.doubles
    story.doubles = 0


def _version_of(story: Story, at_us: int, cell: ContractFeedback) -> VersionFeedback:
    found = next((one for one in reversed(cell.versions) if one.version == story.version), None)
    if found is not None:
        return found
    if len(cell.versions) >= VERSIONS_MAX:  # the oldest versions share one record
        oldest, second = cell.versions[0], cell.versions.pop(1)
        cell.versions[0] = VersionFeedback(
            OTHER,
            oldest.since_us,
            oldest.verified + second.verified,
            oldest.refuted + second.refuted,
            oldest.undetermined + second.undetermined,
        )
    fresh = VersionFeedback(story.version, at_us)
    cell.versions.append(fresh)
    return fresh


def _complete(story: Story, cell: ContractFeedback) -> None:
    """Count whether the ledger holds every phase of an executed action: request, contract, attempt, answer, judgement.

    A saga's phases are entries of the steps.
    """
    if story.saga:
        return
    cell.ledger_required += 1
    phases = Mark.ADMITTED | Mark.OBSERVED | Mark.JUDGED
    cell.ledger_complete += story.marks & phases == phases and story.executed_us > 0


# --- afterwards: claims, people ---


def _claim(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    add_to(cell.claims, entry.kind.removeprefix("claim_"))
    if entry.kind != EventKind.CLAIM_RETRACTED.value:
        return
    if story.marks & Mark.EXECUTED and _once(story, Mark.RETRACTED):
        add_to(cell.retracted, story.principal)
    if entry.data.claim == _HAPPENED and story.marks & Mark.VERIFIED:
        _false_success(story, "retracted", cell)


def _held(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    _review(story, entry.data.hold or "held", cell)


def _approval(story: Story, entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    said = _APPROVALS[entry.kind]
    add_to(cell.approvals, said)
    if said == "requested":
        _review(story, APPROVAL, cell)


def _saga_begun(_story: Story, _entry: Entry, cell: ContractFeedback, _source_of: SourceOf) -> None:
    cell.actions += 1


_K = EventKind
_JUDGED, _RESUMED, _APPROVAL_REQUESTED = _K.JUDGED.value, _K.RESUMED.value, _K.APPROVAL_REQUESTED.value
_STEPS: Final = frozenset({_K.PROPOSED.value, _K.READ.value, _K.ATTEMPTED.value, _K.OBSERVED.value})
"""Kinds without incidents and freezes."""
_APPROVALS: Final = MappingProxyType(
    {_K.APPROVAL_REQUESTED.value: "requested", _K.APPROVED.value: "given", _K.DENIED.value: "denied"}
)
HANDLERS: Final[dict[str, Callable[[Story, Entry, ContractFeedback, SourceOf], None]]] = {
    _K.PROPOSED.value: _proposed,
    _K.REJECTED.value: _rejected,
    _K.ATTEMPTED.value: _attempted,
    _K.OBSERVED.value: _observed,
    _RESUMED: _resumed,
    _K.READ.value: _looked,
    _K.WATCHED.value: _looked,
    _K.JUDGED.value: _judged,
    _K.CLAIM_CONTESTED.value: _claim,
    _K.CLAIM_RETRACTED.value: _claim,
    _K.CLAIM_REINSTATED.value: _claim,
    _K.HELD.value: _held,
    _K.APPROVAL_REQUESTED.value: _approval,
    _K.APPROVED.value: _approval,
    _K.DENIED.value: _approval,
    _K.SAGA_BEGUN.value: _saga_begun,
}
"""The counting of each kind of entry. Kinds without a row count only by their states."""


def begin(entry: Entry, story: Story) -> tuple[str, str, str] | None:
    """Take the terms of an action from an entry. Return contract, kind and class if they are known from here on.

    A submitted action gets the terms with the admission, and belongs to no group of counts until then.
    """
    data = entry.data
    match entry.kind:
        case EventKind.PROPOSED.value:
            story.contract, story.principal, story.tenant = data.contract, data.principal, entry.tenant
            story.mode = data.mode
            if not data.operation_kind:
                return None
        case EventKind.ADMITTED.value:
            pass
        case EventKind.SAGA_BEGUN.value:
            story.contract, story.principal, story.tenant = data.name, data.principal, entry.tenant
            story.saga, story.mutates = True, False
            return data.name, SAGA, ""
        case _:
            return story.contract, "", ""  # refused before any process had the contract
    if entry.refs.request and entry.refs.contract:
        story.marks |= Mark.ADMITTED
    story.contract_ref = entry.refs.contract
    story.version = f"{data.contract_version}-{data.contract_hash[:VERSION_HASH_CHARACTERS]}"
    story.mutates = data.operation_kind != Kind.READ.value
    return story.contract, data.operation_kind, data.side_effect
