"""Counts of contracts, tools and sources: the result of a pass over a ledger's entries.

Filled by `feedback.story`, read by `feedback.findings`, by `readback.telemetry` and by `recipes.timings`. Every number
only grows, except the numbers of waiting actions. So any two results of a ledger can be compared as counters, and the
counts of several groups can be added.

Source: the action verification specification, "Metrics".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import field, fields
from typing import Any, Final, TypeVar

from readback.canon.frozen import dataclass

FINE_BITS: Final = 3
"""Each power of two has eight buckets."""
BOUNDS_US: Final = (
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
    21_600_000_000,
    86_400_000_000,
)
"""Upper limits of the exported histogram buckets, in microseconds: one millisecond to one day."""
OTHER: Final = "_other"
"""The name of everything over a limit of names."""
VERSIONS_MAX: Final = 16
"""Most versions of a contract with separate counts."""
NAMES_MAX: Final = 200
"""Most names in a group of counts: codes, reasons, principals."""
LOOKS_MAX: Final = 64
"""Most readings of an action with separate durations."""


def add_to(counted: dict[str, int], name: str, count: int = 1) -> None:
    """Add to the count of a name. A name over the limit counts as OTHER."""
    if name not in counted and len(counted) >= NAMES_MAX:
        name = OTHER
    counted[name] = counted.get(name, 0) + count


@dataclass(slots=True)
class Spread:
    """Durations in microseconds, in memory of constant size.

    `fine` has buckets growing with the value, for percentiles. `bounds` has a number for each of BOUNDS_US, and a last
    number for everything longer.
    """

    count: int = 0
    longest_us: int = 0
    total_us: int = 0
    fine: dict[int, int] = field(default_factory=dict)
    bounds: list[int] = field(default_factory=list)

    def add(self, duration_us: int) -> None:
        """Add one duration. After a backward step of the clock the duration is 0."""
        value = duration_us if duration_us > 0 else 0
        shift = value.bit_length() - FINE_BITS - 1
        at = (shift << FINE_BITS + 1) + (value >> shift) if shift > 0 else value
        fine = self.fine
        fine[at] = fine.get(at, 0) + 1
        bounds = self.bounds
        if not bounds:
            bounds = self.bounds = [0] * (len(BOUNDS_US) + 1)
        bounds[bisect_left(BOUNDS_US, value)] += 1
        self.count += 1
        self.total_us += value
        if value > self.longest_us:
            self.longest_us = value

    def percentile_us(self, percent: int) -> int:
        """Return an upper limit in microseconds for the given percentage of durations; 0 without durations."""
        wanted = -(-self.count * percent // 100)
        seen = 0
        for at in sorted(self.fine):
            seen += self.fine[at]
            if seen >= wanted:
                shift, top = at >> FINE_BITS + 1, at & (1 << FINE_BITS + 1) - 1
                return min(((top + 1) << shift) - 1, self.longest_us)
        return self.longest_us

    def below(self) -> list[tuple[int, int]]:
        """Return the number of durations up to each of BOUNDS_US, cumulative, as Prometheus counts."""
        seen, found = 0, []
        for bound_us, count in zip(BOUNDS_US, self.bounds or [0] * len(BOUNDS_US), strict=False):
            seen += count
            found.append((bound_us, seen))
        return found


@dataclass(slots=True)
class ToolFeedback:
    """Answers of a contract's tool, with the results. `took`: from dispatch to answer."""

    answers: dict[str, int] = field(default_factory=dict)
    claimed: int = 0
    claimed_refuted: int = 0
    """The tool claimed success, and the system of record refuted the claim."""
    acknowledged: int = 0
    acknowledged_refuted: int = 0
    took: Spread = field(default_factory=Spread)

    @property
    def calls(self) -> int:
        """Number of answers, with lost answers."""
        return sum(self.answers.values())


