"""Gate 1, trace replay: the candidate judges recorded evidence again, and every changed result needs a reason.

Called by `readback gates`. The gate passes if no verdict, class, row or state changes without an acknowledgement. A
change to `verified` needs an acknowledgement with the id of each action. Erased or damaged evidence, and cells with few
actions, leave the gate undetermined.

Source: the action verification specification, "Release gates", row "Trace Replay".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback.assurance.gate_input import GateInput
from readback.assurance.history.verdicts import Flip, HistoryVerdicts, judge_history
from readback.assurance.results import Finding, GateResult, Place, Standing, gate_result
from readback.assurance.review.acknowledgements import NO_ACKNOWLEDGEMENTS, TABLE, Acknowledgements, stanza
from readback.canon import Json

GATE: Final = "trace-replay"
ACTIONS_LISTED_MAX: Final = 10_000


def trace_replay(
    given: GateInput,
    acknowledged: Acknowledgements = NO_ACKNOWLEDGEMENTS,
    judged: HistoryVerdicts | None = None,
) -> GateResult:
    """Run the gate. `judged`: the pass over the history, if known. Raises StoreError and HistoryError.

    Example:
        >>> from readback.assurance.gate_input import GateInput, VerificationLogic
        >>> trace_replay(GateInput(VerificationLogic({}))).standing.value
        'undetermined'
    """
    found = judge_history(given) if judged is None else judged
    findings = [
        *_flips(given, acknowledged, found),
        *_earlier(given, found),
        *_unjudged(given, found),
        *_cells(given, found),
    ]
    counts = {
        "actions": found.actions,
        "judged": sum(found.judged.values()),
        "outside": sum(found.outside.values()),
        "judgements": sum(found.matrix.values()),
        "changed": sum(len(actions) for actions in found.flips.values()),
        "changed_earlier": sum(len(actions) for actions in found.earlier.values()),
        "not_evaluated": sum(len(each) for each in found.not_evaluated.values()),
        "damaged": len(found.damaged),
        **{f"{then or '-'} -> {now or '-'}": many for (then, now), many in sorted(found.matrix.items())},
    }
    return gate_result(GATE, findings, counts)


def _label(given: GateInput, name: str) -> str:
    plan = given.candidate.plans.get(name)
    return name if plan is None else f"{name}@{plan.contract.version}"


def _flips(given: GateInput, acknowledged: Acknowledgements, found: HistoryVerdicts) -> Iterator[Finding]:
    for flip, actions in found.flips.items():
        ids = tuple(actions)[:ACTIONS_LISTED_MAX]
        known = acknowledged.of(GATE, flip.contract, flip.change)
        unnamed = sorted(actions.keys() - known.actions) if known is not None and flip.to_verified else []
        detail: dict[str, Json] = {"before": flip.before, "after": flip.after, "count": len(actions)}
        if known is not None and not unnamed:
            detail |= {"reason": known.reason, "by": known.by, "acknowledged_in": known.where}
            said = f"{len(actions)} actions change from {flip.before} to {flip.after}, acknowledged: {known.reason}"
            standing, code = Standing.PASSED, "replay.acknowledged"
        else:
            standing, code, said = Standing.FAILED, _code(flip), _said(flip, len(actions), unnamed)
            named = ids if flip.to_verified else ()
            detail["acknowledge"] = stanza(GATE, given.candidate, flip.contract, flip.change, named)
        yield Finding(
            GATE,
            code,
            standing,
            said,
            _label(given, flip.contract),
            flip.change,
            given.candidate.place(flip.contract),
            tuple(unnamed) or ids,
            detail,
        )


def _earlier(given: GateInput, found: HistoryVerdicts) -> Iterator[Finding]:
    """Report changes that are in force already."""
    for flip, actions in found.earlier.items():
        said = f"{len(actions)} actions change from {flip.before} to {flip.after}, as under the incumbent already."
        place = given.candidate.place(flip.contract)
        ids = tuple(actions)[:ACTIONS_LISTED_MAX]
        label = _label(given, flip.contract)
        yield Finding(GATE, "replay.changed-earlier", Standing.PASSED, said, label, flip.change, place, ids)


def _code(flip: Flip) -> str:
    return "replay.changed-to-verified" if flip.to_verified else "replay.changed"


def _said(flip: Flip, many: int, unnamed: list[str]) -> str:
    said = f"{many} {'action changes' if many == 1 else 'actions change'} from {flip.before} to {flip.after}"
    if unnamed:
        return f"{said}; the acknowledgement does not name {len(unnamed)} of them, first {unnamed[0]}."
    if flip.to_verified:
        return f"{said}. A change to verified needs an acknowledgement that names each action."
    return f"{said} without an acknowledgement."


def _unjudged(given: GateInput, found: HistoryVerdicts) -> Iterator[Finding]:
    for name, missing in found.not_evaluated.items():
        first = next(iter(missing))
        said = f"{len(missing)} actions cannot be judged again, first {first}: {missing[first]}."
        yield Finding(
            GATE,
            "replay.not-evaluated",
            Standing.UNDETERMINED,
            said,
            _label(given, name),
            "evidence",
            given.candidate.place(name),
            tuple(missing)[:ACTIONS_LISTED_MAX],
        )
    for damaged in found.damaged:
        said = f"The record of {damaged.name} cannot be used: {damaged.reason}"
        yield Finding(GATE, "replay.damaged", Standing.UNDETERMINED, said, case="evidence", actions=(damaged.name,))


def _cells(given: GateInput, found: HistoryVerdicts) -> Iterator[Finding]:
    """Report each contract with its cells: enough history passes, and less is undetermined."""
    if given.candidate.table_faults:
        first = given.candidate.table_faults[0]
        at = Place(given.candidate.table_path, first.line, first.column)
        said = f"The recovery table cannot be used: {first.said} The default table was used."
        yield Finding(GATE, "replay.table-unusable", Standing.FAILED, said, TABLE, "recovery table", at)
    if not given.candidate.plans:
        yield Finding(GATE, "replay.no-contracts", Standing.UNDETERMINED, "The candidate has no contracts.")
    for name in given.candidate.plans:
        label, place = _label(given, name), given.candidate.place(name)
        cells = {cell: many for cell, many in found.cells.items() if cell.contract == name}
        if not cells:
            said = "The history has no judged action of this contract."
            yield Finding(GATE, "replay.no-history", Standing.UNDETERMINED, said, label, "history", place)
        few = {cell: many for cell, many in cells.items() if many < given.cell_min}
        for cell, many in few.items():
            said = f"The history has {many} of at least {given.cell_min} actions of {cell.text()}."
            yield Finding(GATE, "replay.too-few", Standing.UNDETERMINED, said, label, cell.text(), place)
        if cells and not few:
            said = f"{sum(cells.values())} actions in {len(cells)} cells were judged again."
            yield Finding(GATE, "replay.judged", Standing.PASSED, said, label, "history", place)
