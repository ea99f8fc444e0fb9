"""The exported series of a ledger, and the nineteen metrics of the specification as expressions over them.

Called by `telemetry.prometheus`, by the OpenTelemetry instruments and by `readback metrics`. A series is a counter, a
gauge or a histogram. No series is a ratio: a ratio of two counters can be computed over any time range and any group,
and a stored ratio cannot. `METRICS` names the expression of each ratio, and the shipped recording rules hold them.

Labels are names with few values: contract, kind, side effect class, verdict, class of discrepancy, reason, source. No
label holds an action id, a target or a principal. The tenant is a label only on request.

Source: the action verification specification, "Metrics".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from readback.audit.feedback.tally import (
    SAGA,
    ContractFeedback,
    Feedback,
    SourceFeedback,
    Spread,
    merged,
    merged_by,
)
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.verdict import Verdict

US: Final = 1_000_000
PREFIX: Final = "readback_"

Labels: TypeAlias = dict[str, str]
Sample: TypeAlias = tuple[Labels, "int | float | Spread"]


@dataclass(frozen=True, slots=True)
class Series:
    """One exported series. `kind`: counter, gauge or histogram (of seconds). `labels` are besides the group's labels.

    The group's labels of a contract are contract, kind and side_effect, and on request tenant.
    """

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Family:
    """A series with its samples."""

    series: Series
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Waits:
    """The present waiting actions of one contract: pending actions within and over their window, by group labels."""

    within: int = 0
    over: int = 0
    oldest_us: int = 0
    """The age of the oldest pending action, in microseconds."""


CLASSES: Final = tuple(one.value for one in Discrepancy)
VERDICTS: Final = (Verdict.VERIFIED.value, Verdict.REFUTED.value, Verdict.UNDETERMINED.value)
FALSE_SUCCESS: Final = ("told", "retracted")

_Values: TypeAlias = Callable[[ContractFeedback], Iterable[tuple[Labels, "int | float | Spread"]]]


def _one(read: Callable[[ContractFeedback], int | float | Spread]) -> _Values:
    return lambda cell: (({}, read(cell)),)


def _by(label: str, read: Callable[[ContractFeedback], Mapping[str, int]], always: tuple[str, ...] = ()) -> _Values:
    """Samples by the names in a group of counts. `always`: names with a sample from the start, with 0."""
    return lambda cell: (
        ({label: name}, read(cell).get(name, 0)) for name in dict.fromkeys((*always, *sorted(read(cell))))
    )


def _verdicts(cell: ContractFeedback) -> Iterator[tuple[Labels, int]]:
    for verdict, count in zip(VERDICTS, (cell.verified, cell.refuted, cell.undetermined), strict=True):
        yield {"verdict": verdict}, count


def _compensations(cell: ContractFeedback) -> Iterator[tuple[Labels, int]]:
    yield {"result": "verified"}, cell.compensated
    yield {"result": "failed"}, cell.compensations_failed


_C, _G, _H = "counter", "gauge", "histogram"

BY_CONTRACT: Final[dict[Series, _Values]] = {
    Series("actions_total", _C, "Proposed actions."): _one(lambda c: c.actions),
    Series("executed_total", _C, "Actions with a dispatched call."): _one(lambda c: c.executed),
    Series("attempts_total", _C, "Dispatched calls."): _one(lambda c: c.attempts),
    Series("ended_total", _C, "Executed actions that are settled, in review or unknown."): _one(lambda c: c.ended),
    Series(
        "verifications_total",
        _C,
        "Executed actions by verdict. An undetermined action that is decided later counts in both verdicts.",
        ("verdict",),
    ): _verdicts,
    Series("verification_seconds", _H, "Time from the tool's answer to the first verdict."): _one(
        lambda c: c.verdict_after
    ),
    Series("reconcile_seconds", _H, "Time from the first attempt to the end of the action."): _one(
        lambda c: c.reconciled_after
    ),
    Series("tool_seconds", _H, "Duration of the tool's calls."): _one(lambda c: c.tool.took),
    Series("read_after_write_failures_total", _C, "Executed actions with a failed or stale reading."): _one(
        lambda c: c.read_failed
    ),
    Series("discrepancies_total", _C, "Executed actions by class of discrepancy.", ("class",)): _by(
        "class", lambda c: c.discrepancies, CLASSES
    ),
    Series("partial_total", _C, "Executed actions with some of their required effects."): _one(lambda c: c.partial),
    Series("unknown_total", _C, "Executed actions that a judgement left unknown."): _one(lambda c: c.unknown),
    Series("settled_later_total", _C, "Undetermined actions that were decided later."): _one(lambda c: c.settled_later),
    Series("duplicate_attempts_total", _C, "Dispatches of an operation after its first dispatch."): _one(
        lambda c: c.duplicate_attempts
    ),
    Series("duplicate_attempts_resolved_total", _C, "Of these, dispatches that ended without a double effect."): _one(
        lambda c: c.duplicate_resolved
    ),
    Series("compensations_started_total", _C, "Actions with a started reversal."): _one(lambda c: c.compensations),
    Series("compensations_ended_total", _C, "Reversed actions by result.", ("result",)): _compensations,
    Series(
        "false_success_total",
        _C,
        "Actions reported as done without a verified result (told), or verified and later retracted (retracted).",
        ("how",),
    ): _by("how", lambda c: c.false_success, FALSE_SUCCESS),
    Series("drifts_total", _C, "Verified actions whose result no longer held at a later reading."): _one(
        lambda c: c.drifted
    ),
    Series("reviews_total", _C, "Actions in need of a person, by reason.", ("reason",)): _by(
        "reason", lambda c: c.review_reasons
    ),
    Series("escalations_total", _C, "Executed actions in need of a person."): _one(lambda c: c.reviews),
    Series("approvals_total", _C, "Approvals by step.", ("step",)): _by("step", lambda c: c.approvals),
    Series("rejections_total", _C, "Actions refused before execution, by code.", ("code",)): _by(
        "code", lambda c: c.rejections
    ),
    Series("claims_total", _C, "Changes of claims.", ("change",)): _by("change", lambda c: c.claims),
    Series("incidents_total", _C, "Entries that open or extend an incident.", ("severity",)): _by(
        "severity", lambda c: c.incidents
    ),
    Series("freezes_total", _C, "Entries that freeze a subject."): _one(lambda c: c.freezes),
    Series("verifier_errors_total", _C, "Executed actions without a verdict because verification failed."): _one(
        lambda c: c.verifier_errors
    ),
    Series("outages_total", _C, "Actions refused because the system of record was unreadable."): _one(
        lambda c: c.outages
    ),
    Series("ledger_required_total", _C, "Ended actions that need a complete record."): _one(
        lambda c: c.ledger_required
    ),
    Series("ledger_complete_total", _C, "Of these, actions with every phase on record."): _one(
        lambda c: c.ledger_complete
    ),
    Series("tool_answers_total", _C, "Answers of the tool by status.", ("status",)): _by(
        "status", lambda c: c.tool.answers
    ),
    Series("tool_claims_total", _C, "Actions with a tool that claimed success."): _one(lambda c: c.tool.claimed),
    Series("tool_claims_refuted_total", _C, "Of these, actions refuted by the system of record."): _one(
        lambda c: c.tool.claimed_refuted
    ),
    Series("actions_by_state", _G, "Actions by present state.", ("state",)): _by("state", lambda c: c.states),
    Series("unknown_actions", _G, "Actions that are unknown at present."): _one(lambda c: c.states.get("unknown", 0)),
    Series("review_actions", _G, "Actions that wait for a person at present."): _one(
        lambda c: c.states.get("review_required", 0)
    ),
    Series("last_verified_timestamp_seconds", _G, "Time of the last verified action; 0 for none."): _one(
        lambda c: c.last_verified_us / US
    ),
}
"""The series of each contract, with the value of a sample."""

SHADOW_JUDGEMENTS: Final = (*VERDICTS, "refused")
IN_SHADOW: Final[dict[Series, _Values]] = {
    Series("shadow_actions_total", _C, "Proposed actions in shadow mode. No other series includes them."): _one(
        lambda c: c.actions
    ),
    Series(
        "shadow_judgements_total",
        _C,
        "Actions in shadow mode by the judgement of the enforced mode, which counts as verified nowhere.",
        ("judgement",),
    ): _by("judgement", lambda c: c.judgements, SHADOW_JUDGEMENTS),
}
"""The series of each contract's actions in shadow mode."""
PENDING: Final = Series("pending_actions", _G, "Executed actions that wait for their end at present.", ("over_sla",))
OLDEST: Final = Series("oldest_pending_seconds", _G, "Age of the oldest pending action; 0 for none.")
VERSIONS: Final = Series(
    "version_verdicts_total", _C, "Verdicts by version of the contract.", ("contract", "version", "verdict")
)
VERSION_AGE: Final = Series(
    "contract_version", _G, "1 for the current and for the previous version.", ("contract", "version", "age")
)
BY_SOURCE: Final[dict[Series, Callable[[SourceFeedback], Iterable[tuple[Labels, int | float | Spread]]]]] = {
    Series("reads_total", _C, "Readings of a system of record.", ("source",)): lambda s: (({}, s.readings),),
    Series("read_faults_total", _C, "Failed readings by fault.", ("source", "fault")): lambda s: (
        ({"fault": name}, count) for name, count in sorted(s.faults.items())
    ),
    Series("reads_incomplete_total", _C, "Readings of a part of the data only.", ("source",)): lambda s: (
        ({}, s.incomplete),
    ),
    Series("reads_out_of_scope_total", _C, "Readings of another tenant's or target's record.", ("source",)): (
        lambda s: (({}, s.withheld),)
    ),
    Series("read_seconds", _H, "Duration of readings.", ("source",)): lambda s: (({}, s.took),),
    Series("last_read_timestamp_seconds", _G, "Time of the last good reading; 0 for none.", ("source",)): lambda s: (
        ({}, s.last_answer_us / US),
    ),
}
"""The series of each system of record."""
ENTRIES: Final = Series("ledger_entries_total", _C, "Counted entries of the ledger.")
POSITION: Final = Series("ledger_position", _G, "Position of the last counted entry in the log.")

