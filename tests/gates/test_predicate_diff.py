"""Gate 2: every changed term is named, with its strength, its affected actions and its place."""

from __future__ import annotations

import json
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

from readback.assurance.faults import AcknowledgementError, IncumbentError
from readback.assurance.gate_input import GateInput
from readback.assurance.history.recorded import history_of
from readback.assurance.logic import candidate_of, incumbent_of
from readback.assurance.predicate_diff import predicate_diff
from readback.assurance.results import Finding, Standing
from readback.assurance.review.acknowledgements import load_acknowledgements, proposed_file
from readback.assurance.review.table_rows import row_changes
from readback.assurance.review.terms import term_changes
from readback.contracts.documents.recovery_tables import table_yaml
from readback.domain.contract.contract import Contract, describe
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable
from readback.ports.predicates import Strength
from tests.gates.conftest import Desk
from tests.gates.given import TEXT, edited, file_of

LOOSER = edited("authoritative.status == 'shipped'", "authoritative.status in ['shipped', 'packed']")


def only(findings: tuple[Finding, ...]) -> Finding:
    (finding,) = findings
    return finding


def row_with(row: str, action: str) -> str:
    """The default table with another action in one row."""
    rows = table_yaml(DEFAULT_TABLE).split("  - id: ")
    return "  - id: ".join(
        f"own{each.removeprefix(row)}".replace(each.split("action: ")[1].split("\n")[0], action, 1)
        if each.startswith(f"{row}\n")
        else each
        for each in rows
    )


@pytest.mark.requirement("GATE-predicate-diff", "GATES-planted-predicate")
def test_a_looser_predicate_is_named_with_its_actions_counterexamples_and_place(gates_desk: Desk) -> None:
    result = predicate_diff(gates_desk.given(LOOSER))
    finding = only(result.findings)
    assert (result.standing, finding.code) == (Standing.FAILED, "diff.postcondition")
    assert finding.message.startswith("ensure.shipped is looser")
    assert finding.detail["decided"] is True
    assert finding.detail["state_gained"] == {"authoritative": {"status": "packed"}}
    assert len(finding.actions) == 6
    assert (finding.detail["gained"], finding.detail["lost"]) == (6, 0)
    example = finding.detail["counterexamples"][0]  # type: ignore[index,call-overload]
    assert example["action"] in finding.actions
    assert example["values"] == {"authoritative.status": "packed"}
    assert finding.place is not None
    line = TEXT.splitlines()[finding.place.line - 1]
    assert line[finding.place.column - 1 :].startswith("shipped:")


@pytest.mark.requirement("GATE-predicate-diff")
def test_a_stricter_predicate_passes_and_still_lists_the_lost_actions(gates_desk: Desk) -> None:
    text = edited(
        "authoritative.status == 'shipped'", "authoritative.status == 'shipped' && authoritative.carrier == 'rail'"
    )
    result = predicate_diff(gates_desk.given(text))
    finding = only(result.findings)
    assert (result.standing, finding.detail["strength"]) == (Standing.PASSED, "stricter")
    assert len(finding.actions) == 8
    assert finding.detail["lost"] == 8


@pytest.mark.requirement("GATE-predicate-diff")
def test_another_spelling_of_a_predicate_is_no_change(gates_desk: Desk) -> None:
    result = predicate_diff(
        gates_desk.given(edited("authoritative.status == 'shipped'", "('shipped' == authoritative.status)"))
    )
    assert result.standing is Standing.PASSED
    assert only(result.findings).code == "diff.unchanged"


@pytest.mark.requirement("GATES-planted-window")
@pytest.mark.parametrize(("window", "strength"), [("1s", "looser"), ("90s", "other")])
def test_a_wrong_window_is_named(gates_desk: Desk, window: str, strength: str) -> None:
    result = predicate_diff(gates_desk.given(edited("    within: 4s", f"    within: {window}")))
    assert result.standing is Standing.FAILED
    (finding,) = [each for each in result.findings if each.detail["term"] == "within"]
    assert finding.code == "diff.window"
    assert finding.detail["strength"] == strength
    assert "4 s became" in finding.message
    assert finding.place is not None
    assert TEXT.splitlines()[finding.place.line - 1].strip().startswith("within")


@pytest.mark.requirement("GATES-planted-window")
def test_a_shorter_time_for_late_effects_is_looser(gates_desk: Desk) -> None:
    result = predicate_diff(gates_desk.given(edited("late_window: 4s", "late_window: 1s")))
    finding = only(result.findings)
    assert (finding.code, finding.detail["term"], finding.detail["strength"]) == (
        "diff.window",
        "late_window",
        "looser",
    )


