"""Unreliable contracts, tools and sources, with reasons: thresholds over feedback.

Called by `readback doctor`. Every threshold is a named constant with its unit. Small samples are not judged: a share of
a handful says nothing. No decision about an action depends on this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from readback.audit.feedback.story import LOST
from readback.audit.feedback.tally import ContractFeedback, Feedback, SourceFeedback, Spread, ToolFeedback
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.verification.observation_signs import ObservationStatus

SEEN_MIN: Final = 20
"""Fewer actions, answers or readings are not judged."""
UNDETERMINED_PERMILLE_MAX: Final = 50
CLAIMED_REFUTED_PERMILLE_MAX: Final = 20
ACKNOWLEDGED_REFUTED_PERMILLE_MAX: Final = 50
LOST_PERMILLE_MAX: Final = 50
SILENT_PERMILLE_MAX: Final = 500
"""Answers without a statement look like lost answers. A few do no harm."""
SOURCE_FAULTS_PERMILLE_MAX: Final = 20
OUTAGE_PERMILLE_MAX: Final = 20
DISCREPANCY_PERMILLE_MAX: Final = 50
DRIFTED_PERMILLE_MAX: Final = 20
VERDICT_MAX_US: Final = 60_000_000
COMPENSATION_FAILED_MAX: Final = 0
WITHHELD_MAX: Final = 0
HARMLESS: Final = frozenset(
    {
        Discrepancy.NO_OP_SUCCESS,
        Discrepancy.PROPAGATION_DELAY,
        Discrepancy.UNKNOWN_STATE,
        Discrepancy.UNVERIFIABLE_STATE,
    }
)
"""Classes without a difference: nothing had to change, or nothing could be determined (counted separately)."""


@dataclass(frozen=True, slots=True)
class Poor:
    """One finding: `count` of `of`. For a duration, `count` is in microseconds and `of` is the limit.

    `code` is stable. `contracts`: the contracts with weakened verification.
    """

    kind: str
    name: str
    code: str
    said: str
    remedy: str
    count: int
    of: int
    contracts: tuple[str, ...]


def poor_in(feedback: Feedback) -> list[Poor]:
    """Return everything over a threshold: contracts first, then tools, then sources, by name."""
    found: list[Poor] = []
    for name, contract in sorted(feedback.contracts.items()):
        found += _contract(name, contract)
    for name, tool in sorted(feedback.tools.items()):
        found += _tool(name, tool)
    for name, source in sorted(feedback.sources.items()):
        used_by = tuple(sorted(c for c, each in feedback.contracts.items() if name in each.sources))
        found += _source(name, source, used_by)
    return found


def _over(count: int, of: int, permille_max: int) -> bool:
    return of >= SEEN_MIN and count * 1000 > of * permille_max


def _contract(name: str, one: ContractFeedback) -> Iterator[Poor]:
    def poor(code: str, said: str, remedy: str, count: int, of: int) -> Poor:
        return Poor("contract", name, code, said, remedy, count, of, (name,))

    if _over(one.open_verdicts, one.ended, UNDETERMINED_PERMILLE_MAX):
        said = f"{_share(one.open_verdicts, one.ended)} of its actions ended without a verdict ({_most(one.whys)})"
        remedy = "Give it a stronger reader, a search or a look-up, or a longer `within`."
        yield poor("undetermined", said, remedy, one.open_verdicts, one.ended)
    differing = Counter({name: count for name, count in one.discrepancies.items() if name not in HARMLESS})
    count = differing.total()
    if _over(count, one.executed, DISCREPANCY_PERMILLE_MAX):
        said = f"{_share(count, one.executed)} of its actions differ from the intent ({_most(differing)})"
        yield poor("discrepancies", said, "Look at these actions: `readback list --contract`.", count, one.executed)
    if _over(one.drifted, one.verified, DRIFTED_PERMILLE_MAX):
        said = f"{_share(one.drifted, one.verified)} of its successes no longer held at a later reading"
        yield poor("drift", said, "Look at who else writes there: `readback review list`.", one.drifted, one.verified)
    if _over(one.outages, one.actions, OUTAGE_PERMILLE_MAX):
        said = f"{_share(one.outages, one.actions)} of its actions were refused, because its source was unreadable"
        yield poor("outages", said, "Look at its system of record.", one.outages, one.actions)
    if one.compensations_failed > COMPENSATION_FAILED_MAX:
        said = f"{one.compensations_failed} of {one.compensations} compensations failed"
        remedy = "Look at them in review; correct the compensation's contract."
        yield poor("compensations", said, remedy, one.compensations_failed, one.compensations)
    slow = one.settled_after.percentile_us(95)
    if one.settled_after.count >= SEEN_MIN and slow > VERDICT_MAX_US:
        said = f"one verdict in twenty takes more than {slow // 1_000_000} s from the first reading"
        remedy = "Read from a path that lags less, or honour the write's commit token."
        yield poor("slow", said, remedy, slow, VERDICT_MAX_US)


def _tool(name: str, one: ToolFeedback) -> Iterator[Poor]:
    def poor(code: str, said: str, remedy: str, count: int, of: int) -> Poor:
        return Poor("tool", name, code, said, remedy, count, of, (name,))

    if _over(one.claimed_refuted, one.claimed, CLAIMED_REFUTED_PERMILLE_MAX):
        said = f"it claimed success and was refuted in {_share(one.claimed_refuted, one.claimed)} of its claims"
        yield poor("claims", said, "Repair the tool: its answers are unreliable.", one.claimed_refuted, one.claimed)
    if _over(one.acknowledged_refuted, one.acknowledged, ACKNOWLEDGED_REFUTED_PERMILLE_MAX):
        said = f"{_share(one.acknowledged_refuted, one.acknowledged)} of its accepted requests were refuted"
        remedy = "Look at the queue behind the tool."
        yield poor("acknowledged", said, remedy, one.acknowledged_refuted, one.acknowledged)
    lost = sum(one.answers.get(status.value, 0) for status in LOST)
    if _over(lost, one.calls, LOST_PERMILLE_MAX):
        said = f"{_share(lost, one.calls)} of its calls gave no answer"
        yield poor("lost", said, "Raise `execute.timeout`, or add a look-up by key.", lost, one.calls)
    silent = one.answers.get(ObservationStatus.MALFORMED.value, 0)
    if _over(silent, one.calls, SILENT_PERMILLE_MAX):
        said = f"{_share(silent, one.calls)} of its answers state nothing"
        yield poor("silent", said, "Let the tool return a structured answer.", silent, one.calls)


def _source(name: str, one: SourceFeedback, contracts: tuple[str, ...]) -> Iterator[Poor]:
    if _over(one.failed, one.readings, SOURCE_FAULTS_PERMILLE_MAX):
        said = f"{_share(one.failed, one.readings)} of its readings failed ({_most(one.faults)})"
        remedy = "Look at that system of record, and at its reader."
        yield Poor("source", name, "faults", said, remedy, one.failed, one.readings, contracts)
    if one.withheld > WITHHELD_MAX:
        said = f"{one.withheld} of its readings were of another tenant's or target's record"
        remedy = "Correct the reader's query: select the record by the request's identity."
        yield Poor("source", name, "out-of-scope", said, remedy, one.withheld, one.readings, contracts)


def _most(counted: Mapping[str, int]) -> str:
    """Describe the three most frequent items."""
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    return ", ".join(f"{word.replace('_', ' ')} {count}" for word, count in ranked)


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({count * 100 // of} %)"


# --- for programs ---------------------------------------------------------------------------------------------


def feedback_json(feedback: Feedback) -> dict[str, Json]:
    """Return all counts as plain data, with durations in microseconds."""
    return {
        "entries": feedback.entries,
        "contracts": {name: _contract_json(one) for name, one in sorted(feedback.contracts.items())},
        "tools": {name: _tool_json(one) for name, one in sorted(feedback.tools.items())},
        "sources": {name: _source_json(one) for name, one in sorted(feedback.sources.items())},
    }


def _contract_json(one: ContractFeedback) -> dict[str, Json]:
    return {
        "actions": one.actions,
        "executed": one.executed,
        "mutating": one.mutating,
        "ended": one.ended,
        "verified": one.verified,
        "refuted": one.refuted,
        "drifted": one.drifted,
        "undetermined": one.open_verdicts,
        "unknown": one.unknown,
        "verifier_errors": one.verifier_errors,
        "pending": one.pending,
        "reviews": one.reviews,
        "outages": one.outages,
        "discrepancies": dict[str, Json](sorted(one.discrepancies.items())),
        "undetermined_why": dict[str, Json](sorted(one.whys.items())),
        "compensations": {
            "begun": one.compensations,
            "verified": one.compensated,
            "failed": one.compensations_failed,
        },
        "sources": [*sorted(one.sources)],
        "answer_to_verdict_us": _spread_json(one.verdict_after),
        "first_look_to_verdict_us": _spread_json(one.settled_after),
        "attempt_to_end_us": _spread_json(one.reconciled_after),
        "verified_at_look_us": {str(look): _spread_json(one.verified_at[look]) for look in sorted(one.verified_at)},
        "unverified_us": _spread_json(one.unverified_after),
        "retracted_by": dict[str, Json](sorted(one.retracted.items())),
    }


def _tool_json(one: ToolFeedback) -> dict[str, Json]:
    return {
        "calls": one.calls,
        "answers": dict[str, Json](sorted(one.answers.items())),
        "claimed": one.claimed,
        "claimed_refuted": one.claimed_refuted,
        "acknowledged": one.acknowledged,
        "acknowledged_refuted": one.acknowledged_refuted,
        "took_us": _spread_json(one.took),
    }


def _source_json(one: SourceFeedback) -> dict[str, Json]:
    return {
        "readings": one.readings,
        "faults": dict[str, Json](sorted(one.faults.items())),
        "incomplete": one.incomplete,
        "withheld": one.withheld,
        "took_us": _spread_json(one.took),
    }


def _spread_json(one: Spread) -> dict[str, Json]:
    shares: dict[str, Json] = {f"p{percent}": one.percentile_us(percent) for percent in (50, 90, 95, 99)}
    return {"count": one.count, **shares, "max": one.longest_us}
