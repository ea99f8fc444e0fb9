"""What a verifier's script may look at, what a delegate is sent and has answered, and the record of both."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from readback.delegations.model.loop import VALUE_MAX_CHARACTERS, NextMove, after, reason_of, verdict_in
from readback.delegations.model.record import NOTHING_ANSWERED, Delegated, Turn, answered, observed_result, result_of
from readback.delegations.model.words import NO_REASON, PROMPT, RESPONSE_MAX_BYTES, VerifyOutcome, prompt_again
from readback.domain.context import Context
from readback.domain.contract.script_permissions import ENTRIES_MAX, ScriptLimits, ScriptPermissions
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import JudgedPostcondition
from readback.domain.predicate import Truth
from readback.domain.state import EXIT_FAILED, EXIT_HELD, EXIT_UNDETERMINED, State
from readback.domain.verdict import Why
from readback.errors import ContractFieldError, HonestyError, ToolError
from tests.unit.test_belief import outcome
from tests.unit.test_delegation_moves import REFUTED

# --- what a script may look at ---


def test_an_allowance_names_addresses_folders_and_files() -> None:
    given = {"http": ["https://api.example/v1/", "http://[::1]:8080"], "fs": ["/srv/out"], "sql": {"shop": "/srv/s.db"}}
    made = ScriptPermissions.of(given)
    assert (made.http, made.fs, made.sql) == (tuple(given["http"]), ("/srv/out",), {"shop": "/srv/s.db"})
    assert ScriptPermissions.of(made) is made
    assert ScriptPermissions.of(None) == ScriptPermissions.of({}) == ScriptPermissions()
    assert ScriptPermissions.of({"fs": ["/x"] * ENTRIES_MAX}).fs == ("/x",) * ENTRIES_MAX


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "HTTPS://Host-1.example",
        "https://h:1",
        "https://h:65535/",
        "https://h/a/b;c=d",
        "http://[fe80::1.2]:80/x",
    ],
)
def test_an_address_is_a_scheme_a_host_a_port_and_where_the_path_begins(url: str) -> None:
    assert ScriptPermissions.of({"http": [url]}).http == (url,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ftp": []}, "no key 'ftp'"),
        ({"zz": 1, "aa": 2}, "no key 'aa'"),
        ({7: []}, "no key '7'"),
        ({"http": "https://h/"}, "`allow.http` must be a list of at most 64 texts"),
        ({"fs": {"/x"}}, "`allow.fs` must be a list of at most 64 texts"),
        ({"fs": ["/x"] * (ENTRIES_MAX + 1)}, "`allow.fs` must be a list of at most 64 texts"),
        ({"fs": [""]}, "`allow.fs` holds ''"),
        ({"http": [7]}, "`allow.http` holds 7"),
        ({"fs": ["srv/out"]}, "'srv/out'. Write an absolute path"),
        ({"sql": {"shop": "s.db"}}, "'s.db'. Write an absolute path"),
        ({"sql": ["/s.db"]}, "mapping of names to SQLite files"),
        ({"sql": {"shop": 7}}, "mapping of names to SQLite files"),
        ({"sql": {7: "/s.db"}}, "mapping of names to SQLite files"),
        *(
            ({"http": [url]}, "Write an address such as")
            for url in (
                "ftp://h/",
                "https://",
                "https://user@h/",
                "https://h/?q=1",
                "https://h/#f",
                "https://h:0/",
                "https://h:123456/",
                "https://h/a b",
                "https://h/a\\b",
                "https://h/\n",
                "https://\u00e9.example/",
                "file:///etc",
                "x https://h/",
            )
        ),
    ],
)
def test_what_is_not_named_as_it_has_to_be_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ContractFieldError) as caught:
        ScriptPermissions.of(given)
    assert said in caught.value.message


def test_a_run_takes_its_own_time_and_that_of_its_host_calls() -> None:
    assert ScriptLimits(seconds=2.0, host_calls=3, host_seconds=4.0).longest_s == 14.0
    assert ScriptLimits() == ScriptLimits(1.0, 1_000_000, 33_554_432, 200, 32, 5.0, 262_144, 1_000)


# --- what a delegate is sent, and what it answered ---

CONTEXT = Context("a-1", "acme", "agent", "op", "t", "k", "rb-1")
TURN = Turn(CONTEXT, "d-1", 0, "Do it.", "Do it.", {})


def test_a_transcript_is_the_task_or_the_whole_conversation() -> None:
    assert TURN.transcript == "Do it."
    later = replace(TURN, prompt="Again.", history=(("Do it.", "Done!"), ("Really?", "Yes.")))
    assert later.transcript == (
        "USER:\nDo it.\n\nASSISTANT:\nDone!\n\nUSER:\nReally?\n\nASSISTANT:\nYes.\n\nUSER:\nAgain.\n"
    )


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        ("Done.", "Done."),
        (None, ""),
        ({"status": "\u00e9"}, '{"status": "\u00e9"}'),
        ({"response": 7}, '{"response": 7}'),
        ([1], "[1]"),
        (True, "true"),
    ],
)
def test_whatever_is_answered_becomes_a_response(answer: Any, response: str) -> None:
    assert result_of(answer) == {"response": response, "tool_calls": [], "tool_results": []}


def test_an_answer_in_the_form_is_kept_as_it_is_and_one_that_cannot_be_kept_whole_is_none() -> None:
    whole = {"response": "x", "tool_calls": [{"name": "t"}], "tool_results": ["r"], "extra": 1}
    assert result_of(whole) == whole
    for key in ("tool_calls", "tool_results"):
        with pytest.raises(ToolError, match=f"'{key}' is no list"):
            result_of({"response": "x", key: "t"})
    frame = len(json.dumps({"response": "", "tool_calls": [], "tool_results": []}, separators=(",", ":")))
    longest = "x" * (RESPONSE_MAX_BYTES - frame)
    assert result_of(longest)["response"] == longest
    with pytest.raises(ToolError, match=f"over {RESPONSE_MAX_BYTES} bytes"):
        result_of(longest + "x")


def test_verifiers_see_the_recorded_answer_or_one_that_says_that_there_is_none() -> None:
    assert observed_result({"response": "x", "tool_calls": [1]}, "d-1") == {
        "id": "d-1",
        "response": "x",
        "tool_calls": [1],
    }
    for none in (None, "x", {}, {"response": 7}):
        assert not answered(none)  # type: ignore[arg-type]
        assert observed_result(none, "d-1") == {  # type: ignore[arg-type]
            "id": "d-1",
            "response": "",
            "tool_calls": [],
            "tool_results": [],
            "error": NOTHING_ANSWERED,
        }


def test_a_refuted_delegate_is_told_why_and_has_its_task_still() -> None:
    assert (
        prompt_again("Do {reason}.", " no {task} ")
        == PROMPT.replace("{reason}", "no {task}") + "\n\nThe task:\nDo {reason}."
    )


# --- what follows an attempt, and why ---


@pytest.mark.parametrize(
    ("seen", "move"),
    [
        (outcome(1, State.RECONCILED_SUCCESS), NextMove.ACCEPT),
        (outcome(1, State.RECONCILED_SUCCESS, contested=True), NextMove.OPEN),
        (outcome(1, State.UNKNOWN, why=Why.UNVERIFIABLE), NextMove.SKIPPED),
        (outcome(1, State.UNKNOWN, why=Why.UNVERIFIABLE, attempts=0, observation=None), NextMove.OPEN),
        (outcome(1, State.REVIEW_REQUIRED, why=Why.VERIFIER_ERROR), NextMove.BROKEN),
        (outcome(1, State.PENDING, why=Why.VERIFIER_ERROR), NextMove.OPEN),
        (replace(REFUTED, contested=True), NextMove.OPEN),
        (replace(REFUTED, attempts=0, observation=None), NextMove.OPEN),
        (replace(REFUTED, discrepancy=Discrepancy.DUPLICATE_SIDE_EFFECT), NextMove.OPEN),
        (replace(REFUTED, discrepancy=Discrepancy.WRONG_TARGET_MODIFIED), NextMove.OPEN),
        (replace(REFUTED, discrepancy=Discrepancy.COMPENSATION_REQUIRED), NextMove.OPEN),
        (replace(REFUTED, discrepancy=Discrepancy.STALE_STATE), NextMove.OPEN),
        (replace(REFUTED, discrepancy=Discrepancy.NO_OP_FAILURE), NextMove.AGAIN),
    ],
)
def test_what_follows_an_attempt(seen: Any, move: NextMove) -> None:
    assert after(seen, 0, 2) is move


def _judged(name: str, truth: Truth = Truth.VIOLATED, **values: Any) -> JudgedPostcondition:
    return JudgedPostcondition(name, truth, f"{name} == 1", values=tuple(values.items()))


def _said(**word: Any) -> dict[str, Any]:
    return {"$delegation": word}


def test_the_reason_is_what_the_verifiers_said_and_what_does_not_hold() -> None:
    seen = replace(
        REFUTED,
        authoritative=_said(verified=False, reason="no file"),
        postconditions=(
            _judged("verified"),
            _judged("rows", a={"b": "\u00e9"}, c=2),
            _judged("fine", Truth.HOLDS),
            _judged("bare"),
        ),
        discrepancy=Discrepancy.VALUE_MISMATCH,
    )
    assert reason_of(seen) == (
        'no file; rows does not hold: rows == 1 (a is {"b": "\u00e9"}, c is 2); bare does not hold: bare == 1'
    )


def test_where_nobody_said_why_the_discrepancy_does_or_the_detail() -> None:
    for word in (_said(verified=True, reason="fine"), _said(verified=False, reason=""), _said(reason="x"), {}, None):
        seen = replace(REFUTED, authoritative=word, discrepancy=Discrepancy.NO_OP_FAILURE, detail="More.")
        assert reason_of(seen) == "no op failure"
    assert reason_of(replace(REFUTED, authoritative=None, discrepancy=None, detail="More.")) == "More."
    assert reason_of(replace(REFUTED, authoritative=None, discrepancy=None, detail="")) == NO_REASON


def test_a_value_is_shown_as_far_as_it_is_short() -> None:
    for size, shown in ((VALUE_MAX_CHARACTERS - 2, True), (VALUE_MAX_CHARACTERS - 1, False)):
        text = json.dumps("x" * size)
        said = reason_of(replace(REFUTED, authoritative=None, postconditions=(_judged("rows", a="x" * size),)))
        cut = text if shown else text[: VALUE_MAX_CHARACTERS - 1] + "\u2026"
        assert said == f"rows does not hold: rows == 1 (a is {cut})"


def test_the_verifiers_word_is_an_object_in_the_last_reading() -> None:
    assert verdict_in(replace(REFUTED, authoritative=_said(verified=False))) == {"verified": False}
    others: tuple[Any, ...] = (None, "x", {}, {"$delegation": "x"})
    for other in others:
        assert verdict_in(replace(REFUTED, authoritative=other)) == {}


# --- the record ---

V = VerifyOutcome


@pytest.mark.parametrize(
    ("came_to", "withheld", "outcomes", "code"),
    [
        (V.PASSED, "", (), 0),
        (V.PASSED, "a hook", (), EXIT_FAILED),
        (V.FAILED, "", (), EXIT_FAILED),
        (V.UNDETERMINED, "", (), EXIT_UNDETERMINED),
        (V.SKIPPED, "", (outcome(1, State.RECONCILED_SUCCESS),), EXIT_UNDETERMINED),
        (V.UNDETERMINED, "", (REFUTED, outcome(8, State.VALIDATED, hold="approval", attempts=0)), EXIT_HELD),
    ],
)
def test_only_what_passed_and_was_not_withheld_ends_with_zero(
    came_to: VerifyOutcome, withheld: str, outcomes: Any, code: int
) -> None:
    record = Delegated("d-1", "Do it.", verify_outcome=came_to, withheld=withheld, outcomes=list(outcomes))
    assert (record.exit_code, record.passed) == (code, code == 0)


def test_a_record_says_this_and_has_no_truth_value() -> None:
    record = Delegated("d-1", "Do it.", "agent", V.FAILED, 2, "no file", {"response": "Done!"}, "", [REFUTED])
    assert record.response == "Done!"
    assert Delegated("d-1", "Do it.").response == ""
    attributes = {
        "delegation.id": "d-1",
        "delegation.kind": "agent",
        "delegation.verify_attempts": 2,
        "delegation.verify_passed": False,
        "delegation.verify_outcome": "failed",
    }
    assert record.as_json() == {
        "id": "d-1",
        "passed": False,
        "verify_outcome": "failed",
        "attempts": 2,
        "reason": "no file",
        "withheld": "",
        "result": {"response": "Done!"},
        "attributes": attributes,
        "actions": [REFUTED.id],
        "exit_code": EXIT_FAILED,
    }
    kept_back = Delegated("d-1", "Do it.", verify_outcome=V.PASSED, withheld="a hook")
    assert kept_back.attributes["delegation.verify_passed"] is True
    with pytest.raises(HonestyError, match="neither true nor false"):
        bool(record)
