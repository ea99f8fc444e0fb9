"""Who has to look at what, and what he may decide: tables, proven over every state, row, class and standing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from readback.domain.contract.freezing import FreezeScope, freeze_subjects, freezes, subjects
from readback.domain.finding import Finding
from readback.domain.idempotency import Resolution
from readback.domain.people.incident import AT_LEAST, BY_CLASS, Severity, cause_of, incident_id, severity_of
from readback.domain.people.review import (
    ACTS,
    BREAK_GLASS,
    CONTESTED,
    RESOLUTION_OF,
    Choice,
    Decision,
    Ending,
    ReviewFacts,
    choice,
    choices,
    in_queue,
    lift_bytes,
    path_of,
    resolution_bytes,
)
from readback.domain.recovery.table import DEFAULT_TABLE, EFFECTS, RecoveryAction, review_trigger, situations_of
from readback.domain.side_effect import ReviewTrigger, SideEffect
from readback.domain.state import TERMINAL, State, can

S, A, D, F = State, RecoveryAction, Decision, Finding
HIGH = (SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION)
OPEN = (S.PROPOSED, S.VALIDATED, S.EXECUTING, S.ACCEPTED, S.PENDING, S.COMMITTED)


# --- the queue ----------------------------------------------------------------------------------------------------


def ends_of() -> list[tuple[Ending, SideEffect, bool]]:
    """Every row in every situation that it decides, with each state that its action can leave an action in."""
    found: dict[tuple[Ending, SideEffect, bool], None] = {}
    for row in DEFAULT_TABLE.rows:
        for base in situations_of((row,)):
            for side_effect in SideEffect:
                situation = replace(base, side_effect=side_effect)
                if not row.matches(situation) or DEFAULT_TABLE.decide(row.finding, situation) is not row:
                    continue
                trigger = review_trigger(row.finding, situation)
                for state in states_after(row.action):
                    ending = Ending(state, row.action, row.finding.value, trigger)
                    found[ending, side_effect, situation.within_window] = None
    return list(found)


def states_after(action: RecoveryAction) -> tuple[State, ...]:
    """Where a row's action leaves an action: what `EFFECTS` says, and what it comes to when it cannot be done."""
    return {
        A.RETRY_VERIFICATION: (S.PENDING, S.UNKNOWN, S.REVIEW_REQUIRED),
        A.FORCE_STRONG_READ: (S.PENDING, S.UNKNOWN, S.REVIEW_REQUIRED),
        A.HOLD_PENDING: (S.PENDING, S.UNKNOWN, S.REVIEW_REQUIRED),
        A.POLL_IDEMPOTENCY_RECORD: (S.PENDING, S.UNKNOWN, S.REVIEW_REQUIRED),
        A.KEEP_UNKNOWN: (S.UNKNOWN, S.REVIEW_REQUIRED),
        A.COMPENSATE_OR_ROLL_BACK: (S.COMPENSATING, S.RECONCILIATION_FAILED, S.ROLLED_BACK),
        A.COMPENSATE_AND_STOP: (S.COMPENSATING, S.RECONCILIATION_FAILED),
        A.BACKWARD_COMPENSATION: (S.COMPENSATING, S.RECONCILIATION_FAILED),
        A.FORWARD_RECOVERY: (S.FORWARD_RECOVERY, S.REVIEW_REQUIRED),
    }.get(action, (EFFECTS[action].target_state,))


ENDS = ends_of()


def test_every_row_comes_up() -> None:
    assert {ending.recovery for ending, _, _ in ENDS} == {row.action for row in DEFAULT_TABLE.rows}
    assert len(ENDS) > 300


@pytest.mark.requirement("STRATEGY-manual-review", "TRUTH-hold-queue")
def test_whatever_needs_a_person_is_in_the_queue_and_says_why() -> None:
    for ending, side_effect, within_window in ENDS:
        why = in_queue(ending)
        case = f"{ending} of {side_effect}"
        if ending.state in (S.REVIEW_REQUIRED, S.COMPENSATION_FAILED):
            assert why == ending.found, case
        elif ending.state is S.UNKNOWN and ending.recovery is not A.REPORT_UNVERIFIED:
            assert why, case  # unknown: a person may know
        elif EFFECTS[ending.recovery].opens_review:
            assert why, case
        elif ending.state not in OPEN and ending.state is not S.RECONCILED_SUCCESS and ending.trigger is not None:
            assert why == ending.trigger.value, case  # its class wants somebody to look
        if within_window and ending.state in OPEN:
            assert not why, case  # the next reading may say otherwise


@pytest.mark.requirement("TRUTH-hold-queue")
def test_what_is_settled_well_is_not_in_the_queue() -> None:
    for ending, _, _ in ENDS:
        if ending.state is S.RECONCILED_SUCCESS:
            assert in_queue(ending) == ""
    calm = [e for e, c, _ in ENDS if e.state in (S.FAILED, S.COMPENSATING) and c not in HIGH and e.trigger is None]
    assert calm
    assert {in_queue(e) for e in calm} == {""}
    reported = [e for e, c, _ in ENDS if e.recovery is A.REPORT_UNVERIFIED and e.trigger is None]
    assert reported
    assert {in_queue(e) for e in reported} == {""}


