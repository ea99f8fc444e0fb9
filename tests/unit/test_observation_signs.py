"""What an answer says about itself: each flag, field, word and status, and where looking for them ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.verification.observation import ObservationStatus, normalise, one_line
from readback.domain.verification.observation_signs import DETAIL_MAX_CHARACTERS, http_sign, signs_of

O = ObservationStatus  # noqa: E741
NOTHING = (O.SUCCESS, "returned.value")
pytestmark = pytest.mark.requirement("HS-10")


def said(raw: object) -> tuple[ObservationStatus, str]:
    seen = normalise(raw, 1)
    return seen.status, seen.code


def detail(raw: object) -> str:
    return normalise(raw, 1).detail


def within(levels: int, value: object) -> object:
    for _ in range(levels):
        value = {"data": value}
    return value


# --- one line ---


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("a  b", 10, "a b"),
        (" a ", 10, "a"),
        ("a\u00a0b", 10, "a b"),
        ("grün", 10, "grün"),
        ("grün\tx", 6, "grün x"),
        ("a\tb\nc", 5, "a b c"),
        ("x" * 10, 10, "x" * 10),
        ("\x00" * 20 + "end", 10, "end"),
        ("\x00" * 45 + "end", 10, "…"),
        ("a" + "\u200b" * 3 + "b", 10, "a b"),
    ],
)
def test_text_from_outside_is_one_line_of_single_spaces_up_to_its_limit(text: str, limit: int, expected: str) -> None:
    assert one_line(text, limit) == expected


def test_a_line_holds_two_hundred_and_forty_characters_unless_it_is_told_otherwise() -> None:
    assert DETAIL_MAX_CHARACTERS == 240
    assert one_line("x" * 240) == "x" * 240
    assert one_line("x" * 241) == "x" * 239 + "…"


# --- statuses of HTTP ---


@pytest.mark.parametrize(
    ("status", "means", "words"),
    [
        (101, O.MALFORMED, "no final status"),
        (199, O.MALFORMED, "no final status"),
        (200, O.SUCCESS, "answered 200."),
        (299, O.SUCCESS, "answered 299."),
        (300, O.ERROR, "a redirect"),
        (399, O.ERROR, "a redirect"),
        (400, O.ERROR, "answered 400."),
        (499, O.ERROR, "answered 499."),
        (202, O.ACCEPTED, "not completed"),
        (207, O.PARTIAL, "their own results"),
        (408, O.TIMEOUT, "did not wait"),
        (504, O.TIMEOUT, "did not wait"),
    ],
)
def test_each_range_of_http_has_its_meaning(status: int, means: ObservationStatus, words: str) -> None:
    sign = http_sign(status)
    assert (sign.status, sign.code) == (means, f"http.{status}")
    assert words in sign.detail


@pytest.mark.parametrize("name", ["status", "statusCode", "status_code", "http_status", "httpStatusCode"])
def test_a_status_of_http_is_read_from_each_usual_field(name: str) -> None:
    assert said({name: 500}) == (O.ERROR, "http.500")
    assert said({name: 599}) == (O.ERROR, "http.599")
    assert said({name: 100}) == (O.MALFORMED, "http.100")
    for other in (99, 600, 500.0, True, "500", None):
        assert said({name: other}) == NOTHING


# --- flags ---


@pytest.mark.parametrize("name", ["success", "ok", "succeeded", "successful", "acknowledged"])
def test_each_flag_of_success_that_is_not_set_is_a_failure(name: str) -> None:
    assert said({name: False}) == (O.ERROR, f"flag.{name}-false")
    assert said({name: True}) == NOTHING
    assert detail({name: False}) == f"The answer says {name}: false."


@pytest.mark.parametrize("name", ["isError", "has_error", "HAS-ERRORS", "failed", "failure"])
def test_each_flag_of_failure_that_is_set_is_a_failure(name: str) -> None:
    plain = name.replace("_", "").replace("-", "").lower()
    assert said({name: True}) == (O.ERROR, f"flag.{plain}")
    assert said({name: False}) == NOTHING


@pytest.mark.parametrize("no", [False, 0, "false", "no", "0", "failed", "error", " FALSE "])
def test_what_counts_as_no(no: object) -> None:
    assert said({"ok": no}) == (O.ERROR, "flag.ok-false")


@pytest.mark.parametrize("yes", [True, 1, 2, "true", "yes", "", None, 0.0, [], {}])
def test_what_does_not_count_as_no(yes: object) -> None:
    assert said({"ok": yes}) == NOTHING


@pytest.mark.parametrize("no", [False, 0, None, "", "false", "no", "0", "none", "null", " NULL ", [], {}, 0.0])
def test_what_does_not_count_as_a_failure(no: object) -> None:
    assert said({"failed": no}) == NOTHING
    assert said({"error": no}) == NOTHING


@pytest.mark.parametrize("yes", [True, 1, "true", "x", [1], {"a": 1}, 0.5])
def test_what_counts_as_a_failure(yes: object) -> None:
    assert said({"failed": yes}) == (O.ERROR, "flag.failed")
    assert said({"error": yes}) == (O.ERROR, "field.error")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"succeeded": 3, "failed": 1}, O.PARTIAL),
        ({"ok": 2, "failure": 1}, O.PARTIAL),
        ({"succeeded": 3, "failed": True}, O.ERROR),
        ({"succeeded": 3, "failed": "1"}, O.ERROR),
        ({"succeeded": True, "failed": 1}, O.ERROR),
        ({"succeeded": "3", "failed": 1}, O.ERROR),
        ({"succeeded": 0, "failed": 1}, O.ERROR),
        ({"failed": 1}, O.ERROR),
    ],
    ids=repr,
)
def test_only_counts_of_both_make_a_failure_partial(answer: dict[str, Any], status: ObservationStatus) -> None:
    assert normalise(answer, 1).status is status


# --- error fields ---


@pytest.mark.parametrize("name", ["error", "errors", "exception", "errorMessage", "error_code", "fault"])
def test_each_error_field_is_a_failure(name: str) -> None:
    assert said({name: "x"}) == (O.ERROR, f"field.{name.replace('_', '').lower()}")


@pytest.mark.parametrize("part", ["data", "results", "result"])
def test_errors_beside_a_result_are_partial_and_an_error_is_not(part: str) -> None:
    assert said({"errors": ["x"], part: {"a": 1}}) == (O.PARTIAL, "field.errors")
    assert said({"errors": ["x"], part: {}}) == (O.ERROR, "field.errors")
    assert said({"error": "x", part: {"a": 1}}) == (O.ERROR, "field.error")


def test_an_empty_error_field_hides_no_other() -> None:
    assert said({"error": None, "fault": "x"}) == (O.ERROR, "field.fault")
    assert said({"error": "", "fault": "x"}) == (O.ERROR, "field.fault")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("card\ndeclined", ": card declined"),
        ({"message": "card declined", "code": 7}, ": card declined"),
        ({"code": 7}, "."),
        (12, "."),
        ("x" * 120, ": " + "x" * 120),
        ("x" * 121, ": " + "x" * 119 + "…"),
    ],
)
def test_an_errors_own_words_are_told_bounded(value: object, words: str) -> None:
    assert detail({"error": value}) == f"The answer has error{words}"


# --- status words ---

WORDS = {
    O.ERROR: "error errored fail failed failure fatal declined rejected denied refused bounced undeliverable forbidden "
    "unauthorized unauthorised aborted crashed invalid exception nok",
    O.TIMEOUT: "timeout timed_out timedout deadline_exceeded",
    O.PARTIAL: "partial partially_completed partial_success partial_failure incomplete",
    O.PENDING: "pending processing in_progress inprogress running working waiting started starting initiated deferred "
    "delayed retrying authorized authorised requires_action awaiting_confirmation awaiting_approval",
    O.ACCEPTED: "accepted queued enqueued scheduled submitted received acknowledged buffered",
}


@pytest.mark.parametrize(
    ("status", "word"), [(status, word) for status, text in WORDS.items() for word in text.split()]
)
def test_each_status_word_has_its_meaning_however_it_is_written(status: ObservationStatus, word: str) -> None:
    for written in (word, word.upper(), word.replace("_", " "), word.replace("_", "-"), f" {word} "):
        assert said({"status": written}) == (status, f"status.{word}")
    assert detail({"status": word}) == f"The answer says status: {word}."


@pytest.mark.parametrize("name", ["status", "state", "result", "outcome", "resultCode"])
def test_a_status_word_is_read_from_each_usual_field(name: str) -> None:
    assert said({name: "failed"}) == (O.ERROR, "status.failed")
    assert said({name: ["failed"]}) == NOTHING


def test_a_text_longer_than_a_word_is_no_status() -> None:
    assert said({"status": "failed".ljust(64)}) == (O.ERROR, "status.failed")
    assert said({"status": "failed".ljust(65)}) == NOTHING
    assert said({"status": "failed".ljust(65), "state": "failed"}) == (O.ERROR, "status.failed")


@pytest.mark.parametrize("word", ["cancelled", "canceled"])
def test_cancelled_is_what_it_says_unless_the_answer_confirms_the_call(word: str) -> None:
    assert said({"status": word}) == (O.CANCELLED, f"status.{word}")
    assert detail({"status": word}) == f"The answer says status: {word}."
    for name in ("success", "ok", "succeeded", "successful", "acknowledged"):
        assert said({"status": word, name: True}) == NOTHING
    assert said({"status": word, "ok": 1}) == (O.CANCELLED, f"status.{word}")


RANKED = (
    (O.ERROR, {"status": "failed"}),
    (O.TIMEOUT, {"status": "timeout"}),
    (O.CANCELLED, {"status": "cancelled"}),
    (O.MALFORMED, {"status": 100}),
    (O.PARTIAL, {"status": "partial"}),
    (O.PENDING, {"status": "pending"}),
    (O.ACCEPTED, {"status": "accepted"}),
    (O.SUCCESS, {"status": 200}),
)


@pytest.mark.parametrize(("worse", "better"), [*pairwise(RANKED)], ids=lambda one: one[0])
def test_the_worst_sign_counts_wherever_it_stands(worse: Any, better: Any) -> None:
    assert normalise({**worse[1], "data": better[1]}, 1).status is worse[0]
    assert normalise({**better[1], "data": worse[1]}, 1).status is worse[0]


# --- wrappers, and where looking ends ---


@pytest.mark.parametrize("name", ["data", "result", "response", "structuredContent", "body", "output"])
def test_a_failure_is_found_inside_each_usual_wrapper(name: str) -> None:
    assert said({name: {"ok": False}}) == (O.ERROR, "flag.ok-false")
    assert said({name: [{"ok": False}]}) == (O.ERROR, "parts.failed")
    assert said({name: False}) == NOTHING
    assert said({name: "x"}) == NOTHING


def test_a_statement_about_the_call_stands_at_most_three_levels_deep() -> None:
    assert said(within(3, {"ok": False})) == (O.ERROR, "flag.ok-false")
    assert said(within(4, {"ok": False})) == NOTHING
    assert said(within(2, [{"ok": False}])) == (O.ERROR, "parts.failed")
    assert said(within(3, [{"ok": False}])) == NOTHING
    assert said(within(1, {"results": [{"ok": False}]})) == (O.ERROR, "parts.failed")
    assert said(within(2, {"results": [{"ok": False}]})) == NOTHING


# --- parts ---


@pytest.mark.parametrize(
    ("parts", "status", "words"),
    [
        ([{"ok": False}, {"ok": True}], O.PARTIAL, "1 of 2 parts of the answer failed."),
        ([{"ok": False}, 7], O.ERROR, "All 1 parts of the answer say that they failed."),
        ([{"ok": False}, {"error": "x"}], O.ERROR, "All 2 parts of the answer say that they failed."),
        ([{"succeeded": 3, "failed": 1}, {}], O.PARTIAL, "1 of 2 parts of the answer failed."),
        ([{"Is-Error": True}], O.ERROR, "All 1 parts of the answer say that they failed."),
    ],
    ids=repr,
)
def test_failed_parts_are_counted(parts: list[Any], status: ObservationStatus, words: str) -> None:
    for answer in (parts, {"results": parts}):
        seen = normalise(answer, 1)
        assert (seen.status, seen.detail) == (status, words)
        assert seen.code == ("parts.failed" if status is O.ERROR else "parts.mixed")


def test_of_very_many_parts_the_first_thousand_speak() -> None:
    good: list[Any] = [{"ok": True}] * 999
    assert said([*good, {"ok": False}]) == (O.PARTIAL, "parts.mixed")
    assert said([*good, {}, {"ok": False}]) == NOTHING


# --- content blocks ---


def block(text: object) -> dict[str, object]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    "first",
    ["done", ["x"], None, {"type": "image"}, block(5), block("done"), block("[1]"), block('{"a": 1}')],
    ids=repr,
)
def test_every_block_of_content_is_read(first: object) -> None:
    assert said({"content": [first, block('{"ok": false}')]}) == (O.ERROR, "flag.ok-false")
    assert said({"content": [first, block("Error: not found")]}) == (O.MALFORMED, "malformed.error-text")
    assert said({"content": [first]}) == NOTHING


def test_content_that_is_no_list_of_blocks_says_nothing() -> None:
    assert said({"content": "Error: x"}) == NOTHING
    assert said({"content": {"text": "Error: x"}}) == NOTHING
    assert said({"content": [{"ok": False}]}) == NOTHING
    assert said({"results": "failed"}) == NOTHING


def test_of_very_many_blocks_the_first_thousand_speak() -> None:
    fine = [block("fine")] * 999
    assert said({"content": [*fine, block("Error: x")]}) == (O.MALFORMED, "malformed.error-text")
    assert said({"content": [*fine, block("fine"), block("Error: x")]}) == NOTHING


def test_a_block_is_one_level_below_what_holds_it() -> None:
    deep = '{"data": {"data": {"ok": false}}}'
    assert said({"content": [block(deep)]}) == (O.ERROR, "flag.ok-false")
    assert said({"data": {"content": [block(deep)]}}) == NOTHING


@pytest.mark.requirement("INPUT-over-long-value")
def test_a_block_over_the_limit_is_not_parsed() -> None:
    fits = '{"ok": false}'.ljust(EVIDENCE_MAX_BYTES - 200)
    assert said({"content": [block(fits)]}) == (O.ERROR, "flag.ok-false")
    over = {"content": [block('{"ok": false}' + " " * EVIDENCE_MAX_BYTES)]}
    assert normalise(over, 1).status is O.MALFORMED
    assert signs_of(over) == []


# --- text that leads with an error ---


@pytest.mark.parametrize(
    "text",
    [
        "timeout", "time-out", "Timed out waiting", "deadline exceeded", "ValueError: x", "exception", "IOException",
        "failure", "err 7", "fail", "failed", "fails", "traceback", "fatal", "panic", "denied", "forbidden",
        "unauthorized", "unauthorised", "permission denied", "access denied", "invalid", "unable to", "cannot", "can't",
        "could not", "couldn't", "rejected", "refused", "aborted", "connection refused", "no such", "not found",
        "500 internal", "400 bad", "403 forbidden", "401 unauthori", "404 not found", "503 service unavailable",
        "  *** Error ***",
    ],
)  # fmt: skip
def test_text_that_leads_with_an_error_claims_nothing(text: str) -> None:
    assert said(text) == (O.MALFORMED, "malformed.error-text")
    assert detail(f"{text} {'x ' * 100}").startswith("The answer is text that leads with an error: ")


def test_the_error_that_text_leads_with_is_told_bounded() -> None:
    assert detail("error " + "x" * 114).endswith(": error " + "x" * 114)
    assert detail("error " + "x" * 115).endswith(": error " + "x" * 113 + "…")
