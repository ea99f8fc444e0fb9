"""Gate 2, predicate diff review: every changed term of a contract and every changed recovery row, with its effect.

Called by `readback gates`. Each change is stricter, looser or other, and lists its affected actions with
counterexamples from history. A stricter change passes. A looser or other change needs an acknowledgement. A change
without a proof counts as looser. A recovery table with faults fails the gate, row by row.

Source: the action verification specification, "Release gates", row "Predicate Diff Review".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.history.verdicts import HistoryVerdicts, judge_history
from readback.assurance.results import Finding, GateResult, Place, Standing, gate_result
from readback.assurance.review.acknowledgements import NO_ACKNOWLEDGEMENTS, TABLE, Acknowledgements, stanza
from readback.assurance.review.table_rows import row_changes
from readback.assurance.review.terms import TermChange, term_changes
from readback.canon import Json, parse_json
from readback.domain.contract.contract import SECOND_US, Contract, describe
from readback.ports.predicates import Strength

GATE: Final = "predicate-diff"
ACTIONS_LISTED_MAX: Final = 10_000
SHOWN_MAX_CHARACTERS: Final = 300


def predicate_diff(
    given: GateInput,
    acknowledged: Acknowledgements = NO_ACKNOWLEDGEMENTS,
    judged: HistoryVerdicts | None = None,
) -> GateResult:
    """Run the gate. `judged`: the pass over the history, if known. Raises StoreError and HistoryError.

    Example:
        >>> from readback.assurance.gate_input import GateInput, VerificationLogic
        >>> logic = VerificationLogic({})
        >>> predicate_diff(GateInput(logic, incumbent=logic)).standing.value
        'passed'
    """
    findings = [*_table_faults(given)]
    if given.incumbent is None:
        said = "There is no incumbent to compare with. Pass --against."
        findings.append(Finding(GATE, "diff.no-incumbent", Standing.UNDETERMINED, said))
        return gate_result(GATE, findings, {"changes": 0})
    found = judged
    if found is None:
        found = judge_history(given) if _differs(given) else HistoryVerdicts()
    changes = [*_contracts(given, given.incumbent, acknowledged, found), *_table(given, given.incumbent, acknowledged)]
    findings += changes
    if not changes and not findings:
        findings.append(Finding(GATE, "diff.unchanged", Standing.PASSED, "No contract and no recovery row changed."))
    counts = {each.value: 0 for each in Strength if each is not Strength.UNCHANGED}
    for change in changes:
        strength = str(change.detail.get("strength", Strength.OTHER.value))
        counts[strength] = counts.get(strength, 0) + 1
    return gate_result(GATE, findings, {"changes": len(changes), "actions": found.actions, **counts})


def _differs(given: GateInput) -> bool:
    incumbent = given.incumbent
    return incumbent is not None and incumbent.hashes() != given.candidate.hashes()


def body_of(contract: Contract) -> Mapping[str, Json]:
    """Return the recorded form of a contract."""
    body = parse_json(contract.body) if contract.body else None
    return body if isinstance(body, dict) else describe(contract)


# --- contracts -----------------------------------------------------------------------------------------------------


def _contracts(
    given: GateInput, incumbent: VerificationLogic, acknowledged: Acknowledgements, found: HistoryVerdicts
) -> Iterator[Finding]:
    candidate = given.candidate
    for name, plan in candidate.plans.items():
        label = f"{name}@{plan.contract.version}"
        known = incumbent.plans.get(name)
        if known is None:
            said = "The contract is new: no incumbent of this name is in force."
            detail: dict[str, Json] = {"strength": Strength.STRICTER.value, "decided": True}
            yield Finding(
                GATE, "diff.new-contract", Standing.PASSED, said, label, "contract", candidate.place(name), (), detail
            )
        elif known.contract.hash != plan.contract.hash:
            for change in term_changes(body_of(known.contract), body_of(plan.contract)):
                if change.compared.strength is not Strength.UNCHANGED:
                    yield _finding(given, acknowledged, found, name, label, change)
    for name, gone in incumbent.plans.items():
        if name not in candidate.plans:
            yield _dropped(given, acknowledged, found, gone.contract)


def _dropped(given: GateInput, acknowledged: Acknowledgements, found: HistoryVerdicts, gone: Contract) -> Finding:
    said = "The candidate drops this contract, so its tool is no longer verified."
    text = "contract: dropped"
    detail: dict[str, Json] = {
        "strength": Strength.LOOSER.value,
        "decided": True,
        "actions_seen": found.outside.get(gone.name, 0),
    }
    known, standing = acknowledged.of(GATE, gone.name, text), Standing.FAILED
    if known is not None:
        standing, said = Standing.PASSED, f"{said} Acknowledged: {known.reason}"
        detail |= {"reason": known.reason, "by": known.by, "acknowledged_in": known.where}
    else:
        detail["acknowledge"] = stanza(GATE, given.candidate, gone.name, text, dropped=gone.hash)
    return Finding(GATE, "diff.dropped-contract", standing, said, f"{gone.name}@{gone.version}", text, None, (), detail)


def _finding(
    given: GateInput,
    acknowledged: Acknowledgements,
    found: HistoryVerdicts,
    name: str,
    label: str,
    change: TermChange,
) -> Finding:
    compared = change.compared
    text = _change_text(change)
    actions, effect = _affected(found, name, change)
    detail: dict[str, Json] = {
        "strength": compared.strength.value,
        "decided": compared.decided,
        "term": change.key,
        "old": change.old,
        "new": change.new,
        "state_gained": None if compared.gained is None else dict(compared.gained),
        "state_lost": None if compared.lost is None else dict(compared.lost),
        "affected": len(actions),
        "judged": found.judged.get(name, 0),
        **effect,
    }
    known = acknowledged.of(GATE, name, text)
    standing = Standing.PASSED
    said = f"{change.key} is {_worded(change)}: {_term(change, change.old)} became {_term(change, change.new)}."
    said = f"{said} {len(actions)} recorded actions are affected."
    if known is not None:
        detail |= {"reason": known.reason, "by": known.by, "acknowledged_in": known.where}
        said = f"{said} Acknowledged: {known.reason}"
    elif compared.strength is not Strength.STRICTER:
        standing = Standing.FAILED
        detail["acknowledge"] = stanza(GATE, given.candidate, name, text)
    place = given.candidate.place(name, change.key)
    return Finding(GATE, change.code, standing, said, label, text, place, actions[:ACTIONS_LISTED_MAX], detail)


def _change_text(change: TermChange) -> str:
    return f"{change.key}: {_term(change, change.old)} -> {_term(change, change.new)}"


def _term(change: TermChange, value: Json) -> str:
    """Return a term's value, durations with their unit."""
    if change.code == "diff.window" and isinstance(value, int):
        return f"{value / SECOND_US:g} s"
    return _shown(value)