GROUP_LABELS: Final = ("contract", "kind", "side_effect")
TENANT_LABEL: Final = "tenant"
LEDGER_LABEL: Final = "ledger"
"""The beginning of the log's name. Several processes export the same ledger; the rules count each ledger once."""
ALL_SERIES: Final = (*BY_CONTRACT, *IN_SHADOW, PENDING, OLDEST, VERSIONS, VERSION_AGE, *BY_SOURCE, ENTRIES, POSITION)
RESERVED_LABELS: Final = frozenset(
    {*GROUP_LABELS, TENANT_LABEL, LEDGER_LABEL, "le", "quantile", "job", "instance"}
    | {label for series in ALL_SERIES for label in series.labels}
)
"""Labels that a constant label may not replace."""


def families(
    feedback: Feedback, position: int, waits: Mapping[int, Waits], constant: Labels, *, by_tenant: bool
) -> list[Family]:
    """Return all series with their samples.

    `waits`: the pending actions by place in `feedback.cells`. `constant`: labels of every sample.
    """
    every = [
        (place, cell, {**constant, **_group(cell, by_tenant=by_tenant)}) for place, cell in enumerate(feedback.cells)
    ]
    groups = [(cell, group) for _, cell, group in every if not cell.mode]
    shadowed = [(cell, group) for _, cell, group in every if cell.mode]
    found = [_family(s, ((ls, v) for c, group in groups for ls, v in _with(group, read(c)))) for s, read in _ALL]
    found += [
        _family(s, ((ls, v) for c, group in shadowed for ls, v in _with(group, read(c))))
        for s, read in IN_SHADOW.items()
    ]
    pending, oldest = Family(PENDING), Family(OLDEST)
    for place, group in ((place, group) for place, cell, group in every if not cell.mode):
        one = waits.get(place, Waits())
        pending.samples += [({**group, "over_sla": "false"}, one.within), ({**group, "over_sla": "true"}, one.over)]
        oldest.samples.append((group, one.oldest_us / US))
    sources = [(s, {**constant, **_tenant(s.tenant, by_tenant=by_tenant), "source": s.name}) for s in feedback.readers]
    found += [pending, oldest, *_versions(feedback, constant, by_tenant=by_tenant)]
    found += [
        _family(series, ((ls, v) for source, group in sources for ls, v in _with(group, read(source))))
        for series, read in BY_SOURCE.items()
    ]
    return [*found, Family(ENTRIES, [(constant, feedback.entries)]), Family(POSITION, [(constant, position)])]


