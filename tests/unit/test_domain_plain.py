"""Words and plain data that leave the domain: what is on record, and what programs read, by fixed names."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

import pytest

from readback.canon import payload_bytes
from readback.domain.belief import entry as belief_entry
from readback.domain.belief.entry import FrozenSubject, Group
from readback.domain.belief.run import believe
from readback.domain.contract import approval as approval
from readback.domain.contract.freezing import FreezeScope
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.planning import GUIDANCE, Planning
from readback.domain.people import review
from readback.domain.people.incident import Severity
from readback.domain.people.review import ENTRIES_MAX, PACKET_MAX_BYTES, SECTION_MAX_BYTES, bounded
from readback.domain.saga.fold import Direction, Region
from readback.domain.saga.outcome import StepOutcome, StepWord
from readback.domain.state import State
from readback.domain.verdict import Attribution, Level, Verdict, Why

WORDS: tuple[type[Enum], ...] = (
    *(Severity, Region, Direction, StepWord, FreezeScope, Planning),
    *(approval.Decision, review.Decision, belief_entry.ItemStatus),
)


@pytest.mark.parametrize("words", WORDS, ids=lambda words: f"{words.__module__}.{words.__name__}")
def test_a_word_on_record_is_its_name_in_small_letters(words: type[Enum]) -> None:
    assert {member.name: member.value for member in words} == {name: name.lower() for name in words.__members__}


def outcome(name: str, state: State, **changes: Any) -> Outcome:
    verified = state in (State.RECONCILED_SUCCESS, State.COMPENSATED)
    plain = Outcome(
        id=name,
        state=state,
        verdict=Verdict.VERIFIED if state is State.RECONCILED_SUCCESS else Verdict.UNDETERMINED,
        why=Why.NONE,
        discrepancy=None,
        attribution=Attribution.OURS,
        level=Level.RECONCILED if verified else Level.NORMALISED,
        may_repeat=False,
        replayed=False,
        contract="ship_order",
        contract_version="3",
        target=f"order/{name}",
        operation=f"ship {name}",
        tenant="acme",
        principal="agent",
        stamp=f"rb-{name}",
        ledger_entry=f"{name}/2",
        attempts=1,
        kind="set",
        trace=f"t-{name}",
    )
    return replace(plain, **changes)


DONE = outcome("a", State.RECONCILED_SUCCESS, told={"status": "shipped"})
STUCK = outcome(
    "b",
    State.REVIEW_REQUIRED,
    discrepancy=Discrepancy.PARTIAL_APPLICATION,
    parts_done=("charge",),
    parts_open=("mail",),
    hold="frozen",
    review="partial",
    code="held",
    compensation="c",
    due_us=9,
)


def test_a_belief_is_plain_data_by_fixed_names() -> None:
    group = Group("s-1", "trip", State.PENDING, Planning.WAIT, ("a", "b"), "look")
    belief = believe("run 7", [DONE, STUCK], tenant="acme", groups=[group], frozen=[FrozenSubject("tool:x", "alarm")])
    given = belief.as_json()
    (fact,), (item,) = belief.verified, belief.unresolved
    assert given == {
        "format": 1,
        "run": "run 7",
        "tenant": "acme",
        "verified": [
            {
                "action": "a",
                "contract": "ship_order",
                "target": "order/a",
                "operation": "ship a",
                "rule": "continue",
                "guidance": GUIDANCE[Planning.CONTINUE],
                "status": fact.status,
                "told": {"status": "shipped"},
                "unchanged": False,
                "changed_by": fact.changed_by,
                "fallen": [],
                "ledger_entry": "a/2",
                "trace": "t-a",
            }
        ],
        "unresolved": [
            {
                "action": "b",
                "contract": "ship_order",
                "target": "order/b",
                "operation": "ship b",
                "state": "review_required",
                "rule": item.rule.value,
                "guidance": GUIDANCE[item.rule],
                "why": item.why,
                "status": item.status,
                "message": item.message,
                "may_repeat": False,
                "discrepancy": "partial_application",
                "parts_done": ["charge"],
                "parts_open": ["mail"],
                "hold": "frozen",
                "review": "partial",
                "code": "held",
                "compensation": "c",
                "due_us": 9,
                "ledger_entry": "b/2",
                "trace": "t-b",
            }
        ],
        "not_done": [],
        "groups": [
            {
                "id": "s-1",
                "name": "trip",
                "state": "pending",
                "rule": "wait",
                "guidance": GUIDANCE[Planning.WAIT],
                "steps": ["a", "b"],
                "review": "look",
            }
        ],
        "frozen": [{"subject": "tool:x", "reason": "alarm"}],
        "older": 0,
        "older_more": False,
    }


def test_what_has_ended_otherwise_is_listed_as_not_done() -> None:
    given = believe("run 7", [outcome("f", State.FAILED)], tenant="acme").as_json()
    assert [each["action"] for each in given["not_done"]] == ["f"]  # type: ignore[index,call-overload,union-attr]
    assert (given["verified"], given["unresolved"]) == ([], [])


def test_a_step_is_plain_data_by_fixed_names() -> None:
    bare = StepOutcome("pay", StepWord.FAILED, "charge", "pivot")
    assert bare.as_json() == {
        "name": "pay",
        "word": "failed",
        "contract": "charge",
        "region": "pivot",
        "after": [],
        "action": "",
        "state": None,
        "verified": False,
        "verified_us": 0,
        "compensation": "",
        "compensation_state": None,
        "compensation_verified": False,
        "tries": 0,
        "code": "",
        "detail": "",
    }
    whole = StepOutcome("pay", StepWord.REVERSED, "charge", "before", ("book",), DONE, DONE, 2, "c", "d", 7)
    assert whole.as_json() == {
        "name": "pay",
        "word": "reversed",
        "contract": "charge",
        "region": "before",
        "after": ["book"],
        "action": "a",
        "state": "reconciled_success",
        "verified": True,
        "verified_us": 7,
        "compensation": "a",
        "compensation_state": "reconciled_success",
        "compensation_verified": True,
        "tries": 2,
        "code": "c",
        "detail": "d",
    }
    open_ = StepOutcome("pay", StepWord.REVERSING, "charge", "before", (), STUCK, STUCK).as_json()
    assert (open_["verified"], open_["compensation_verified"]) == (False, False)


# --- what is cut to a size ---


def test_the_limits_of_a_packet_are_what_they_are_said_to_be() -> None:
    assert (PACKET_MAX_BYTES, SECTION_MAX_BYTES, ENTRIES_MAX) == (262_144, 24_576, 64)


def test_a_value_is_whole_up_to_its_limit_and_cut_beyond_it() -> None:
    assert bounded("x" * 8, 10) == "x" * 8
    cut = bounded("x" * 9, 10)
    assert isinstance(cut, dict)
    assert cut["bytes"] == 11


@pytest.mark.parametrize(("entries", "kept"), [(64, True), (65, False)])
def test_of_an_object_of_few_entries_each_is_cut_and_one_of_many_is_cut_whole(entries: int, kept: bool) -> None:
    wide = bounded({f"k{n}": "x" * 1_000 for n in range(entries)})
    assert isinstance(wide, dict)
    assert ("k0" in wide) is kept
    assert len(payload_bytes(wide)) <= SECTION_MAX_BYTES
