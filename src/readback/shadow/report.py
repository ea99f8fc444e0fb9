"""The shadow report: a server's claims by tool, and the judgements of contracts in shadow mode.

Called by `readback shadow report`. `ShadowReport.as_json` is the report; the text and the page (`page`) are made from
the same values. Every count is a fold over the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.contract.shadowing import Mode
from readback.domain.outcome.shadow import ShadowJudgement, shadow_judgement
from readback.domain.verdict import Verdict
from readback.engine.resume import fold
from readback.shadow.judging import JudgedCall, Look, Result, judge
from readback.shadow.watched import WATCHED, actions_of, watched_calls

SCHEMA: Final = 1
CALLS_MAX: Final = 10_000
"""Most calls and actions of one report, the newest."""
SHOWN_MAX: Final = 200
"""Most single calls in a report. The counts include all."""
STATE_MAX_CHARACTERS: Final = 2_000
_SHADOW: Final = Mode.SHADOW.value


@dataclass(slots=True)
class ToolCounts:
    """The counts of one watched tool. `claimed` calls are the sum of the four numbers below it, without failures."""

    server: str
    tool: str
    calls: int = 0
    claimed: int = 0
    changed: int = 0
    contradicted: int = 0
    unchanged: int = 0
    not_judged: int = 0
    """Claimed successes without a result."""
    failed: int = 0
    """Calls with a reported failure."""
    failed_and_changed: int = 0
    """Calls with a reported failure and a changed state."""
    unanswered: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why calls could not be judged."""
    reads: list[str] = field(default_factory=list)
    """The reading tools used."""

    def as_json(self) -> dict[str, Json]:
        """Return the counts as plain data."""
        return {
            "server": self.server,
            "tool": self.tool,
            "calls": self.calls,
            "claimed_successes": self.claimed,
            "changes_seen": self.changed,
            "nothing_changed": self.contradicted + self.unchanged,
            "contradicted": self.contradicted,
            "as_asked_already": self.unchanged,
            "not_judged": self.not_judged,
            "reported_failures": self.failed,
            "failures_with_a_change": self.failed_and_changed,
            "unanswered": self.unanswered,
            "reasons": dict[str, Json](self.reasons),
            "reading_tools": list(self.reads),
        }


@dataclass(slots=True)
class ContractCounts:
    """The judgements of one contract in shadow mode. `open`: actions without a judgement yet."""

    contract: str
    actions: int = 0
    verified: int = 0
    refuted: int = 0
    undetermined: int = 0
    refused: int = 0
    open: int = 0

    def as_json(self) -> dict[str, Json]:
        """Return the counts as plain data. No action of a shadow contract is verified: the names say `would`."""
        return {
            "contract": self.contract,
            "actions": self.actions,
            "would_be_verified": self.verified,
            "would_be_refuted": self.refuted,
            "would_be_undetermined": self.undetermined,
            "would_be_refused": self.refused,
            "open": self.open,
        }


@dataclass(frozen=True, slots=True)
class ShadowAction:
    """One action of a contract in shadow mode, with its judgement."""

    id: str
    at_us: int
    contract: str
    target: str
    judgement: ShadowJudgement | None


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """The report over the newest calls of a tenant.

    Attributes:
        made_us: The time of the report.
        tools: The counts by watched tool.
        calls: The watched calls, the oldest first.
        contracts: The counts by contract in shadow mode.
        actions: The actions of these contracts, the oldest first.

    Example:
        >>> from readback.shadow.report import ShadowReport
        >>> ShadowReport(0, (), (), (), ()).contradicted
        0
    """

    made_us: int
    tools: tuple[ToolCounts, ...]
    calls: tuple[JudgedCall, ...]
    contracts: tuple[ContractCounts, ...]
    actions: tuple[ShadowAction, ...]

    @property
    def contradicted(self) -> int:
        """Claimed successes that the readings contradict."""
        return sum(each.contradicted for each in self.tools)

    @property
    def contradictions(self) -> tuple[JudgedCall, ...]:
        """The calls behind `contradicted`."""
        return tuple(each for each in self.calls if each.result is Result.CONTRADICTED)

    @property
    def differing(self) -> tuple[ShadowAction, ...]:
        """Actions in shadow mode that the enforced mode would not have verified."""
        return tuple(
            each for each in self.actions if each.judgement is None or each.judgement.verdict is not Verdict.VERIFIED
        )

    def as_json(self) -> dict[str, Json]:
        """Return the report as plain data. Single calls beyond SHOWN_MAX are counted and not listed."""
        return {
            "schema": SCHEMA,
            "kind": "readback.shadow-report",
            "made_us": self.made_us,
            "contradicted": self.contradicted,
            "tools": [each.as_json() for each in self.tools],
            "calls": [call_json(each) for each in _newest(self.calls, Result.CONTRADICTED)],
            "contracts": [each.as_json() for each in self.contracts],
            "actions": [_action_json(each) for each in self.actions[-SHOWN_MAX:]],
        }


