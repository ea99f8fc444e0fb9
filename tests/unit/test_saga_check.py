"""What may not be a saga: each fault by its code, all of them at once, and nothing acts before they are told."""

from __future__ import annotations

from typing import Any

import pytest

from readback.client.authoring.action import ActionDefinition, action
from readback.client.step import SagaStep, from_step
from readback.domain.context import Context
from readback.domain.saga.check import regions_of
from readback.domain.saga.fold import STEPS_MAX, Region
from readback.domain.verification.reading import Reading
from readback.errors import ArgumentError, ProposalError, SagaError
from tests.lifecycle.trip import AFTER, TERMS, Trip, contract


@pytest.fixture
def trip() -> Trip:
    return Trip()


def codes(trip: Trip, steps: list[SagaStep], operation: str | None = "op-1") -> list[tuple[str, str]]:
    with pytest.raises(SagaError) as told:
        trip.run(steps, operation=operation)
    assert trip.world.calls == []
    assert trip.saga_ids() == []
    problems = told.value.details["problems"]
    assert isinstance(problems, list)
    assert told.value.code == "input.saga"
    return [(p["step"], p["code"]) for p in problems]


def step(trip: Trip, name: str, *, after: tuple[str, ...] = (), pivot: bool = False, **given: Any) -> SagaStep:
    made = trip.contracts.get(name) or trip.load(name)
    return made(**{"trip": "t-1", "price": 1, **given}).as_step(name, after=after, pivot=pivot)


@pytest.mark.requirement("L19")
def test_a_circle_is_refused_and_only_its_members_are_named(trip: Trip) -> None:
    steps = [step(trip, "a", after=("c",)), step(trip, "b", after=("a",)), step(trip, "c", after=("b",))]
    assert codes(trip, [*steps, step(trip, "d", after=("a",))]) == [("a", "cycle")]


def test_a_step_that_waits_for_itself_is_a_circle(trip: Trip) -> None:
    assert codes(trip, [step(trip, "a", after=("a",))]) == [("a", "cycle")]


def test_unknown_and_doubled_names_are_refused(trip: Trip) -> None:
    steps = [step(trip, "a", after=("nobody",)), step(trip, "a"), trip.contracts["a"](trip="x", price=1).as_step("a b")]
    assert codes(trip, steps) == [("a", "name.twice"), ("a b", "name"), ("a", "after.unknown")]


def test_no_steps_and_too_many_are_refused(trip: Trip) -> None:
    assert codes(trip, []) == [("", "empty")]
    made = trip.load("a")
    many = [made(trip=f"t-{n}", price=1).as_step(f"s{n}") for n in range(STEPS_MAX + 1)]
    assert codes(trip, many) == [("", "steps")]


def test_references_lead_to_predecessors_only(trip: Trip) -> None:
    steps = [
        step(trip, "a"),
        step(trip, "b", price=from_step("a", "price")),
        step(trip, "c", after=("a",), price=from_step("nobody", "price")),
    ]
    assert codes(trip, steps) == [("b", "reference.order"), ("c", "reference.unknown")]


def test_a_predecessor_of_a_predecessor_may_be_referred_to(trip: Trip) -> None:
    steps = [
        step(trip, "a", price=7),
        step(trip, "b", after=("a",)),
        step(trip, "c", after=("b",), price=from_step("a", "requested.price")),
    ]
    assert trip.run(steps).verified
    assert trip.world.rows["c", "t-1"]["price"] == 7


def test_redacted_values_do_not_travel_and_redacted_arguments_do_not_begin(trip: Trip) -> None:
    trip.load("a", redact=["authoritative.price"])
    trip.load("b", redact=["requested.ref"])
    steps = [
        step(trip, "a"),
        step(trip, "b", after=("a",), price=from_step("a", "price"), ref="4111-1111"),
        step(trip, "c", after=("a",), ref=from_step("b", "requested.ref")),
    ]
    found = codes(trip, steps)
    assert ("b", "argument.redacted") in found
    assert ("b", "reference.redacted") in found
    assert ("c", "reference.redacted") in found


def test_a_reference_into_a_redacted_argument_is_refused(trip: Trip) -> None:
    trip.load("b", redact=["requested.ref"])
    steps = [step(trip, "a"), step(trip, "b", after=("a",), ref=from_step("a", "ref"))]
    assert codes(trip, steps) == [("b", "argument.redacted")]


def test_two_pivots_are_refused(trip: Trip) -> None:
    trip.load("b", **AFTER)
    steps = [step(trip, "a", pivot=True), step(trip, "b", after=("a",), pivot=True)]
    assert codes(trip, steps) == [("b", "pivot.twice")]


def test_after_the_pivot_a_tool_has_to_honour_the_key(trip: Trip) -> None:
    trip.load("b", undo={})
    assert codes(trip, [step(trip, "a", pivot=True), step(trip, "b", after=("a",))]) == [("b", "after.key")]


def test_before_the_pivot_every_change_can_be_taken_back(trip: Trip) -> None:
    trip.load("a", undo={})
    assert codes(trip, [step(trip, "a"), step(trip, "b", pivot=True)]) == [("a", "compensation.missing")]


def test_a_compensation_that_its_contract_calls_impossible_is_none(trip: Trip) -> None:
    trip.load("a", execute={"timeout": "1s", "reversible": False})
    assert codes(trip, [step(trip, "a"), step(trip, "b", after=("a",))]) == [("a", "compensation.missing")]


