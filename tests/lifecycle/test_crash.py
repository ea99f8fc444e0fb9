"""A process may die at any step, and a store may fail at any append: the next one finds the truth, and acts once.

Every step that a driver does is one at which it may not come to the next. What is durable by then is all that the next
process has, beside the world as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.client.authoring.action import ActionDefinition
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict
from readback.engine.resume import fold
from readback.errors import StoreError, UnknownOutcomeError
from readback.ports.storage.store import Append, AppendResult
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.house import House
from tests.lifecycle.scenes import SCENES, Scene

HORIZON_S = 40 * 86_400.0
by_name = {"ids": lambda scene: scene.name}


def _finish(house: House, made: ActionDefinition[Any]) -> Outcome:
    """What a second process does: it runs the same operation again, and then works until nothing is due."""
    told = house.run(made)
    house.work(HORIZON_S)
    return house.get(told.id)


def _check(house: House, scene: Scene, ended: Outcome) -> None:
    """The truth, whoever told it."""
    row = house.shop.rows.get("o-1", {})
    done = row.get("status") == "shipped"
    assert ended.verified is done, (ended.state, row)
    assert len(house.shop.calls) <= scene.calls
    assert len(house.shop.undone) <= 1
    if ended.state is State.COMPENSATED:
        assert not row
    if ended.may_repeat:
        assert not done
    report = audit(house.store)
    assert report.ok, report.faults


@pytest.mark.parametrize("scene", SCENES, **by_name)  # type: ignore[arg-type]
def test_if_nobody_dies_it_ends_as_it_should(scene: Scene) -> None:
    house = House()
    ended = _finish(house, scene.set_up(house))
    assert ended.state is scene.end
    assert len(house.shop.calls) == scene.calls
    _check(house, scene, ended)
    events = house.store.events(ended.id)
    for length in range(1, len(events) + 1):
        assert fold(events[:length]) is not None  # whatever was durable by then can be gone on with


@pytest.mark.requirement(
    "PRINCIPLE-replayable-evidence", "TRUTH-time-durable-wait", "PRINCIPLE-idempotency", "HS-05", "L07", "HS-14"
)
@pytest.mark.parametrize("scene", SCENES, **by_name)  # type: ignore[arg-type]
@pytest.mark.slow
def test_whatever_step_a_process_dies_at_the_next_one_finds_the_truth_and_acts_once(scene: Scene) -> None:
    for step in range(400):
        house = House()
        made = scene.set_up(house)
        house.driver.vanish_at = step
        try:
            house.run(made)
        except ProcessDied:
            calls = len(house.shop.calls)
            house.die()
            ended = _finish(house, made)
            assert calls == 0 or len(house.shop.calls) <= max(calls, scene.calls)
            _check(house, scene, ended)
        else:
            assert step >= 4
            return
    raise AssertionError("it never came to an end")


@pytest.mark.requirement("PRINCIPLE-idempotency")
@pytest.mark.parametrize("scene", SCENES, **by_name)  # type: ignore[arg-type]
@pytest.mark.slow
def test_processes_may_die_one_after_another(scene: Scene) -> None:
    for life in range(2, 14):
        house = House()
        made = scene.set_up(house)
        for _ in range(12):
            house.driver.vanish_at = life
            with contextlib.suppress(ProcessDied):
                house.run(made)
            house.die()
        _check(house, scene, _finish(house, made))


@pytest.mark.requirement("TRUTH-time-durable-wait")
@pytest.mark.parametrize("scene", SCENES, **by_name)  # type: ignore[arg-type]
def test_whoever_stops_waiting_leaves_everything_to_be_gone_on_with(scene: Scene) -> None:
    for patience in (0, 1, 4, 9):
        house = House()
        made = scene.set_up(house)
        house.run(made, wait_s=patience)
        house.die()
        ended = _finish(house, made)
        _check(house, scene, ended)
        assert ended.state is scene.end


# --- a store that fails -------------------------------------------------------------------------------------------


def _failing(house: House, at: int, *, kept: bool) -> Iterator[int]:
    """Lets one append fail; yields how many there were."""
    real, count = house.store.append, [0]

    def append(batch: Sequence[Append]) -> list[AppendResult]:
        count[0] += 1
        if count[0] == at + 1:
            if kept:
                real(batch)
            raise StoreError("The disk is full.", code="store.full")
        return real(batch)

    house.store.append = append  # type: ignore[method-assign]
    while True:
        yield count[0]


def _says_unknown(raised: UnknownOutcomeError) -> None:
    outcome = raised.outcome
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.verdict) == (State.UNKNOWN, Verdict.UNDETERMINED)
    assert not outcome.verified
    assert not outcome.may_repeat
    assert "completed successfully" not in outcome.message + outcome.for_model()
    assert raised.__cause__ is not None


@pytest.mark.requirement("L17", "TRUTH-words-append-failed")
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("scene", SCENES, **by_name)  # type: ignore[arg-type]
def test_a_failed_append_is_loud_and_after_an_effect_it_carries_the_unknown_outcome(scene: Scene, kept: bool) -> None:
    for at in range(60):
        house = House()
        made = scene.set_up(house)
        appends = _failing(house, at, kept=kept)
        raised: StoreError | None = None
        try:
            house.run(made)
        except StoreError as error:
            raised = error
        if isinstance(raised, UnknownOutcomeError):
            _says_unknown(raised)
        elif raised is not None:
            assert house.shop.calls == [], "something was called, and the error says that nothing was done"
        if next(appends) <= at:
            return
        house.die()
        _check(house, scene, _finish(house, made))
    raise AssertionError("there was no end of appends")


@pytest.mark.requirement("L17")
def test_before_an_attempt_is_durable_nothing_is_called(house: House) -> None:
    house.store.fail_next(kept=False)
    with pytest.raises(StoreError) as caught:
        house.run(house.action())
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert house.shop.calls == []
    assert list(house.store.projections()) == []


def test_a_store_that_fails_elsewhere_after_the_call_says_unknown_too(house: House) -> None:
    """Not only an append may fail: nobody may read it as nothing having been done."""
    house.shop.tool = lambda ctx, args: (202, {})

    def lease(*_: object, **__: object) -> int:
        raise StoreError("The database is locked.", code="store.locked")

    house.store.lease = lease  # type: ignore[method-assign]
    with pytest.raises(UnknownOutcomeError) as caught:
        house.run(house.action())
    assert caught.value.details["cause"] == "store.locked"
    assert len(house.shop.calls) == 1


def test_the_error_names_the_same_action_as_the_ledger(house: House) -> None:
    _failing(house, 1, kept=False).__next__()
    with pytest.raises(UnknownOutcomeError) as caught:
        house.run(house.action())
    outcome = caught.value.outcome
    assert isinstance(outcome, Outcome)
    assert outcome.id == house.only()
    house.die()
    told = house.wait(outcome.id)
    assert told.verified
    assert replace(told, replayed=False).id == outcome.id
    assert told.state in TERMINAL
