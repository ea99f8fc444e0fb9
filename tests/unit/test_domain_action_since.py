"""What comes after a success, as the fold keeps it: when it was claimed, what is said of that, looks, and erasures."""

from __future__ import annotations

from typing import Any

import pytest

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.claim import Advice, ClaimEvent, ClaimKind, ClaimStatus, Reason
from readback.domain.contract.watch import WatchEnd, WatchState
from readback.domain.events import Event, EventKind
from readback.domain.people.review import Decision
from readback.domain.state import State
from readback.errors import StoreCorruptError

K, S, R = EventKind, State, Reason
CLAIM: dict[str, Json] = {
    "claim": "holds",
    "reason": "drifted",
    "confidence": "0.99",
    "recommended": "plan_again",
    "who": "",
    "note": "",
    "signed_by": "",
    "dependants": [],
    "more": 0,
}
JUDGED: dict[str, Json] = {
    "verdict": "verified",
    "why": "",
    "finding": "",
    "discrepancy": "",
    "attribution": "ours",
    "row": "REC-01",
    "table": "t1",
    "recovery": "none",
    "level": 3,
    "effect_shown": True,
    "dead": False,
    "done": [],
    "undone": [],
    "polls": 1,
    "late_polls": 0,
    "held_since": 0,
    "due": 900,
    "review": "",
    "incident": "",
}
HELD: dict[str, Json] = {"role": "check", "n": 1}
DRIFTED = WatchState(5, 900, 100, drifted=True, changes=1, held=HELD, held_ref="r1", seen_ref="j1")
HOLDS = WatchState(5, 900, 100, held=HELD, held_ref="r1")


def at(state: State = S.RECONCILED_SUCCESS, **changes: Any) -> Action:
    """An action in this state, with these fields."""
    return Action("act-1", "acme", version=3, head="aa", state=state, **changes)


def judged(path: tuple[State, ...] = (), refs: dict[str, str] | None = None, **changes: Json) -> Event:
    return Event(K.JUDGED, 100, path, {**JUDGED, **changes}, refs or {})


def claim(kind: EventKind = K.CLAIM_CONTESTED, **changes: Json) -> Event:
    return Event(kind, 100, (), {**CLAIM, **changes})


def resolved(**changes: Json) -> Event:
    data: dict[str, Json] = {"decision": "abandon", "resolution": "", "contests": False, "due": None, "reserved": False}
    return Event(K.RESOLVED, 100, (), {**data, **changes})


def looked(verdict: str, **changes: Json) -> Event:
    return Event(K.WATCHED, 100, (), {"verdict": verdict, "why": "", "due": 500, "over": "", **changes})


def said(reason: Reason, status: ClaimStatus = ClaimStatus.CONTESTED, kind: ClaimKind = ClaimKind.HOLDS) -> ClaimEvent:
    return ClaimEvent(kind, status, reason, "0.99", Advice.INVESTIGATE, 50, 2)


# --- when it is claimed ---


def test_the_first_verified_success_makes_the_claims() -> None:
    action = at(S.COMMITTED)
    action.apply(judged((S.RECONCILED_SUCCESS,)), "ff")
    assert action.claimed_us == 100
    later = at(claimed_us=7)
    later.apply(judged(), "ff")
    assert later.claimed_us == 7


@pytest.mark.parametrize(
    ("verdict", "discrepancy", "claimed_us"),
    [
        ("verified", "compensation_required", 100),
        ("verified", "", 0),
        ("refuted", "compensation_required", 0),
        ("undetermined", "", 0),
    ],
)
def test_what_is_verified_and_has_to_be_reversed_was_done(verdict: str, discrepancy: str, claimed_us: int) -> None:
    action = at(S.COMMITTED)
    action.apply(judged(verdict=verdict, discrepancy=discrepancy), "ff")
    assert action.claimed_us == claimed_us


# --- what is said of it ---


def test_an_action_is_known_by_the_worst_that_was_said_of_its_claims() -> None:
    assert at().claim == ""
    both = (said(R.DRIFTED, ClaimStatus.REINSTATED, ClaimKind.HAPPENED), said(R.DRIFTED, ClaimStatus.RETRACTED))
    assert at(claims=both).claim == "retracted"


@pytest.mark.requirement("CLAIM-order")
@pytest.mark.parametrize(("claimed_us", "before"), [(0, "none"), (1, "standing")])
def test_what_was_not_contested_is_neither_retracted_nor_reinstated(claimed_us: int, before: str) -> None:
    for kind in (K.CLAIM_RETRACTED, K.CLAIM_REINSTATED):
        with pytest.raises(StoreCorruptError, match=f"that was {before} before"):
            at(claimed_us=claimed_us).apply(claim(kind), "ff")


