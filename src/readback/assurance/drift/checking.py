"""The drift check of one contract: record, source, server, error habits and latencies together.

A change of a habit is a difference only with enough calls on both sides. Times are microseconds. The ledger is only
read, readers are asked, and no tool is called. Called by `readback contracts drift`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Final

from readback.assurance.drift.findings import NEVER, Change, ContractDrift, Drift
from readback.assurance.drift.looking import Looked, source_drift
from readback.assurance.drift.tools import tool_drift
from readback.assurance.watched.calls import WatchedCall
from readback.contracts.files.contract import FileContract
from readback.contracts.files.tools.listing import Toolbox
from readback.domain.contract.contract import Contract
from readback.domain.verdict import Verdict

CALLS_MIN: Final = 5
"""Fewest calls on each side for a statement about a habit."""
BASE_MAX: Final = 200
"""Recorded calls up to the last verified use, the newest."""
SLOWER: Final = 3.0
"""How many times slower is a difference."""
NOISE_US: Final = 50_000
"""A difference in microseconds below this is noise."""
ERRORS_MORE: Final = 0.2
"""An error's share of the calls may grow by this much, as a fraction."""
_SOUND: Final = ("success", "accepted", "pending", "partial")


_VERIFIED: Final = Verdict.VERIFIED.value


def drift_of(
    contract: FileContract,
    calls: Iterable[WatchedCall],
    *,
    principal: str,
    clock_us: Callable[[], int],
    toolbox: Toolbox | None = None,
) -> ContractDrift:
    """Compare a contract's last verified use with the present.

    Args:
        contract: A contract of a file.
        calls: Recorded actions of the contract.
        principal: The acting principal for the readings.
        clock_us: This machine's clock in microseconds.
        toolbox: The live tools; None to compare no tool.
    """
    ordered = sorted(calls, key=lambda each: each.settled_us or each.called_us)
    verified = [each for each in ordered if each.verdict == _VERIFIED]
    last = verified[-1] if verified else None
    found: list[Drift] = []
    counts: dict[str, int] = {}
    if toolbox is not None:
        tools, many = tool_drift(contract, last, toolbox)
        found += tools
        counts |= {"tool": many} if many else {}
    if last is None:
        return ContractDrift(contract.name, "", 0, (*found, Drift(Change.UNSEEN, "record", "", NEVER)), counts)
    looked: list[Looked] = []
    for fields, many, live in source_drift(contract, verified[::-1], principal, clock_us):
        found += fields
        looked += live
        counts["field"] = counts.get("field", 0) + many
    at = ordered.index(last)
    habits, many = habit_drift(contract.plan.contract, ordered[: at + 1], ordered[at + 1 :], looked)
    counts |= {"habit": many} if many else {}
    return ContractDrift(contract.name, last.action_id, last.settled_us, (*found, *habits), counts)


def habit_drift(
    contract: Contract, base: Sequence[WatchedCall], since: Sequence[WatchedCall], looked: Sequence[Looked]
) -> tuple[list[Drift], int]:
    """Return the differences and the number of compared habits.

    Args:
        contract: The contract, for the times at risk.
        base: Calls up to the last verified use.
        since: Later calls.
        looked: The live readings of this check.
    """
    used = base[-BASE_MAX:]
    found = [*_errors(used, since), *_tool_times(contract, used, since), *_reading_times(contract, used, looked)]
    many = (2 if len(used) >= CALLS_MIN <= len(since) else 0) + (1 if looked and _readings(used) else 0)
    return found, many


def _errors(base: Sequence[WatchedCall], since: Sequence[WatchedCall]) -> Iterator[Drift]:
    if len(base) < CALLS_MIN or len(since) < CALLS_MIN:
        return
    then, now = _codes(base), _codes(since)
    for code, many in sorted(now.items()):
        share, before = many / len(since), then.get(code, 0) / len(base)
        if share - before >= ERRORS_MORE:
            change = Change.CHANGED if code in then else Change.NEW
            said = f"{many} of {len(since)} calls since answered {code}; before, {then.get(code, 0)} of {len(base)}"
            yield Drift(change, "error", code, said, ("execute",))
    for code, many in sorted(then.items()):
        if many / len(base) >= ERRORS_MORE and code not in now:
            yield Drift(Change.GONE, "error", code, f"no call since answered {code}; before, {many} of {len(base)}")


def _codes(calls: Sequence[WatchedCall]) -> Counter[str]:
    return Counter(each.code or each.answered for each in calls if each.answered and each.answered not in _SOUND)


def _tool_times(contract: Contract, base: Sequence[WatchedCall], since: Sequence[WatchedCall]) -> Iterator[Drift]:
    then = [each.took_us for each in base if each.took_us]
    now = [each.took_us for each in since if each.took_us]
    if len(then) >= CALLS_MIN <= len(now) and _slower(median(then), median(now)):
        limit = contract.execution.timeout_us
        said = f"the tool takes {_ms(median(now))} and took {_ms(median(then))}; the limit is {_ms(limit)}"
        at_risk = ("execute.timeout",) if max(now) * 2 > limit else ()
        yield Drift(Change.CHANGED, "latency", "the tool", said, at_risk)


def _reading_times(contract: Contract, base: Sequence[WatchedCall], looked: Sequence[Looked]) -> Iterator[Drift]:
    then, now = _readings(base), [each.took_us for each in looked if each.reading is not None]
    if not then or not now or not _slower(median(then), median(now)):
        return
    limit = min((each.timeout_us for each in contract.readers), default=contract.within_us)
    said = f"a reading takes {_ms(median(now))} and took {_ms(median(then))}; the limit is {_ms(limit)}"
    at_risk = ("readers", "within") if max(now) * 2 > min(limit, contract.within_us) else ()
    yield Drift(Change.CHANGED, "latency", "readings", said, at_risk)


def _readings(calls: Sequence[WatchedCall]) -> list[int]:
    return [look.took_us for call in calls for look in call.after if look.presence == "present" and look.took_us]


def _slower(then: float, now: float) -> bool:
    return now > then * SLOWER and now - then > NOISE_US


def _ms(value_us: float) -> str:
    return f"{value_us / 1_000:,.0f} ms"
