"""Every way in which an action can end has its exit code, and none but verified ends with 0."""

from __future__ import annotations

import pytest

from readback.domain.state import State
from tests.cli.conftest import Desk


@pytest.mark.requirement("L01")
def test_l01_a_verified_action_ends_with_0(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)
    assert outcome["verified"]
    assert outcome["state"] == "reconciled_success"
    assert outcome["attribution"] == "ours"


@pytest.mark.requirement("L01")
def test_l01_the_tool_said_ok_and_nothing_happened_is_no_0(desk: Desk) -> None:
    outcome = desk.ship("a", how="lie")
    assert not outcome["verified"]
    assert outcome["exit_code"] in (1, 3, 4)
    assert desk.ship("a", how="lie", code=outcome["exit_code"])["replayed"]


@pytest.mark.requirement("L01")
def test_l01_a_refuted_action_ends_with_1_or_is_held_with_4(desk: Desk) -> None:
    outcome = desk.ship("a", how="wrong")
    assert outcome["discrepancy"] == "value_mismatch"
    assert outcome["exit_code"] == 4
    assert outcome["state"] == "review_required"


@pytest.mark.requirement("L01")
def test_l01_a_refusal_that_the_contract_names_fails_with_1(desk: Desk) -> None:
    outcome = desk.ship("a", how="decline", code=3)
    desk.runtime.advance(60)
    resumed = desk("resume", "--contracts", "tests.cli.shop", "--json", code=1)
    assert resumed.json["actions"][0]["id"] == outcome["id"]
    assert resumed.json["actions"][0]["state"] == "failed"


@pytest.mark.requirement("L01")
def test_l01_a_claim_about_a_missing_target_is_held_with_4(desk: Desk) -> None:
    outcome = desk.ship("a", order_id="o-99", how="lie", code=3)
    desk.runtime.advance(60)
    resumed = desk("resume", "--contracts", "tests.cli.shop", "--json", code=4)
    assert resumed.json["actions"][0]["id"] == outcome["id"]
    assert resumed.json["actions"][0]["state"] == "review_required"
    assert not resumed.json["actions"][0]["may_repeat"]


@pytest.mark.requirement("L01")
def test_l01_pending_ends_with_3(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    assert outcome["state"] == "pending"


@pytest.mark.requirement("L01")
def test_l01_held_for_an_approval_ends_with_4_and_calls_nothing(desk: Desk) -> None:
    outcome = desk.run("wipe", "--operation", "w", order_id="o-17", code=4).json
    assert outcome["hold"] == "approval"
    assert outcome["attempts"] == 0


@pytest.mark.requirement("L01")
def test_l01_a_broken_verifier_ends_with_5(desk: Desk) -> None:
    outcome = desk.run("annotate", "--operation", "n", order_id="o-17", note="break the reader").json
    assert outcome["why"] == "verifier_error"
    assert outcome["exit_code"] == 5


@pytest.mark.requirement("L01")
def test_l01_a_ledger_that_cannot_be_used_ends_with_6(desk: Desk) -> None:
    desk.ledger.write_text("no database", encoding="utf-8")
    answer = desk.run("ship", order_id="o-17", carrier="dhl", code=6)
    assert answer.json["error"]["code"] == "store.corrupt"
    assert desk.ledger.read_text(encoding="utf-8") == "no database"


@pytest.mark.requirement("L10")
def test_l10_a_lost_reply_stays_unknown_in_ledger_text_and_exit_code_until_it_is_read(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lose", code=3)
    assert outcome["observation"]["status"] in ("timeout", "error")
    assert not outcome["verified"]
    assert not outcome["may_repeat"]
    later = desk("show", outcome["id"], "--json").json
    assert later["outcome"]["verdict"] == "undetermined"
    listed = desk("list", "--json").json[0]
    assert listed["verdict"] == "undetermined"
    assert listed["exit_code"] == 3
    assert "do not repeat" in later["said"]["model"]


@pytest.mark.requirement("TRUTH-hold-one-table")
@pytest.mark.parametrize("state", list(State))
def test_one_table_gives_every_state_its_statuses_exit_code_and_text(state: State) -> None:
    from readback.domain.outcome.reporting import USER_STATUS
    from readback.domain.state import STATUS
    from readback.views.state_help import MEANINGS

    row = STATUS[state]
    assert row.exit_code in (0, 1, 3, 4)
    assert (row.exit_code == 0) == (state is State.RECONCILED_SUCCESS)
    assert row.report in USER_STATUS
    assert row.execution
    assert row.verification
    assert row.reconciliation
    assert MEANINGS[state].means
    assert MEANINGS[state].now
