"""Feedback: statistics of contracts, tools and sources from a ledger's entries, in one streaming pass off the hot path.

Called by `readback doctor` with stored events in the order of the log. The pass counts events and durations.
`feedback.findings` judges them. Memory holds one small record for each action. The result is pure over the events: the
same entries always produce the same counts.

Source: the action verification specification, "Metrics", as far as the ledger has the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, open_envelope
from readback.domain.kind import Kind
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation_signs import ObservationStatus
from readback.domain.verification.reading import Fault, Presence, Role
from readback.ports.storage.store import StoredEvent

# Durations in bounded memory: a histogram with buckets growing with the value.

FINE_BITS: Final = 3
"""Each power of two has eight buckets."""


@dataclass(slots=True)
class Spread:
    """Durations in microseconds."""

    count: int = 0
    longest_us: int = 0
    _buckets: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, duration_us: int) -> None:
        """Add one duration. After a backward step of the clock the duration is 0."""
        value = max(duration_us, 0)
        shift = max(value.bit_length() - FINE_BITS - 1, 0)
        at = (shift, value >> shift)
        self._buckets[at] = self._buckets.get(at, 0) + 1
        self.count += 1
        self.longest_us = max(self.longest_us, value)

    def percentile_us(self, percent: int) -> int:
        """Return an upper limit in microseconds for the given percentage of durations; 0 without durations."""
        wanted = -(-self.count * percent // 100)
        seen = 0
        for shift, top in sorted(self._buckets):
            seen += self._buckets[shift, top]
            if seen >= wanted:
                return min(((top + 1) << shift) - 1, self.longest_us)
        return self.longest_us


CLAIMS: Final = frozenset({ObservationStatus.SUCCESS})
ACKNOWLEDGED: Final = frozenset({ObservationStatus.ACCEPTED, ObservationStatus.PENDING})
LOST: Final = frozenset({ObservationStatus.TIMEOUT, ObservationStatus.NONE, ObservationStatus.CANCELLED})
DECIDED: Final = frozenset({Verdict.VERIFIED.value, Verdict.REFUTED.value})


@dataclass(slots=True)
class ToolFeedback:
    """Answers of a contract's tool, and their results. `took`: from dispatch to answer."""

    answers: Counter[str] = field(default_factory=Counter)
    claimed: int = 0
    claimed_refuted: int = 0
    """The tool claimed success, and the system of record refuted the claim."""
    acknowledged: int = 0
    acknowledged_refuted: int = 0
    took: Spread = field(default_factory=Spread)

    @property
    def calls(self) -> int:
        return self.answers.total()


@dataclass(slots=True)
class SourceFeedback:
    """Answers of a system of record. `took`: one reading."""

    readings: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0
    withheld: int = 0
    """Readings of another tenant's or target's record: a fault of the reader."""
    took: Spread = field(default_factory=Spread)

    @property
    def failed(self) -> int:
        return self.faults.total()


@dataclass(slots=True)
class ContractFeedback:
    """Results of a contract's actions. `ended`: settled actions, and actions that stay unknown."""

    actions: int = 0
    executed: int = 0
    mutating: int = 0
    ended: int = 0
    verified: int = 0
    refuted: int = 0
    drifted: int = 0
    """Verified, and contradicted by a later reading."""
    undetermined: int = 0
    """Ended without a verdict: unknown, in review, or never verifiable."""
    verifier_errors: int = 0
    pending: int = 0
    reviews: int = 0
    outages: int = 0
    """Not executed, because the system of record was unreadable."""
    discrepancies: Counter[str] = field(default_factory=Counter)
    whys: Counter[str] = field(default_factory=Counter)
    compensations: int = 0
    compensated: int = 0
    compensations_failed: int = 0
    sources: set[str] = field(default_factory=set)
    verdict_after: Spread = field(default_factory=Spread)
    """From the tool's answer to the first verdict."""
    settled_after: Spread = field(default_factory=Spread)
    """From the first reading to the first verdict."""
    reconciled_after: Spread = field(default_factory=Spread)
    """From the attempt to the end."""
    verified_at: dict[int, Spread] = field(default_factory=dict)
    """By the number of the verifying reading: from the attempt to its verdict."""
    unverified_after: Spread = field(default_factory=Spread)
    """From the attempt to the last reading of the window, for actions unverified by then."""
    retracted: Counter[str] = field(default_factory=Counter)
    """Actions with a retracted claim, by the acting principal."""