def _worded(change: TermChange) -> str:
    if not change.compared.decided:
        return "looser, because no proof of the reverse was found"
    return {Strength.OTHER: "other than before"}.get(change.compared.strength, change.compared.strength.value)


def _shown(value: Json) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_MAX_CHARACTERS else text[:SHOWN_MAX_CHARACTERS] + "\N{HORIZONTAL ELLIPSIS}"


def _affected(found: HistoryVerdicts, name: str, change: TermChange) -> tuple[tuple[str, ...], dict[str, Json]]:
    """Return the affected actions: of a postcondition by its own truth, of other terms by changed results."""
    if change.code == "diff.postcondition":
        clause = found.clauses.get((name, change.key.partition(".")[2]))
        if clause is None:
            return (), {"gained": 0, "lost": 0, "counterexamples": []}
        counts: dict[str, Json] = {"gained": len(clause.gained), "lost": len(clause.lost)}
        return tuple(clause.actions), {**counts, "counterexamples": [*clause.examples]}
    ids: dict[str, None] = {}
    for flip, actions in found.flips.items():
        if flip.contract == name:
            ids |= actions
    return tuple(ids), {}


# --- the recovery table --------------------------------------------------------------------------------------------


def _table_faults(given: GateInput) -> Iterator[Finding]:
    for fault in given.candidate.table_faults:
        place = Place(given.candidate.table_path, fault.line, fault.column)
        yield Finding(GATE, "diff.table-fault", Standing.FAILED, fault.said, TABLE, "recovery row", place)


def _table(given: GateInput, incumbent: VerificationLogic, acknowledged: Acknowledgements) -> Iterator[Finding]:
    then, now = incumbent.table, given.candidate.table
    if incumbent.unknown_table:
        said = f"The ledger names the table in force by its hash alone: {incumbent.unknown_table}."
        remedy = f"{said} Pass --against with a folder that holds the table."
        yield Finding(GATE, "diff.table-unknown", Standing.UNDETERMINED, remedy, TABLE, "recovery row")
        return
    if given.candidate.table_faults or then.version == now.version:
        return
    path = given.candidate.table_path
    place = Place(path, 1, 1) if path else None
    for change in row_changes(then, now):
        text = f"{change.finding}: {change.old} -> {change.new}"
        detail: dict[str, Json] = {"strength": change.strength.value, "decided": True, **change.detail}
        known = acknowledged.of(GATE, TABLE, text)
        said = f"For {change.finding}, row {change.new} decides in place of {change.old}: {change.strength.value}."
        standing = Standing.FAILED
        if known is not None:
            standing, said = Standing.PASSED, f"{said} Acknowledged: {known.reason}"
            detail |= {"reason": known.reason, "by": known.by, "acknowledged_in": known.where}
        else:
            detail["acknowledge"] = stanza(GATE, given.candidate, TABLE, text)
        yield Finding(GATE, "diff.recovery-row", standing, said, TABLE, text, place, (), detail)
