"""What the demo compares: the naive agent's rules, the wrappers, and how it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from readback.demo import naive
from readback.demo.contracts import charge_card
from readback.demo.facts import Fact
from readback.demo.naive import Claim, Heard, Told, blindly_retried, in_prose, politely
from readback.demo.report import BRIEF_ROWS_MAX, short, show_brief
from readback.demo.tally import Reckoning, Row, Totals
from readback.demo.worker import ACTIONS
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect
from readback.domain.verdict import Verdict

REPORT_LINES_MAX = 36
"""`make demo` prints at most 60 lines: 36 of the report and 24 of its progress."""


MORNING = Totals(35, 17, 0, 0, naive_min=8)


def _heard(**said: Any) -> list[Heard]:
    return [Heard("rb-1", **said)]


@pytest.mark.parametrize(
    ("heard", "claim"),
    [
        (_heard(status=200, text="{}"), Claim.DONE),
        (_heard(status=202, text='{"status": "queued"}'), Claim.DONE),
        (_heard(text="Request processed: order o-1 is shipped."), Claim.DONE),
        (_heard(status=409, text="{}"), Claim.FAILED),
        (_heard(raised="ToolTimeoutError ToolError Exception"), Claim.FAILED),
        (_heard(raised="ToolError Exception"), Claim.FAILED),
        ([], Claim.FAILED),
        ([*_heard(status=500), *_heard(status=200)], Claim.FAILED),
    ],
)
def test_the_naive_agent_goes_by_the_first_answer_alone(heard: list[Heard], claim: Claim) -> None:
    assert naive.tell("ship o-1", heard).claim is claim


def test_the_naive_agent_repeats_what_the_model_says() -> None:
    assert naive.repeat("ship o-1") == Told(Claim.DONE, "Done: ship o-1.")


def _answers(*codes: int, **body: object) -> Callable[[], httpx.Response]:
    left = list(codes)
    return lambda: httpx.Response(left.pop(0), json=body)


def test_each_wrapper_spoils_an_answer_in_its_own_way() -> None:
    assert blindly_retried(_answers(500, 201)).status_code == 201
    assert blindly_retried(_answers(409, 201)).status_code == 409
    assert politely(_answers(422), "Order o-4 is now sent.")["status"] == "done"
    assert in_prose(_answers(409, message="order o-1 is shipped")) == "Request processed: order o-1 is shipped."
    assert in_prose(_answers(202, status="accepted")) == "Request processed: accepted."


def _row(claim: Claim, told: Claim, **fact: bool) -> Row:
    known = Fact(**{"done": False, "undone": False, **fact}, text="so it is")
    return Row("step", "200", known, Told(claim, ""), Told(told, ""))


@pytest.mark.parametrize(
    ("row", "counted"),
    [
        (_row(Claim.DONE, Claim.DONE, done=True), (False, False, False)),
        (_row(Claim.DONE, Claim.DONE), (True, True, False)),
        (_row(Claim.DONE, Claim.FAILED, done=True), (False, False, True)),
        (_row(Claim.FAILED, Claim.OPEN, done=True), (False, False, True)),
        (_row(Claim.DONE, Claim.REVERSED, undone=True), (True, False, False)),
        (_row(Claim.DONE, Claim.REVERSED), (True, True, False)),
        (_row(Claim.FAILED, Claim.OPEN), (False, False, False)),
    ],
)
def test_lies_and_misses_are_counted_from_the_truth(row: Row, counted: tuple[bool, bool, bool]) -> None:
    assert (row.naive_false, row.readback_false, row.missed) == counted


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"naive_false": 7}, False),
        ({"readback_false": 1}, False),
        ({"doubled": 1}, False),
        ({"missed": 1}, False),
        ({"sound": False}, False),
    ],
)
def test_the_demo_fails_unless_every_total_is_as_promised(change: dict[str, Any], good: bool) -> None:
    assert replace(MORNING, **change).good is good


def test_the_short_report_ends_with_its_point(capsys: pytest.CaptureFixture[str]) -> None:
    attempts, trips = Totals(3, 2, 0, 0, naive_min=2), Totals(10, 7, 0, 0, naive_min=6)
    found = Reckoning([_row(Claim.DONE, Claim.OPEN)] * 30, [], [], MORNING, attempts, trips)
    show_brief(found, "sqlite:///there/ledger.db", 1069)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= REPORT_LINES_MAX
    assert sum(line.startswith("step ") for line in printed) == BRIEF_ROWS_MAX + 1
    assert "and 10 more" in printed
    assert printed[-5].split() == ["false", "successes", "in", "35", "steps", "17", "0"]
    assert printed[-1] == "The naive agent reported 26 things that are not so. Readback reported 0."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('202 {"id": "ch-1", "status": "queued"}', "202 queued"),
        ('{"status": "accepted", "code": 250, "reply": "OK: queued"}', "250 OK: queued"),
        ('{"rowcount": 0}', "rowcount 0"),
        ("timed out", "timed out"),
        ("Request processed: accepted.", "Request processed: accepted."),
    ],
)
def test_an_answer_fits_into_the_table(said: str, shown: str) -> None:
    assert short(said) == shown


def test_the_contracts_show_every_kind_and_all_classes_but_the_critical_one() -> None:
    contracts = [each.contract for each in ACTIONS]
    assert {each.kind for each in contracts} == set(Kind)
    assert {each.side_effect for each in contracts} == set(SideEffect) - {SideEffect.CRITICAL_MUTATION}


def test_a_contract_can_be_judged_without_any_system() -> None:
    """As an author would hold a contract in a unit test of his own."""
    asked = {"order_id": "o-3", "amount_cents": 1375}
    row = {"status": "captured", "amount_cents": 1375, "currency": "EUR", "idempotency_key": "k"}
    scope = {"idempotency_key": "k"}
    assert charge_card.evaluate(requested=asked, authoritative=row, scope=scope).verdict is Verdict.VERIFIED
    queued = charge_card.evaluate(requested=asked, authoritative={**row, "status": "queued"}, scope=scope)
    assert (queued.verdict, queued.failed) == (Verdict.REFUTED, False)
    assert charge_card.evaluate(requested=asked, authoritative={**row, "status": "declined"}, scope=scope).failed