@dataclass(slots=True)
class Feedback:
    """All statistics, by name."""

    contracts: dict[str, ContractFeedback] = field(default_factory=dict)
    tools: dict[str, ToolFeedback] = field(default_factory=dict)
    sources: dict[str, SourceFeedback] = field(default_factory=dict)
    entries: int = 0


@dataclass(slots=True)
class _Story:
    """The counted facts of one action."""

    contract: str
    mutates: bool
    principal: str
    attempts: int = 0
    looks: int = 0
    verified_at: int = 0
    verified_us: int = 0
    retracted: bool = False
    executed_us: int = 0
    answered_us: int = 0
    looked_us: int = 0
    decided_us: int = 0
    ended_us: int = 0
    answer: ObservationStatus | None = None
    verdict: str = ""
    why: str = ""
    discrepancy: str = ""
    state: State = State.PROPOSED
    review: bool = False
    drifted: bool = False
    """Whether a later reading contradicted a verified outcome. The tool is not at fault."""
    compensating: bool = False
    reversed: bool | None = None
    code: str = ""


def feedback_of(events: Iterable[StoredEvent], tenant: str = "") -> Feedback:
    """Count everything of one tenant (or of all) in these entries. Actions with an earlier beginning are skipped."""
    found = Feedback()
    stories: dict[str, _Story] = {}
    for stored in events:
        opened = open_envelope(stored.envelope)
        if tenant and opened.tenant != tenant:
            continue
        found.entries += 1
        kind, data, at_us = opened.event.kind, opened.event.data, opened.event.at_us
        if kind is EventKind.PROPOSED:
            mutates = data["operation_kind"] != Kind.READ.value
            stories[stored.action_id] = _Story(str(data["contract"]), mutates, str(data["principal"]))
        elif kind is EventKind.ADMITTED and stored.action_id in stories:
            stories[stored.action_id].mutates = data["operation_kind"] != Kind.READ.value
        story = stories.get(stored.action_id)
        if story is None:
            continue
        if opened.event.path:
            story.state = opened.event.path[-1]
            if story.state in TERMINAL or story.state is State.UNKNOWN:
                story.ended_us = story.ended_us or at_us
        _hear(found, story, kind, data, at_us)
    for story in stories.values():
        _conclude(found, story)
    return found


def _hear(found: Feedback, story: _Story, kind: EventKind, data: dict[str, Json], at_us: int) -> None:
    match kind:
        case EventKind.ATTEMPTED:
            story.attempts += 1
            story.executed_us = story.executed_us or at_us
            story.answer, story.answered_us = ObservationStatus.NONE, at_us
        case EventKind.OBSERVED:
            _answered(found, story, data)
        case EventKind.RESUMED if story.answer is ObservationStatus.NONE:
            found.tools.setdefault(story.contract, ToolFeedback()).answers[ObservationStatus.NONE.value] += 1
        case EventKind.READ:
            _looked(found, story, data)
        case EventKind.JUDGED if story.state is State.RECONCILED_SUCCESS and story.verdict == Verdict.VERIFIED.value:
            story.drifted = story.drifted or data["verdict"] == Verdict.REFUTED.value
        case EventKind.WATCHED if "source" in data:
            _looked(found, story, data)
        case EventKind.JUDGED:
            story.verdict, story.why = str(data["verdict"]), str(data["why"])
            story.discrepancy = str(data["discrepancy"]) or story.discrepancy
            story.review = story.review or bool(data["review"])
            if story.verdict in DECIDED and not story.decided_us:
                story.decided_us = at_us
            if story.verdict == Verdict.VERIFIED.value and not story.verified_at:
                story.verified_at, story.verified_us = story.looks, at_us
            story.compensating = story.compensating or story.state is State.COMPENSATING
        case EventKind.COMPENSATION if data.get("how") == "compensation" and story.state in TERMINAL:
            story.compensating, story.reversed = True, story.state is State.COMPENSATED
            story.review = story.review or not story.reversed
        case EventKind.CLAIM_RETRACTED:
            story.retracted = True
        case EventKind.REJECTED:
            story.code = str(data.get("code", ""))
            story.discrepancy = str(data.get("discrepancy", "")) or story.discrepancy
        case EventKind.HELD:
            story.review = True
        case _:
            pass