def test_an_unverifiable_result_of_high_impact_is_in_the_queue() -> None:
    found = [(e, c) for e, c, _ in ENDS if e.found == F.UNVERIFIABLE.value]
    assert {bool(in_queue(e)) for e, c in found if c in (*HIGH, SideEffect.MEDIUM_RISK_WRITE)} == {True}


def test_a_success_under_break_glass_is_in_the_queue_and_a_contested_one_too() -> None:
    done = Ending(S.RECONCILED_SUCCESS, A.ACCEPT, "verified", ReviewTrigger.ALWAYS)
    assert in_queue(done) == ""
    assert in_queue(replace(done, break_glass=True)) == BREAK_GLASS
    assert in_queue(replace(done, contested=True, break_glass=True)) == CONTESTED


@pytest.mark.parametrize("state", State)
def test_the_queue_knows_every_state(state: State) -> None:
    assert isinstance(in_queue(Ending(state, A.KEEP_UNKNOWN, "unknown")), str)


# --- the choices --------------------------------------------------------------------------------------------------


def standings() -> list[ReviewFacts]:
    flags = product((False, True), repeat=6)
    return [
        ReviewFacts(state, review, hold, executed, shown, reversible, readable, blind, forward, resolution, loaded)
        for executed, shown, reversible, readable, blind, forward in flags
        for state in State
        for review, hold in (("mismatch", ""), ("compensation_failed", ""), ("approval", "approval"))
        for resolution in Resolution
        for loaded in (None, False)
    ]


STANDINGS = standings()


def open_to(standing: ReviewFacts) -> set[Decision]:
    return {one.decision for one in choices(standing) if one.open}


@pytest.mark.requirement("TRUTH-hold-packet")
@pytest.mark.slow
def test_every_decision_is_answered_in_every_standing_with_what_it_will_do_or_why_not() -> None:
    for standing in STANDINGS:
        found = choices(standing)
        assert [one.decision for one in found] == list(Decision)
        assert all(one.will and bool(one.why_not) is not one.open for one in found)
        assert all(choice(one.decision, standing) == one for one in found)


@pytest.mark.slow
def test_every_open_decision_walks_a_way_that_the_state_machine_has() -> None:
    for standing in STANDINGS:
        for decision in open_to(standing):
            state = standing.state
            for step in path_of(decision, state):
                assert can(state, step), (decision, standing)
                state = step


@pytest.mark.requirement("TRUTH-hold-attestation", "TRUTH-hold-resolution")
def test_no_decision_leads_to_success() -> None:
    for decision, state in product(Decision, State):
        assert S.RECONCILED_SUCCESS not in path_of(decision, state)
    attests = {d for d in Decision if RESOLUTION_OF[d] is not Resolution.NONE}
    assert attests == {D.ATTEST_DONE, D.ATTEST_NOT_DONE}
    assert not attests & ACTS
    assert all(path_of(decision, state) == () for decision in attests for state in State)


@pytest.mark.slow
def test_nothing_is_executed_again_that_may_have_been_executed() -> None:
    for standing in STANDINGS:
        if D.REOPEN in open_to(standing):
            assert not standing.executed or standing.resolution is Resolution.ATTESTED_NOT_DONE
            assert not standing.blind
            assert standing.hold != "approval"


@pytest.mark.slow
def test_nothing_is_reversed_that_no_reading_shows_or_that_has_no_compensation() -> None:
    for standing in STANDINGS:
        if D.COMPENSATE in open_to(standing):
            assert standing.effect_shown
            assert standing.reversible
            assert not standing.blind


@pytest.mark.slow
def test_nobody_attests_against_a_reading_that_a_thing_was_not_done() -> None:
    for standing in STANDINGS:
        if D.ATTEST_NOT_DONE in open_to(standing) and standing.state is not S.RECONCILED_SUCCESS:
            assert not standing.effect_shown
            assert standing.executed


@pytest.mark.slow
def test_what_is_worked_on_is_not_decided_and_what_has_ended_only_closed() -> None:
    for standing in STANDINGS:
        state, found = standing.state, open_to(standing)
        if state is S.VALIDATED and standing.hold:
            assert found == {D.ABANDON}
        elif state not in TERMINAL and state is not S.UNKNOWN:
            assert found == set()
        elif state in (S.COMPENSATED, S.ROLLED_BACK, S.ABANDONED):
            assert found == {D.ABANDON}
        elif state is S.RECONCILED_SUCCESS:
            assert found == {D.ABANDON, D.ATTEST_DONE, D.ATTEST_NOT_DONE}
        elif state is S.FAILED:
            assert found == {D.ABANDON} | ({D.ATTEST_DONE} if standing.executed else set())


