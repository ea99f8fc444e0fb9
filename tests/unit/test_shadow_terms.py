"""Shadow mode needs two keys, and its judgement as data has every word of the enforced mode."""

from __future__ import annotations

import pytest

from readback.domain.contract.shadowing import EVERY, Mode, ShadowTerms
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.shadow import CONDITIONAL, ShadowJudgement, shadow_judgement
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why


@pytest.mark.requirement("SHADOW-two-keys", "SHADOW-enforced-stays")
@pytest.mark.parametrize("allowed", [(), ("refund",), (EVERY,), ("other",)])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("mode", [None, Mode.SHADOW, Mode.ENFORCED])
def test_a_contract_runs_in_shadow_where_settings_allow_and_contract_or_caller_asks(
    allowed: tuple[str, ...], asked: bool, mode: Mode | None
) -> None:
    expected = allowed in [("refund",), (EVERY,)] and (mode is Mode.SHADOW or (asked and mode is None))
    assert ShadowTerms(allowed, asked).covers("refund", mode) is expected


JUDGED = ShadowJudgement(
    State.FAILED, Verdict.REFUTED, Why.NONE, Discrepancy.NO_OP_FAILURE, "row", "retry", "words", "approval.missing"
)


@pytest.mark.requirement("SHADOW-would-tell")
def test_a_judgement_as_data_says_would_of_everything() -> None:
    assert JUDGED.as_json() == {
        "would_state": "failed",
        "would_verdict": "refuted",
        "would_why": Why.NONE.value,
        "would_discrepancy": "no_op_failure",
        "would_row": "row",
        "would_recovery": "retry",
        "would_refuse": "approval.missing",
        "would_say": "words",
    }
    plain = ShadowJudgement(State.FAILED, Verdict.REFUTED).as_json()
    assert (plain["would_discrepancy"], plain["would_refuse"], plain["would_say"]) == (None, None, "")
    assert JUDGED.conditional == CONDITIONAL + "words"


@pytest.mark.requirement("SHADOW-would-tell")
def test_a_recorded_judgement_is_read_and_a_refusal_outranks_it() -> None:
    data = {
        "state": "failed",
        "verdict": "refuted",
        "why": "",
        "discrepancy": "no_op_failure",
        "row": "r",
        "recovery": "retry",
    }
    found = shadow_judgement(data, "a1", "refund", "order/7")
    assert (found.state, found.verdict, found.discrepancy) == (
        State.FAILED,
        Verdict.REFUTED,
        Discrepancy.NO_OP_FAILURE,
    )
    assert (found.row, found.recovery, found.refused) == ("r", "retry", "")
    assert found.words
    refused = shadow_judgement({**data, "refused": "approval.missing"}, "a1", "refund", "order/7")
    assert (refused.state, refused.verdict, refused.discrepancy) == (State.FAILED, Verdict.NOT_CHECKED, None)
    assert refused.refused == "approval.missing"