def shadow_report(session: Session, *, calls_max: int = CALLS_MAX) -> ShadowReport:
    """Return the report of the session's tenant. Raises StoreCorruptError, StoreError."""
    judged = judge(list(watched_calls(session, calls_max)))
    actions = list(_actions(session, calls_max))
    return ShadowReport(
        session.runtime.now_us(), tuple(_by_tool(judged)), tuple(judged), tuple(_by_contract(actions)), tuple(actions)
    )


def _by_tool(judged: Iterable[JudgedCall]) -> list[ToolCounts]:
    found: dict[tuple[str, str], ToolCounts] = {}
    for each in judged:
        call = each.watched
        counts = found.setdefault((call.server, call.tool), ToolCounts(call.server, call.tool))
        counts.calls += 1
        counts.claimed += call.claims and call.answered
        counts.unanswered += not call.answered
        for look in call.looks:
            if look.tool not in counts.reads:
                counts.reads.append(look.tool)
        _count(counts, each)
    return [found[key] for key in sorted(found)]


def _count(counts: ToolCounts, each: JudgedCall) -> None:
    match each.result:
        case Result.CHANGED:
            counts.changed += 1
        case Result.CONTRADICTED:
            counts.contradicted += 1
        case Result.UNCHANGED:
            counts.unchanged += 1
        case Result.FAILED:
            counts.failed += 1
            counts.failed_and_changed += each.failed_and_changed
        case Result.NOT_JUDGED:
            if each.watched.answered and not each.watched.claims:
                counts.failed += 1
                return
            counts.not_judged += each.watched.answered
            counts.reasons[each.reason] = counts.reasons.get(each.reason, 0) + 1


def _actions(session: Session, most: int) -> Iterable[ShadowAction]:
    for stored in actions_of(session, "", most):
        action = fold(session.store.events(stored.projection.action_id))
        if action is None or action.mode != _SHADOW or action.contract == WATCHED:
            continue
        said = action.shadow
        judgement = None if said is None else shadow_judgement(said, action.id, action.contract, action.target)
        yield ShadowAction(action.id, action.created_us, action.contract, action.target, judgement)


def _by_contract(actions: Iterable[ShadowAction]) -> list[ContractCounts]:
    found: dict[str, ContractCounts] = {}
    for each in actions:
        counts = found.setdefault(each.contract, ContractCounts(each.contract))
        counts.actions += 1
        said = each.judgement
        if said is None:
            counts.open += 1
        elif said.refused:
            counts.refused += 1
        elif said.verdict is Verdict.VERIFIED:
            counts.verified += 1
        elif said.verdict is Verdict.REFUTED:
            counts.refuted += 1
        else:
            counts.undetermined += 1
    return [found[name] for name in sorted(found)]


# --- as data ---


def call_json(each: JudgedCall) -> dict[str, Json]:
    """Return one judged call as plain data, with bounded texts."""
    call = each.watched
    return {
        "action": call.id,
        "at_us": call.at_us,
        "server": call.server,
        "tool": call.tool,
        "arguments": None if call.arguments is None else dict(call.arguments),
        "answer": call.answer,
        "claims_success": call.claims,
        "result": each.result.value,
        "reason": each.reason,
        "late": each.late,
        "overlapped": call.overlapped,
        "readings": [_look_json(look) for look in call.looks],
    }


def _look_json(look: Look) -> dict[str, Json]:
    return {
        "tool": look.tool,
        "arguments": dict(look.arguments),
        "before": state_text(look.before),
        "after": state_text(look.after),
        "steady": look.steady,
        "reason": look.reason,
    }


def state_text(state: object) -> str | None:
    """Return the text of a reading tool's answer, cut; None where there is none."""
    if not isinstance(state, dict):
        return None
    content = state.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [str(each["text"]) for each in blocks if isinstance(each, dict) and isinstance(each.get("text"), str)]
    text = "\n".join(texts) if texts else str(state.get("structuredContent", state))
    failed = "[error] " if state.get("isError") is True else ""
    cut = text if len(text) <= STATE_MAX_CHARACTERS else f"{text[:STATE_MAX_CHARACTERS]}… [cut]"
    return failed + cut


def _action_json(each: ShadowAction) -> dict[str, Json]:
    said = None if each.judgement is None else each.judgement.as_json()
    return {"action": each.id, "at_us": each.at_us, "contract": each.contract, "target": each.target, "judgement": said}


def _newest(calls: Sequence[JudgedCall], first: Result) -> list[JudgedCall]:
    """Return the calls of one result, then the newest others, at most SHOWN_MAX."""
    named = [each for each in calls if each.result is first][-SHOWN_MAX:]
    others = [each for each in calls if each.result is not first]
    room = SHOWN_MAX - len(named)
    return [*named, *(others[-room:] if room else [])]
