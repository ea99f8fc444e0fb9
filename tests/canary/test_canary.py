"""The canary: the candidate is asked after the incumbent's verdict is durable, and only the incumbent decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from readback import Readback
from readback.assurance.canary import follower as follower_module
from readback.assurance.canary.control import start_canary, stop_canary
from readback.assurance.canary.deciding import decide_by_candidate
from readback.assurance.canary.follower import CanaryFollower
from readback.assurance.canary.records import OWN, CanaryRecords, CanaryState, runs_of
from readback.assurance.canary.tally import CanaryVerdict, Comparison, problems, tally_of
from readback.assurance.canary.terms import (
    CanaryRunningError,
    CanaryStageError,
    CanaryTerms,
    CanaryTermsError,
    CandidateDiffersError,
    NoCanaryError,
    NoIncumbentError,
    SameContractError,
    Stage,
    bucket,
)
from readback.assurance.drills.canary_gate import canary
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.results import Standing
from readback.client.session import Session
from readback.errors import ReadbackError
from readback.ports.storage.store import ActionFilter
from readback.testing.runtime_virtual import VirtualRuntime
from tests.canary.depot import Depot, plans

pytestmark = pytest.mark.requirement("GATE-verification-canary")


@pytest.fixture
def depot() -> Depot:
    return Depot()


@pytest.fixture
def rb(depot: Depot) -> Iterator[Readback]:
    with Readback.open(
        "memory:", tenant="acme", principal="agent:ops", actions=[depot.incumbent], runtime=VirtualRuntime()
    ) as client:
        yield client


def session_of(rb: Readback) -> Session:
    return rb._session


def ship(rb: Readback, depot: Depot, *orders: str) -> list[Any]:
    made = depot.incumbent
    return [rb.run(made(order), operation=f"ship {order}") for order in orders]


def follow(rb: Readback, candidate: Any, depot: Depot) -> CanaryFollower:
    follower = CanaryFollower(session_of(rb), plans(candidate), plans(depot.incumbent))
    while follower.round():
        if not session_of(rb).store.cursors() or follower.done.rounds > 20:
            break
    return follower


def verdicts(rb: Readback) -> list[Any]:
    records = CanaryRecords(session_of(rb))
    state = records.state()
    assert state is not None
    return sorted(records.verdicts(state.id), key=lambda one: one.action_id)


@pytest.mark.requirement("CANARY-record")
def test_both_verdicts_are_on_record_and_only_the_incumbent_decides(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), mismatches_max=9)
    told = ship(rb, depot, "o-1", "bare-2")
    before = [rb.get(each.id) for each in told]
    follower = follow(rb, depot.candidate, depot)
    assert follower.done.asked == 2
    first, second = verdicts(rb)
    assert (first.comparison, first.decided_by) == (Comparison.SAME, "incumbent")
    assert (first.incumbent["verdict"], first.candidate["verdict"]) == ("verified", "verified")
    assert second.comparison is Comparison.DIFFERS
    assert (second.incumbent["verdict"], second.candidate["verdict"]) == ("verified", "undetermined")
    assert [rb.get(each.id) for each in told] == before, "no outcome changed"
    assert all(each.verified for each in before)


@pytest.mark.requirement("CANARY-record")
def test_a_verdict_is_recorded_once_however_often_the_log_is_read(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), mismatches_max=9)
    ship(rb, depot, "o-1", "o-2", "o-3")
    follow(rb, depot.candidate, depot)
    store = session_of(rb).store
    cursor = next(each for each in store.cursors() if each.name.startswith("canary:"))
    held = store.take_cursor(cursor.name, "a test", 0, 1)
    assert held is not None
    assert store.keep_cursor(held, replace(held, after_seq=1, owner=""))
    again = follow(rb, depot.candidate, depot)
    assert again.done.asked == 3, "asked again"
    assert len(verdicts(rb)) == 3, "recorded once"


@pytest.mark.requirement("CANARY-path")
def test_no_candidate_is_asked_on_an_actions_path(rb: Readback, depot: Depot) -> None:
    candidate = depot.broken
    start_canary(session_of(rb), plans(candidate), plans(depot.incumbent), errors_max=9)
    told = ship(rb, depot, "o-1")
    assert told[0].verified
    assert depot.asked_in == [], "the action ended before the candidate was asked"
    with CanaryFollower(session_of(rb), plans(candidate), plans(depot.incumbent), poll_s=0.01) as follower:
        pass
    assert set(depot.asked_in) == {"readback-canary"}
    assert follower.done.asked == 1


@pytest.mark.requirement("CANARY-stop")
def test_a_canary_stops_itself_above_its_bound_of_mismatches(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), mismatches_max=1)
    ship(rb, depot, "bare-1", "bare-2", "bare-3")
    follower = follow(rb, depot.candidate, depot)
    assert (follower.done.stopped, follower.done.asked) == ("mismatches", 2), "the third is not asked"
    state = CanaryRecords(session_of(rb)).state()
    assert state is not None
    assert (state.running, state.reason) == (False, "mismatches")


@pytest.mark.requirement("CANARY-stop")
def test_a_canary_stops_itself_where_the_candidate_breaks(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.broken), plans(depot.incumbent), mismatches_max=9)
    told = ship(rb, depot, "o-1", "o-2")
    follower = follow(rb, depot.broken, depot)
    assert (follower.done.stopped, follower.done.asked) == ("errors", 1)
    assert all(each.verified for each in told), "the candidate's error reaches no caller"


class OwnEnd(BaseException):
    """No exception of Python's own."""