def _answered(found: Feedback, story: _Story, data: dict[str, Json]) -> None:
    story.answer, story.answered_us = ObservationStatus(str(data["status"])), _int(data["ended"])
    tool = found.tools.setdefault(story.contract, ToolFeedback())
    tool.answers[story.answer.value] += 1
    tool.took.add(_int(data["ended"]) - _int(data["started"]))


def _looked(found: Feedback, story: _Story, data: dict[str, Json]) -> None:
    name, fault = str(data["source"]), str(data["fault"])
    contract = found.contracts.setdefault(story.contract, ContractFeedback())
    contract.sources.add(name)
    source = found.sources.setdefault(name, SourceFeedback())
    source.readings += 1
    source.took.add(_int(data["finished"]) - _int(data["started"]))
    if fault != Fault.NONE.value:
        source.faults[fault] += 1
    elif data["presence"] == Presence.UNAVAILABLE.value:
        source.faults[Fault.UNREACHABLE.value] += 1
    source.incomplete += not data["complete"]
    source.withheld += bool(data["withheld"])
    if data["role"] == Role.CHECK.value:
        story.looks += 1
        story.looked_us = story.looked_us or _int(data["started"])


def _conclude(found: Feedback, story: _Story) -> None:
    """Count the result of an action after its last entry."""
    one = found.contracts.setdefault(story.contract, ContractFeedback())
    one.actions += 1
    one.outages += story.code == "source.unavailable"
    if not story.attempts or story.answer is ObservationStatus.NOT_DISPATCHED:
        return
    if story.state is State.UNKNOWN and story.verdict in DECIDED:
        story.verdict = Verdict.UNDETERMINED.value  # an unknown state refutes nothing
    one.executed += 1
    one.mutating += story.mutates
    one.reviews += story.review
    _timed(one, story)
    if story.discrepancy:
        one.discrepancies[story.discrepancy] += 1
    if story.compensating:
        one.compensations += 1
        one.compensated += story.reversed is True
        one.compensations_failed += story.reversed is False
    refuted = story.verdict == Verdict.REFUTED.value
    tool = found.tools.setdefault(story.contract, ToolFeedback())
    if story.answer in CLAIMS:
        tool.claimed += 1
        tool.claimed_refuted += refuted
    elif story.answer in ACKNOWLEDGED:
        tool.acknowledged += 1
        tool.acknowledged_refuted += refuted
    if story.decided_us:
        one.verdict_after.add(story.decided_us - story.answered_us)
        one.settled_after.add(story.decided_us - (story.looked_us or story.decided_us))
    if story.state not in TERMINAL and story.state is not State.UNKNOWN:
        one.pending += 1
        return
    one.ended += 1
    one.reconciled_after.add(story.ended_us - story.executed_us)
    one.verified += story.verdict == Verdict.VERIFIED.value
    one.drifted += story.drifted
    one.refuted += refuted
    if story.verdict not in DECIDED:
        one.undetermined += 1
        one.verifier_errors += story.why == Why.VERIFIER_ERROR.value
        one.whys[story.why or story.verdict or "not_judged"] += 1


def _timed(one: ContractFeedback, story: _Story) -> None:
    """Count the verifying reading and its delay, or the time spent without a verification."""
    if story.retracted:
        one.retracted[story.principal] += 1
    if story.verified_at:
        one.verified_at.setdefault(story.verified_at, Spread()).add(story.verified_us - story.executed_us)
    if story.ended_us and not 0 < story.verified_us <= story.ended_us:
        one.unverified_after.add(story.ended_us - story.executed_us)


def _int(value: Json) -> int:
    return value if isinstance(value, int) else 0