@pytest.mark.requirement("GATES-planted-identity")
def test_a_dropped_identity_check_is_named(gates_desk: Desk) -> None:
    result = predicate_diff(
        gates_desk.given(edited("      tenant: authoritative.tenant\n", "      tenant: not_offered\n"))
    )
    finding = only(result.findings)
    assert result.standing is Standing.FAILED
    assert (finding.code, finding.detail["term"], finding.detail["strength"]) == (
        "diff.identity",
        "identity.tenant",
        "looser",
    )


@pytest.mark.requirement("GATES-terms")
def test_a_weaker_reading_is_looser_and_its_reader_is_the_place(gates_desk: Desk) -> None:
    result = predicate_diff(gates_desk.given(edited("consistency: strong", "consistency: session")))
    finding = only(result.findings)
    assert (finding.code, finding.detail["strength"]) == ("diff.reading-strength", "looser")
    assert finding.place is not None
    assert "readers" in TEXT.splitlines()[finding.place.line - 1]


@pytest.mark.requirement("GATES-planted-row")
def test_a_row_below_the_floor_is_named_with_line_and_column(gates_desk: Desk) -> None:
    table = gates_desk.folder / "table.yaml"
    table.write_text(row_with("RB-missing-late", "accept"), encoding="utf-8")
    result = predicate_diff(gates_desk.given(table=str(table)))
    assert result.standing is Standing.FAILED
    faults = [each for each in result.findings if each.code == "diff.table-fault"]
    assert faults
    assert any("own" in each.message for each in faults)
    assert all(each.place is not None and each.place.line > 1 for each in faults)


@pytest.mark.requirement("GATES-planted-row")
def test_a_changed_row_is_named_by_its_finding_and_both_rows(gates_desk: Desk) -> None:
    table = gates_desk.folder / "table.yaml"
    text = table_yaml(DEFAULT_TABLE).replace("id: RB-verified\n", "id: own-verified\n")
    table.write_text(text, encoding="utf-8")
    result = predicate_diff(gates_desk.given(table=str(table)))
    finding = only(result.findings)
    assert (finding.code, finding.standing) == ("diff.recovery-row", Standing.FAILED)
    assert finding.case == "verified: RB-verified -> own-verified"
    acknowledged = gates_desk.folder / "acknowledged.yaml"
    stated = proposed_file(result.findings).replace('reason: ""', "reason: A name of our own.")
    acknowledged.write_text(stated, encoding="utf-8")
    given = gates_desk.given(table=str(table))
    reasons = load_acknowledgements([str(acknowledged)], given.candidate)
    assert predicate_diff(given, reasons).standing is Standing.PASSED


@pytest.mark.requirement("GATES-planted-row")
@pytest.mark.parametrize(
    ("row", "action", "strength"),
    [
        ("REC-14", RecoveryAction.FAIL, Strength.LOOSER),
        ("RB-verified", RecoveryAction.HOLD_AND_ESCALATE, Strength.OTHER),
        ("RB-missing-late", RecoveryAction.RETRY_SAME_KEY, Strength.LOOSER),
        ("RB-missing-late", RecoveryAction.ACCEPT, Strength.LOOSER),
    ],
)
def test_success_a_repeat_and_an_omitted_review_are_looser_rows(
    row: str, action: RecoveryAction, strength: Strength
) -> None:
    rows = tuple(replace(each, action=action) if each.id == row else each for each in DEFAULT_TABLE.rows)
    changes = [*row_changes(DEFAULT_TABLE, RecoveryTable(rows))]
    assert {(each.old, each.new, each.strength) for each in changes} == {(row, row, strength)}
    assert [*row_changes(DEFAULT_TABLE, DEFAULT_TABLE)] == []


@pytest.mark.requirement("GATES-acknowledged")
def test_an_acknowledged_change_passes_with_its_reason(gates_desk: Desk) -> None:
    given = gates_desk.given(LOOSER)
    file = gates_desk.folder / "acknowledged.yaml"
    text = proposed_file(predicate_diff(given).findings).replace('reason: ""', "reason: Packed counts since May.")
    file.write_text(text, encoding="utf-8")
    result = predicate_diff(given, load_acknowledgements([str(file)], given.candidate))
    assert result.standing is Standing.PASSED
    assert "Packed counts" in only(result.findings).message


@pytest.mark.requirement("GATE-predicate-diff")
def test_a_dropped_contract_fails_and_a_new_one_passes(gates_desk: Desk) -> None:
    result = predicate_diff(gates_desk.given(TEXT.replace("  ship_order:", "  send_order:")))
    named = {each.code: each.standing for each in result.findings}
    assert named == {"diff.new-contract": Standing.PASSED, "diff.dropped-contract": Standing.FAILED}