def test_what_is_said_of_a_claim_bears_the_number_of_its_entry() -> None:
    action = at(claimed_us=7)
    action.apply(claim(), "ff")
    assert [(one.version, one.at_us, one.reason) for one in action.claims] == [(4, 100, R.DRIFTED)]


@pytest.mark.parametrize(("before", "after"), [("", "contested"), ("look", "look")])
@pytest.mark.parametrize("reason", ["drifted", "denied", "late_effect"])
def test_what_contradicts_somebody_is_put_before_a_person_who_is_not_asked_already(
    reason: str, before: str, after: str
) -> None:
    action = at(claimed_us=7, review=before)
    action.apply(claim(reason=reason), "ff")
    assert (action.contested, action.review) == (True, after)


@pytest.mark.parametrize(
    ("claimed_us", "before", "after"), [(0, False, False), (0, True, True), (1, False, True), (1, True, True)]
)
def test_a_persons_word_contradicts_what_was_claimed_and_asks_nobody(
    claimed_us: int, before: bool, after: bool
) -> None:
    action = at(claimed_us=claimed_us, contested=before)
    action.apply(claim(reason="person"), "ff")
    assert (action.contested, action.review) == (after, "")


@pytest.mark.requirement("CLAIM-reversed")
@pytest.mark.parametrize(
    ("state", "reason", "due_us"),
    [
        (S.RECONCILED_SUCCESS, "reversed", None),
        (S.COMPENSATING, "reversed", 900),
        (S.RECONCILED_SUCCESS, "refuted", 900),
    ],
)
def test_what_was_taken_back_is_watched_no_longer(state: State, reason: str, due_us: int | None) -> None:
    action = at(state, claimed_us=7, due_us=900)
    action.apply(claim(reason=reason), "ff")
    assert (action.contested, action.review, action.due_us) == (False, "", due_us)


@pytest.mark.requirement("CLAIM-reinstated")
@pytest.mark.parametrize(
    ("watch", "other", "contested"),
    [
        (None, None, False),
        (HOLDS, None, False),
        (DRIFTED, None, True),
        (None, R.LATE_EFFECT, True),
        (None, R.REFUTED, False),
    ],
)
def test_what_stands_again_contradicts_nobody_unless_something_else_does(
    watch: WatchState | None, other: Reason | None, contested: bool
) -> None:
    beside = (said(other, kind=ClaimKind.HAPPENED),) if other else ()
    for review, after in (("contested", "contested" if contested else ""), ("look", "look"), ("", "")):
        action = at(contested=True, claims=(*beside, said(R.DRIFTED)), claimed_us=7, review=review, watch=watch)
        action.apply(claim(K.CLAIM_REINSTATED, reason="restored"), "ff")
        assert (action.contested, action.review) == (contested, after)


# --- what a person decides of it ---


@pytest.mark.requirement("WATCH-decided")
@pytest.mark.parametrize("decision", Decision)
def test_a_contest_ends_where_a_person_goes_on_with_it_and_a_drift_lasts(decision: Decision) -> None:
    goes_on = decision.value in ("verify_again", "compensate", "go_forward", "reopen")
    action = at(contested=True)
    action.apply(resolved(decision=decision.value), "ff")
    assert action.contested is not goes_on
    for watch in (HOLDS, DRIFTED):
        watched = at(contested=True, watch=watch)
        watched.apply(resolved(decision="verify_again"), "ff")
        assert watched.contested is watched.drifted is (watch is DRIFTED)
    assert at().drifted is False


@pytest.mark.parametrize(("state", "reconciled_us"), [(S.REVIEW_REQUIRED, 100), (S.PENDING, 0)])
def test_what_a_person_ends_is_reconciled_then(state: State, reconciled_us: int) -> None:
    action = at(state, compensation_id="act-0")
    action.apply(resolved(), "ff")
    assert (action.reconciled_us, action.compensation_id) == (reconciled_us, "act-0")


# --- looks ---


@pytest.mark.requirement("WATCH-asked")
def test_a_success_begins_its_watch_with_what_its_entry_says() -> None:
    action = at(S.COMMITTED, reading=HELD, reading_ref="r1")
    action.apply(judged((S.RECONCILED_SUCCESS,), watch={"until": 900, "every": 100}), "ff")
    assert action.watch == WatchState(100, 900, 100, told_us=100, held_us=100, held=HELD, held_ref="r1")
    silent = at(S.COMMITTED, reading=HELD, reading_ref="r1")
    silent.apply(judged((S.RECONCILED_SUCCESS,)), "ff")
    assert silent.watch is None
    odd = at(S.COMMITTED)
    odd.apply(judged((S.RECONCILED_SUCCESS,), watch="daily"), "ff")
    assert odd.watch is None


