"""The judgement of watched calls: contradicted under four conditions, and never otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from readback.shadow.judging import ITSELF, Look, Result, WatchedCall, folded, judge, needle_of, values_of


def state(text: str, *, error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": error}


def call(before: str, after: str, text: str = "Buy milk", **changes: Any) -> WatchedCall:
    look = Look("list_notes", {}, state(before), state(after))
    made = WatchedCall("a1", 1, "", "write_note", {"name": "n", "text": text}, True, True, "Saved.", (look,))
    return replace(made, **changes)


SEEN = call("", "Buy milk")
LIE = call("Buy milk", "Buy milk", "Call the bank")


@pytest.mark.requirement("SHADOW-lie-shown")
def test_nothing_changed_is_a_contradiction_once_the_reading_has_shown_such_an_effect() -> None:
    assert [each.result for each in judge([LIE])] == [Result.NOT_JUDGED]
    assert [each.result for each in judge([SEEN, LIE])] == [Result.CHANGED, Result.CONTRADICTED]
    assert next(iter(judge([LIE, SEEN]))).result is Result.CONTRADICTED  # also shown later


@pytest.mark.requirement("SHADOW-no-false-alarm")
@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"claims": False}, Result.FAILED),
        ({"answered": False}, Result.NOT_JUDGED),
        ({"overlapped": True}, Result.NOT_JUDGED),
        ({"looks": ()}, Result.NOT_JUDGED),
        ({"arguments": None}, Result.NOT_JUDGED),
        ({"looks": (replace(LIE.looks[0], steady=False),)}, Result.NOT_JUDGED),
        ({"looks": (replace(LIE.looks[0], writes=True),)}, Result.NOT_JUDGED),
        ({"looks": (replace(LIE.looks[0], after=None),)}, Result.NOT_JUDGED),
        ({"looks": (replace(LIE.looks[0], before=None),)}, Result.NOT_JUDGED),
        ({"arguments": {"name": "n", "text": "Buy milk"}}, Result.UNCHANGED),
        ({"arguments": {"name": "n", "text": "  BUY\\n milk "}}, Result.UNCHANGED),
        ({"arguments": {"name": "n"}}, Result.NOT_JUDGED),
        ({"tool": "other"}, Result.NOT_JUDGED),
        ({"server": "other"}, Result.NOT_JUDGED),
        ({"looks": (Look("list_notes", {}, state("Buy milk"), state("Buy milk.")),)}, Result.CHANGED),
    ],
)
def test_one_condition_short_is_no_contradiction(changes: dict[str, Any], result: Result) -> None:
    assert judge([SEEN, replace(LIE, **changes)])[1].result is result


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_list_that_may_be_cut_short_contradicts_nothing() -> None:
    long = "Buy milk " + "x" * 100
    assert judge([SEEN, call(long, long, "Call the bank")])[1].result is Result.NOT_JUDGED
    assert "may be cut" in judge([SEEN, call(long, long, "Call the bank")])[1].reason


@pytest.mark.requirement("SHADOW-lie-shown")
def test_an_overwritten_object_that_stays_as_it_was_is_a_contradiction() -> None:
    def keyed(before: dict[str, Any], after: dict[str, Any], text: str) -> WatchedCall:
        look = Look("read_note", {"name": "n"}, before, after)
        return replace(SEEN, looks=(look,), arguments={"name": "n", "text": text})

    missing = state("none", error=True)
    first = keyed(missing, state("Buy milk"), "Buy milk")
    over = keyed(state("Buy milk"), state("Buy milk"), "Call the bank")
    assert [each.result for each in judge([first, over])] == [Result.CHANGED, Result.CONTRADICTED]
    bare = replace(first, arguments={"name": "n"})
    never = replace(bare, looks=(Look("read_note", {"name": "n"}, missing, missing),))
    assert judge([bare, never])[1].result is Result.CONTRADICTED
    assert ITSELF in judge([bare, never])[1].reason


@pytest.mark.requirement("SHADOW-late")
def test_a_later_reading_withdraws_and_a_repetition_does_not() -> None:
    shows = call("Buy milk Call the bank", "Buy milk Call the bank Buy bread", "Buy bread")
    judged = judge([SEEN, LIE, shows])
    assert (judged[1].result, judged[1].late) == (Result.CHANGED, True)
    again = call("Buy milk", "Buy milk Call the bank", "Call the bank")
    assert judge([SEEN, LIE, again, shows])[1].result is Result.CONTRADICTED


@pytest.mark.requirement("SHADOW-late", "SHADOW-no-false-alarm")
def test_the_last_call_of_a_tool_seen_to_act_later_is_not_judged_before_a_later_reading() -> None:
    shows = call("Buy milk Call the bank", "Buy milk Call the bank Buy bread", "Buy bread")
    last = call("Buy milk Call the bank Buy bread", "Buy milk Call the bank Buy bread", "Pay the rent")
    assert judge([SEEN, LIE, shows, last])[3].result is Result.NOT_JUDGED
    next_one = call("Buy milk Call the bank Buy bread", "Buy milk Call the bank Buy bread Sleep", "Sleep")
    assert judge([SEEN, LIE, shows, last, next_one])[3].result is Result.CONTRADICTED, "a later reading shows nothing"
    assert judge([SEEN, shows, last])[2].result is Result.CONTRADICTED, "the tool has never acted later"


@pytest.mark.requirement("SHADOW-lie-shown")
def test_a_named_pair_needs_no_earlier_effect_except_for_a_removal() -> None:
    named = replace(LIE, looks=(replace(LIE.looks[0], stated=True),))
    assert judge([named])[0].result is Result.CONTRADICTED
    assert judge([replace(named, tool="delete_note")])[0].result is Result.NOT_JUDGED


def test_values_are_texts_and_numbers_long_enough_to_search_for() -> None:
    given: dict[str, Any] = {"a": {"b": ["First line\nsecond", True, None, 12, 1234]}, "c": "x"}
    assert list(values_of(given)) == [("a.b", "firstline"), ("a.b", "1234")]
    assert needle_of("\n\n  Hello   World ") == "helloworld"
    assert folded('a\\nb "c\\"') == "abc"
    assert folded("Tom &amp; J\\u00e9rry") == folded("tom & JÉRRY") == "tomjérry"


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_category_shared_with_other_objects_hides_no_lie_and_a_known_name_raises_no_alarm() -> None:
    def person(name: str, said: str) -> dict[str, Any]:
        return {"entities": [{"name": name, "kind": "person", "said": said}]}

    ada = "Ada person writes programs"
    first = call("", ada, arguments=person("Ada", "writes programs"))
    lie = call(ada, ada, arguments=person("Bob", "is made up"))
    ignored = call(ada, ada, arguments=person("Ada", "something new"))  # a duplicate, which an honest server ignores
    same = call(ada, ada, arguments=person("Ada", "writes programs"))
    found = [each.result for each in judge([first, lie, ignored, same])]
    assert found == [Result.CHANGED, Result.CONTRADICTED, Result.NOT_JUDGED, Result.UNCHANGED]


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_an_answer_too_large_for_the_record_shows_changes_and_contradicts_nothing() -> None:
    def hashed(digest: str) -> dict[str, Any]:
        return {"bytes": 70_000, "sha256": digest}

    same = replace(LIE, looks=(Look("list_notes", {}, hashed("a" * 64), hashed("a" * 64)),))
    changed = replace(LIE, looks=(Look("list_notes", {}, hashed("a" * 64), hashed("b" * 64)),))
    grown = replace(SEEN, looks=(Look("list_notes", {}, state(""), hashed("c" * 64)),))
    assert [each.result for each in judge([SEEN, same, changed, grown])] == [
        Result.CHANGED,
        Result.NOT_JUDGED,
        Result.CHANGED,
        Result.CHANGED,
    ]


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_trial_run_or_another_command_of_one_tool_is_no_lie() -> None:
    def with_(switch: dict[str, Any], call_: WatchedCall) -> WatchedCall:
        return replace(call_, arguments={**(call_.arguments or {}), **switch})

    for real, other in (
        ({}, {"dryRun": True}),
        ({"options": {"apply": True}}, {"options": {"apply": False}}),
        ({"command": "create"}, {"command": "dry-run"}),
    ):
        assert judge([with_(real, SEEN), with_(other, LIE)])[1].result is Result.NOT_JUDGED
        assert judge([with_(real, SEEN), with_(real, LIE)])[1].result is Result.CONTRADICTED
    named = replace(LIE, looks=(replace(LIE.looks[0], stated=True),))
    assert judge([with_({"dryRun": True}, named)])[0].result is Result.NOT_JUDGED


@pytest.mark.requirement("SHADOW-no-false-alarm")
@pytest.mark.parametrize(
    "answer",
    ["Nothing was saved: the text is unchanged.", "Keine \u00c4nderungen.", "", "[]", "Saved 0.", '{"saved": false}'],
)
def test_an_answer_in_other_words_than_with_an_effect_is_no_claim(answer: str) -> None:
    assert judge([SEEN, replace(LIE, answer=answer)])[1].result is Result.NOT_JUDGED


@pytest.mark.requirement("SHADOW-lie-shown")
def test_values_numbers_and_identifiers_in_an_answer_are_no_other_words() -> None:
    seen = replace(SEEN, answer="Saved milk as 7f3a at 10:31: + Buy milk")
    lie = replace(LIE, answer="Saved bank as 88c1 at 10:35: - Buy milk + Call the bank")
    first = replace(seen, arguments={"name": "milk", "text": "Buy milk"})
    last = replace(lie, arguments={"name": "bank", "text": "Call the bank"})
    assert judge([first, last])[1].result is Result.CONTRADICTED


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_new_entry_past_the_first_page_is_no_lie() -> None:
    texts = [f"Note {word}" for word in ("alpha", "bravo", "delta", "gamma", "kappa", "omega", "sigma", "theta")]

    def listed(count: int) -> str:
        return json.dumps(texts[:count])

    def add(count: int, page: int) -> WatchedCall:
        return call(listed(min(count, page)), listed(min(count + 1, page)), texts[count])

    by_pages = [each.result for each in judge([add(count, 5) for count in range(8)])]
    assert by_pages == [Result.CHANGED] * 5 + [Result.NOT_JUDGED] * 3
    lie = call(listed(6), listed(6), "Call the bank")
    whole = [add(count, 9) for count in range(6)]
    assert judge([*whole, lie])[-1].result is Result.NOT_JUDGED
    assert judge([*whole, lie, add(6, 9)])[-2].result is Result.CONTRADICTED  # a longer list is shown whole
    assert judge([add(0, 9), call(listed(1), listed(1), "Call the bank")])[1].result is Result.CONTRADICTED


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_value_stored_in_another_form_is_not_missed_at_its_repetition() -> None:
    friday = call("Buy milk", "2026-11-28", "tomorrow")
    again = call("2026-11-28", "2026-11-28", "tomorrow")
    assert [each.result for each in judge([SEEN, friday, again])] == [
        Result.CHANGED,
        Result.CHANGED,
        Result.NOT_JUDGED,
    ]