@dataclass(slots=True)
class SourceFeedback:
    """Answers of a system of record. `took`: the duration of a reading."""

    name: str = ""
    tenant: str = ""
    readings: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    incomplete: int = 0
    withheld: int = 0
    """Readings of another tenant's or target's record: a fault of the reader."""
    took: Spread = field(default_factory=Spread)
    last_answer_us: int = 0
    """The time of the last reading without a fault."""

    @property
    def failed(self) -> int:
        """Number of readings with a fault."""
        return sum(self.faults.values())


@dataclass(slots=True)
class VersionFeedback:
    """Verdicts under one version of a contract: the declared version, and the first digits of the contract's hash."""

    version: str = ""
    since_us: int = 0
    verified: int = 0
    refuted: int = 0
    undetermined: int = 0

    @property
    def judged(self) -> int:
        """Number of verdicts."""
        return self.verified + self.refuted + self.undetermined


@dataclass(slots=True)
class ContractFeedback:
    """Results of the actions of one contract, kind and side effect class.

    An action counts at most once in a number, except in `attempts`, `answers`, `incidents`, `claims` and
    `approvals`. `ended`: executed actions that are settled, in review, or unknown.
    """

    contract: str = ""
    kind: str = ""
    side_effect: str = ""
    tenant: str = ""
    actions: int = 0
    executed: int = 0
    ended: int = 0
    verified: int = 0
    refuted: int = 0
    undetermined: int = 0
    """Ended without a verdict: unknown, in review, or never verifiable."""
    settled_later: int = 0
    """Undetermined first, and verified or refuted afterwards."""
    drifted: int = 0
    """Verified, and contradicted by a later reading."""
    unknown: int = 0
    """A judgement left the state unknown."""
    partial: int = 0
    verifier_errors: int = 0
    read_failed: int = 0
    """A reading after the write failed, or was too old to show the write."""
    outages: int = 0
    """Not executed, because the system of record was unreadable."""
    attempts: int = 0
    duplicate_attempts: int = 0
    """Repeated dispatches of an operation."""
    duplicate_resolved: int = 0
    """Of these, the dispatches with a verdict in the end, and without a doubled effect."""
    compensations: int = 0
    compensated: int = 0
    compensations_failed: int = 0
    reviews: int = 0
    """Executed actions in need of a person."""
    freezes: int = 0
    ledger_required: int = 0
    ledger_complete: int = 0
    last_verified_us: int = 0
    discrepancies: dict[str, int] = field(default_factory=dict)
    whys: dict[str, int] = field(default_factory=dict)
    false_success: dict[str, int] = field(default_factory=dict)
    """Reported as done without a verified result ("told"), or verified and retracted later ("retracted")."""
    review_reasons: dict[str, int] = field(default_factory=dict)
    approvals: dict[str, int] = field(default_factory=dict)
    rejections: dict[str, int] = field(default_factory=dict)
    incidents: dict[str, int] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    """Actions by present state. No other numbers fall."""
    versions: list[VersionFeedback] = field(default_factory=list)
    """In the order of first use. The last is the current version."""
    tool: ToolFeedback = field(default_factory=ToolFeedback)
    sources: set[str] = field(default_factory=set)
    verdict_after: Spread = field(default_factory=Spread)
    """From the tool's answer to the first verdict."""
    settled_after: Spread = field(default_factory=Spread)
    """From the first reading to the first verdict."""
    reconciled_after: Spread = field(default_factory=Spread)
    """From the attempt to the end."""
    verified_at: dict[int, Spread] = field(default_factory=dict)
    """By the number of the verifying reading: from the attempt to the verdict."""
    unverified_after: Spread = field(default_factory=Spread)
    """From the attempt to the last reading of the window, for actions unverified by then."""
    retracted: dict[str, int] = field(default_factory=dict)
    """Actions with a retracted claim, by the acting principal."""
    mode: str = ""
    """"shadow" for the actions in shadow mode. No other count includes these actions."""
    judgements: dict[str, int] = field(default_factory=dict)
    """Judgements of actions in shadow mode: a verdict, or "refused"."""

    @property
    def mutates(self) -> bool:
        """Whether the actions change a system of record. A saga has steps for every change."""
        return self.kind not in ("read", SAGA, "")

    @property
    def mutating(self) -> int:
        """Executed actions with a change to a system of record."""
        return self.executed if self.mutates else 0

    @property
    def open_verdicts(self) -> int:
        """Ended actions without a verdict today."""
        return self.undetermined - self.settled_later

    @property
    def pending(self) -> int:
        """Executed actions without an end."""
        return sum(self.states.get(state, 0) for state in PENDING)