def test_without_its_contract_nothing_is_done_that_needs_it() -> None:
    for standing in STANDINGS:
        if standing.loaded is False:
            assert not open_to(standing) & ACTS


@pytest.mark.slow
def test_forward_goes_only_what_is_past_its_pivot() -> None:
    assert all(standing.forward for standing in STANDINGS if D.GO_FORWARD in open_to(standing))


def test_what_closing_does_is_said_as_such() -> None:
    waiting, ended = ReviewFacts(S.REVIEW_REQUIRED, "mismatch"), ReviewFacts(S.FAILED, "mismatch")
    assert choice(D.ABANDON, waiting).will.startswith("Stops the action for good")
    assert choice(D.ABANDON, ended).will.startswith("Closes the review")
    assert Choice(D.ABANDON, "x").as_json() == {"decision": "abandon", "open": True, "will": "x", "why_not": ""}


def test_what_is_signed_binds_everything_that_it_is_about() -> None:
    given = ("a1", "acme", 3, "abandon", "eve", "why")
    signed = resolution_bytes(*given)
    others = [
        resolution_bytes(*given[:n], 4 if n == 2 else "other", *given[n + 1 :])  # type: ignore[arg-type]
        for n in range(len(given))
    ]
    assert len({signed, *others}) == 1 + len(given)
    lifted = lift_bytes("acme", "resource:x", (("a1", 1), ("a2", 2)), "eve", "why")
    assert lifted != signed
    assert lift_bytes("acme", "resource:x", (("a1", 1),), "eve", "why") != lifted
    assert lift_bytes("acme", "resource:x", (("a1", 1), ("a2", 3)), "eve", "why") != lifted, "it was frozen again"


# --- freezes ------------------------------------------------------------------------------------------------------

NAMED = {"tenant": "acme", "principal": "agent:ops", "contract": "pay", "target": "order/1"}


@pytest.mark.requirement("STRATEGY-fail-closed-hold")
def test_a_row_that_freezes_does_so_in_every_class_and_state() -> None:
    for side_effect, state in product(SideEffect, State):
        assert freezes(side_effect, state, by_row=True, executed=True)


def test_a_critical_mutation_freezes_wherever_it_was_executed_and_is_neither_verified_nor_open_nor_taken_back() -> None:
    expected = {
        *(S.UNKNOWN, S.REVIEW_REQUIRED, S.FAILED, S.VERIFICATION_TIMEOUT, S.PARTIALLY_COMMITTED),
        *(S.COMPENSATION_FAILED, S.FORWARD_RECOVERY),
    }
    for side_effect, state, executed in product(SideEffect, State, (False, True)):
        wanted = executed and state in expected and side_effect is SideEffect.CRITICAL_MUTATION
        assert freezes(side_effect, state, by_row=False, executed=executed) is wanted


def test_subjects_are_named_in_one_way() -> None:
    assert subjects((FreezeScope.RESOURCE,), **NAMED) == ("resource:order/1",)
    assert subjects(FreezeScope, **NAMED) == freeze_subjects(**NAMED)
    assert freeze_subjects(**NAMED) == ("resource:order/1", "principal:agent:ops", "tool:pay", "tenant:acme")


# --- incidents ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("STRATEGY-incident")
@pytest.mark.parametrize("finding", Finding)
def test_an_incident_is_as_severe_as_its_class_and_no_less_than_its_finding(finding: Finding) -> None:
    for side_effect in SideEffect:
        severity = severity_of(finding, side_effect)
        assert severity.rank >= BY_CLASS[side_effect].rank
        assert severity.rank >= AT_LEAST.get(finding, Severity.LOW).rank
    assert severity_of(finding, SideEffect.CRITICAL_MUTATION) is Severity.CRITICAL


def test_every_class_has_a_severity_and_the_worse_class_never_a_lower_one() -> None:
    ranks = [BY_CLASS[side_effect].rank for side_effect in SideEffect]
    assert ranks == sorted(ranks)


def test_a_wrong_target_is_critical_in_every_class() -> None:
    assert {severity_of(F.WRONG_TARGET, side_effect) for side_effect in SideEffect} == {Severity.CRITICAL}


def test_a_finding_that_adds_nothing_leaves_an_incident_as_severe_as_its_class() -> None:
    for finding in set(Finding) - set(AT_LEAST):
        assert {each: severity_of(finding, each) for each in SideEffect} == BY_CLASS


def test_a_verifier_that_keeps_failing_is_its_sources_incident_and_everything_else_its_actions() -> None:
    assert cause_of(F.VERIFIER_ERROR, "a1", ("orders", "audit")) == "source:orders"
    assert cause_of(F.VERIFIER_ERROR, "a1") == "action:a1:verifier_error"
    assert cause_of(F.WRONG_TARGET, "a1", ("orders",)) == "action:a1:wrong_target"
    assert incident_id("a1", 7) == "inc-a1-7"
