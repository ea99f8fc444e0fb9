"""The contract's key `watch`: what it may say, what is wrong at load, and that the hash covers it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from readback.canon import parse_json
from readback.client.authoring.action import action
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.contract.watch import (
    LOOKS_MAX,
    NO_LOOK,
    ONCE_RETRIED_US,
    WatchEnd,
    WatchState,
    WatchTerms,
    start_watch,
    with_judgement,
    with_look,
)
from readback.errors import ContractError

S = 1_000_000
HOUR = 3_600 * S
DAY = 24 * HOUR


def contract(watch: Any, **options: Any) -> Contract:
    chosen: dict[str, Any] = {
        "name": "ship",
        "kind": "set",
        "side_effect": "low_risk_internal",
        "target": "item/{requested.item}",
        "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
        "ensure": {"status": "authoritative.status == 'shipped'", "parts": {"paid": "authoritative.paid"}},
        **options,
    }

    def act(ctx: Context, item: str) -> object:
        return item

    made: Any = action(**chosen, watch=watch)(act)
    if "unverifiable" not in chosen:
        made.read(source="orders", consistency="strong", independence="other_client")(lambda ctx, item: None)
    found: Contract = made.plan.contract
    return found


@pytest.mark.requirement("WATCH-terms")
@pytest.mark.parametrize(
    ("said", "terms", "looks"),
    [
        ("1h", WatchTerms(HOUR), 1),
        ({"after": "1h"}, WatchTerms(HOUR), 1),
        ({"every": "1d", "for": "30d"}, WatchTerms(DAY, DAY, 30 * DAY), 30),
        ({"after": "1h", "every": "1d", "for": "30d"}, WatchTerms(HOUR, DAY, 30 * DAY), 30),
        ({"after": "1d", "every": "2d", "for": "1d"}, WatchTerms(DAY, 2 * DAY, DAY), 1),
        ({"after": "1h", "ensure": ["status"]}, WatchTerms(HOUR, ensure=("status",)), 1),
        ({"after": "1h", "ensure": ["parts.paid"]}, WatchTerms(HOUR, ensure=("parts.paid",)), 1),
        ({"every": "1s", "for": "1000s"}, WatchTerms(S, S, 1_000 * S), LOOKS_MAX),
    ],
)
def test_what_is_asked_for_is_what_is_written(said: Any, terms: WatchTerms, looks: int) -> None:
    found = contract(said)
    assert (found.watch, terms.looks) == (terms, looks)
    body = parse_json(found.body)
    assert isinstance(body, dict)
    assert body["watch"] == terms.as_json()


@pytest.mark.requirement("WATCH-terms")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (3600, "A duration must be text with a unit"),
        ("0s", "greater than zero"),
        ("soon", "is not a duration"),
        ({}, "No time is given"),
        ({"ensure": ["status"]}, "No time is given"),
        ({"every": "1d"}, "need each other"),
        ({"after": "1h", "for": "1d"}, "need each other"),
        ({"every": "1d", "until": "30d"}, "Unknown key 'until'"),
        ({"every": "500ms", "for": "1s"}, "at least 1000000 us"),
        ({"after": "2d", "every": "1h", "for": "1d"}, "would end before 'after' begins"),
        ({"every": "1s", "for": "1001s"}, "1001 readings, more than 1000"),
        ({"every": "1d", "for": "401d"}, "between 0 and 400 days"),
        ({"after": "1h", "ensure": []}, "'ensure' is empty"),
        ({"after": "1h", "ensure": ["status", "status"]}, "twice"),
        ({"after": "1h", "ensure": ["stats"]}, "There is no postcondition 'stats'. Did you mean 'status'?"),
        (["1h"], "A duration must be text"),
    ],
)
def test_what_cannot_be_watched_is_said_when_it_is_loaded(said: Any, why: str) -> None:
    with pytest.raises(ContractError, match=re.escape(why)) as raised:
        contract(said)
    assert any(str(each["key"]).startswith("watch") for each in raised.value.details["problems"])


@pytest.mark.requirement("WATCH-terms")
def test_what_nobody_can_read_or_what_only_reads_is_not_watched() -> None:
    with pytest.raises(ContractError, match="the contract has no reader"):
        contract("1h", side_effect="ephemeral_write", unverifiable="It has no memory.", identity={})
    with pytest.raises(ContractError, match="A read has no later state"):
        contract("1h", kind="read", side_effect="read_only")


@pytest.mark.requirement("WATCH-terms")
def test_what_cannot_be_judged_later_is_not_watched() -> None:
    ensure = {"item": "authoritative.item == requested.item", "status": "authoritative.status == 'shipped'"}
    hidden: dict[str, Any] = {"ensure": ensure, "redact": ["requested.item"], "target": "item/1"}
    with pytest.raises(ContractError, match=r"'item' needs 'requested\.item', which is redacted"):
        contract("1h", **hidden)
    assert contract({"after": "1h", "ensure": ["status"]}, **hidden).watch == WatchTerms(HOUR, ensure=("status",))
    assert contract("1h", **{**hidden, "redact": ["authoritative.item"]}).watch == WatchTerms(HOUR)


@pytest.mark.requirement("WATCH-terms")
def test_the_hash_covers_what_is_watched_and_is_as_it_was_where_nothing_is() -> None:
    hashes = {
        contract(said).hash
        for said in ("1h", "2h", {"every": "1h", "for": "2h"}, {"after": "1h", "ensure": ["status"]})
    }
    plain = contract(None)
    assert len(hashes | {plain.hash}) == 5
    assert b"watch" not in plain.body


@pytest.mark.requirement("WATCH-bounded")
def test_a_single_look_is_tried_for_a_day() -> None:
    assert WatchTerms(HOUR).until_us == HOUR + ONCE_RETRIED_US
    assert WatchTerms(HOUR, DAY, 30 * DAY).until_us == 30 * DAY


def test_looks_are_folded_one_by_one() -> None:
    one = start_watch({"until": 900, "every": 100}, {"role": "check"}, "r1", 5)
    assert one == WatchState(5, 900, 100, told_us=5, held_us=5, held={"role": "check"}, held_ref="r1")
    quiet = with_look(one, {"verdict": "verified", "why": "", "over": ""}, 10)
    assert (quiet.looks, quiet.held_us, quiet.told_us) == (1, 10, 10)
    untold = with_look(with_look(quiet, _untold(), 20), _untold(), 30)
    assert (untold.looks, untold.failing, untold.why, untold.told_us, untold.held_us) == (3, 2, "timeout", 10, 10)
    fell = with_judgement(untold, {"role": "fell"}, ("r2", "j2"), 40, verified=False, ends=False)
    assert (fell.looks, fell.failing, fell.drifted, fell.changes, fell.seen_ref) == (4, 0, True, 1, "j2")
    assert (fell.held, fell.held_ref, fell.held_us, fell.over) == ({"role": "check"}, "r1", 10, "")
    still = with_look(fell, {"verdict": "refuted", "why": "", "over": ""}, 50)
    assert (still.told_us, still.held_us) == (50, 10)
    back = with_judgement(still, {"role": "back"}, ("r3", "j3"), 60, verified=True, ends=True)
    assert (back.drifted, back.held, back.held_ref, back.seen_ref, back.over) == (
        False,
        {"role": "back"},
        "r3",
        "",
        WatchEnd.TIME,
    )
    over = with_look(back, {"verdict": NO_LOOK, "why": "", "over": WatchEnd.REVERSED}, 70)
    assert (over.looks, over.over) == (back.looks, WatchEnd.REVERSED)


def _untold() -> dict[str, Any]:
    return {"verdict": "undetermined", "why": "timeout", "over": ""}
