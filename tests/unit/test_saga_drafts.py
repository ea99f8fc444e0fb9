"""What may not be a saga, by its drafts alone: each condition for itself, at its bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.domain.contract.contract import Contract, Execution
from readback.domain.kind import Kind
from readback.domain.saga.check import Problem, StepDraft, faults, predecessors, regions_of
from readback.domain.saga.fold import STEPS_MAX, Reference, Region
from readback.domain.side_effect import Consistency, SideEffect
from tests.unit.cases_given import READER, contract

UNDO = contract(name="undo")
WEAK = replace(READER, consistency=Consistency.SESSION)


def of(**changes: Any) -> Contract:
    """A contract whose tool honours the key."""
    return contract(execution=Execution(1, honours_key=True), **changes)


def draft(name: str = "a", *, undo: Contract | None = UNDO, **changes: Any) -> StepDraft:
    given: dict[str, Any] = {"contract": of(), "undo": undo}
    return StepDraft(name, **{**given, **changes})


def codes(*steps: StepDraft, principal: str = "agent", operation: str = "op-1") -> list[tuple[str, str]]:
    return [(each.step, each.code) for each in faults(steps, principal=principal, operation=operation)]


def test_a_problem_says_what_where_and_why() -> None:
    assert Problem("name", "a", "Because.").as_json() == {"code": "name", "step": "a", "reason": "Because."}


def test_a_saga_has_at_most_sixty_four_steps() -> None:
    assert STEPS_MAX == 64
    many = [draft(f"s{n}") for n in range(65)]
    assert codes(*many[:64]) == []
    assert codes(*many) == [("", "steps")]


def test_a_name_that_is_none_is_told_cut() -> None:
    assert codes(draft("n" * 64)) == []
    assert codes(draft("n" * 65)) == [("n" * 64, "name")]


def test_steps_that_wait_for_each_other_in_order_are_no_circle() -> None:
    steps = [draft("a"), draft("b", after=("a",)), draft("c", after=("a", "b")), draft("d", after=("c",))]
    assert codes(*steps) == []
    assert predecessors(steps) == {
        "a": frozenset(),
        "b": frozenset("a"),
        "c": frozenset("ab"),
        "d": frozenset("abc"),
    }


# --- references ---


@pytest.mark.parametrize(
    ("path", "redact", "covered"),
    [
        ("iban", ("authoritative.iban",), True),
        ("authoritative.iban", ("authoritative.iban",), True),
        ("authoritative.iban.code", ("authoritative.iban",), True),
        ("authoritative", ("authoritative.iban",), True),
        ("requested.iban", ("authoritative.iban",), False),
        ("requested.iban", ("requested.iban",), True),
        ("ibans", ("authoritative.iban",), False),
        ("name", ("authoritative.iban", "authoritative.note"), False),
        ("note", ("authoritative.iban", "authoritative.note"), True),
    ],
)
def test_what_is_redacted_does_not_travel_whole_nor_in_part(path: str, redact: tuple[str, ...], covered: bool) -> None:
    first = draft("a", contract=of(redact=redact))
    second = draft("b", after=("a",), references={"x": Reference("a", path)})
    assert codes(first, second) == ([("b", "reference.redacted")] if covered else [])


def test_every_reference_is_looked_at() -> None:
    given = {"x": Reference("nobody", "id"), "y": Reference("c", "id"), "z": Reference("a", "id")}
    steps = [draft("a"), draft("b", after=("a",), references=given), draft("c")]
    assert codes(*steps) == [("b", "reference.unknown"), ("b", "reference.order")]


# --- terms ---


@pytest.mark.parametrize(
    ("allowed", "fault"), [((), False), (("agent",), False), (("x", "ag*"), False), (("x",), True), (("x", "y"), True)]
)
def test_one_pattern_of_principals_is_enough(allowed: tuple[str, ...], fault: bool) -> None:
    assert codes(draft(contract=of(principals=allowed))) == ([("a", "principal")] if fault else [])


def test_an_operation_is_asked_for_where_the_class_asks_for_it() -> None:
    for klass in SideEffect:
        kind = Kind.READ if klass is SideEffect.READ_ONLY else Kind.SET
        step = draft(contract=of(kind=kind, side_effect=klass))
        needed = step.contract.depth.operation_required
        assert (("a", "operation") in codes(step, operation="")) is needed
        assert ("a", "operation") not in codes(step)


def test_operation_and_name_together_have_at_most_256_bytes() -> None:
    assert codes(draft(), operation="o" * 254) == []
    assert codes(draft(), operation="o" * 255) == [("a", "operation.length")]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [({}, False), ({"readers": ()}, True), ({"unverifiable": "no reader"}, True)],
    ids=["read", "no reader", "said to be unverifiable"],
)
def test_what_no_reading_verifies_is_no_step(changes: dict[str, Any], fault: bool) -> None:
    assert codes(draft(contract=of(**changes))) == ([("a", "unverifiable")] if fault else [])


@pytest.mark.parametrize(
    ("pivot", "readers", "fault"),
    [
        (True, (READER,), False),
        (True, (WEAK, READER), False),
        (True, (WEAK,), True),
        (False, (WEAK,), False),
    ],
)
def test_only_a_pivot_needs_a_strong_reader_and_one_is_enough(pivot: bool, readers: Any, fault: bool) -> None:
    assert codes(draft(contract=of(readers=readers), pivot=pivot)) == ([("a", "pivot.weak")] if fault else [])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [({}, False), ({"readers": ()}, True), ({"ensure": ()}, True), ({"unverifiable": "no reader"}, True)],
    ids=["verified", "no reader", "nothing ensured", "said to be unverifiable"],
)
def test_a_compensation_has_to_be_verified(changes: dict[str, Any], fault: bool) -> None:
    step = draft(undo=replace(UNDO, **changes))
    assert codes(step) == ([("a", "compensation.unverified")] if fault else [])


# --- places ---

READ = contract(Kind.READ, SideEffect.READ_ONLY)


def test_after_the_pivot_a_change_has_to_honour_its_key_and_a_read_need_not() -> None:
    pivot = draft("p", pivot=True)
    assert codes(pivot, draft("a", after=("p",), contract=contract())) == [("a", "after.key")]
    assert codes(pivot, draft("a", after=("p",), contract=READ)) == []
    assert codes(pivot, draft("a", after=("p",))) == []


def test_before_the_pivot_a_change_has_to_have_a_way_back_and_a_read_need_not() -> None:
    pivot = draft("p", pivot=True, after=("a",))
    assert codes(draft("a", undo=None), pivot) == [("a", "compensation.missing")]
    assert codes(draft("a", undo=None, contract=READ), pivot) == []
    final = replace(of(), execution=Execution(1, honours_key=True, reversible=False))
    assert codes(draft("a", contract=final), pivot) == [("a", "compensation.missing")]


def test_only_a_last_change_that_nothing_takes_back_is_a_pivot_without_being_called_one() -> None:
    first = draft("a")
    for last, region in (
        (draft("z", after=("a",), undo=None), Region.PIVOT),
        (draft("z", after=("a",)), Region.BEFORE),
        (draft("z", after=("a",), undo=None, contract=READ), Region.BEFORE),
        (draft("z", undo=None), Region.BEFORE),
    ):
        assert regions_of([first, last]) == {"a": Region.BEFORE, "z": region}