@pytest.mark.requirement("GATES-acknowledged")
def test_a_dropped_contract_passes_with_a_reason_for_that_very_text(gates_desk: Desk) -> None:
    given = gates_desk.given(TEXT.replace("  ship_order:", "  send_order:"))
    file = gates_desk.folder / "acknowledged.yaml"
    text = proposed_file(predicate_diff(given).findings).replace('reason: ""', "reason: The tool is gone.")
    file.write_text(text, encoding="utf-8")
    reasons = load_acknowledgements([str(file)], given.candidate, given.incumbent)
    assert predicate_diff(given, reasons).standing is Standing.PASSED
    with pytest.raises(AcknowledgementError, match="no longer fits"):
        load_acknowledgements([str(file)], given.candidate)


@pytest.mark.requirement("GATES-undetermined")
def test_without_an_incumbent_the_review_is_undetermined(gates_desk: Desk) -> None:
    result = predicate_diff(GateInput(gates_desk.candidate()))
    assert only(result.findings).code == "diff.no-incumbent"
    assert result.standing is Standing.UNDETERMINED


# --- terms ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATES-terms")
def test_no_term_of_a_contract_is_skipped(gates_desk: Desk) -> None:
    """Every recorded term, changed alone, is a change; labels and derived lists are named here."""
    contract = gates_desk.candidate().plans["ship_order"].contract
    assert {each.name for each in fields(Contract)}
    body = describe(contract)
    labels = {"name", "version", "assumed"}
    optional = {
        "approval", "scopes", "watch", "identity_as", "key_valid_for_us", "intermediate", "find_complete", "find_by",
        "lookup_by", "assumed", "verifiers",
    }  # fmt: skip
    odd: dict[str, object] = {
        "approval": {"people": 1, "expires_us": 1, "when": ""}, "identity_as": {"target": "nfc"},
        "watch": {"every_us": 1},
        "intermediate": [["a", "true", ""]], "require": [["a", "true", ""]], "ensure": [["a", "true", ""]],
        "fails_when": [["a", "true", ""]], "identity": {"target": "requested.a"}, "execute": {"timeout_us": 1},
        "readers": [], "find_by": {"name": "find", "consistency": "strong"}, "lookup_by": {"name": "lookup"},
        "polls_us": [7], "may_change": ["status"], "approvals": None,
    }  # fmt: skip
    for key in {*body, *optional} - labels:
        changed = {**body, key: odd.get(key, "another value")}
        assert [*term_changes(body, json.loads(json.dumps(changed)))], f"a change of {key} is skipped"
    for key in labels:
        assert [*term_changes(body, {**body, key: "another"})] == []


# --- the incumbent -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATES-against")
def test_the_incumbent_comes_from_a_git_ref_of_the_candidate_s_repository(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    file_of(tmp_path, LOOSER)
    candidate = candidate_of([str(file)])
    incumbent = incumbent_of("HEAD", candidate, [str(file)])
    assert incumbent.hashes() != candidate.hashes()
    finding = only(predicate_diff(GateInput(candidate, incumbent)).findings)
    assert finding.message.startswith("ensure.shipped is looser")


@pytest.mark.requirement("GATES-against")
def test_the_incumbent_comes_from_the_newest_action_of_a_ledger(gates_desk: Desk) -> None:
    candidate = gates_desk.candidate(LOOSER)
    incumbent = incumbent_of(gates_desk.url, candidate, ())
    assert incumbent.hashes() == candidate_of([str(gates_desk.file)]).hashes()
    finding = only(predicate_diff(GateInput(candidate, incumbent, history_of(gates_desk.url))).findings)
    assert (finding.code, len(finding.actions)) == ("diff.postcondition", 6)


@pytest.mark.requirement("GATES-against")
@pytest.mark.parametrize("against", ["no-such-ref", "--upload-pack=x", "HEAD:contracts.yaml"])
def test_an_unknown_incumbent_is_a_typed_error(tmp_path: Path, against: str) -> None:
    file = file_of(tmp_path)
    with pytest.raises(IncumbentError) as refused:
        incumbent_of(against, candidate_of([str(file)]), [str(file)])
    assert refused.value.code == "gates.against"
    assert refused.value.remedy


@pytest.mark.requirement("GATES-against")
def test_an_incumbent_that_does_not_compile_is_a_typed_error_with_its_place(tmp_path: Path) -> None:
    file = file_of(tmp_path / "new")
    file_of(tmp_path / "old", edited("authoritative.status == 'shipped'", "authoritative.status = 'shipped'"))
    with pytest.raises(IncumbentError, match=r"contracts\.yaml:25:") as refused:
        incumbent_of(str(tmp_path / "old"), candidate_of([str(file)]), [str(file)])
    assert refused.value.code == "gates.against-unusable"
