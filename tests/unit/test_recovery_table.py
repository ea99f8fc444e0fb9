"""The recovery table: every row of the specification where it applies, totality, and the floor below all tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.domain.discrepancy import DISCREPANCIES, Discrepancy
from readback.domain.discrepancy import most_severe as most_severe_class
from readback.domain.finding import FINDING_OF, Finding, most_severe
from readback.domain.recovery.rule import DOMAINS, table_of
from readback.domain.recovery.table import (
    DEFAULT_TABLE,
    EFFECTS,
    RecoveryAction,
    RecoveryTable,
    Reversal,
    Row,
    Situation,
    decide,
    review_trigger,
    situations_of,
)
from readback.domain.side_effect import ReviewTrigger, SideEffect
from readback.domain.state import State
from readback.errors import InvariantError, SettingsError
from tests.requirements.manifest import requirement_ids

pytestmark = pytest.mark.slow

F, A = Finding, RecoveryAction
LOW, MEDIUM, HIGH, CRITICAL = (
    SideEffect.LOW_RISK_INTERNAL,
    SideEffect.MEDIUM_RISK_WRITE,
    SideEffect.HIGH_RISK_EXTERNAL,
    SideEffect.CRITICAL_MUTATION,
)
REVERSING = {A.COMPENSATE_OR_ROLL_BACK, A.COMPENSATE_AND_STOP, A.BACKWARD_COMPENSATION}
SUCCESS = {A.ACCEPT, A.RECORD_NO_OP, A.RECORD_IDEMPOTENT_REPLAY}

# An executed low-risk write after its window, strongly read, with nothing more known.
AFTER = Situation(
    side_effect=LOW,
    within_window=False,
    maybe_stale=False,
    reversible=Reversal.NONE,
    pivot_passed=False,
    effect_shown=False,
    executed=True,
    key_record=False,
    key_honoured=False,
    dead=False,
    equivalent_duplicate=False,
    repeated=False,
    late_open=True,
)
GONE: dict[str, Any] = {"dead": True, "late_open": False}
OURS_SHOWN: dict[str, Any] = {"effect_shown": True, "reversible": Reversal.COMPENSABLE}
SITUATIONS = st.builds(Situation, **{name: st.sampled_from(values) for name, values in DOMAINS.items()})


def when(**changes: Any) -> Situation:
    return replace(AFTER, **changes)


# The specification's rows, in the order printed: finding, condition, action, its type, where it leads.
PRINTED: Mapping[str, tuple[Finding, Situation, RecoveryAction, str, State]] = {
    "REC-01": (
        F.AUTHORITY_MISMATCH,
        when(within_window=True, maybe_stale=True),
        A.RETRY_VERIFICATION,
        "Observation / Authority Mismatch",
        State.PENDING,
    ),
    "REC-02": (
        F.AUTHORITY_MISMATCH,
        when(maybe_stale=True),
        A.FORCE_STRONG_READ,
        "Observation / Authority Mismatch",
        State.PENDING,
    ),
    "REC-03": (
        F.AUTHORITY_MISMATCH,
        when(**OURS_SHOWN),
        A.COMPENSATE_OR_ROLL_BACK,
        "Observation / Authority Mismatch",
        State.COMPENSATING,
    ),
    "REC-04": (
        F.AUTHORITY_MISMATCH,
        when(effect_shown=True),
        A.HOLD_AND_ESCALATE,
        "Observation / Authority Mismatch",
        State.REVIEW_REQUIRED,
    ),
    "REC-05": (
        F.VERIFICATION_TIMEOUT,
        when(**OURS_SHOWN),
        A.COMPENSATE_AND_STOP,
        "Verification Timeout",
        State.COMPENSATING,
    ),
    "REC-06": (
        F.VERIFICATION_TIMEOUT,
        when(),
        A.HOLD_AND_ESCALATE,
        "Verification Timeout",
        State.REVIEW_REQUIRED,
    ),
    "REC-07": (
        F.PENDING_TIMEOUT,
        when(key_record=True),
        A.POLL_IDEMPOTENCY_RECORD,
        "Pending Timeout",
        State.PENDING,
    ),
    "REC-08": (
        F.PENDING_TIMEOUT,
        when(),
        A.FREEZE_AND_RECONCILE,
        "Pending Timeout",
        State.REVIEW_REQUIRED,
    ),
    "REC-09": (
        F.PARTIAL_SUCCESS,
        when(**OURS_SHOWN),
        A.BACKWARD_COMPENSATION,
        "Partial Success",
        State.COMPENSATING,
    ),
    "REC-10": (
        F.PARTIAL_SUCCESS,
        when(pivot_passed=True, **OURS_SHOWN),
        A.FORWARD_RECOVERY,
        "Partial Success",
        State.FORWARD_RECOVERY,
    ),
    "REC-11": (F.STALE_STATE, when(), A.REFRESH_AND_REPLAN, "Stale State Error", State.FAILED),
    "REC-12": (
        F.DUPLICATE_SIDE_EFFECT,
        when(side_effect=HIGH, effect_shown=True),
        A.FREEZE_AND_ALERT,
        "Duplicate Side Effect",
        State.REVIEW_REQUIRED,
    ),
    "REC-13": (
        F.DUPLICATE_SIDE_EFFECT,
        when(equivalent_duplicate=True, effect_shown=True),
        A.RECORD_IDEMPOTENT_REPLAY,
        "Duplicate Side Effect",
        State.RECONCILED_SUCCESS,
    ),
    "REC-14": (
        F.WRONG_TARGET,
        when(effect_shown=True),
        A.FREEZE_AND_ALARM,
        "Wrong Target Modified",
        State.REVIEW_REQUIRED,
    ),
    "REC-15": (F.UNVERIFIABLE, when(), A.REPORT_UNVERIFIED, "Unverifiable Result", State.UNKNOWN),
    "REC-16": (
        F.UNVERIFIABLE,
        when(side_effect=HIGH),
        A.HOLD_AND_ESCALATE,
        "Unverifiable Result",
        State.REVIEW_REQUIRED,
    ),
    "REC-17": (
        F.COMPENSATION_FAILED,
        when(**OURS_SHOWN),
        A.REVIEW_AND_INCIDENT,
        "Compensation Failure",
        State.REVIEW_REQUIRED,
    ),
    "REC-18": (F.PROVIDER_OUTAGE, when(executed=False), A.DEFER_OR_FAIL, "Provider Outage", State.VALIDATED),
    "REC-19": (F.PROVIDER_OUTAGE, when(), A.HOLD_PENDING, "Provider Outage", State.PENDING),
    "REC-20": (
        F.POLICY_VERSION_MISMATCH,
        when(executed=False),
        A.REVALIDATE_APPROVAL,
        "Policy Version Mismatch",
        State.VALIDATED,
    ),
    "REC-21": (
        F.APPROVAL_MISMATCH,
        when(executed=False),
        A.FAIL_CLOSED,
        "Approval Token Mismatch",
        State.FAILED,
    ),
}


@pytest.mark.parametrize("row_id", PRINTED)
def test_each_row_of_the_specification_decides_its_own_case(row_id: str) -> None:
    finding, situation, action, label, target = PRINTED[row_id]
    row = decide(finding, situation)
    assert (row.id, row.action, row.label, row.target_state) == (row_id, action, label, target)
    assert not row.ours
    assert row.rationale


@pytest.mark.requirement("REC-01", "REC-02", "REC-03", "REC-04", "REC-05", "REC-06", "REC-07")
@pytest.mark.requirement("REC-08", "REC-09", "REC-10", "REC-11", "REC-12", "REC-13", "REC-14")
@pytest.mark.requirement("REC-15", "REC-16", "REC-17", "REC-18", "REC-19", "REC-20", "REC-21")
def test_the_rows_of_the_specification_are_all_there_in_its_order() -> None:
    assert [row.id for row in DEFAULT_TABLE.rows if not row.ours] == list(PRINTED)
    for row_id, (finding, situation, action, *_) in PRINTED.items():
        assert decide(finding, situation).id == row_id
        assert decide(finding, situation).action is action
    assert all(row.id.startswith("RB-") for row in DEFAULT_TABLE.rows if row.ours)


OURS = [
    (F.VERIFIED, when(effect_shown=True), A.ACCEPT),
    (F.NO_OP_ALLOWED, when(), A.RECORD_NO_OP),
    (F.FAILED_BEFORE_EFFECT, when(executed=False, **GONE), A.FAIL),
    # A mismatch without an effect of ours: nothing is reversed.
    (F.AUTHORITY_MISMATCH, when(reversible=Reversal.COMPENSABLE), A.KEEP_UNKNOWN),
    (F.AUTHORITY_MISMATCH, when(late_open=False), A.KEEP_UNKNOWN),
    (F.AUTHORITY_MISMATCH, when(searched=True, **GONE), A.FAIL),
    (F.AUTHORITY_MISMATCH, when(**GONE), A.HOLD_AND_ESCALATE),
    (F.AUTHORITY_MISMATCH, when(side_effect=HIGH, **OURS_SHOWN), A.HOLD_AND_ESCALATE),
    (F.AUTHORITY_MISMATCH, when(pivot_passed=True, **OURS_SHOWN), A.HOLD_AND_ESCALATE),
    (
        F.AUTHORITY_MISMATCH,
        when(effect_shown=True, reversible=Reversal.ROLLBACK_OPEN),
        A.COMPENSATE_OR_ROLL_BACK,
    ),
    (F.VERIFICATION_TIMEOUT, when(reversible=Reversal.COMPENSABLE), A.KEEP_UNKNOWN),
    (F.VERIFICATION_TIMEOUT, when(reversible=Reversal.COMPENSABLE, **GONE), A.KEEP_UNKNOWN),
    (
        F.VERIFICATION_TIMEOUT,
        when(reversible=Reversal.COMPENSABLE, side_effect=HIGH),
        A.HOLD_AND_ESCALATE,
    ),
    (F.VERIFICATION_TIMEOUT, when(pivot_passed=True, **OURS_SHOWN), A.HOLD_AND_ESCALATE),
    (F.VERIFICATION_TIMEOUT, when(side_effect=SideEffect.READ_ONLY), A.REPORT_UNVERIFIED),
    (F.PENDING_TIMEOUT, when(within_window=True), A.RETRY_VERIFICATION),
    (F.PENDING_TIMEOUT, when(side_effect=SideEffect.READ_ONLY), A.REPORT_UNVERIFIED),
    (F.PARTIAL_SUCCESS, when(reversible=Reversal.COMPENSABLE), A.KEEP_UNKNOWN),
    (F.PARTIAL_SUCCESS, when(effect_shown=True), A.HOLD_AND_ESCALATE),
    (F.DUPLICATE_SIDE_EFFECT, when(effect_shown=True), A.FREEZE_AND_RECONCILE),
    (F.DUPLICATE_SIDE_EFFECT, when(side_effect=CRITICAL, equivalent_duplicate=True), A.FREEZE_AND_ALERT),
    (F.WRONG_TARGET, when(side_effect=SideEffect.READ_ONLY), A.HOLD_AND_ESCALATE),
    (F.HIDDEN_SIDE_EFFECT, when(effect_shown=True), A.HOLD_AND_ESCALATE),
    (F.HIDDEN_SIDE_EFFECT, when(effect_shown=True, side_effect=HIGH), A.FREEZE_AND_ALERT),
    (F.UNVERIFIABLE, when(side_effect=MEDIUM), A.HOLD_AND_ESCALATE),
    (F.COMPENSATION_FAILED, when(side_effect=SideEffect.EPHEMERAL_WRITE), A.HOLD_AND_ESCALATE),
    (F.POLICY_VERSION_MISMATCH, when(), A.HOLD_AND_ESCALATE),
    (F.APPROVAL_MISMATCH, when(), A.FREEZE_AND_ALARM),
    (F.VERIFIER_ERROR, when(within_window=True, repeated=True), A.RETRY_VERIFICATION),
    (F.VERIFIER_ERROR, when(repeated=True), A.REVIEW_AND_INCIDENT),
    (F.VERIFIER_ERROR, when(side_effect=HIGH), A.HOLD_AND_ESCALATE),
    (F.VERIFIER_ERROR, when(), A.KEEP_UNKNOWN),
    (F.REFUTED_DEAD, when(**GONE), A.FAIL),
    (F.REFUTED_DEAD, when(maybe_stale=True, key_honoured=True, **GONE), A.FORCE_STRONG_READ),
    (F.REFUTED_DEAD, when(key_honoured=True), A.KEEP_UNKNOWN),
    (F.REFUTED_DEAD, when(key_honoured=True, effect_shown=True, **GONE), A.HOLD_AND_ESCALATE),
    (F.REFUTED_DEAD, when(key_honoured=True, **GONE), A.RETRY_SAME_KEY),
    (F.REFUTED_DEAD, when(key_honoured=True, repeated=True, **GONE), A.FAIL),
    (F.REFUTED_DEAD, when(key_honoured=True, side_effect=CRITICAL, **GONE), A.FAIL),
]


@pytest.mark.parametrize(("finding", "situation", "action"), OURS)
def test_each_row_of_ours_decides_its_own_case(finding: Finding, situation: Situation, action: RecoveryAction) -> None:
    assert decide(finding, situation).action is action


@pytest.mark.requirement("REC-own-no-op")
def test_a_no_op_has_a_row_by_whether_the_contract_allows_it() -> None:
    assert decide(F.NO_OP_ALLOWED, when()).action is A.RECORD_NO_OP
    assert decide(F.NO_OP_FAILURE, when(within_window=True)).action is A.RETRY_VERIFICATION
    assert decide(F.NO_OP_FAILURE, when(maybe_stale=True)).action is A.FORCE_STRONG_READ
    assert decide(F.NO_OP_FAILURE, when()).action is A.KEEP_UNKNOWN
    assert decide(F.NO_OP_FAILURE, when(searched=True, **GONE)).action is A.FAIL


@pytest.mark.requirement("TRUTH-kind-elsewhere")
def test_where_nobody_could_look_elsewhere_it_is_a_review_and_not_a_failure() -> None:
    assert decide(F.NO_OP_FAILURE, when(**GONE)).target_state is State.REVIEW_REQUIRED
    assert decide(F.AUTHORITY_MISMATCH, when(**GONE)).target_state is State.REVIEW_REQUIRED


@pytest.mark.requirement("REC-own-value-mismatch")
def test_a_wrong_value_has_a_row_by_reversibility_and_class() -> None:
    assert decide(F.VALUE_MISMATCH, when(within_window=True)).action is A.RETRY_VERIFICATION
    assert decide(F.VALUE_MISMATCH, when(maybe_stale=True)).action is A.FORCE_STRONG_READ
    assert decide(F.VALUE_MISMATCH, when(**OURS_SHOWN)).action is A.COMPENSATE_OR_ROLL_BACK
    assert decide(F.VALUE_MISMATCH, when(effect_shown=True)).action is A.HOLD_AND_ESCALATE
    assert decide(F.VALUE_MISMATCH, when(side_effect=HIGH, **OURS_SHOWN)).action is A.HOLD_AND_ESCALATE
    # The author is unknown: it is held, and never compensated.
    assert decide(F.VALUE_MISMATCH, when(reversible=Reversal.COMPENSABLE)).action is A.HOLD_AND_ESCALATE


@pytest.mark.requirement("REC-own-target-missing")
def test_a_missing_target_fails_and_is_never_executed_again() -> None:
    assert decide(F.TARGET_MISSING, when(searched=True, **GONE)).action is A.FAIL
    assert decide(F.TARGET_MISSING, when(**GONE)).action is A.HOLD_AND_ESCALATE
    assert decide(F.TARGET_MISSING, when(searched=True, effect_shown=True, **GONE)).action is A.HOLD_AND_ESCALATE
    assert decide(F.TARGET_MISSING, when()).action is A.KEEP_UNKNOWN
    rows = [row for row in DEFAULT_TABLE.rows if row.finding is F.TARGET_MISSING]
    assert A.RETRY_SAME_KEY not in {row.action for row in rows}


@pytest.mark.requirement("REC-own-propagation")
def test_propagation_stays_pending_and_is_looked_at_again() -> None:
    assert decide(F.PROPAGATION_DELAY, when(within_window=True)).action is A.RETRY_VERIFICATION
    assert decide(F.PROPAGATION_DELAY, when()).action is A.HOLD_PENDING
    for situation in (when(within_window=True), when()):
        assert decide(F.PROPAGATION_DELAY, situation).target_state is State.PENDING


@pytest.mark.requirement("REC-own-compensation-required")
def test_a_required_compensation_runs_where_an_effect_is_shown_and_reversible() -> None:
    assert decide(F.COMPENSATION_REQUIRED, when(**OURS_SHOWN)).action is A.BACKWARD_COMPENSATION
    high = when(side_effect=HIGH, **OURS_SHOWN)
    assert decide(F.COMPENSATION_REQUIRED, high).action is A.BACKWARD_COMPENSATION
    critical = when(side_effect=CRITICAL, **OURS_SHOWN)
    assert decide(F.COMPENSATION_REQUIRED, critical).action is A.HOLD_AND_ESCALATE
    assert decide(F.COMPENSATION_REQUIRED, when(effect_shown=True)).action is A.HOLD_AND_ESCALATE
    unseen = when(reversible=Reversal.COMPENSABLE)
    assert decide(F.COMPENSATION_REQUIRED, unseen).action is A.KEEP_UNKNOWN
    assert decide(F.COMPENSATION_REQUIRED, when(**GONE)).action is A.FAIL


@pytest.mark.requirement("REC-own-unknown", "PRINCIPLE-unknown-first-class")
def test_unknown_is_kept_looked_at_again_and_never_repeated_or_accepted() -> None:
    assert decide(F.UNKNOWN, when(within_window=True)).action is A.RETRY_VERIFICATION
    assert decide(F.UNKNOWN, when(maybe_stale=True)).action is A.FORCE_STRONG_READ
    assert decide(F.UNKNOWN, when(key_record=True)).action is A.POLL_IDEMPOTENCY_RECORD
    assert decide(F.UNKNOWN, when(side_effect=HIGH)).action is A.HOLD_AND_ESCALATE
    assert decide(F.UNKNOWN, when()).action is A.KEEP_UNKNOWN
    actions = {row.action for row in DEFAULT_TABLE.rows if row.finding is F.UNKNOWN}
    assert not actions & (SUCCESS | REVERSING | {A.RETRY_SAME_KEY, A.FAIL})


@pytest.mark.requirement("TRUTH-hold-classes-total", "REC-RULE-total")
def test_every_class_has_a_finding_and_every_finding_a_row_in_every_situation() -> None:
    assert set(FINDING_OF) == set(Discrepancy)
    assert {row.finding for row in DEFAULT_TABLE.rows} == set(Finding)
    DEFAULT_TABLE.check()


def test_the_check_really_walks_every_situation_that_rows_can_tell_apart() -> None:
    rows = tuple(row for row in DEFAULT_TABLE.rows if row.finding is F.REFUTED_DEAD)
    named = {name for row in rows for condition in row.when for name in condition}
    walked = list(situations_of(rows))
    expected = 1
    for name in named:
        expected *= len(DOMAINS[name])
    assert len(walked) == len(set(walked)) == expected


@pytest.mark.requirement("PRINCIPLE-deterministic-recovery", "TRUTH-late-compensate-shown")
@pytest.mark.requirement("REC-RULE-deterministic", "REC-RULE-no-blind-retry")
@given(finding=st.sampled_from(Finding), situation=SITUATIONS)
def test_no_decision_goes_below_the_floor(finding: Finding, situation: Situation) -> None:
    row = decide(finding, situation)
    assert decide(finding, situation) is row
    if row.action in REVERSING:
        assert situation.effect_shown
        assert not situation.pivot_passed
    if row.action is A.RETRY_SAME_KEY:
        assert finding is F.REFUTED_DEAD
        assert situation.dead
        assert not situation.late_open
        assert not situation.effect_shown
        assert situation.key_honoured
        assert situation.side_effect is not CRITICAL
    if row.action in SUCCESS:
        assert finding in (F.VERIFIED, F.NO_OP_ALLOWED, F.DUPLICATE_SIDE_EFFECT)
    if row.target_state is State.FAILED and finding in (F.REFUTED_DEAD, F.NO_OP_FAILURE, F.TARGET_MISSING):
        assert situation.dead
        assert not situation.late_open


@pytest.mark.requirement("TRUTH-hold-order", "L06")
@pytest.mark.parametrize(
    "finding", [F.AUTHORITY_MISMATCH, F.NO_OP_FAILURE, F.TARGET_MISSING, F.VALUE_MISMATCH, F.UNKNOWN]
)
def test_looking_again_comes_before_anything_that_acts(finding: Finding) -> None:
    for others in product((False, True), repeat=4):
        dead, key, shown, late = others
        seen = when(dead=dead, key_honoured=key, effect_shown=shown, late_open=late)
        assert decide(finding, replace(seen, within_window=True)).action is A.RETRY_VERIFICATION
        assert decide(finding, replace(seen, maybe_stale=True)).action is A.FORCE_STRONG_READ


@pytest.mark.requirement("REC-RULE-version")
def test_a_table_that_is_made_of_its_content_decides_the_same_and_gives_no_reasons() -> None:
    made = table_of(DEFAULT_TABLE.content)
    assert made.version == DEFAULT_TABLE.version
    assert made.rows == tuple(replace(row, label="", rationale="", ours=False) for row in DEFAULT_TABLE.rows)


@pytest.mark.requirement("REC-RULE-version")
def test_the_version_is_the_content_of_the_rows() -> None:
    rows = DEFAULT_TABLE.rows
    assert RecoveryTable(rows).version == DEFAULT_TABLE.version
    assert len(DEFAULT_TABLE.version) == 64
    assert RecoveryTable(rows[1:]).version != DEFAULT_TABLE.version
    assert RecoveryTable((rows[1], rows[0], *rows[2:])).version != DEFAULT_TABLE.version
    assert RecoveryTable((replace(rows[0], action=A.FAIL), *rows[1:])).version != DEFAULT_TABLE.version
    assert RecoveryTable((replace(rows[0], rationale="Other words."), *rows[1:])).version == (DEFAULT_TABLE.version)


def _with(*extra: Row) -> RecoveryTable:
    return RecoveryTable((*extra, *DEFAULT_TABLE.rows))


def _row(finding: Finding, action: RecoveryAction, **condition: tuple[Any, ...]) -> Row:
    return Row("X-1", finding, (condition,), action, "Ours", "A test's row.", ours=True)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (RecoveryTable(tuple(r for r in DEFAULT_TABLE.rows if r.finding is not F.UNKNOWN)), "has no row"),
        (RecoveryTable((*DEFAULT_TABLE.rows, DEFAULT_TABLE.rows[0])), "appears twice"),
        (RecoveryTable((*DEFAULT_TABLE.rows, _row(F.UNKNOWN, A.KEEP_UNKNOWN))), "can never apply"),
        (_with(_row(F.UNKNOWN, A.KEEP_UNKNOWN, mood=(True,))), "names the unknown field"),
        (_with(_row(F.UNKNOWN, A.ACCEPT)), "makes a success of unknown"),
        (_with(_row(F.UNVERIFIABLE, A.RECORD_NO_OP)), "makes a success of unverifiable"),
        (_with(_row(F.UNKNOWN, A.RETRY_SAME_KEY)), "not refuted and dead"),
        (_with(_row(F.REFUTED_DEAD, A.RETRY_SAME_KEY, dead=(True,))), "without demanding"),
        (_with(_row(F.VALUE_MISMATCH, A.COMPENSATE_OR_ROLL_BACK)), "without demanding effect_shown"),
        (_with(_row(F.DUPLICATE_SIDE_EFFECT, A.RECORD_IDEMPOTENT_REPLAY)), "equivalent_duplicate"),
        (_with(_row(F.PROVIDER_OUTAGE, A.DEFER_OR_FAIL)), "without demanding executed"),
    ],
)
def test_a_table_with_a_gap_or_below_the_floor_is_refused(table: RecoveryTable, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        table.check()
    assert said in str(caught.value)
    assert caught.value.exit_code == 5


def test_an_unchecked_table_with_a_gap_does_not_guess() -> None:
    with pytest.raises(InvariantError):
        RecoveryTable(()).decide(F.UNKNOWN, AFTER)


def test_another_table_can_be_decided_by() -> None:
    table = _with(_row(F.UNKNOWN, A.HOLD_AND_ESCALATE, repeated=(True,)))
    table.check()
    assert decide(F.UNKNOWN, when(repeated=True), table).id == "X-1"
    assert decide(F.UNKNOWN, when(), table).id == "RB-unknown"
    assert table.row("X-1") is table.rows[0]
    assert table.row("X-2") is None


def test_every_action_has_its_effects_and_is_used_by_a_row() -> None:
    assert set(EFFECTS) == set(RecoveryAction)
    assert {row.action for row in DEFAULT_TABLE.rows} == set(RecoveryAction)
    for row in DEFAULT_TABLE.rows:
        assert row.target_state is row.action.target_state
        assert row.opens_review == (row.target_state is State.REVIEW_REQUIRED)
        assert not row.freezes or row.opens_review
        assert not row.opens_incident or row.opens_review


def test_what_may_be_a_security_incident_freezes_and_alarms() -> None:
    for action in (A.FREEZE_AND_ALARM, A.FREEZE_AND_ALERT):
        effect = EFFECTS[action]
        assert (effect.opens_review, effect.opens_incident, effect.freezes) == (True, True, True)
    assert EFFECTS[A.REVIEW_AND_INCIDENT].opens_incident
    assert EFFECTS[A.FREEZE_AND_RECONCILE].freezes


@pytest.mark.parametrize("requirement_id", requirement_ids("DISC"))
def test_each_class_is_defined_with_its_code_recovery_and_finding(requirement_id: str) -> None:
    one = Discrepancy(requirement_id.removeprefix("DISC-").replace("-", "_"))
    row = DISCREPANCIES[one]
    assert one.code == requirement_id
    assert row.definition.endswith(".")
    assert row.typical_recovery.endswith(".")
    assert one in FINDING_OF


def test_there_are_twelve_classes_with_a_strict_order_of_severity() -> None:
    assert len(Discrepancy) == 12
    assert sorted(one.severity for one in Discrepancy) == list(range(12))
    assert max(Discrepancy, key=lambda one: one.severity) is Discrepancy.WRONG_TARGET_MODIFIED
    assert min(Discrepancy, key=lambda one: one.severity) is Discrepancy.NO_OP_SUCCESS
    assert most_severe_class({Discrepancy.STALE_STATE, Discrepancy.VALUE_MISMATCH}) is Discrepancy.VALUE_MISMATCH
    assert most_severe_class(set()) is None


def test_only_no_op_propagation_and_unknown_may_still_be_a_success() -> None:
    assert {one for one in Discrepancy if DISCREPANCIES[one].may_still_succeed} == {
        Discrepancy.NO_OP_SUCCESS,
        Discrepancy.PROPAGATION_DELAY,
        Discrepancy.UNKNOWN_STATE,
    }


@pytest.mark.requirement("REC-RULE-severity")
def test_of_several_findings_the_most_severe_is_decided_on() -> None:
    assert sorted(one.severity for one in Finding) == list(range(len(Finding)))
    assert most_severe({F.VERIFIED, F.WRONG_TARGET, F.DUPLICATE_SIDE_EFFECT}) is F.WRONG_TARGET
    assert most_severe({F.VERIFIED, F.UNKNOWN}) is F.UNKNOWN
    assert most_severe({F.VERIFIED, F.NO_OP_ALLOWED}) is F.NO_OP_ALLOWED
    assert most_severe(set()) is None


@pytest.mark.requirement("CLASS-RULE-repeated-mismatch")
@pytest.mark.parametrize(
    ("finding", "situation", "trigger"),
    [
        (F.VERIFIED, when(), None),
        (F.VERIFIED, when(side_effect=CRITICAL), ReviewTrigger.ALWAYS),
        (F.VALUE_MISMATCH, when(), None),
        (F.VALUE_MISMATCH, when(repeated=True), ReviewTrigger.REPEATED_MISMATCH),
        (F.VERIFIED, when(repeated=True), None),
        (F.VALUE_MISMATCH, when(side_effect=HIGH), ReviewTrigger.MISMATCH),
        (F.VALUE_MISMATCH, when(side_effect=HIGH, within_window=True), None),
        (F.VALUE_MISMATCH, when(side_effect=HIGH, maybe_stale=True), None),
        (F.PARTIAL_SUCCESS, when(side_effect=MEDIUM), ReviewTrigger.PARTIAL),
        (F.STALE_STATE, when(side_effect=MEDIUM), ReviewTrigger.STALE),
        (F.STALE_STATE, when(), None),
        (F.DUPLICATE_SIDE_EFFECT, when(side_effect=HIGH), ReviewTrigger.DUPLICATE),
        (F.PROVIDER_OUTAGE, when(side_effect=HIGH), ReviewTrigger.UNREACHABLE),
        (F.VERIFICATION_TIMEOUT, when(side_effect=HIGH), ReviewTrigger.TIMEOUT),
        (F.WRONG_TARGET, when(), ReviewTrigger.WRONG_TENANT),
    ],
)
def test_each_class_pulls_its_own_review_triggers(
    finding: Finding, situation: Situation, trigger: ReviewTrigger | None
) -> None:
    assert review_trigger(finding, situation) is trigger
