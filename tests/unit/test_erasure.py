"""Erasure: which digests of an entry may be taken away, and which an action has let go of after each of its entries."""

from __future__ import annotations

from collections.abc import Iterable

from readback.canon import Json
from readback.canon.limits import ENVELOPE_MAX_BYTES
from readback.domain.action.erasure import (
    AT_WORK_NAMED_MAX,
    DIGESTS_AN_ENTRY_MAX,
    ERASED,
    KEPT_REFS,
    BusyAction,
    ErasureOrder,
    ErasureResult,
    erased_after,
    erased_digests,
    payloads,
)
from readback.domain.events import Event, EventKind, ParsedEnvelope


def entry(**refs: str) -> Event:
    return Event(EventKind.OBSERVED, 5, refs=refs)


def erased(*digests: Json) -> Event:
    return Event(EventKind.ERASED, 6, data={"digests": [*digests]})


def opened(events: Iterable[Event]) -> list[ParsedEnvelope]:
    return [ParsedEnvelope(each, "a-1", "acme", place, "") for place, each in enumerate(events, 1)]


def test_a_payload_may_be_erased_and_the_contract_and_signatures_may_not() -> None:
    one = entry(request="d1", contract="d2", token="d3", before="d4")
    assert [*payloads(one)] == ["d1", "d4"]
    assert [*payloads(entry())] == []
    assert frozenset({"contract", "token"}) == KEPT_REFS


def test_an_erasing_entry_adds_its_digests_once_each_in_their_order() -> None:
    assert erased_after((), erased("d2", "d1")) == ("d2", "d1")
    assert erased_after(("d1",), erased("d3", "d1", "d2")) == ("d1", "d3", "d2")
    assert erased_after(("d1",), erased()) == ("d1",)


def test_an_erasing_entry_that_names_no_list_lets_nothing_go() -> None:
    assert erased_after(("d1",), Event(EventKind.ERASED, 6, data={"digests": "d2"})) == ("d1",)
    assert erased_after((), erased(7)) == ("7",)


def test_only_an_erasing_entry_lets_anything_go() -> None:
    for kind in EventKind:
        if kind is not EventKind.ERASED:
            named = Event(kind, 6, data={"digests": ["d1"]}, refs={"request": "d2"})
            assert erased_after((), named) == ()
            assert erased_after(("d3",), named) == ("d3",)


def test_what_is_recorded_again_is_the_actions_again() -> None:
    assert erased_after(("d1", "d2", "d3"), entry(reading="d2", before="d9")) == ("d1", "d3")
    assert erased_after(("d1", "d2"), entry()) == ("d1", "d2")
    assert erased_after((), entry(reading="d2")) == ()


def test_over_all_entries_the_last_word_on_each_digest_counts() -> None:
    events = [entry(request="d1", before="d2"), erased("d1", "d2"), entry(reading="d2"), erased("d3")]
    assert erased_digests(opened(events)) == frozenset({"d1", "d3"})
    assert erased_digests(opened(events[:1])) == frozenset()
    assert erased_digests(opened(reversed(events[:2]))) == frozenset()


def test_what_came_of_it_starts_at_nothing_done_and_nothing_left() -> None:
    assert ErasureResult().as_json() == {
        "dry_run": False,
        "actions": 0,
        "pieces": 0,
        "already": 0,
        "at_work": [],
        "at_work_total": 0,
        "gone": True,
    }


def test_what_came_of_it_is_told_whole() -> None:
    found = ErasureResult(dry_run=True, actions=1, pieces=2, already=4, gone=False)
    found.left("a-9", "it is to be decided")
    assert found.at_work == [BusyAction("a-9", "it is to be decided")]
    assert found.as_json() == {
        "dry_run": True,
        "actions": 1,
        "pieces": 2,
        "already": 4,
        "at_work": [{"id": "a-9", "why": "it is to be decided"}],
        "at_work_total": 1,
        "gone": False,
    }


def test_of_all_that_are_left_the_first_hundred_are_named_and_every_one_is_counted() -> None:
    found = ErasureResult()
    for number in range(AT_WORK_NAMED_MAX + 1):
        found.left(f"a-{number}", "at work")
    assert AT_WORK_NAMED_MAX == 100
    assert found.at_work_total == 101
    assert [each.action_id for each in found.at_work] == [f"a-{number}" for number in range(100)]
    assert ErasureResult().at_work == []


def test_an_order_names_no_action_and_no_age_unless_it_is_told() -> None:
    order = ErasureOrder("acme", "human:dpo", "asked for")
    assert (order.action_ids, order.before_us) == ((), None)


def test_so_many_digests_as_an_entry_names_fit_into_an_entry() -> None:
    assert DIGESTS_AN_ENTRY_MAX == 256
    assert DIGESTS_AN_ENTRY_MAX * (64 + len('"",')) < ENVELOPE_MAX_BYTES


def test_what_is_gone_is_shown_as_erased() -> None:
    assert ERASED == {"$erased": True}