@pytest.mark.requirement("CANARY-stop")
@pytest.mark.parametrize("error", [SystemExit(3), MemoryError(), OwnEnd(), NotImplementedError()], ids=repr)
def test_whatever_a_candidate_raises_is_an_error_of_the_candidate(
    rb: Readback, depot: Depot, error: BaseException
) -> None:
    candidate = depot.raising(error)
    start_canary(session_of(rb), plans(candidate), plans(depot.incumbent))
    ship(rb, depot, "o-1", "o-2")
    assert follow(rb, candidate, depot).done.stopped == "errors"


@pytest.mark.requirement("CANARY-stop")
def test_a_canary_is_stopped_where_the_candidate_does_not_end(
    rb: Readback, depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "ASK_MAX_S", 0.01)
    end, stop = threading.Event(), CanaryRecords.stop

    def stopped(records: CanaryRecords, state: CanaryState, reason: str) -> CanaryState:
        found = stop(records, state, reason)
        end.set()
        return found

    monkeypatch.setattr(CanaryRecords, "stop", stopped)
    candidate = depot.waiting(end)
    start_canary(session_of(rb), plans(candidate), plans(depot.incumbent))
    ship(rb, depot, "o-1", "o-2")
    follower = follow(rb, candidate, depot)
    assert (follower.done.stopped, follower.done.asked) == ("too slow", 1), "the second is not asked"
    state = CanaryRecords(session_of(rb)).state()
    assert state is not None
    assert (state.running, state.reason) == (False, "too slow")


@pytest.mark.requirement("CANARY-stop")
def test_a_bound_broken_before_a_crash_stops_the_next_follower(rb: Readback, depot: Depot) -> None:
    state = start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), mismatches_max=0)
    ship(rb, depot, "bare-1", "bare-2")
    first = CanaryFollower(session_of(rb), plans(depot.candidate), plans(depot.incumbent))
    first._stops = lambda *_: False  # type: ignore[method-assign]  # the process ends before the stop
    first.round()
    second = CanaryFollower(session_of(rb), plans(depot.candidate), plans(depot.incumbent))
    assert not second.round()
    assert second.done.stopped == "mismatches"
    assert state.running


@pytest.mark.requirement("CANARY-subset")
def test_a_subset_by_hash_is_stable_and_about_as_large_as_its_share() -> None:
    places = [bucket("acme", f"order/{number}") for number in range(5_000)]
    assert places[:3] == [bucket("acme", f"order/{number}") for number in range(3)]
    share = sum(place < 500 for place in places) / len(places)
    assert 0.035 < share < 0.065
    assert bucket("acme", "order/1") == 5_014, "no process, seed or release moves a target"


@pytest.mark.requirement("CANARY-subset")
def test_only_the_subset_is_asked(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), percent=50, mismatches_max=9)
    told = ship(rb, depot, *(f"o-{number}" for number in range(12)))
    follow(rb, depot.candidate, depot)
    wanted = {each.id for each in told if bucket("acme", each.target) < 5_000}
    assert 0 < len(wanted) < 12
    assert {each.action_id for each in verdicts(rb)} == wanted
    stop_canary(session_of(rb))
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), tenants=["globex"], mismatches_max=9)
    ship(rb, depot, "o-after")
    assert follow(rb, depot.candidate, depot).done.asked == 0