SAGA: Final = "saga"
APPROVAL: Final = "approval"
"""The reason of a review before execution. Such a review is no escalation of a result."""
PENDING: Final = (
    "executing",
    "accepted",
    "pending",
    "committed",
    "partially_committed",
    "reconciliation_failed",
    "verification_timeout",
    "compensating",
    "compensation_failed",
    "forward_recovery",
)
"""States of executed actions with work left for a worker."""


@dataclass(slots=True)
class Feedback:
    """All counts. `entries`: number of entries of the counted tenants."""

    cells: list[ContractFeedback] = field(default_factory=list)
    readers: list[SourceFeedback] = field(default_factory=list)
    entries: int = 0

    @property
    def enforced(self) -> list[ContractFeedback]:
        """The groups of enforced actions."""
        return [one for one in self.cells if not one.mode]

    @property
    def shadowed(self) -> list[ContractFeedback]:
        """The groups of actions in shadow mode."""
        return [one for one in self.cells if one.mode]

    @property
    def contracts(self) -> dict[str, ContractFeedback]:
        """The counts by contract, without sagas."""
        return merged_by(lambda one: one.contract, (one for one in self.enforced if one.kind != SAGA))

    @property
    def tools(self) -> dict[str, ToolFeedback]:
        """The counts of tools by contract. A contract without a call has none."""
        return {name: one.tool for name, one in self.contracts.items() if one.tool.answers}

    @property
    def sources(self) -> dict[str, SourceFeedback]:
        """The counts of systems of record by name."""
        return merged_by(lambda one: one.name, self.readers)


# --- adding counts of several groups ---

T = TypeVar("T")


def merged_by(key: Any, items: Iterable[T]) -> dict[str, T]:
    """Return the sum of the items with the same key, by key. A single item is returned unchanged."""
    groups: dict[str, list[T]] = {}
    for one in items:
        groups.setdefault(key(one), []).append(one)
    return {name: found[0] if len(found) == 1 else merged(found) for name, found in groups.items()}


def merged(items: list[T]) -> T:
    """Return the sum of several records of one class. Texts come from the first; times and maxima are the largest."""
    first = items[0]
    values = {one.name: _sum(one.name, [getattr(item, one.name) for item in items]) for one in fields(first)}  # type: ignore[arg-type]
    return type(first)(**values)


def _sum(name: str, values: list[Any]) -> Any:
    first = values[0]
    match first:
        case str():
            return first
        case int():
            return max(values) if name.startswith(("last_", "longest_")) else sum(values)
        case set():
            return set().union(*values)
        case dict():
            return _sum_of_named(values)
        case list() if name == "bounds":
            filled = [value for value in values if value]
            return [sum(column) for column in zip(*filled, strict=True)]
        case list():
            return [*merged_by(lambda one: one.version, (one for value in values for one in value)).values()]
        case _:
            return merged(values)


def _sum_of_named(values: list[dict[Any, Any]]) -> dict[Any, Any]:
    names = dict.fromkeys(name for value in values for name in value)
    found: dict[Any, Any] = {}
    for name in names:
        held = [value[name] for value in values if name in value]
        found[name] = sum(held) if isinstance(held[0], int) else merged(held)
    return found