def test_a_watch_that_is_begun_anew_forgets_the_one_before() -> None:
    action = at(watch=DRIFTED, reading=HELD, reading_ref="r9", contested=True)
    action.apply(judged(watch={"until": 900, "every": 0}), "ff")
    assert action.watch == WatchState(100, 900, 0, told_us=100, held_us=100, held=HELD, held_ref="r9")
    assert action.contested is True


@pytest.mark.requirement("WATCH-drift")
@pytest.mark.parametrize(("due", "over"), [(900, ""), (None, WatchEnd.TIME)])
@pytest.mark.parametrize("verdict", ["verified", "refuted", "undetermined"])
def test_a_recorded_look_says_whether_it_still_holds(verdict: str, due: Json, over: str) -> None:
    now: dict[str, Json] = {"role": "check", "n": 2}
    action = at(watch=HOLDS, reading=now, reading_ref="r2")
    action.apply(judged(refs={"judgement": "j2"}, verdict=verdict, due=due), "ff")
    found, holds = action.watch, verdict == "verified"
    assert found is not None
    assert (found.looks, found.told_us, found.drifted, found.over) == (1, 100, not holds, over)
    assert (found.held, found.held_ref) == ((now, "r2") if holds else (HELD, "r1"))
    assert (found.held_us, found.seen_ref) == ((100, "") if holds else (0, "j2"))
    assert action.contested is action.drifted is not holds
    assert action.reconciled_us == 100


@pytest.mark.requirement("WATCH-back")
@pytest.mark.parametrize(("reason", "contested"), [(None, False), (R.REFUTED, False), (R.PERSON, True)])
def test_what_holds_again_is_contested_only_by_what_was_said(reason: Reason | None, contested: bool) -> None:
    claims = (said(reason),) if reason else ()
    action = at(watch=DRIFTED, contested=True, claims=claims)
    action.apply(judged(), "ff")
    assert (action.drifted, action.contested) == (False, contested)


def test_a_judgement_of_what_nobody_watches_settles_no_contest() -> None:
    action = at(contested=True)
    action.apply(judged(), "ff")
    assert (action.watch, action.contested) == (None, True)


@pytest.mark.requirement("WATCH-bounded")
def test_a_quiet_look_is_counted_with_the_watch_and_not_with_the_late_readings() -> None:
    action = at(watch=HOLDS, review="look", decision="verify_again", late_polls=2)
    action.apply(looked("verified"), "ff")
    assert action.watch is not None
    assert (action.watch.looks, action.watch.held_us, action.late_polls) == (1, 100, 2)
    assert (action.due_us, action.review, action.decision) == (500, "look", "")


def test_a_late_reading_without_a_watch_is_counted_by_itself() -> None:
    action = at(S.FAILED, late_polls=2)
    action.apply(looked("undetermined", due="soon", review="contested"), "ff")
    assert (action.watch, action.late_polls, action.due_us, action.review) == (None, 3, None, "contested")


def test_a_look_may_open_an_incident_and_freeze() -> None:
    action = at(watch=HOLDS, incident="before")
    action.apply(looked("undetermined", severity="high", incident="sources", freeze=["tool:b"]), "ff")
    assert (action.incident, action.incidents, action.frozen) == ("sources", ("inc-act-1-4",), ("tool:b",))


# --- erasures ---


def test_an_erasure_leaves_an_actions_age_as_it_was() -> None:
    action = at(updated_us=40, created_us=30)
    action.apply(Event(K.ERASED, 100, (), {"digests": ["d1"]}, {"token": "t0"}), "ff")
    assert (action.updated_us, action.erased_us, action.erased, action.version) == (40, 100, ("d1",), 4)
    action.apply(Event(K.SIGNALLED, 101), "ff")
    assert (action.updated_us, action.erased_us, action.erased) == (101, 100, ("d1",))


def test_what_is_erased_again_is_named_once_and_stays_in_its_place() -> None:
    action = at(erased=("d1", "d2"), erased_us=50)
    action.apply(Event(K.ERASED, 100, (), {"digests": ["d3", "d1"]}), "ff")
    assert (action.erased, action.erased_us) == (("d1", "d2", "d3"), 100)
    action.apply(Event(K.ERASED, 101, (), {"digests": "d4"}), "ff")
    assert (action.erased, action.erased_us) == (("d1", "d2", "d3"), 101)


@pytest.mark.parametrize("erased", [(), ("d1",)])
@pytest.mark.parametrize("refs", [{}, {"token": "t0"}])
def test_an_erasure_that_names_nothing_is_corrupt(erased: tuple[str, ...], refs: dict[str, str]) -> None:
    with pytest.raises(StoreCorruptError, match="lacks 'digests'"):
        at(erased=erased).apply(Event(K.ERASED, 100, (), {}, refs), "ff")