_ALL: Final = tuple(BY_CONTRACT.items())


def _family(series: Series, samples: Iterable[Sample]) -> Family:
    return Family(series, [*samples])


def _with(group: Labels, values: Iterable[tuple[Labels, int | float | Spread]]) -> Iterator[Sample]:
    for labels, value in values:
        yield ({**group, **labels} if labels else group), value


def _group(cell: ContractFeedback, *, by_tenant: bool) -> Labels:
    labels = {"contract": cell.contract, "kind": cell.kind, "side_effect": cell.side_effect}
    return {**labels, **_tenant(cell.tenant, by_tenant=by_tenant)}


def _tenant(tenant: str, *, by_tenant: bool) -> Labels:
    return {TENANT_LABEL: tenant} if by_tenant else {}


def _versions(feedback: Feedback, constant: Labels, *, by_tenant: bool) -> list[Family]:
    """The verdicts by contract version, and the age of the two newest versions of each contract."""
    counted, ages = Family(VERSIONS), Family(VERSION_AGE)
    for cell in merged_by(lambda one: f"{one.tenant}\n{one.contract}", feedback.enforced).values():
        group = {**constant, "contract": cell.contract, **_tenant(cell.tenant, by_tenant=by_tenant)}
        ordered = sorted(cell.versions, key=lambda one: one.since_us)
        for one in ordered:
            verdicts = zip(VERDICTS, (one.verified, one.refuted, one.undetermined), strict=True)
            counted.samples += [({**group, "version": one.version, "verdict": name}, n) for name, n in verdicts]
        for one, age in zip(reversed(ordered[-2:]), ("current", "previous"), strict=False):
            ages.samples.append(({**group, "version": one.version, "age": age}, 1))
    return [counted, ages]


