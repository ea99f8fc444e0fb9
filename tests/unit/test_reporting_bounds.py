"""The text for the model at its bounds, and where one circumstance must not speak for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.reporting import ReportInput, model_text, quoted, quoted_value, user_text
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict, Why

PLAIN = ReportInput(
    state=State.PENDING,
    verdict=Verdict.UNDETERMINED,
    action_id="act-1",
    contract="ship",
    target="order/1",
    ledger_entry="act-1/7",
    trace="t",
    attribution=Attribution.OURS,
    attempted=True,
)


def lines(**changes: Any) -> dict[str, str]:
    """The text's lines by what they begin with."""
    text = model_text(replace(PLAIN, **changes))
    return dict(line.split(": ", 1) for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("done", "undone", "said"),
    [
        (("a",), (), 'completed ["a"]; unresolved [].'),
        ((), ("b",), 'completed []; unresolved ["b"].'),
        (("a",), ("b",), 'completed ["a"]; unresolved ["b"].'),
        (("p" * 80,), ("p" * 81,), 'completed ["' + "p" * 80 + '"]; unresolved ["' + "p" * 79 + '\\u2026"].'),
    ],
    ids=["done", "open", "both", "long"],
)
def test_parts_are_named_whichever_there_are(done: tuple[str, ...], undone: tuple[str, ...], said: str) -> None:
    assert lines(parts_done=done, parts_open=undone)["Parts"] == said
    assert "Parts" not in lines()


def test_quoted_text_is_kept_up_to_its_limit() -> None:
    assert quoted("x" * 5, 5) == '"xxxxx"'
    assert quoted("x" * 6, 5) == '"xxxx\\u2026"'
    assert quoted("x" * 256) == f'"{"x" * 256}"'
    assert quoted("x" * 257) == f'"{"x" * 255}\\u2026"'


def test_more_values_than_are_told_are_counted() -> None:
    assert "more" not in quoted_value({f"k{n:02}": "v" for n in range(32)})
    told = quoted_value({f"k{n:02}": "v" for n in range(35)})
    assert told.endswith('"k31": "v", "\\u2026": "3 more"}')


def test_a_structure_is_told_with_its_names_in_order() -> None:
    assert quoted_value({"a": {"y": 1, "b": 2}}) == r'{"a": "{\"b\": 2, \"y\": 1}"}'


def test_a_freeze_speaks_only_for_what_was_not_executed() -> None:
    frozen = lines(state=State.FAILED, verdict=Verdict.NOT_CHECKED, attempted=False, reason="frozen")
    assert frozen["Repetition"].startswith("not now")
    for state in (State.PENDING, State.REVIEW_REQUIRED):
        said, plain = lines(state=state, reason="frozen"), lines(state=state)
        assert (said["Repetition"], said["Next"]) == (plain["Repetition"], plain["Next"])


def test_what_cannot_be_verified_is_not_counted_on_and_what_failed_is_another_matter() -> None:
    unverifiable = lines(state=State.REVIEW_REQUIRED, why=Why.UNVERIFIABLE)
    assert unverifiable["Next"] == lines(state=State.REVIEW_REQUIRED)["Next"]


@pytest.mark.parametrize("found", list(Discrepancy), ids=lambda found: found.value)
def test_a_success_is_gone_on_from_whatever_was_found_on_the_way(found: Discrepancy) -> None:
    success = {"state": State.RECONCILED_SUCCESS, "verdict": Verdict.VERIFIED}
    assert lines(**success, discrepancy=found)["Next"] == lines(**success)["Next"]


def test_what_differs_says_how_to_go_on() -> None:
    failed = {"state": State.FAILED, "verdict": Verdict.REFUTED}
    assert lines(**failed, discrepancy=Discrepancy.STALE_STATE)["Next"] != lines(**failed)["Next"]


@pytest.mark.parametrize("why", ["forged", "mismatch", "policy-changed", "replayed", "self", "unknown-approver"])
def test_an_approval_that_does_not_count_is_told_as_not_valid_whatever_is_wrong_with_it(why: str) -> None:
    refused = replace(PLAIN, state=State.FAILED, verdict=Verdict.NOT_CHECKED, attempted=False, reason=f"approval.{why}")
    said = "Its approval was not valid for what would have been executed."
    assert user_text(refused) == f"The action has not been executed. {said}"
    assert said in model_text(refused)
