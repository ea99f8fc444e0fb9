"""The floor below all recovery tables, condition by condition: what no operator's table can bring about."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.finding import Finding
from readback.domain.recovery.action import EFFECTS, RecoveryAction
from readback.domain.recovery.rule import DOMAINS, RecoveryTable, Reversal, Row, Situation, situations_of
from readback.domain.recovery.table import DEFAULT_TABLE, review_trigger
from readback.domain.side_effect import ReviewTrigger, SideEffect
from readback.errors import SettingsError

F, A = Finding, RecoveryAction
BELOW_CRITICAL = tuple(one for one in SideEffect if one is not SideEffect.CRITICAL_MUTATION)
BELOW_HIGH = BELOW_CRITICAL[:-1]
SHOWN: dict[str, tuple[Any, ...]] = {
    "effect_shown": (True,),
    "pivot_passed": (False,),
    "reversible": (Reversal.ROLLBACK_OPEN, Reversal.COMPENSABLE),
}
FINAL: dict[str, tuple[Any, ...]] = {"within_window": (False,), "maybe_stale": (False,)}
DEAD: dict[str, tuple[Any, ...]] = {
    "effect_shown": (False,),
    "dead": (True,),
    "late_open": (False,),
    "key_honoured": (True,),
    "maybe_stale": (False,),
    "side_effect": BELOW_CRITICAL,
}
NARROWED: dict[RecoveryAction, dict[str, tuple[Any, ...]]] = {
    A.COMPENSATE_OR_ROLL_BACK: {**FINAL, "side_effect": BELOW_HIGH},
    A.COMPENSATE_AND_STOP: {"side_effect": BELOW_CRITICAL},
    A.RECORD_IDEMPOTENT_REPLAY: {"side_effect": BELOW_HIGH},
}
"""What the floor asks for beside the row's own conditions, of what the rows above it have left."""
DEMANDED: list[tuple[RecoveryAction, Finding, dict[str, tuple[Any, ...]]]] = [
    (A.COMPENSATE_OR_ROLL_BACK, F.VALUE_MISMATCH, SHOWN),
    (A.COMPENSATE_AND_STOP, F.VERIFICATION_TIMEOUT, SHOWN),
    (A.BACKWARD_COMPENSATION, F.PARTIAL_SUCCESS, SHOWN),
    (A.RETRY_SAME_KEY, F.REFUTED_DEAD, DEAD),
    (A.RECORD_IDEMPOTENT_REPLAY, F.DUPLICATE_SIDE_EFFECT, {"equivalent_duplicate": (True,)}),
    (A.FORWARD_RECOVERY, F.PARTIAL_SUCCESS, {"pivot_passed": (True,)}),
    (A.FORCE_STRONG_READ, F.UNKNOWN, {"maybe_stale": (True,)}),
    (A.DEFER_OR_FAIL, F.PROVIDER_OUTAGE, {"executed": (False,)}),
    (A.REVALIDATE_APPROVAL, F.POLICY_VERSION_MISMATCH, {"executed": (False,)}),
]
PLAIN: dict[str, Any] = {name: values[0] for name, values in DOMAINS.items()}


def problems(*rows: Row) -> list[str]:
    """What is wrong with a table of these rows alone, beside all that it lacks."""
    with pytest.raises(SettingsError) as refused:
        RecoveryTable(rows).check()
    found = refused.value.details["problems"]
    assert isinstance(found, list)
    assert str(found[0]) in refused.value.message
    return [str(one) for one in found]


def row(finding: Finding, action: RecoveryAction, when: dict[str, tuple[Any, ...]]) -> Row:
    return Row("X-1", finding, (when,), action, "Ours", "A test's row.", ours=True)


@pytest.mark.slow
@pytest.mark.parametrize(("action", "finding", "demanded"), DEMANDED, ids=lambda one: getattr(one, "value", None))
def test_an_action_is_refused_where_one_of_its_conditions_is_not_demanded(
    action: RecoveryAction, finding: Finding, demanded: dict[str, tuple[Any, ...]]
) -> None:
    narrow = {**demanded, **NARROWED.get(action, {}), "repeated": (True,)}
    assert not [one for one in problems(row(finding, action, narrow)) if "X-1" in one]
    for name in demanded:
        lacking = {key: value for key, value in narrow.items() if key != name}
        said = f"X-1 chooses {action.value} without demanding {name}."
        assert said in problems(row(finding, action, lacking))
        assert said in problems(row(finding, action, {**narrow, name: DOMAINS[name]}))


@pytest.mark.slow
def test_each_success_has_the_one_finding_that_it_may_be_made_of() -> None:
    allowed = {
        A.ACCEPT: F.VERIFIED,
        A.RECORD_NO_OP: F.NO_OP_ALLOWED,
        A.RECORD_IDEMPOTENT_REPLAY: F.DUPLICATE_SIDE_EFFECT,
    }
    for action, only in allowed.items():
        for finding in Finding:
            said = f"X-1 makes a success of {finding.value}."
            found = problems(row(finding, action, {"equivalent_duplicate": (True,), "repeated": (True,)}))
            assert (said in found) is (finding is not only)


def test_a_gap_is_told_once_a_finding() -> None:
    rest = tuple(one for one in DEFAULT_TABLE.rows if one.finding not in (F.UNKNOWN, F.VERIFIED))
    only_sometimes = row(F.UNKNOWN, A.HOLD_AND_ESCALATE, {"repeated": (True,), "dead": (True,)})
    with pytest.raises(SettingsError) as caught:
        RecoveryTable((only_sometimes, *rest)).check()
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert [str(one).split(" for ")[0] for one in found] == ["verified has no row", "unknown has no row"]


def test_a_field_that_no_row_names_stands_at_its_first_value() -> None:
    assert list(situations_of(())) == [Situation(**PLAIN)]


def test_a_row_entails_what_its_action_entails() -> None:
    for one in DEFAULT_TABLE.rows:
        effect = EFFECTS[one.action]
        assert (one.opens_review, one.opens_incident, one.freezes) == (
            effect.opens_review,
            effect.opens_incident,
            effect.freezes,
        )


def test_a_stale_reading_opens_no_review_save_of_a_success() -> None:
    stale = Situation(**{**PLAIN, "side_effect": SideEffect.CRITICAL_MUTATION, "maybe_stale": True})
    for finding in Finding:
        expected = ReviewTrigger.ALWAYS if finding is F.VERIFIED else None
        assert review_trigger(finding, stale) is expected


@pytest.mark.parametrize(
    "cls", [SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION], ids=lambda one: one.value
)
@pytest.mark.parametrize("action", [A.KEEP_UNKNOWN, A.REPORT_UNVERIFIED], ids=lambda one: one.value)
@pytest.mark.parametrize(
    "finding",
    [F.VERIFICATION_TIMEOUT, F.PENDING_TIMEOUT, F.PROVIDER_OUTAGE, F.UNVERIFIABLE],
    ids=lambda one: one.value,
)
def test_no_table_leaves_the_timeout_of_what_matters_most_unknown_without_a_person(
    finding: Finding, action: RecoveryAction, cls: SideEffect
) -> None:
    over = {"executed": (True,), "within_window": (False,), "key_record": (False,)}
    silent = row(finding, action, {"side_effect": (cls,), **over})
    with pytest.raises(SettingsError, match="X-1"):
        RecoveryTable((silent, *DEFAULT_TABLE.rows)).check()
