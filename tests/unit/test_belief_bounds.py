"""The words of a belief at their edges: what is left out, what a limit is exactly, and which rules are said."""

from __future__ import annotations

import pytest

from readback.domain.belief.entry import FrozenSubject, Group
from readback.domain.belief.run import believe
from readback.domain.belief.text import FACT_VALUES_MAX_BYTES
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.planning import GUIDANCE, Planning
from readback.domain.outcome.reporting import quoted_value
from readback.domain.state import State
from readback.errors import OversizeError
from tests.unit.test_belief import HELD, outcome

S = State
DONE = [outcome(n, S.RECONCILED_SUCCESS) for n in range(20)]


@pytest.mark.requirement("BELIEF-bounded")
def test_a_text_that_takes_exactly_its_limit_is_whole_and_one_of_a_byte_less_leaves_out_the_oldest() -> None:
    belief = believe("r", DONE)
    whole = belief.for_model(64_000)
    assert belief.for_model(len(whole)) == whole
    assert DONE[0].id not in belief.for_model(len(whole) - 1)
    assert "Left out: 1 older" in belief.for_model(len(whole) - 1)


@pytest.mark.requirement("BELIEF-bounded")
def test_with_no_room_for_any_settled_result_what_is_open_stands_alone() -> None:
    doubts = [outcome(n, S.UNKNOWN) for n in range(8)]
    belief = believe("r", [*doubts, outcome(9, S.RECONCILED_SUCCESS, told={"note": "x" * 900})])
    alone = believe("r", doubts).for_model(64_000)
    text = belief.for_model(len(alone) + 200)
    assert outcome(9, S.PENDING).id not in text
    assert "Left out: 1 older" in text


@pytest.mark.requirement("BELIEF-bounded")
def test_a_refusal_says_how_much_there_is_of_what() -> None:
    doubts = [outcome(n, S.UNKNOWN) for n in range(30)]
    belief = believe("r", doubts, frozen=[HELD])
    with pytest.raises(OversizeError) as refused:
        belief.for_model(1_024)
    assert refused.value.details == {"bytes": len(belief.for_model(64_000)), "unresolved": 30, "frozen": 1}


@pytest.mark.requirement("PLAN-context")
def test_what_is_frozen_brings_its_rule_although_nothing_else_is_open() -> None:
    rule = f"- {Planning.FROZEN.value}: {GUIDANCE[Planning.FROZEN]}."
    held = believe("r", DONE[:1], frozen=[FrozenSubject("resource:order/6", "wrong_target")]).for_model()
    assert rule in held.splitlines()
    assert held.count(": " + GUIDANCE[Planning.FROZEN]) == 1
    assert rule not in believe("r", DONE[:1]).for_model()


def test_the_traces_of_all_that_is_told_are_pointed_to() -> None:
    for state in (S.RECONCILED_SUCCESS, S.UNKNOWN, S.ROLLED_BACK):
        assert 'Pointers: trace "a1"' in believe("r", [outcome(2, state, trace="a1")]).for_model()


def test_an_operation_is_named_where_somebody_named_it() -> None:
    named, drawn = outcome(2, S.PENDING), outcome(2, S.PENDING, operation="01act0002")
    assert 'ship_order on "order/2", operation "ship 2": ' in believe("r", [named]).for_model()
    assert 'ship_order on "order/2": ' in believe("r", [drawn]).for_model()


@pytest.mark.parametrize(("done", "open_"), [(("charge",), ()), ((), ("mail",)), (("a" * 81,), ("b" * 80,))])
def test_parts_are_named_where_there_are_any_on_either_side(done: tuple[str, ...], open_: tuple[str, ...]) -> None:
    partial = {"discrepancy": Discrepancy.PARTIAL_APPLICATION, "parts_done": done, "parts_open": open_}
    text = believe("r", [outcome(5, S.REVIEW_REQUIRED, **partial)]).for_model()
    shown = [[f'"{each}"' if len(each) <= 80 else f'"{each[:79]}\\u2026"' for each in parts] for parts in (done, open_)]
    assert f"Parts: completed [{', '.join(shown[0])}]; unresolved [{', '.join(shown[1])}]." in text


def test_values_of_exactly_the_limit_are_told_and_of_one_byte_more_are_not() -> None:
    names = [f"k{n}" for n in range(6)]
    told = dict.fromkeys(names, "")
    for name in names:
        room = FACT_VALUES_MAX_BYTES - len(quoted_value(told))
        told[name] = "x" * min(room, 180)
    assert len(quoted_value(told)) == FACT_VALUES_MAX_BYTES
    assert "too long" not in believe("r", [outcome(1, S.RECONCILED_SUCCESS, told=told)]).for_model()
    last = next(name for name in names if len(told[name]) < 180)
    more = {**told, last: told[last] + "x"}
    assert "too long" in believe("r", [outcome(1, S.RECONCILED_SUCCESS, told=more)]).for_model()


def test_a_person_reads_a_sagas_state_in_words() -> None:
    saga = Group("01saga01", "trip", S.REVIEW_REQUIRED, Planning.ESCALATE)
    assert "Saga trip: review required." in believe("r", [], groups=[saga]).message