# --- the nineteen metrics -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the specification.

    `id`: the requirement's id without METRIC-. `formula`: as printed in the specification. `rule`: the name of the
    shipped recording rule. `over` and `under`: numerator and denominator, as selectors of series; both "" where `expr`
    states the whole expression. `text`: the exact definition here.
    """

    id: str
    title: str
    formula: str
    rule: str
    text: str
    over: str = ""
    under: str = ""
    expr: str = ""
    alert: str = ""
    """The name of the shipped alert on the rule; "" for none."""

    def expression(self, window: str) -> str:
        """Return the expression of the recording rule, over a time range such as "1h"."""
        if self.expr:
            return self.expr.replace("WINDOW", window)
        under = _summed(self.under, window)
        over = f"({_summed(self.over, window)} or {under} * 0)"
        return f"{over} / ({under} > 0)"


def _summed(selector: str, window: str) -> str:
    rate = f"rate({PREFIX}{selector}[{window}])"
    return f"sum by (ledger, contract) (max without (instance, pod, job) ({rate}))"


def _quantiles(name: str) -> str:
    inner = f"max without (instance, pod, job) (rate({PREFIX}{name}_bucket[WINDOW]))"
    return f"histogram_quantile(0.95, sum by (ledger, contract, le) ({inner}))"


_EXECUTED: Final = 'executed_total{kind!="saga"}'
_WRITES: Final = 'executed_total{kind!~"saga|read"}'
_BY_VERSION: Final = (
    "sum by (ledger, contract, version) (max without (instance, pod, job) (readback_version_verdicts_total"
)
_SHARE: Final = f'{_BY_VERSION}{{verdict!="verified"}})) / ({_BY_VERSION})) >= 20)'
_NEWEST, _BEFORE = (
    f"({_SHARE}) * on (ledger, contract, version) group_left () max by (ledger, contract, version)"
    f' (readback_contract_version{{age="{age}"}})'
    for age in ("current", "previous")
)

METRICS: Final = (
    Metric(
        "verification-success",
        "Verification success rate",
        "verified_success_actions / executed_actions",
        "readback:verification_success:ratio",
        "Executed actions with the verdict verified, over executed actions. Sagas are left out; their steps count.",
        'verifications_total{verdict="verified",kind!="saga"}',
        _EXECUTED,
        alert="ReadbackVerificationSuccessLow",
    ),
    Metric(
        "verification-failure",
        "Verification failure rate",
        "verification_failed_actions / executed_actions",
        "readback:verification_failure:ratio",
        "Executed actions with the verdict refuted, over executed actions.",
        'verifications_total{verdict="refuted",kind!="saga"}',
        _EXECUTED,
        alert="ReadbackVerificationFailureHigh",
    ),
    Metric(
        "verification-latency",
        "Verification latency",
        "Time from execution observation to verification result.",
        "readback:verification_seconds:p95",
        "The 95th percentile of the time from the tool's answer to the first verdict, verified or refuted. Without an "
        "answer the time starts at the attempt.",
        expr=_quantiles("verification_seconds"),
        alert="ReadbackVerificationSlow",
    ),
    Metric(
        "time-to-reconcile",
        "Time to reconcile",
        "Time from execution attempt to terminal reconciliation state.",
        "readback:reconcile_seconds:p95",
        "The 95th percentile of the time from the first attempt to the end: settled, in review, or unknown.",
        expr=_quantiles("reconcile_seconds"),
        alert="ReadbackReconcileSlow",
    ),
    Metric(
        "read-after-write-failure",
        "Read-after-write failure rate",
        "read_after_write_failures / write_actions",
        "readback:read_after_write_failure:ratio",
        "Executed writes with a later reading that failed, was unavailable, or was too old to show the write.",
        "read_after_write_failures_total",
        _WRITES,
        alert="ReadbackReadAfterWriteFailing",
    ),
    Metric(
        "discrepancy",
        "Discrepancy rate",
        "reconciliation_mismatches / verified_actions",
        "readback:discrepancy:ratio",
        "Refuted actions, over actions with a verdict: verified or refuted.",
        'verifications_total{verdict="refuted",kind!="saga"}',
        'verifications_total{verdict=~"verified|refuted",kind!="saga"}',
        alert="ReadbackDiscrepancyHigh",
    ),
    Metric(
        "stale-state",
        "Stale-state rate",
        "stale_state_conflicts / write_actions",
        "readback:stale_state:ratio",
        "Executed writes with the class stale_state, over executed writes.",
        'discrepancies_total{class="stale_state"}',
        _WRITES,
        alert="ReadbackStaleStateHigh",
    ),
    Metric(
        "partial-failure",
        "Partial failure rate",
        "partial_actions / executed_actions",
        "readback:partial_failure:ratio",
        "Executed actions and sagas with some of their required effects only, over executed actions and sagas.",
        "partial_total",
        "executed_total",
        alert="ReadbackPartialFailureHigh",
    ),
    Metric(
        "pending-too-long",
        "Pending-too-long rate",
        "pending_actions_over_sla / pending_actions",
        "readback:pending_too_long:ratio",
        "Executed actions without an end past the window of their own contract (`within`), over all without an end.",
        expr=(
            'sum by (ledger, contract) (max without (instance, pod, job) (readback_pending_actions{over_sla="true"}))'
            " / (sum by (ledger, contract) (max without (instance, pod, job) (readback_pending_actions)) > 0)"
        ),
        alert="ReadbackPendingTooLong",
    ),
    Metric(
        "unknown-state",
        "Unknown-state rate",
        "unknown_state_actions / executed_actions",
        "readback:unknown_state:ratio",
        "Executed actions that a judgement left unknown, over executed actions. A later decision changes no count.",
        'unknown_total{kind!="saga"}',
        _EXECUTED,
        alert="ReadbackUnknownStateHigh",
    ),
    Metric(
        "duplicate-action",
        "Duplicate action rate",
        "duplicate_side_effects / mutating_actions",
        "readback:duplicate_action:ratio",
        "Executed writes with the class duplicate_side_effect, over executed writes.",
        'discrepancies_total{class="duplicate_side_effect"}',
        _WRITES,
        alert="ReadbackDuplicateEffect",
    ),
    Metric(
        "idempotency-recovery",
        "Idempotency recovery rate",
        "idempotency_replays_resolved / duplicate_attempts",
        "readback:idempotency_recovery:ratio",
        "Repeated dispatches of one operation that ended with a verdict and without a double effect, over repeated "
        "dispatches. A repeated request that the key answers makes no dispatch and no entry, and does not count.",
        "duplicate_attempts_resolved_total",
        "duplicate_attempts_total",
        alert="ReadbackIdempotencyRecoveryLow",
    ),
    Metric(
        "compensation",
        "Compensation rate",
        "compensations_started / mutating_actions",
        "readback:compensation:ratio",
        "Executed writes with a started reversal, over executed writes. The reversal of a saga counts under its saga.",
        'compensations_started_total{kind!="saga"}',
        _WRITES,
        alert="ReadbackCompensationHigh",
    ),
    Metric(
        "compensation-success",
        "Compensation success rate",
        "compensations_verified / compensations_started",
        "readback:compensation_success:ratio",
        "Verified reversals of actions and sagas, over started reversals.",
        'compensations_ended_total{result="verified"}',
        "compensations_started_total",
        alert="ReadbackCompensationSuccessLow",
    ),
    Metric(
        "compensation-failure",
        "Failed compensation rate",
        "compensation_failures / compensations_started",
        "readback:compensation_failure:ratio",
        "Failed reversals of actions and sagas, over started reversals.",
        'compensations_ended_total{result="failed"}',
        "compensations_started_total",
        alert="ReadbackCompensationFailed",
    ),
    Metric(
        "false-success-escape",
        "False success escape rate",
        "false_success_reports / executed_actions",
        "readback:false_success_escape:ratio",
        "Actions that Readback reported as done without a verified result, and verified actions with a claim "
        '"happened" that was retracted later, over executed actions. A drift is no escape: the result was true.',
        "false_success_total",
        "executed_total",
        alert="ReadbackFalseSuccess",
    ),
    Metric(
        "human-escalation",
        "Human escalation rate",
        "review_required_actions / executed_actions",
        "readback:human_escalation:ratio",
        "Executed actions in need of a person, over executed actions. Approvals before execution do not count.",
        'escalations_total{kind!="saga"}',
        _EXECUTED,
        alert="ReadbackEscalationHigh",
    ),
    Metric(
        "ledger-completeness",
        "Action-ledger completeness",
        "complete_ledger_entries / actions_requiring_ledger",
        "readback:ledger_completeness:ratio",
        "Ended actions with request, contract, attempt, answer (or the record of its loss) and judgement in the "
        "ledger, over ended actions.",
        "ledger_complete_total",
        "ledger_required_total",
        alert="ReadbackLedgerIncomplete",
    ),
    Metric(
        "verifier-regression",
        "Verifier regression rate",
        "Increase in mismatch/failure after verifier release.",
        "readback:verifier_regression:increase",
        "The share of verdicts other than verified under the current version of a contract, less the same share under "
        "the previous version. Each version needs 20 verdicts.",
        expr=f"sum by (ledger, contract) ({_NEWEST}) - sum by (ledger, contract) ({_BEFORE})",
        alert="ReadbackVerifierRegression",
    ),
)
"""The nineteen metrics, in the order of the specification."""


# --- the same metrics over a whole ledger -------------------------------------------------------------------

Count: TypeAlias = Callable[[ContractFeedback], int]


def _judged(cell: ContractFeedback) -> int:
    return cell.verified + cell.refuted


COUNTS: Final[dict[str, tuple[Count, Count]]] = {
    "verification-success": (lambda c: c.verified, lambda c: c.executed),
    "verification-failure": (lambda c: c.refuted, lambda c: c.executed),
    "read-after-write-failure": (lambda c: c.read_failed, lambda c: c.mutating),
    "discrepancy": (lambda c: c.refuted, _judged),
    "stale-state": (lambda c: c.discrepancies.get(Discrepancy.STALE_STATE.value, 0), lambda c: c.mutating),
    "partial-failure": (lambda c: c.partial, lambda c: c.executed),
    "unknown-state": (lambda c: c.unknown, lambda c: c.executed),
    "duplicate-action": (
        lambda c: c.discrepancies.get(Discrepancy.DUPLICATE_SIDE_EFFECT.value, 0),
        lambda c: c.mutating,
    ),
    "idempotency-recovery": (lambda c: c.duplicate_resolved, lambda c: c.duplicate_attempts),
    "compensation": (lambda c: c.compensations if c.mutates else 0, lambda c: c.mutating),
    "compensation-success": (lambda c: c.compensated, lambda c: c.compensations),
    "compensation-failure": (lambda c: c.compensations_failed, lambda c: c.compensations),
    "false-success-escape": (lambda c: sum(c.false_success.values()), lambda c: c.executed),
    "human-escalation": (lambda c: c.reviews, lambda c: c.executed),
    "ledger-completeness": (lambda c: c.ledger_complete, lambda c: c.ledger_required),
}
"""Numerator and denominator of each ratio, as counts of one group."""
WITH_SAGAS: Final = frozenset(
    {"partial-failure", "compensation-success", "compensation-failure", "false-success-escape", "ledger-completeness"}
)
"""Ratios that count sagas beside actions."""
SECONDS: Final[dict[str, Callable[[ContractFeedback], Spread]]] = {
    "verification-latency": lambda c: c.verdict_after,
    "time-to-reconcile": lambda c: c.reconciled_after,
}
"""The durations of each metric of time."""
VERSION_JUDGED_MIN: Final = 20
"""Fewest verdicts of a version for a comparison."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of one contract over the whole ledger. `value`: None where the denominator is 0, or too small.

    For a metric of time, `over` is 0, `under` the number of durations and `value` the 95th percentile in seconds.
    """

    over: int
    under: int
    value: float | None


def measured(feedback: Feedback, waits: Mapping[int, Waits]) -> dict[str, dict[str, Measured]]:
    """Return each of the nineteen metrics by contract, over the whole ledger."""
    groups: dict[str, list[int]] = {}
    for place, cell in enumerate(feedback.cells):
        if not cell.mode:
            groups.setdefault(cell.contract, []).append(place)
    return {one.id: _measured(one.id, feedback, groups, waits) for one in METRICS}


def _measured(
    metric: str, feedback: Feedback, groups: Mapping[str, list[int]], waits: Mapping[int, Waits]
) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for contract, places in sorted(groups.items()):
        cells = [feedback.cells[place] for place in places]
        if metric in COUNTS:
            over_of, under_of = COUNTS[metric]
            counted = [cell for cell in cells if cell.kind != SAGA or metric in WITH_SAGAS]
            found[contract] = _ratio(sum(map(over_of, counted)), sum(map(under_of, counted)))
        elif metric in SECONDS:
            spread = SECONDS[metric](merged(cells))
            value = spread.percentile_us(95) / US if spread.count else None
            found[contract] = Measured(0, spread.count, value)
        elif metric == "pending-too-long":
            held = [waits[place] for place in places if place in waits]
            over = sum(one.over for one in held)
            found[contract] = _ratio(over, over + sum(one.within for one in held))
        else:
            found[contract] = _regression(merged(cells))
    return found


def _ratio(over: int, under: int) -> Measured:
    return Measured(over, under, round(over / under, 6) if under else None)


def _regression(cell: ContractFeedback) -> Measured:
    """The rise of the share of other verdicts than verified, from the previous version to the current one."""
    newest = sorted(cell.versions, key=lambda one: one.since_us)[-2:]
    if len(newest) < 2 or min(one.judged for one in newest) < VERSION_JUDGED_MIN:
        return Measured(0, sum(one.judged for one in newest[-1:]), None)
    before, current = newest
    rise = (current.judged - current.verified) / current.judged - (before.judged - before.verified) / before.judged
    return Measured(current.judged - current.verified, current.judged, round(rise, 6))
