"""The outcome: what it answers, what it refuses to be, and its form for programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from readback.canon import Json
from readback.domain.action.claim import Advice, ClaimEvent, ClaimKind, ClaimStatus, Reason
from readback.domain.discrepancy import Discrepancy
from readback.domain.idempotency import Resolution
from readback.domain.outcome.outcome import OUTCOME_FORMAT, JudgedPostcondition, Outcome
from readback.domain.outcome.reporting import ReportInput, Wording, is_in_doubt, model_text, repeat_allowed, user_text
from readback.domain.predicate import Truth
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.errors import HonestyError, NotVerifiedError

BARE = Outcome(
    id="act-1",
    state=State.RECONCILED_SUCCESS,
    verdict=Verdict.VERIFIED,
    why=Why.NONE,
    discrepancy=None,
    attribution=Attribution.OURS,
    level=Level.RECONCILED,
    may_repeat=False,
    replayed=False,
    contract="ship_order",
    contract_version="3",
    target="order/7",
    operation="op-1",
    tenant="acme",
    principal="agent",
    stamp="rb-1",
    ledger_entry="act-1/5",
)
ANSWER = Observation(ObservationStatus.SUCCESS, True, "http.200", "OK", {"id": 9}, "9", 1_000, 200)
FULL = replace(
    BARE,
    state=State.PARTIALLY_COMMITTED,
    verdict=Verdict.REFUTED,
    discrepancy=Discrepancy.PARTIAL_APPLICATION,
    level=Level.VERIFIED,
    authoritative={"shipped": True},
    before={"shipped": False},
    observation=ANSWER,
    postconditions=(
        JudgedPostcondition("shipped", Truth.HOLDS, "a.shipped", "seen", (("a.shipped", True),), "shipment"),
        JudgedPostcondition("billed", Truth.VIOLATED, "a.billed"),
    ),
    parts_done=("shipment",),
    parts_open=("invoice",),
    row="REC-10",
    recovery="backward_compensation",
    code="a-code",
    detail="A detail.",
    hold="frozen",
    review="a review",
    incident="an incident",
    compensation="act-2",
    attempts=1,
    due_us=5_000,
    told={"carrier": "dhl"},
    trace="4bf9",
    kind="adjust",
)
NEVER_SENT = replace(ANSWER, status=ObservationStatus.NOT_DISPATCHED, dispatched=False)


def test_verified_is_a_reconciled_success_and_nothing_else() -> None:
    for state, verdict, contested in product(State, Verdict, (False, True)):
        one = replace(BARE, state=state, verdict=verdict, contested=contested)
        verified = state is State.RECONCILED_SUCCESS and verdict is Verdict.VERIFIED
        assert one.verified is verified
        assert one.standing is (verified and not contested)


def test_an_outcome_is_settled_at_an_end_or_where_it_stays_unknown() -> None:
    for state in State:
        assert replace(BARE, state=state).settled is (state in TERMINAL or state is State.UNKNOWN)


def test_an_outcome_is_neither_true_nor_false() -> None:
    for one in (BARE, FULL):
        with pytest.raises(HonestyError, match="neither true nor false"):
            bool(one)


def test_raising_unless_verified_raises_for_everything_else() -> None:
    assert BARE.raise_unless_verified() is BARE
    with pytest.raises(NotVerifiedError, match="ship_order on order/7 is partially_committed") as raised:
        FULL.raise_unless_verified()
    assert raised.value.exit_code == 4
    assert raised.value.outcome is FULL


@pytest.mark.parametrize("contested", [True, False])
def test_raising_unless_verified_raises_for_what_was_taken_back_since(contested: bool) -> None:
    word = ClaimEvent(ClaimKind.HOLDS, ClaimStatus.RETRACTED, Reason.PERSON, "0.99", Advice.PLAN_AGAIN, 1, 2)
    fallen = replace(BARE, contested=contested, said=() if contested else (word,))
    assert fallen.verified
    with pytest.raises(NotVerifiedError) as raised:
        fallen.raise_unless_verified()
    assert raised.value.exit_code == fallen.exit_code != 0


def test_a_last_attempt_that_never_left_says_nothing_of_those_before_it() -> None:
    once = replace(BARE, state=State.FAILED, attempts=1, observation=NEVER_SENT)
    assert (once.attempted, once.message) == (False, "The action has not been executed.")
    twice = replace(once, attempts=2)
    assert (twice.attempted, twice.message) == (True, "The action failed; no verified completion occurred.")


def test_what_was_attempted_and_waits_to_be_again_is_not_told_as_not_executed() -> None:
    waiting = replace(BARE, state=State.VALIDATED, verdict=Verdict.REFUTED, attempts=1, hold="approval")
    assert waiting.message == "The action was attempted; result is unknown. It waits for an approval."
    assert "result is unknown. It waits for an approval." in waiting.for_model()
    assert "has not been executed" in replace(waiting, attempts=0).message


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (BARE, 0),
        (FULL, 4),
        (replace(FULL, hold=""), 1),
        (replace(BARE, state=State.UNKNOWN, verdict=Verdict.UNDETERMINED), 3),
        (replace(BARE, state=State.UNKNOWN, verdict=Verdict.UNDETERMINED, why=Why.VERIFIER_ERROR), 5),
        (replace(BARE, state=State.UNKNOWN, verdict=Verdict.UNDETERMINED, why=Why.UNVERIFIABLE), 3),
        (replace(BARE, state=State.VALIDATED, verdict=Verdict.NOT_CHECKED, hold="approval"), 4),
    ],
)
def test_the_exit_code_is_the_states_unless_it_is_held_or_its_verifier_broke(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code


def told(outcome: Outcome, **changed: object) -> None:
    """What is said is what the reporting vocabulary says of exactly this."""
    plain = ReportInput(
        state=outcome.state,
        verdict=outcome.verdict,
        action_id="act-1",
        contract="ship_order",
        target="order/7",
        ledger_entry="act-1/5",
        attribution=Attribution.OURS,
        attempted=False,
        observed=False,
    )
    report = replace(plain, **changed)  # type: ignore[arg-type]
    assert outcome._report() == report
    assert outcome.message == user_text(report)
    assert outcome.for_model() == model_text(report)
    assert outcome.wording() == Wording(
        user_text(report), model_text(report), repeat_allowed(report), is_in_doubt(report)
    )


def test_what_is_told_depends_on_everything_that_is_known() -> None:
    told(BARE)
    told(
        FULL,
        trace="4bf9",
        discrepancy=Discrepancy.PARTIAL_APPLICATION,
        told={"carrier": "dhl"},
        parts_done=("shipment",),
        parts_open=("invoice",),
        hold="frozen",
        attempted=True,
        observed=True,
        reason="a-code",
        detail="A detail.",
    )
    told(replace(BARE, attempts=1), attempted=True)
    told(replace(BARE, attempts=1, observation=ANSWER), attempted=True, observed=True)
    told(replace(BARE, attempts=1, observation=NEVER_SENT), attempted=False, observed=True)
    told(replace(BARE, attempts=1, observation=Observation.missing(1_000)), attempted=True, observed=False)
    told(replace(BARE, discrepancy=Discrepancy.NO_OP_SUCCESS), discrepancy=Discrepancy.NO_OP_SUCCESS, noop=True)
    told(replace(BARE, kind="read", proves="submitted"), reads=True, proves="submitted")
    told(replace(BARE, contested=True, replayed=True), contested=True, replayed=True)
    told(replace(BARE, resolution=Resolution.ATTESTED_DONE), resolution=Resolution.ATTESTED_DONE)
    told(replace(BARE, attribution=Attribution.UNKNOWN), attribution=Attribution.UNKNOWN)
    failed = replace(BARE, state=State.FAILED, verdict=Verdict.REFUTED, may_repeat=True, attempts=1)
    told(failed, may_repeat=True, attempted=True)
    unknown = replace(BARE, state=State.UNKNOWN, verdict=Verdict.UNDETERMINED, why=Why.UNVERIFIABLE)
    told(unknown, why=Why.UNVERIFIABLE)


FULL_JSON: dict[str, Json] = {
    "format": 1,
    "id": "act-1",
    "state": "partially_committed",
    "verified": False,
    "verdict": "refuted",
    "why": "",
    "discrepancy": "partial_application",
    "attribution": "ours",
    "level": 2,
    "may_repeat": False,
    "replayed": False,
    "standing": False,
    "settled": False,
    "message": FULL.message,
    "contract": "ship_order",
    "contract_version": "3",
    "target": "order/7",
    "operation": "op-1",
    "tenant": "acme",
    "principal": "agent",
    "stamp": "rb-1",
    "row": "REC-10",
    "recovery": "backward_compensation",
    "code": "a-code",
    "detail": "A detail.",
    "hold": "frozen",
    "review": "a review",
    "incident": "an incident",
    "compensation": "act-2",
    "approval": "",
    "approved_by": [],
    "resolution": "",
    "contested": False,
    "claims": [],
    "fallen": [],
    "attempts": 1,
    "due_us": 5_000,
    "parts_done": ["shipment"],
    "parts_open": ["invoice"],
    "observation": {
        "status": "success",
        "dispatched": True,
        "code": "http.200",
        "detail": "OK",
        "reference": "9",
        "at_us": 1_000,
        "http_status": 200,
        "level": 1,
        "body": {"id": 9},
    },
    "before": {"shipped": False},
    "authoritative": {"shipped": True},
    "postconditions": [
        {
            "name": "shipped",
            "group": "shipment",
            "truth": "holds",
            "source": "a.shipped",
            "reason": "seen",
            "values": [["a.shipped", True]],
        },
        {"name": "billed", "group": None, "truth": "violated", "source": "a.billed", "reason": "", "values": []},
    ],
    "ledger_entry": "act-1/5",
    "trace": "4bf9",
    "erased_us": 0,
    "exit_code": 4,
}


def test_the_form_for_programs_holds_everything_by_fixed_names() -> None:
    assert FULL.as_json() == FULL_JSON
    assert OUTCOME_FORMAT == 1


def test_what_never_was_is_null_or_empty_for_programs() -> None:
    bare = BARE.as_json()
    assert (
        bare["discrepancy"] is bare["observation"] is bare["before"] is bare["authoritative"] is bare["due_us"] is None
    )
    for name in ("row", "recovery", "code", "detail", "hold", "review", "incident", "compensation", "trace"):
        assert bare[name] == ""
    assert bare["parts_done"] == bare["parts_open"] == bare["postconditions"] == []
    assert (bare["attempts"], bare["exit_code"], bare["verified"], bare["standing"]) == (0, 0, True, True)
    assert (BARE.contested, BARE.proves, BARE.kind, dict(BARE.told)) == (False, "", "", {})


def test_the_present_flags_are_for_programs_too() -> None:
    one = replace(BARE, may_repeat=True, replayed=True).as_json()
    assert (one["may_repeat"], one["replayed"], one["settled"]) == (True, True, True)


@pytest.mark.parametrize("word", [Resolution.ATTESTED_DONE, Resolution.ATTESTED_NOT_DONE])
def test_what_was_attested_waits_for_nobody_and_is_still_not_verified(word: Resolution) -> None:
    held = replace(BARE, state=State.REVIEW_REQUIRED, verdict=Verdict.UNDETERMINED)
    assert held.exit_code == 4
    attested = replace(held, resolution=word)
    assert (attested.exit_code, attested.verified) == (3, False)