def test_a_single_last_step_may_be_for_good(trip: Trip) -> None:
    trip.load("b", undo={})
    assert trip.run([step(trip, "a"), step(trip, "b", after=("a",))]).verified
    other = Trip()
    other.load("b", undo={})
    other.load("c", undo={})
    steps = [step(other, "a"), step(other, "b"), step(other, "c", after=("a",))]
    assert codes(other, steps, "op-2") == [("b", "compensation.missing"), ("c", "compensation.missing")]


@pytest.mark.requirement("HS-13")
def test_a_compensation_without_verification_is_refused(trip: Trip) -> None:
    @action(**{**TERMS, "name": "a"})
    def a(ctx: Context, trip: str, price: int) -> object:
        return {}

    a.read(source="a", consistency="strong", independence="other_client", attributes=True)(_read)
    undo: ActionDefinition[Any] = action(
        name="undo_a",
        kind="delete",
        side_effect="low_risk_internal",
        target="booking/{requested.trip}",
        unverifiable="nobody can look",
        ensure={"gone": "authoritative == null"},
    )(lambda ctx, trip, price: {})
    a.compensate(undo)
    found = codes(trip, [a(trip="t", price=1).as_step("a"), step(trip, "b", after=("a",))])
    assert ("a", "compensation.unverified") in found


def _read(ctx: Context, trip: str, price: int) -> Reading:
    return Reading.absent()


def test_a_pivot_is_read_strongly_and_every_step_is_read(trip: Trip) -> None:
    weak: ActionDefinition[Any] = action(**{**TERMS, "name": "weak"})(lambda ctx, trip, price: {})
    weak.read(source="w", consistency="session", independence="other_client", attributes=True)(_read)
    blind: ActionDefinition[Any] = action(
        name="blind", kind="send", side_effect="low_risk_internal", target="x", unverifiable="nobody can look",
        ensure={"x": "authoritative.sent"},
    )(lambda ctx, trip, price: {})  # fmt: skip
    steps = [
        weak(trip="t", price=1).as_step("weak", after=("blind",), pivot=True),
        blind(trip="t", price=1).as_step("blind"),
    ]
    found = codes(trip, steps)
    assert ("weak", "pivot.weak") in found
    assert ("blind", "unverifiable") in found
    assert ("blind", "compensation.missing") in found


def test_principals_and_operations_are_asked_for_beforehand(trip: Trip) -> None:
    trip.load("a", principals=["somebody:else"])
    medium = {
        "side_effect": "medium_risk_write",
        "identity": {**TERMS["identity"], "actor": "not_offered"},
    }
    trip.load("b", **medium)
    found = codes(trip, [step(trip, "a"), step(trip, "b")], operation=None)
    assert found == [("a", "principal"), ("b", "operation")]
    long = codes(trip, [step(trip, "c")], operation="o" * 256)
    assert long == [("c", "operation.length")]


@pytest.mark.requirement("SAGA-refused")
def test_all_faults_are_told_at_once(trip: Trip) -> None:
    trip.load("a", undo={}, principals=["nobody"])
    steps = [step(trip, "a", after=("z",)), step(trip, "b", pivot=True), step(trip, "c", pivot=True)]
    assert {code for _, code in codes(trip, steps)} == {"pivot.twice", "after.unknown", "principal"}


def test_regions_follow_from_what_waits_for_the_pivot(trip: Trip) -> None:
    from readback.engine.saga.begin import _draft

    drafts = [_draft(each.defined()) for each in trip.steps()]
    found = regions_of(drafts)
    assert found == {
        "flight": Region.BEFORE,
        "hotel": Region.BEFORE,
        "car": Region.BEFORE,
        "charge": Region.PIVOT,
        "ticket": Region.AFTER,
    }


def test_a_proposal_that_refers_to_steps_is_not_run_by_itself(trip: Trip) -> None:
    proposal = trip.load("a")(trip="t", price=from_step("b", "price"))
    assert sorted(proposal.references) == ["price"]
    with pytest.raises(ProposalError, match="refers to other steps"):
        trip.session.request(proposal, "op", None, "")
    proposal.mark_run()


def test_a_reference_stands_for_a_whole_argument(trip: Trip) -> None:
    made = contract(trip.world, "a")
    with pytest.raises(ArgumentError):
        made(trip={"id": from_step("b", "id")}, price=1)


@pytest.mark.parametrize("after", ["hotel", 3, [1], {"a": 1}])
def test_after_takes_names(trip: Trip, after: object) -> None:
    proposal = trip.load("a")(trip="t", price=1)
    with pytest.raises(ProposalError):
        proposal.as_step("a", after=after)  # type: ignore[arg-type]
    proposal.mark_run()


@pytest.mark.parametrize(("name", "path"), [("", "x"), ("x", ""), (3, "x"), ("x", None)])
def test_from_step_takes_a_name_and_a_path(name: Any, path: Any) -> None:
    with pytest.raises(ProposalError):
        from_step(name, path)


def test_saga_takes_steps(trip: Trip) -> None:
    proposal = trip.load("a")(trip="t", price=1)
    with pytest.raises(ProposalError, match="as_step"):
        trip.session.saga_request([proposal], "x", "op")  # type: ignore[list-item]
    proposal.mark_run()
