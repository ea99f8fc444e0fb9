"""Health: rates, latencies and stuck work by contract, tool and source, as data for people and for `/healthz`.

Called by `readback doctor` and by the metrics server. Rates appear here and not in the exported series: this is one
answer about the whole ledger, read by a person. Status "failing" means that the process cannot do its work. A refuted
action is no failure of the process, so the status stays "ok".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from readback.audit.feedback.fold import Fold
from readback.audit.feedback.story import LOST
from readback.audit.feedback.tally import ContractFeedback, SourceFeedback, Spread, ToolFeedback
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.telemetry.fold_reader import LedgerMetrics

STUCK_NAMED_MAX: Final = 20
"""Most stuck actions named in one answer. The counts include all."""
PERCENTS: Final = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Stuck:
    """An action that waits: for a person, for a reading, or past the window of its contract."""

    action: str
    contract: str
    state: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a ledger's contracts, tools and sources."""

    contracts: dict[str, dict[str, Json]] = field(default_factory=dict)
    tools: dict[str, dict[str, Json]] = field(default_factory=dict)
    sources: dict[str, dict[str, Json]] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    stuck_count: int = 0


def health_of(fold: Fold, over_window: Callable[[str], bool]) -> Health:
    """Return the health behind a fold. `over_window`: whether a pending action, by id, is past its window."""
    feedback = fold.feedback
    contracts = feedback.contracts
    late = {name: story for name, story in fold.pending().items() if over_window(name)}
    stuck = [
        *(
            Stuck(name, feedback.cells[one.cell].contract, one.state, one.since_us)
            for name, one in fold.waiting.items()
        ),
        *(Stuck(name, story.contract, story.state, story.since_us) for name, story in late.items()),
    ]
    stuck.sort(key=lambda one: (one.since_us, one.action))
    waiting: dict[str, dict[str, int]] = {}
    for one in stuck:
        states = waiting.setdefault(one.contract, {})
        states[one.state] = states.get(one.state, 0) + 1
    return Health(
        {name: _contract(one, waiting.get(name, {})) for name, one in sorted(contracts.items())},
        {name: _tool(one) for name, one in sorted(feedback.tools.items())},
        {name: _source(one) for name, one in sorted(feedback.sources.items())},
        tuple(stuck[:STUCK_NAMED_MAX]),
        len(stuck),
    )


def _contract(one: ContractFeedback, stuck: Mapping[str, int]) -> dict[str, Json]:
    false = sum(one.false_success.values())
    return {
        "executed": one.executed,
        "verified": one.verified,
        "refuted": one.refuted,
        "undetermined": one.open_verdicts,
        "pending": one.pending,
        "false_success_rate": share(false, one.executed),
        "unknown_rate": share(one.unknown, one.executed),
        "verifier_errors": one.verifier_errors,
        "verification_us": _spread(one.verdict_after),
        "reconcile_us": _spread(one.reconciled_after),
        "last_verified_us": one.last_verified_us,
        "stuck": dict[str, Json](sorted(stuck.items())),
    }


def _tool(one: ToolFeedback) -> dict[str, Json]:
    lost = sum(one.answers.get(status.value, 0) for status in LOST)
    return {
        "calls": one.calls,
        "false_success_rate": share(one.claimed_refuted, one.claimed),
        "unknown_rate": share(lost, one.calls),
        "took_us": _spread(one.took),
    }


def _source(one: SourceFeedback) -> dict[str, Json]:
    return {
        "readings": one.readings,
        "unknown_rate": share(one.failed, one.readings),
        "verifier_errors": one.failed,
        "out_of_scope": one.withheld,
        "took_us": _spread(one.took),
        "last_read_us": one.last_answer_us,
    }


def share(count: int, of: int) -> float | None:
    """Return a share from 0 to 1, rounded to a millionth; None for a share of nothing."""
    return round(count / of, 6) if of else None


def _spread(one: Spread) -> dict[str, Json]:
    return {"count": one.count, **{f"p{percent}": one.percentile_us(percent) for percent in PERCENTS}}


def health_json(health: Health) -> dict[str, Json]:
    """Return the health as plain data. Times are microseconds since the epoch, durations are microseconds."""
    stuck: list[Json] = [
        {"action": one.action, "contract": one.contract, "state": one.state, "since_us": one.since_us}
        for one in health.stuck
    ]
    return {
        "contracts": dict[str, Json](health.contracts),
        "tools": dict[str, Json](health.tools),
        "sources": dict[str, Json](health.sources),
        "stuck": stuck,
        "stuck_count": health.stuck_count,
    }


def answer(metrics: LedgerMetrics, alive: Callable[[], bool] = lambda: True) -> tuple[bool, dict[str, Json]]:
    """Return the answer of `/healthz`: whether the process can work, and the details.

    `alive`: whether the process still takes work. Action ids are left out: the page needs no permission to read.
    """
    try:
        fold = metrics.refresh()
        health = health_of(fold, lambda name: metrics.over_window(fold.pending()[name]))
    except ReadbackError as error:
        return False, {"status": "failing", "code": error.code, "message": error.message}
    details = health_json(health)
    oldest = health.stuck[0].since_us if health.stuck else None
    details |= {"stuck": {"count": health.stuck_count, "oldest_since_us": oldest}}
    del details["stuck_count"]
    well = alive()
    return well, {"status": "ok" if well else "failing", "position": fold.position, **details}