@pytest.mark.requirement("CANARY-second-stage")
def test_in_the_second_stage_the_candidate_decides_for_the_subset(rb: Readback, depot: Depot) -> None:
    candidate = depot.same_verdicts
    session = session_of(rb)
    start_canary(session, plans(candidate), plans(depot.incumbent), minimum=2)
    ship(rb, depot, "o-1", "o-2")
    follow(rb, candidate, depot)
    stop_canary(session)
    start_canary(session, plans(candidate), plans(depot.incumbent), minimum=2, percent=50, stage=Stage.DECIDE)
    decide_by_candidate(session, plans(candidate))
    told = ship(rb, depot, *(f"n-{number}" for number in range(12)))
    by_candidate = {each.id for each in told if each.contract_version == "2"}
    assert by_candidate == {each.id for each in told if bucket("acme", each.target) < 5_000}
    assert 0 < len(by_candidate) < 12
    follow(rb, candidate, depot)
    found = [each for each in verdicts(rb) if each.action_id in by_candidate]
    assert {each.action_id for each in found} == by_candidate
    assert {(each.decided_by, each.comparison) for each in found} == {("candidate", Comparison.SAME)}
    assert all(rb.get(each.id).verified for each in told)


@pytest.mark.requirement("CANARY-second-stage")
def test_after_a_stop_the_incumbent_decides_again(rb: Readback, depot: Depot) -> None:
    candidate, session = depot.same_verdicts, session_of(rb)
    start_canary(session, plans(candidate), plans(depot.incumbent), minimum=1)
    ship(rb, depot, "o-1")
    follow(rb, candidate, depot)
    stop_canary(session)
    start_canary(session, plans(candidate), plans(depot.incumbent), minimum=1, stage=Stage.DECIDE)
    decide_by_candidate(session, plans(candidate))
    assert ship(rb, depot, "n-1")[0].contract_version == "2"
    stop_canary(session)
    runtime = session.runtime
    runtime.sleep(2)
    assert ship(rb, depot, "n-2")[0].contract_version == "1"


@pytest.mark.requirement("CANARY-second-stage")
@pytest.mark.parametrize("orders", [(), ("o-1",), ("o-1", "bare-2")], ids=["none", "too few", "mismatch"])
def test_the_second_stage_needs_a_first_stage_that_passed(rb: Readback, depot: Depot, orders: tuple[str, ...]) -> None:
    session = session_of(rb)
    start_canary(session, plans(depot.candidate), plans(depot.incumbent), minimum=2)
    ship(rb, depot, *orders)
    follow(rb, depot.candidate, depot)
    state = CanaryRecords(session).state()
    if state is not None and state.running:
        stop_canary(session)
    with pytest.raises(CanaryStageError) as refused:
        start_canary(session, plans(depot.candidate), plans(depot.incumbent), minimum=2, stage=Stage.DECIDE)
    assert refused.value.code == "canary.stage"


@pytest.mark.requirement("CANARY-refused")
def test_a_canary_without_an_incumbent_is_refused_and_nothing_is_recorded(rb: Readback, depot: Depot) -> None:
    session = session_of(rb)
    refused: list[tuple[type[ReadbackError], str, dict[str, Any]]] = [
        (NoIncumbentError, "canary.no-incumbent", {"incumbent": {}}),
        (SameContractError, "canary.same-contract", {"candidate": plans(depot.incumbent)}),
        (CanaryTermsError, "canary.terms", {"percent": 0}),
        (CanaryTermsError, "canary.terms", {"percent": 101}),
        (CanaryTermsError, "canary.terms", {"minimum": 0}),
        (CanaryTermsError, "canary.terms", {"candidate": {}}),
        (CanaryStageError, "canary.stage", {"stage": Stage.DECIDE}),
    ]
    for kind, code, changed in refused:
        given: dict[str, Any] = {"candidate": plans(depot.candidate), "incumbent": plans(depot.incumbent), **changed}
        with pytest.raises(kind) as error:
            start_canary(session, **given)
        assert error.value.code == code
        assert error.value.remedy
    assert CanaryRecords(session).state() is None
    with pytest.raises(NoCanaryError):
        stop_canary(session)
    assert session.store.last_seq() == 0


