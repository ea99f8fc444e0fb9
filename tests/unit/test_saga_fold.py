"""A saga as its events tell it: what each of them records, to the field, and which of them cannot be."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from readback.domain.events import Event, EventKind
from readback.domain.saga.fold import (
    CLOSED,
    KIND,
    STEPS_MAX,
    Direction,
    Reference,
    Region,
    Saga,
    StepRecord,
    StepTerms,
    request_hash,
)
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.errors import StoreCorruptError

S, K = State, EventKind
A = StepTerms("a", "book", "1", "ha", "create", SideEffect.LOW_RISK_INTERNAL, Region.BEFORE, (), "free", "hf")
P = StepTerms("p", "pay", "2", "hp", "create", SideEffect.HIGH_RISK_EXTERNAL, Region.PIVOT, ("a",))
Z = StepTerms("z", "look", "3", "hz", "read", SideEffect.READ_ONLY, Region.AFTER, ("p", "a"))
BEGUN: dict[str, Any] = {
    "principal": "agent",
    "name": "trip",
    "operation": "op",
    "key_hash": "kh",
    "request_hash": "rh",
    "stamp": "st",
    "table": "t1",
    "break_glass": "bg",
    "context": {"run": "r"},
    "steps": [A.as_json(), P.as_json(), Z.as_json()],
}
ENDED: dict[str, Any] = {
    "step": "p",
    "reason": "step_stuck",
    "detail": "why",
    "row": "R1",
    "review": "partial",
    "incident": "inc",
    "severity": "high",
    "free": True,
    "due": 70,
}


def changed(saga: Saga) -> dict[str, Any]:
    """What differs from a saga of which nothing is known."""
    blank = Saga("s", "acme")
    found = {each.name: getattr(saga, each.name) for each in fields(Saga)}
    return {name: value for name, value in found.items() if value != getattr(blank, name)}


def begun(**known: Any) -> Saga:
    """A saga that has begun and is at work. `known`: what is set of it besides."""
    saga = Saga("s", "acme")
    refs = {"saga": "d1", "budget": "b1"}
    saga.apply(Event(K.SAGA_BEGUN, 5, (S.PROPOSED, S.VALIDATED, S.EXECUTING), BEGUN, refs), "h1")
    for name, value in known.items():
        setattr(saga, name, value)
    return saga


def step(saga: Saga, what: str, name: str = "a", *, due: Any = 50, **data: Any) -> StepRecord:
    saga.apply(Event(K.SAGA_STEP, 9, (), {"what": what, "step": name, "due": due, **data}), "h2")
    return saga.steps[name]


def test_of_a_saga_without_an_entry_nothing_is_known() -> None:
    saga = Saga("s", "acme")
    known = {each.name: getattr(saga, each.name) for each in fields(Saga) if getattr(saga, each.name)}
    assert known == {"id": "s", "tenant": "acme", "state": S.PROPOSED, "heading": Direction.ONWARD}
    assert saga.due_us is None
    assert not any(getattr(StepRecord(), each.name) for each in fields(StepRecord))
    assert [each.value for each in Region] == ["before", "pivot", "after"]
    assert [each.value for each in Direction] == ["onward", "backward", "forward"]


# --- its terms ------------------------------------------------------------------------------------------------


def test_a_step_is_read_back_as_it_was_written() -> None:
    assert A.as_json() == {
        "name": "a",
        "contract": "book",
        "contract_version": "1",
        "contract_hash": "ha",
        "kind": "create",
        "side_effect": "low_risk_internal",
        "region": "before",
        "after": [],
        "undo": "free",
        "undo_hash": "hf",
    }
    assert [StepTerms.from_json(each.as_json()) for each in (A, P, Z)] == [A, P, Z]
    assert (P.undo, P.undo_hash) == ("", "")
    assert [each.mutates for each in (A, P, Z)] == [True, True, False]


def test_what_a_saga_is_called_in_the_ledger() -> None:
    assert (KIND, STEPS_MAX) == ("saga", 64)
    assert begun().contract == "saga:trip"
    assert repr(Reference("a", "id")) == "from_step('a', 'id')"
    assert {S.RECONCILED_SUCCESS, S.FAILED, S.COMPENSATED, S.ABANDONED} == CLOSED
    steps: list[Any] = [A.as_json()]
    found = {request_hash("x", steps), request_hash("y", steps), request_hash("x", [])}
    assert len(found) == 3
    assert request_hash("trip", []) == "5f0b9ac219c920140ceb65ee27564dbfd8cb54ed4c22d8763f6382e867a1e218"


# --- what it says of itself -----------------------------------------------------------------------------------


def test_it_begins_with_everything_that_its_first_entry_says() -> None:
    assert changed(begun()) == {
        "version": 1,
        "head": "h1",
        "state": S.EXECUTING,
        "principal": "agent",
        "name": "trip",
        "operation": "op",
        "key_hash": "kh",
        "request_hash": "rh",
        "stamp": "st",
        "table": "t1",
        "break_glass": "bg",
        "context": {"run": "r"},
        "definition_ref": "d1",
        "budget_ref": "b1",
        "terms": (A, P, Z),
        "steps": {"a": StepRecord(), "p": StepRecord(), "z": StepRecord()},
        "due_us": 5,
        "created_us": 5,
        "updated_us": 5,
    }
    assert Saga("s", "acme").heading is Direction.ONWARD


def test_a_saga_without_a_budget_or_a_context_has_none() -> None:
    saga = Saga("s", "acme")
    saga.apply(Event(K.SAGA_BEGUN, 5, (), {**BEGUN, "context": None}, {"saga": "d1"}), "h1")
    assert (saga.budget_ref, saga.context) == ("", {})


@pytest.mark.parametrize(
    ("data", "refs"),
    [
        ({**BEGUN, "steps": {}}, {"saga": "d"}),
        ({**BEGUN, "steps": []}, {"saga": "d"}),
        ({**BEGUN, "steps": [A.as_json(), "p"]}, {"saga": "d"}),
        ({**BEGUN, "steps": [{**A.as_json(), "after": "p"}]}, {"saga": "d"}),
        ({**BEGUN, "steps": [{"name": "a"}]}, {"saga": "d"}),
        ({**BEGUN, "steps": [{**A.as_json(), "region": "beside"}]}, {"saga": "d"}),
        ({name: value for name, value in BEGUN.items() if name != "stamp"}, {"saga": "d"}),
        (BEGUN, {}),
    ],
)
def test_a_first_entry_that_lacks_something_cannot_be(data: dict[str, Any], refs: dict[str, str]) -> None:
    with pytest.raises(StoreCorruptError, match=r"is invalid|No such transition"):
        Saga("s", "acme").apply(Event(K.SAGA_BEGUN, 5, (), data, refs), "h1")


def test_what_a_first_entry_lacks_is_named() -> None:
    odd: Any = [{**A.as_json(), "after": "p"}]
    for steps, said in (([], "'steps'"), (odd, r"after\. "), (5, "'steps'")):
        with pytest.raises(StoreCorruptError, match=f"A saga_begun entry of saga s is invalid: {said}"):
            Saga("s", "acme").apply(Event(K.SAGA_BEGUN, 5, (), {**BEGUN, "steps": steps}, {"saga": "d"}), "h1")


def test_only_the_first_entry_may_propose_it_and_none_may_jump() -> None:
    with pytest.raises(StoreCorruptError, match="went from"):
        begun().apply(Event(K.CANCELLED, 6, (S.PROPOSED,)), "h2")
    with pytest.raises(StoreCorruptError, match="went from"):
        Saga("s", "acme").apply(Event(K.SAGA_BEGUN, 5, (S.RECONCILED_SUCCESS,), BEGUN, {"saga": "d"}), "h1")
    with pytest.raises(StoreCorruptError, match=r"is invalid|No such transition"):
        begun().apply(Event(K.JUDGED, 6), "h2")


def test_each_entry_is_counted_dated_and_chained() -> None:
    saga = begun()
    saga.apply(Event(K.CANCELLED, 6), "h2")
    assert (saga.version, saga.head, saga.updated_us, saga.state) == (2, "h2", 6, S.EXECUTING)
    assert (saga.cancelled, saga.due_us, saga.quiet) == (True, 6, False)
    quiet = begun(quiet=True)
    quiet.apply(Event(K.CANCELLED, 6), "h2")
    assert quiet.quiet is False


def test_what_it_says_of_its_whole() -> None:
    saga = begun()
    assert saga.side_effect is SideEffect.HIGH_RISK_EXTERNAL
    assert Saga("s", "acme").side_effect is SideEffect.READ_ONLY
    assert saga.step("p") == P
    passed = []
    for name, state in (("z", "failed"), ("a", "reconciled_success"), ("p", "failed"), ("p", "reconciled_success")):
        saga.steps[name].state = state
        passed.append(saga.pivot_passed)
    assert passed == [False, False, False, True]
    found = [begun(state=state, free=free).may_repeat for state, free in ((S.FAILED, True), (S.FAILED, False))]
    assert found == [True, False]
    assert not begun(state=S.COMPENSATED, free=True).may_repeat


def test_every_action_that_it_began_is_named() -> None:
    saga = begun()
    assert saga.action_ids() == ()
    saga.steps["a"] = StepRecord("a2", ("a0", "a1"), undo_id="u2", undo_past=("u0", "u1"))
    saga.steps["z"].action_id = "z0"
    assert saga.action_ids() == ("a0", "a1", "a2", "u0", "u1", "u2", "z0")
    assert [saga.steps[name].tries for name in "apz"] == [3, 0, 1]


# --- its steps ------------------------------------------------------------------------------------------------


def test_a_step_begins_and_begins_again() -> None:
    saga = begun(quiet=True, hold="approval", looks=3)
    assert step(saga, "begins", action="a0") == StepRecord("a0")
    assert (saga.quiet, saga.hold, saga.looks, saga.due_us) == (False, "", 0, 50)
    assert step(saga, "ended", state="failed", head="h") == StepRecord("a0", state="failed", head="h")
    assert step(saga, "begins", action="a1") == StepRecord("a1", ("a0",))
    assert step(saga, "begins", action="a2") == StepRecord("a2", ("a0", "a1"))
    assert saga.steps["p"] == StepRecord()


def test_a_step_that_is_refused_has_no_action() -> None:
    saga = begun()
    step(saga, "begins", action="a0")
    assert step(saga, "refused", code="invalid", detail="why") == StepRecord(refused="invalid", detail="why")


def test_a_step_is_reversed_and_a_word_about_it_is_kept() -> None:
    saga = begun()
    step(saga, "begins", action="a0")
    assert step(saga, "reverses", action="u0") == StepRecord("a0", undo_id="u0")
    refused = step(saga, "reversed", state="refused", head="uh", detail="why")
    wanted = StepRecord("a0", detail="why", undo_id="u0", undo_state="refused", undo_head="uh")
    assert refused == wanted
    assert step(saga, "reversed", state="refused", head="uh", detail="") == wanted


def test_it_waits_until_then_and_counts_its_looks() -> None:
    saga = begun()
    step(saga, "waits", quiet=True, hold="approval", due=80)
    assert (saga.quiet, saga.hold, saga.looks, saga.due_us) == (True, "approval", 1, 80)
    step(saga, "waits", quiet=False, hold="", due=None)
    assert (saga.quiet, saga.hold, saga.looks, saga.due_us) == (False, "", 2, None)
    assert saga.steps == begun().steps
    step(saga, "begins", action="a0", due="soon")
    assert saga.due_us is None


@pytest.mark.parametrize(
    "data", [{"what": "jumps"}, {"what": "begins"}, {"what": "begins", "step": "q", "action": "x"}]
)
def test_a_step_entry_that_says_nothing_known_cannot_be(data: dict[str, Any]) -> None:
    with pytest.raises(StoreCorruptError, match=r"is invalid|No such transition"):
        begun().apply(Event(K.SAGA_STEP, 9, (), {"step": "a", "due": 1, **data}), "h2")


# --- its way and its end --------------------------------------------------------------------------------------


def test_it_turns_because_of_a_step() -> None:
    saga = begun(quiet=True, hold="approval", looks=3)
    data: dict[str, Any] = {"to": "backward", "step": "a", "reason": "step_failed", "row": "R1", "due": 60}
    saga.apply(Event(K.SAGA_TURNED, 9, (), data), "h2")
    assert (saga.heading, saga.because, saga.reason, saga.row) == (Direction.BACKWARD, "a", "step_failed", "R1")
    assert (saga.quiet, saga.hold, saga.looks, saga.due_us) == (False, "", 0, 60)
    blank: dict[str, Any] = {"to": "forward", "step": "", "reason": "", "row": "", "due": None}
    saga.apply(Event(K.SAGA_TURNED, 9, (), blank), "h3")
    assert (saga.heading, saga.because, saga.reason, saga.row) == (Direction.FORWARD, "a", "step_failed", "R1")


def test_it_ends_with_an_incident_where_one_is_as_severe() -> None:
    saga = begun(hold="approval", looks=3)
    saga.apply(Event(K.SAGA_ENDED, 9, (S.UNKNOWN, S.REVIEW_REQUIRED), ENDED), "h2")
    assert (saga.because, saga.reason, saga.detail, saga.row) == ("p", "step_stuck", "why", "R1")
    assert (saga.review, saga.incident, saga.incidents) == ("partial", "inc", ("inc-s-2",))
    assert (saga.free, saga.quiet, saga.hold, saga.looks) == (True, True, "", 0)
    assert (saga.ended_us, saga.due_us, saga.updated_us, saga.state) == (9, 70, 9, S.REVIEW_REQUIRED)


def test_without_a_severity_no_incident_is_opened_and_what_was_known_stays() -> None:
    saga = begun(because="a", reason="cancelled", row="R0", incident="old", incidents=("inc-s-0",), detail="old")
    blank = dict.fromkeys(("step", "reason", "detail", "row", "review", "incident"), "")
    saga.apply(Event(K.SAGA_ENDED, 9, (), {**blank, "free": False, "due": None}), "h2")
    assert (saga.because, saga.reason, saga.row, saga.incident) == ("a", "cancelled", "R0", "old")
    assert (saga.incidents, saga.detail, saga.review, saga.free) == (("inc-s-0",), "", "", False)
    saga.apply(Event(K.SAGA_ENDED, 10, (), ENDED), "h3")
    assert saga.incidents == ("inc-s-0", "inc-s-3")


def test_it_is_held_for_a_person() -> None:
    saga = begun()
    saga.apply(Event(K.HELD, 9, (), {"hold": "forward_held", "detail": "why"}), "h2")
    assert (saga.review, saga.reason, saga.detail) == ("forward_held", "forward_held", "why")
    assert (saga.quiet, saga.ended_us, saga.due_us) == (True, 9, None)
    saga.apply(Event(K.HELD, 10, (), {"hold": "table"}), "h3")
    assert (saga.review, saga.reason, saga.detail) == ("table", "table", "")


# --- what a person decided ------------------------------------------------------------------------------------


def reviewed(**known: Any) -> Saga:
    saga = begun(state=S.REVIEW_REQUIRED, review="partial", ended_us=8, quiet=True, looks=4, **known)
    saga.steps["a"] = StepRecord("a2", ("a0", "a1"), "reconciled_success")
    saga.steps["p"] = StepRecord("p0")
    return saga


def resolved(saga: Saga, *path: State) -> Saga:
    saga.apply(Event(K.RESOLVED, 9, path), "h2")
    return saga


@pytest.mark.parametrize("state", ["failed", "rolled_back", "refused"])
def test_ordered_back_it_reverses_anew_what_came_to_nothing(state: str) -> None:
    saga = reviewed()
    saga.steps["a"].undo_id, saga.steps["a"].undo_past = "u1", ("u0",)
    saga.steps["a"].undo_state, saga.steps["a"].undo_head = state, "uh"
    saga.steps["p"].undo_state = state
    resolved(saga, S.COMPENSATING)
    assert (saga.heading, saga.ordered, saga.forgiven) == (Direction.BACKWARD, True, 0)
    assert (saga.looks, saga.quiet, saga.due_us, saga.review, saga.ended_us) == (0, False, 9, "", 0)
    assert saga.steps["a"] == StepRecord("a2", ("a0", "a1"), "reconciled_success", undo_past=("u0", "u1"))
    assert saga.steps["p"] == StepRecord("p0")


@pytest.mark.parametrize("state", ["", "reconciled_success", "review_required", "abandoned"])
def test_ordered_back_a_reversal_that_may_have_done_something_stays(state: str) -> None:
    saga = reviewed()
    saga.steps["a"].undo_id, saga.steps["a"].undo_state = "u0", state
    resolved(saga, S.COMPENSATING)
    assert (saga.steps["a"].undo_id, saga.steps["a"].undo_state, saga.steps["a"].undo_past) == ("u0", state, ())


def test_ordered_forward_its_tries_are_forgiven() -> None:
    saga = resolved(reviewed(), S.FORWARD_RECOVERY)
    assert (saga.heading, saga.forgiven, saga.ordered) == (Direction.FORWARD, 3, False)
    assert (saga.looks, saga.quiet, saga.due_us, saga.ended_us) == (0, False, 9, 0)
    bare = reviewed()
    bare.steps = {}
    assert resolved(bare, S.FORWARD_RECOVERY).forgiven == 0


def test_verified_again_it_goes_on_as_it_was_heading() -> None:
    saga = resolved(reviewed(heading=Direction.BACKWARD), S.PENDING)
    assert (saga.heading, saga.forgiven, saga.ordered) == (Direction.BACKWARD, 3, False)
    assert (saga.looks, saga.quiet, saga.due_us, saga.ended_us) == (0, False, 9, 0)
    bare = reviewed()
    bare.steps = {}
    assert resolved(bare, S.PENDING).forgiven == 0


def test_abandoned_it_ends_here() -> None:
    saga = resolved(reviewed(), S.ABANDONED)
    assert (saga.heading, saga.forgiven, saga.ordered, saga.review) == (Direction.ONWARD, 0, False, "")
    assert (saga.looks, saga.quiet, saga.due_us, saga.ended_us) == (0, True, None, 9)


def test_a_review_stays_until_the_state_that_it_is_about_is_left() -> None:
    saga = reviewed()
    saga.apply(Event(K.CANCELLED, 9), "h2")
    assert (saga.review, saga.ended_us) == ("partial", 8)
    working = begun(review="partial", ended_us=8)
    working.apply(Event(K.CANCELLED, 9, (S.PENDING,)), "h2")
    assert (working.review, working.ended_us) == ("partial", 8)
