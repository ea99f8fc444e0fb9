"""The drift check of one contract: record, source, server and habits together.

Called by `readback contracts drift`. The ledger is only read, readers are asked, and no tool is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from readback.assurance.drift.findings import NEVER, Change, ContractDrift, Drift
from readback.assurance.drift.habits import habit_drift
from readback.assurance.drift.looking import Looked, source_drift, tool_drift
from readback.assurance.watched.calls import WatchedCall
from readback.contracts.files.contract import FileContract
from readback.contracts.files.tools.listing import Toolbox
from readback.domain.verdict import Verdict

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
