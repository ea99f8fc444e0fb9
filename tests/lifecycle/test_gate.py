"""What has to hold before anything is called, who is asked, and what is counted over actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CallerContext
from readback.errors import ContractError, SandboxEscapeError, SettingsError, UnknownPrincipalError
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import HIGH, MEDIUM, SHIP, TENANT, House, Shop


def _nothing(ctx: Context, args: Any) -> object:
    return {"status": "ok"}


def _error(ctx: Context, args: Any) -> object:
    return (500, {})


def _after(shop: Shop, error: BaseException) -> Any:
    """Readable before the action, and raising after it."""

    def look(ctx: Context, args: Any) -> Reading:
        if shop.calls:
            raise error
        return shop.show(args)

    return look


# --- preconditions ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-preconditions", "HS-02", "LIFE-proposed-validated", "STATE-validated->failed")
@pytest.mark.parametrize(
    ("require", "word"),
    [
        ("before.status == 'paid'", "does not hold"),
        ("scope.budget.left >= 1", "does not hold"),
        ("before.colour == 'red'", "cannot be told"),
        ("requested.status in ['open', 'closed']", "does not hold"),
    ],
)
def test_a_precondition_that_is_not_shown_to_hold_stops_the_action_before_the_call(
    house: House, require: str, word: str
) -> None:
    house.scope = replace(house.scope, budget={"left": 0})
    told = house.run(house.action(require={"first": require}))
    assert (told.state, told.code) == (State.FAILED, "precondition")
    assert word in told.detail
    assert house.shop.calls == []
    assert told.may_repeat
    assert told.verdict is Verdict.NOT_CHECKED
    assert "has not been executed" in told.message
    assert "completed successfully" not in told.message + told.for_model()


@pytest.mark.requirement("TRUTH-hold-preconditions")
def test_what_was_refused_reserves_nothing_and_can_be_run_when_it_holds(house: House) -> None:
    made = house.action(require={"open": "before.status == 'open'"})
    house.shop.rows["o-1"]["status"] = "locked"
    refused = house.run(made)
    house.shop.rows["o-1"]["status"] = "open"
    told = house.run(made)
    assert (told.verified, told.replayed) == (True, False)
    assert told.id != refused.id


@pytest.mark.requirement("TRUTH-hold-preconditions", "DISC-stale-state", "REC-11")
@pytest.mark.parametrize(("expected", "calls"), [("1", 1), ("2", 0), ("requested.status", 0)])
def test_an_expected_version_is_held_against_the_target_before_the_call(
    house: House, expected: str, calls: int
) -> None:
    told = house.run(house.action(expected_version=expected))
    assert len(house.shop.calls) == calls
    assert told.verified is bool(calls)
    if not calls:
        assert (told.state, told.code, told.discrepancy) == (
            State.FAILED,
            "version.stale",
            Discrepancy.STALE_STATE,
        )


@pytest.mark.requirement("TRUTH-hold-preconditions", "REC-18")
@pytest.mark.parametrize("error", [ConnectionError("down"), OSError("down"), KeyError("column"), CallHangs()])
def test_nothing_is_executed_into_an_outage_in_which_it_cannot_be_verified(house: House, error: BaseException) -> None:
    def look(ctx: Context, args: Any) -> Reading:
        raise error

    house.shop.eyes = look
    told = house.run(house.action())
    assert (told.state, told.code, told.row) == (State.FAILED, "source.unavailable", "REC-18")
    assert house.shop.calls == []
    assert told.may_repeat
    house.shop.eyes = None
    assert house.run(house.action()).verified


@pytest.mark.requirement("TRUTH-hold-preconditions")
@pytest.mark.parametrize("error", [SandboxEscapeError("It leads out."), SettingsError("It is not installed.")])
def test_what_can_never_be_read_is_not_executed_and_not_told_as_open_to_repetition(
    house: House, error: BaseException
) -> None:
    def look(ctx: Context, args: Any) -> Reading:
        raise error

    house.shop.eyes = look
    told = house.run(house.action())
    assert (told.state, told.code, house.shop.calls) == (State.FAILED, "source.unreadable", [])
    assert not told.repeat_allowed
    assert "Repetition: not as it is" in told.for_model()
    assert told.may_repeat, "its key is free: whoever mends the cause may run it again"
    house.shop.eyes = None
    assert house.run(house.action()).verified


def test_a_reader_that_shows_another_tenants_record_before_the_action_stops_it(house: House) -> None:
    house.shop.rows["o-1"]["tenant"] = "globex"
    told = house.run(house.action())
    assert (told.state, told.code) == (State.FAILED, "reader.out-of-scope")
    assert house.shop.calls == []


@pytest.mark.requirement("INPUT-unknown-principal", "TRUTH-hold-preconditions")
def test_a_principal_that_the_contract_does_not_list_is_refused_and_leaves_no_trace(house: House) -> None:
    made = house.action(principals=["agent:ops-*", "human:*"])
    with pytest.raises(UnknownPrincipalError):
        house.run(made)
    assert list(house.store.projections()) == []
    house.scope = replace(house.scope, principal="agent:ops-eu")
    house.shop.rows["o-1"]["author"] = "agent:ops-eu"
    assert house.run(made).verified


# --- critical mutations -------------------------------------------------------------------------------------------

CRITICAL: Final[dict[str, Any]] = {
    "side_effect": "critical_mutation",
    "identity": {**SHIP["identity"], "actor": "authoritative.author", "permission_scope": "not_offered"},
    "readers": (("strong", "other_system", "ledger"), ("strong", "other_system", "audit")),
}


@pytest.mark.requirement("STRATEGY-fail-closed-hold")
def test_a_critical_mutation_that_nobody_approved_is_held_and_not_called(house: House) -> None:
    held = house.run(house.action(**CRITICAL))
    assert (held.state, held.hold, held.code) == (State.VALIDATED, "approval", "approval.required")
    assert held.exit_code == 4
    assert house.shop.calls == []
    assert "approval" in held.message
    house.work(2 * 86_400)
    assert house.shop.calls == []
    assert house.get(held.id).code == "approval.expired"


@pytest.mark.requirement("TRUTH-time-cancel")
def test_what_is_held_before_execution_can_be_cancelled_by_who_asked_for_it(house: House) -> None:
    held = house.run(house.action(**CRITICAL))
    ended = house.cancel(held.id)
    assert (ended.state, ended.code) == (State.FAILED, "cancelled")
    assert house.shop.calls == []
    assert "has not been executed" in ended.message


@pytest.mark.requirement("CLASS-critical-mutation")
def test_break_glass_executes_a_critical_mutation_and_always_opens_a_review(house: House) -> None:
    house.scope = CallerContext(TENANT, "agent:ops", break_glass="the site is down")
    told = house.run(house.action(**CRITICAL))
    assert told.verified
    assert told.review == "break_glass"
    assert house.events(told.id)[0].data["break_glass"] == "the site is down"


@pytest.mark.requirement("L30", "TRUTH-verdict-12", "CLASS-critical-mutation")
@pytest.mark.parametrize("second", ["down", "denies", "wrong type"])
def test_a_critical_mutation_needs_several_sources_that_really_ran_and_agree(house: House, second: str) -> None:
    shop = house.shop
    house.scope = replace(house.scope, break_glass="a drill")
    turn = {"n": 0}

    def look(ctx: Context, args: Any) -> object:
        turn["n"] += 1
        shown = shop.show(args)
        if not shop.calls or turn["n"] % 2 == 0:
            return shown
        match second:
            case "down":
                raise ConnectionError("down")
            case "denies":
                return Reading.of({**shop.rows["o-1"], "status": "open"}, version=2)
            case _:
                return [shop.rows["o-1"]]

    shop.eyes = look
    told = house.run(house.action(**CRITICAL))
    assert (told.state, told.verdict) == (State.REVIEW_REQUIRED, Verdict.UNDETERMINED)
    if second == "denies":
        assert told.why is Why.CONFLICTING
    assert len(shop.calls) == 1


# --- counted over actions -----------------------------------------------------------------------------------------


def _items(house: House, count: int) -> list[str]:
    for number in range(count):
        name = f"i-{number}"
        house.shop.rows[name] = {**house.shop.rows["o-1"], "id": name, "status": "open", "version": 1}
    return [f"i-{number}" for number in range(count)]


@pytest.mark.requirement("TRUTH-verdict-10", "L04", "INPUT-reader-raises", "REC-RULE-no-blind-retry")
def test_repeated_verifier_errors_are_an_incident_and_stop_new_actions_before_they_run(house: House) -> None:
    shop, made = house.shop, house.action()
    told = []
    for item in _items(house, 3):
        shop.calls.clear()
        shop.eyes = _after(shop, KeyError("column"))
        told.append(house.run(made, item, item=item))
        assert len(shop.calls) == 1
    assert [outcome.why for outcome in told] == [Why.VERIFIER_ERROR] * 3
    assert [bool(outcome.incident) for outcome in told] == [False, False, True]
    assert told[0].exit_code == 5
    assert told[2].state is State.REVIEW_REQUIRED
    create = house.action(name="make", kind="create")  # a kind that reads nothing before it acts
    assert not create.contract.needs_before
    shop.eyes = _after(shop, KeyError("column"))
    shop.calls[:] = [0.0]
    refused = house.run(create, "fresh", item="new")
    assert (refused.state, refused.code) == (State.FAILED, "source.unavailable")
    assert shop.calls == [0.0]


@pytest.mark.requirement("TRUTH-verdict-10")
def test_one_action_whose_reader_keeps_failing_counts_once(house: House) -> None:
    house.shop.eyes = _after(house.shop, KeyError("column"))
    told = house.run(house.action())
    assert len(house.shop.looks) > 3
    assert house.store.count(TENANT, "source:orders", "verifier_error") == 1
    assert not told.incident


def test_a_reading_that_works_sets_the_count_back(house: House) -> None:
    shop = house.shop
    shop.eyes = lambda ctx, args: _after(shop, ConnectionError("x"))(ctx, args) if shop.now() < 3 else shop.show(args)
    assert house.run(house.action()).verified
    assert house.store.count(TENANT, "source:orders", "verifier_error") == 0


@pytest.mark.requirement("CLASS-RULE-repeated-mismatch", "CLASS-low-risk-internal", "STRATEGY-manual-review")
def test_repeated_mismatches_open_a_review_and_a_success_begins_anew(house: House) -> None:
    shop, made = house.shop, house.action(late_window="0s")
    shop.tool = _error
    items = _items(house, 8)
    reviews = [house.run(made, item, item=item).review for item in items[:3]]
    assert reviews == ["", "", "repeated_mismatch"]
    shop.tool = None
    assert house.run(made, items[3], item=items[3]).review == ""
    shop.tool = _error
    assert house.run(made, items[4], item=items[4]).review == ""


@pytest.mark.requirement("CLASS-medium-risk-write", "CLASS-high-risk-external")
@pytest.mark.parametrize(
    ("risk", "wrong", "review"),
    [
        (MEDIUM, {"status": "lost", "author": "human:eve", "stamp": "x"}, "stale"),
        (HIGH, {"status": "lost"}, "value_mismatch"),
    ],
)
def test_a_class_names_what_else_brings_in_a_person(
    house: House, risk: dict[str, Any], wrong: dict[str, Any], review: str
) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, **wrong)
    told = house.run(house.action(**risk))
    assert told.review == review


@pytest.mark.requirement("CLASS-RULE-minimum")
def test_a_contract_that_reads_too_weakly_for_its_class_cannot_be_loaded(house: House) -> None:
    with pytest.raises(ContractError):
        house.action(readers=(("replica", "other_client", "replica"),))
    with pytest.raises(ContractError):
        house.action(readers=(("strong", "same_client", "orders"),), **MEDIUM)
    made = house.action(readers=(("cached", "same_call", "echo"), ("strong", "other_client", "orders")))
    assert len(made.contract.readers) == 2


def test_nothing_of_a_refused_action_is_polled(house: House) -> None:
    house.run(house.action(require={"never": "false"}))
    assert house.store.next_due_us() is None


@pytest.mark.requirement("L17", "LEDGER-timestamps")
def test_a_refusal_is_recorded_with_its_reason(house: House) -> None:
    told = house.run(house.action(require={"never": "false"}))
    last = house.events(told.id)[-1]
    assert last.data["code"] == "precondition"
    folded = house.folded(told.id)
    assert folded.created_us
    assert folded.executed_us == folded.verified_us == 0
    assert folded.attempts == 0