@pytest.mark.requirement("CANARY-refused")
def test_a_second_canary_and_another_candidate_are_refused(rb: Readback, depot: Depot) -> None:
    session = session_of(rb)
    start_canary(session, plans(depot.candidate), plans(depot.incumbent))
    with pytest.raises(CanaryRunningError):
        start_canary(session, plans(depot.same_verdicts), plans(depot.incumbent))
    ship(rb, depot, "o-1")
    with pytest.raises(CandidateDiffersError) as error:
        CanaryFollower(session, plans(depot.same_verdicts), plans(depot.incumbent)).round()
    assert error.value.code == "canary.candidate-differs"
    with pytest.raises(CandidateDiffersError):
        decide_by_candidate(session, plans(depot.same_verdicts))


@pytest.mark.requirement("CANARY-gate")
def test_the_gate_passes_within_the_bounds_and_fails_by_name_beyond_them(rb: Readback, depot: Depot) -> None:
    session = session_of(rb)
    given = GateInput(VerificationLogic(plans(depot.candidate)), VerificationLogic(plans(depot.incumbent)))
    records = CanaryRecords(session)
    assert canary(replace(given, canaries=lambda: runs_of(records))).findings[0].code == "canary.missing"
    start_canary(session, plans(depot.candidate), plans(depot.incumbent), minimum=2, mismatches_max=0)
    ship(rb, depot, "o-1")
    follow(rb, depot.candidate, depot)
    few = canary(replace(given, canaries=lambda: runs_of(records)))
    assert (few.standing, few.findings[0].code) == (Standing.UNDETERMINED, "canary.too-small")
    ship(rb, depot, "o-2")
    follow(rb, depot.candidate, depot)
    passed = canary(replace(given, canaries=lambda: runs_of(records)))
    assert (passed.standing, passed.findings[0].code) == (Standing.PASSED, "canary.within-bounds")
    (lied,) = ship(rb, depot, "bare-3")
    follow(rb, depot.candidate, depot)
    failed = canary(replace(given, canaries=lambda: runs_of(records)))
    assert (failed.standing, failed.findings[0].code) == (Standing.FAILED, "canary.mismatch")
    assert failed.findings[0].actions == (lied.id,)


@pytest.mark.requirement("CANARY-gate")
def test_a_canary_of_other_hashes_decides_nothing(rb: Readback, depot: Depot) -> None:
    session = session_of(rb)
    start_canary(session, plans(depot.same_verdicts), plans(depot.incumbent), minimum=1)
    ship(rb, depot, "o-1")
    follow(rb, depot.same_verdicts, depot)
    given = GateInput(VerificationLogic(plans(depot.candidate)), VerificationLogic(plans(depot.incumbent)))
    result = canary(replace(given, canaries=lambda: runs_of(CanaryRecords(session))))
    assert (result.standing, result.findings[0].code) == (Standing.UNDETERMINED, "canary.missing")
    unchanged = GateInput(VerificationLogic(plans(depot.incumbent)), VerificationLogic(plans(depot.incumbent)))
    assert canary(unchanged).standing is Standing.PASSED


@pytest.mark.requirement("CANARY-record")
def test_a_canary_never_asks_about_its_own_records(rb: Readback, depot: Depot) -> None:
    start_canary(session_of(rb), plans(depot.candidate), plans(depot.incumbent), mismatches_max=9)
    ship(rb, depot, "o-1")
    follower = follow(rb, depot.candidate, depot)
    for _ in range(3):
        follower.round()
    assert follower.done.asked == 1
    own = [each for each in session_of(rb).store.page(ActionFilter(limit=50)) if each.projection.contract in OWN]
    assert len(own) == 2


@pytest.mark.requirement("CANARY-gate")
def test_a_slow_candidate_fails_and_a_few_slow_judgements_decide_nothing(depot: Depot) -> None:
    terms = CanaryTerms({"ship": "new"}, {"ship": "old"}, minimum=1)

    def asked(count: int, candidate_us: int) -> list[str]:
        one = CanaryVerdict("a", "acme", "ship", 7, "00", "incumbent", Comparison.SAME, {}, {}, candidate_us, 1_000)
        return [code for code, _ in problems(terms, tally_of([one] * count))]

    assert asked(20, 1_200) == []
    assert asked(20, 1_201) == ["canary.latency"]
    assert asked(19, 9_000) == []
