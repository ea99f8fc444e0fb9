"""Gate 1: recorded evidence is judged again, and every changed result needs a reason."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from readback import Readback
from readback.assurance.faults import AcknowledgementError
from readback.assurance.gate_input import DamagedAction, GateInput
from readback.assurance.history.recorded import Selection, history_of
from readback.assurance.logic import candidate_of, incumbent_of
from readback.assurance.predicate_diff import predicate_diff
from readback.assurance.results import Finding, GateResult, Standing
from readback.assurance.review.acknowledgements import load_acknowledgements, proposed_file
from readback.assurance.trace_replay import trace_replay
from readback.contracts.documents.recovery_tables import table_yaml
from readback.domain.recovery.table import DEFAULT_TABLE
from tests.gates.conftest import Desk
from tests.gates.given import TEXT, edited, file_of, honest, ledger, packed

LOOSER = edited("authoritative.status == 'shipped'", "authoritative.status in ['shipped', 'packed']")
SHORTER = edited("    within: 4s", "    within: 1s")


def codes(result: GateResult) -> dict[str, Standing]:
    return {each.code: each.standing for each in result.findings}


def changed(result: GateResult) -> list[Finding]:
    return [each for each in result.findings if each.code.startswith("replay.changed")]


def filled(text: str, reason: str = "The carrier reports packed orders as shipped.") -> str:
    return text.replace('reason: ""', f"reason: {json.dumps(reason)}")


@pytest.mark.requirement("GATE-trace-replay")
def test_unchanged_logic_judges_every_recorded_action_as_before(gates_desk: Desk) -> None:
    result = trace_replay(gates_desk.given())
    assert result.standing is Standing.PASSED
    assert result.counts["judged"] == 24
    assert result.counts["changed"] == 0
    assert result.counts["verified -> verified"] == 8


@pytest.mark.requirement("GATE-trace-replay", "GATES-planted-predicate")
def test_a_looser_predicate_turns_refuted_actions_to_verified_and_fails_by_name(gates_desk: Desk) -> None:
    result = trace_replay(gates_desk.given(LOOSER))
    assert result.standing is Standing.FAILED
    final = next(each for each in changed(result) if str(each.detail["before"]).startswith("refuted"))
    assert final.code == "replay.changed-to-verified"
    assert final.contract == "ship_order@1"
    assert len(final.actions) == 6
    assert str(final.detail["after"]).startswith("verified/")
    assert final.place is not None
    assert final.place.line == 4


@pytest.mark.requirement("GATE-trace-replay")
def test_a_shorter_window_changes_classes_and_rows_and_fails(gates_desk: Desk) -> None:
    result = trace_replay(gates_desk.given(SHORTER))
    assert result.standing is Standing.FAILED
    assert {each.code for each in changed(result)} == {"replay.changed"}
    assert any("refuted" in str(each.detail["after"]) for each in changed(result))


@pytest.mark.requirement("GATE-trace-replay")
def test_a_change_in_force_already_is_named_and_passes_but_never_one_to_verified(gates_desk: Desk) -> None:
    in_force = file_of(gates_desk.folder / "force", SHORTER)
    candidate = gates_desk.candidate(edited("    within: 1s", "    tell: [status]\n    within: 1s", SHORTER))
    incumbent = incumbent_of(str(in_force), candidate, ())
    result = trace_replay(GateInput(candidate, incumbent, history_of(gates_desk.url)))
    assert result.standing is Standing.PASSED
    assert codes(result) == {"replay.changed-earlier": Standing.PASSED, "replay.judged": Standing.PASSED}
    assert result.counts["changed_earlier"] == 11
    looser = candidate_of([str(file_of(gates_desk.folder / "looser", LOOSER))])
    result = trace_replay(GateInput(looser, looser, history_of(gates_desk.url)))
    assert codes(result)["replay.changed-to-verified"] is Standing.FAILED


@pytest.mark.requirement("GATES-acknowledged")
def test_an_acknowledgement_with_reason_and_every_action_lets_the_change_pass(gates_desk: Desk, tmp_path: Path) -> None:
    given = gates_desk.given(LOOSER)
    file = tmp_path / "acknowledged.yaml"
    file.write_text(filled(proposed_file(trace_replay(given).findings)), encoding="utf-8")
    result = trace_replay(given, load_acknowledgements([str(file)], given.candidate))
    assert result.standing is Standing.PASSED
    assert {each.code for each in result.findings} == {"replay.acknowledged", "replay.judged"}
    assert all("packed orders" in each.message for each in result.findings if each.code == "replay.acknowledged")


@pytest.mark.requirement("GATES-acknowledged")
def test_a_change_to_verified_stays_blocked_until_each_action_is_named(gates_desk: Desk, tmp_path: Path) -> None:
    given = gates_desk.given(LOOSER)
    found = changed(trace_replay(given))
    file = tmp_path / "acknowledged.json"
    listed: list[Any] = []
    for each in found:
        stated = dict(each.detail["acknowledge"])  # type: ignore[arg-type]
        stated |= {"reason": "seen", "actions": [*each.actions[1:]]}
        listed.append(stated)
    whole = {"apiVersion": "readback/v1", "kind": "Acknowledgements", "acknowledgements": listed}
    file.write_text(json.dumps(whole), encoding="utf-8")
    result = trace_replay(given, load_acknowledgements([str(file)], given.candidate))
    assert result.standing is Standing.FAILED
    assert {each.actions for each in changed(result)} == {(each.actions[0],) for each in found}


@pytest.mark.requirement("GATES-acknowledged")
def test_an_acknowledgement_without_a_reason_is_refused_with_its_place(gates_desk: Desk, tmp_path: Path) -> None:
    given = gates_desk.given(LOOSER)
    file = tmp_path / "acknowledged.yaml"
    file.write_text(proposed_file(trace_replay(given).findings), encoding="utf-8")
    with pytest.raises(AcknowledgementError, match=r"acknowledged\.yaml:4:5: .* non-empty reason") as refused:
        load_acknowledgements([str(file)], given.candidate)
    assert refused.value.code == "gates.acknowledgement"


@pytest.mark.requirement("GATES-acknowledged")
def test_an_acknowledgement_of_another_contract_text_no_longer_fits(gates_desk: Desk, tmp_path: Path) -> None:
    given = gates_desk.given(LOOSER)
    file = tmp_path / "acknowledged.yaml"
    file.write_text(filled(proposed_file(trace_replay(given).findings)), encoding="utf-8")
    later = gates_desk.candidate(edited("'packed'", "'packed', 'lost'", LOOSER))
    with pytest.raises(AcknowledgementError) as refused:
        load_acknowledgements([str(file)], later)
    assert refused.value.code == "gates.acknowledgement-stale"
    assert "ship_order" in refused.value.message


@pytest.mark.requirement("GATES-acknowledged")
def test_an_acknowledgement_under_another_table_no_longer_fits(gates_desk: Desk, tmp_path: Path) -> None:
    given = gates_desk.given(LOOSER)
    file = tmp_path / "acknowledged.yaml"
    file.write_text(filled(proposed_file(trace_replay(given).findings)), encoding="utf-8")
    table = tmp_path / "table.yaml"
    table.write_text(table_yaml(DEFAULT_TABLE).replace("id: RB-verified\n", "id: own-verified\n"), encoding="utf-8")
    with pytest.raises(AcknowledgementError, match="recovery table"):
        load_acknowledgements([str(file)], gates_desk.candidate(LOOSER, str(table)))


@pytest.mark.requirement("GATES-undetermined")
def test_a_cell_with_few_actions_leaves_the_gate_undetermined(gates_desk: Desk) -> None:
    result = trace_replay(gates_desk.given(cell_min=7))
    assert result.standing is Standing.UNDETERMINED
    few = [each for each in result.findings if each.code == "replay.too-few"]
    assert len(few) == 3
    assert all("at least 7 actions" in each.message for each in few)


@pytest.mark.requirement("GATES-undetermined")
def test_a_contract_without_history_leaves_the_gate_undetermined(gates_desk: Desk) -> None:
    given = gates_desk.given(TEXT.replace("  ship_order:", "  ship_orders:"))
    result = trace_replay(given)
    assert result.standing is Standing.UNDETERMINED
    assert "replay.no-history" in codes(result)
    assert result.counts["outside"] == 24


@pytest.mark.requirement("GATES-undetermined")
def test_erased_evidence_leaves_the_gate_undetermined_and_names_the_action(gates_desk: Desk) -> None:
    with Readback.open(gates_desk.url, tenant="acme", principal="agent:desk") as rb:
        (first, *_) = rb.list(contract="ship_order", state="reconciled_success")
        rb.erase(first.id, who="human:ana", reason="The customer asked.")
    result = trace_replay(gates_desk.given())
    assert result.standing is Standing.UNDETERMINED
    (finding,) = [each for each in result.findings if each.code == "replay.not-evaluated"]
    assert finding.actions == (first.id,)
    assert "erased" in finding.message


@pytest.mark.requirement("GATES-undetermined")
def test_damaged_evidence_leaves_the_gate_undetermined_and_names_the_action(gates_desk: Desk) -> None:
    db = sqlite3.connect(gates_desk.url.removeprefix("sqlite:///"))
    db.execute("update payload set body = x'7b7d' where id = 9")
    db.commit()
    db.close()
    result = trace_replay(gates_desk.given())
    assert result.standing is Standing.UNDETERMINED
    (finding,) = [each for each in result.findings if each.code == "replay.damaged"]
    assert finding.actions
    assert result.counts["damaged"] == 1


@pytest.mark.requirement("GATES-planted-row")
def test_a_table_below_the_floor_fails_the_gate(gates_desk: Desk, tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("apiVersion: readback/v1\nkind: RecoveryTable\nrows: []\n", encoding="utf-8")
    result = trace_replay(gates_desk.given(table=str(table)))
    assert result.standing is Standing.FAILED
    assert codes(result)["replay.table-unusable"] is Standing.FAILED


@pytest.mark.requirement("GATE-trace-replay")
def test_another_row_for_the_same_finding_is_a_change(gates_desk: Desk, tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(table_yaml(DEFAULT_TABLE).replace("id: RB-verified\n", "id: own-verified\n"), encoding="utf-8")
    result = trace_replay(gates_desk.given(table=str(table)))
    assert result.standing is Standing.FAILED
    (finding,) = changed(result)
    assert "RB-verified" in str(finding.detail["before"])
    assert "own-verified" in str(finding.detail["after"])
    assert finding.code == "replay.changed"


@pytest.mark.requirement("GATES-history")
def test_history_is_read_anew_on_every_call_and_narrowed_by_tenant(gates_desk: Desk) -> None:
    history = history_of(gates_desk.url)
    assert len([*history()]) == len([*history()]) == 24
    assert len([*history_of(gates_desk.url, Selection(tenant="other"))()]) == 0
    assert len([*history_of(gates_desk.url, Selection(limit=7))()]) == 7


@pytest.mark.slow
@pytest.mark.requirement("GATES-history")
def test_a_ledger_of_postgresql_is_a_history_and_an_incumbent(tmp_path: Path, ledger_url: str) -> None:
    old = file_of(tmp_path / "old")
    ledger(ledger_url, old, {honest: 5, packed: 5})
    candidate = candidate_of([str(file_of(tmp_path / "new", LOOSER))])
    given = GateInput(candidate, incumbent_of(ledger_url, candidate, ()), history_of(ledger_url))
    replayed = trace_replay(given)
    assert (replayed.standing, replayed.counts["judged"]) == (Standing.FAILED, 10)
    assert {len(each.actions) for each in changed(replayed)} == {5}
    (change,) = predicate_diff(given).findings
    assert (change.code, len(change.actions)) == ("diff.postcondition", 5)


@pytest.mark.requirement("GATE-trace-replay")
def test_entries_outside_ascii_are_judged_like_all_others(tmp_path: Path) -> None:
    def größe(order: dict[str, object]) -> None:
        """The operation has the function's name, so the entries hold letters outside ASCII."""

    url = ledger(tmp_path / "ledger.db", file_of(tmp_path), {größe: 5, honest: 1})
    judged = [each for each in history_of(url)() if not isinstance(each, DamagedAction)]
    assert len(judged) == 6
