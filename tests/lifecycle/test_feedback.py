"""Feedback: what a ledger's entries say of contracts, tools and sources, counted from real runs of the engine.

After an intended change: `python -m tests.lifecycle.test_feedback` shows the difference, and with `--accept` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.audit.feedback.findings import SEEN_MIN, VERDICT_MAX_US, feedback_json, poor_in
from readback.audit.feedback.fold import feedback_of
from readback.audit.feedback.tally import ContractFeedback, Feedback, SourceFeedback, Spread, ToolFeedback
from readback.client.authoring.action import ActionDefinition
from readback.domain.verification.reading import Reading
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.golden.rewrite import rewrite
from tests.lifecycle.house import House

GOLDEN = Path(__file__).parent.parent / "golden" / "feedback.json"
Made = ActionDefinition[Any]


def repeat(house: House, made: Made, times: int, first: int = 0) -> None:
    for number in range(first, first + times):
        house.shop.rows[f"i-{number}"] = {
            "id": f"i-{number}",
            "tenant": "acme",
            "status": "open",
            "version": 1,
            "author": "seed",
        }
        house.run(made, f"{made.name} {number}", item=f"i-{number}")


def honest(house: House) -> Made:
    made = house.action()
    repeat(house, made, 30)
    return made


def lying(house: House) -> Made:
    """The tool says that it is done, and does nothing."""
    made = house.action(name="lies", late_window="0s", noop="refuse")
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    repeat(house, made, 25)
    return made


def queued(house: House) -> Made:
    made = house.action(name="queues", late_window="0s", find=True)
    house.shop.tool = lambda ctx, args: {"status": "accepted"}
    repeat(house, made, 25)
    return made


def hanging(house: House) -> Made:
    made = house.action(name="hangs")

    def hang(ctx: Any, args: Any) -> object:
        house.shop.ship(ctx, args)
        raise CallHangs

    house.shop.tool = hang
    repeat(house, made, 25)
    return made


def silent(house: House) -> Made:
    made = house.action(name="silent")
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args) and "fine, thanks"
    repeat(house, made, 25)
    return made


def unreadable(house: House) -> Made:
    """Its source fails when the effect is looked for."""
    made = house.action(name="blind", readers=(("strong", "other_client", "flaky"),))

    def look(ctx: Any, args: Any) -> Any:
        if ctx.observed is None:
            return house.shop.show(args)
        return Reading.unavailable("503")

    house.shop.eyes = look
    repeat(house, made, 25)
    return made


def slow(house: House) -> Made:
    """What it does becomes visible only minutes later."""
    made = house.action(name="lags", within="10m", polls=["0s", "90s"])
    seen: dict[str, int] = {}

    def look(ctx: Any, args: Any) -> Any:
        first = seen.setdefault(ctx.stamp, house.runtime.now_us())
        late = house.runtime.now_us() - first > 60_000_000
        return house.shop.show(args) if ctx.observed is None or late else Reading.not_visible()

    house.shop.eyes = look
    repeat(house, made, 25)
    return made


STORIES: dict[str, tuple[Callable[[House], Made], set[tuple[str, str]]]] = {
    "honest": (honest, set()),
    "lying": (lying, {("contract", "discrepancies"), ("tool", "claims")}),
    "hanging": (hanging, {("tool", "lost")}),
    "silent": (silent, {("tool", "silent")}),
    "unreadable": (unreadable, {("contract", "undetermined"), ("source", "faults")}),
    "slow": (slow, {("contract", "slow")}),
}


def told(story: Callable[[House], Made]) -> tuple[House, Feedback]:
    house = House()
    story(house)
    return house, feedback_of(house.store.scan())


@pytest.mark.slow
@pytest.mark.requirement("FEEDBACK-named", "METRIC-verification-latency", "METRIC-discrepancy")
@pytest.mark.parametrize("name", STORIES)
def test_what_cannot_be_relied_on_is_named_with_its_reason(name: str) -> None:
    story, wanted = STORIES[name]
    _, feedback = told(story)
    found = poor_in(feedback)
    assert {(one.kind, one.code) for one in found} == wanted, [one.said for one in found]
    for one in found:
        assert one.count <= one.of or one.code == "slow"
        assert one.remedy
        assert one.contracts


@pytest.mark.requirement("FEEDBACK-counted", "METRIC-verification-success", "METRIC-verification-failure")
@pytest.mark.requirement("METRIC-time-to-reconcile", "METRIC-unknown-state", "METRIC-human-escalation")
def test_a_history_made_by_hand_has_the_counts_and_the_times_that_were_made() -> None:
    """Three at once, two with a wrong value, four unreadable to the deadline, and one call that hangs for a second."""
    house = House()
    repeat(house, house.action(), 3)
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    repeat(house, house.action(name="wrong", late_window="0s"), 2)
    house.shop.tool = None
    house.shop.eyes = lambda ctx, args: house.shop.show(args) if ctx.observed is None else Reading.unavailable("503")
    repeat(house, house.action(name="blind"), 4)
    house.shop.eyes = None

    def hang(ctx: Any, args: Any) -> object:
        house.shop.ship(ctx, args)
        raise CallHangs

    house.shop.tool = hang
    repeat(house, house.action(name="hangs"), 1)
    counted = feedback_of(house.store.scan()).contracts
    verdicts = {name: (one.executed, one.verified, one.refuted, one.undetermined) for name, one in counted.items()}
    assert verdicts == {"ship": (3, 3, 0, 0), "wrong": (2, 0, 2, 0), "blind": (4, 0, 0, 4), "hangs": (1, 1, 0, 0)}
    assert {name: one.reviews for name, one in counted.items() if one.reviews} == {"wrong": 2, "blind": 4}
    ends = {name: (one.reconciled_after.count, one.reconciled_after.longest_us) for name, one in counted.items()}
    second = 1_000_000
    assert ends == {"ship": (3, 0), "wrong": (2, 10 * second), "blind": (4, 10 * second), "hangs": (1, second)}


@pytest.mark.slow
def test_the_counts_of_a_mixed_ledger_are_exactly_these() -> None:
    assert mixed() == GOLDEN.read_text(encoding="utf-8")


def mixed() -> str:
    house = House()
    for story, _ in STORIES.values():
        story(house)
        house.shop.tool = house.shop.eyes = None
    feedback = feedback_of(house.store.scan())
    shown = {"feedback": feedback_json(feedback), "poor": [[p.kind, p.name, p.code, p.said] for p in poor_in(feedback)]}
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


@pytest.mark.requirement("FEEDBACK-counted")
def test_what_a_tool_claimed_and_what_became_of_it_are_held_together() -> None:
    _, feedback = told(lying)
    tool, contract = feedback.tools["lies"], feedback.contracts["lies"]
    assert (tool.calls, tool.claimed, tool.claimed_refuted) == (25, 25, 25)
    assert (contract.executed, contract.refuted, contract.verified) == (25, 25, 0)
    _, feedback = told(queued)
    tool = feedback.tools["queues"]
    assert (tool.acknowledged, tool.claimed) == (25, 0)
    assert tool.answers == {"accepted": 25}


def test_the_first_look_begins_the_time_to_a_verdict() -> None:
    _, feedback = told(slow)
    one = feedback.contracts["lags"]
    assert one.settled_after.count == 25
    assert one.settled_after.percentile_us(50) > VERDICT_MAX_US
    assert one.verdict_after.percentile_us(95) >= one.settled_after.percentile_us(95)
    assert one.reconciled_after.longest_us >= one.verdict_after.longest_us
    _, quick = told(honest)
    assert quick.contracts["ship"].settled_after.longest_us < 1_000_000


@pytest.mark.requirement("FEEDBACK-named")
def test_a_handful_is_not_judged() -> None:
    house = House()
    made = house.action(name="lies", late_window="0s", noop="refuse")
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    repeat(house, made, SEEN_MIN - 1)
    assert poor_in(feedback_of(house.store.scan())) == []
    repeat(house, made, 1, first=SEEN_MIN)
    assert poor_in(feedback_of(house.store.scan())) != []


def test_an_outage_before_execution_is_counted_apart() -> None:
    house = House()
    made = house.action(name="dark")
    house.shop.eyes = lambda ctx, args: Reading.unavailable("down")
    repeat(house, made, 25)
    feedback = feedback_of(house.store.scan())
    assert (feedback.contracts["dark"].outages, feedback.contracts["dark"].executed) == (25, 0)
    assert feedback.tools == {}
    assert {"outages", "faults"} == {one.code for one in poor_in(feedback)}


@pytest.mark.requirement("METRIC-compensation", "METRIC-compensation-success", "METRIC-compensation-failure")
def test_reversals_are_counted_where_they_began() -> None:
    house = House()
    made = house.action(compensate={"late_window": "0s"})
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="broken")
    house.run(made)
    house.shop.undo = lambda ctx, args: None
    house.run(made, "op-2", item="o-2")
    one = feedback_of(house.store.scan()).contracts["ship"]
    assert (one.compensations, one.compensated, one.compensations_failed) == (2, 1, 1)
    assert [p.code for p in poor_in(feedback_of(house.store.scan()))] == ["compensations"]


@pytest.mark.requirement("TENANT-invisible")
def test_a_tenant_sees_its_own_entries_counted_and_no_others() -> None:
    house, _ = told(honest)
    assert feedback_of(house.store.scan(), "acme").contracts["ship"].actions == 30
    assert feedback_of(house.store.scan(), "else").contracts == {}
    assert feedback_of(house.store.scan(), "else").entries == 0


def test_what_began_before_the_entries_that_are_read_is_left_out() -> None:
    house, whole = told(honest)
    second = house.store.events(sorted(s.projection.action_id for s in house.store.projections())[1])[0].seq
    part = feedback_of(house.store.scan(second - 1))
    assert part.contracts["ship"].actions == whole.contracts["ship"].actions - 1
    assert feedback_of(house.store.scan(second)).contracts["ship"].actions == whole.contracts["ship"].actions - 2


def test_a_call_that_nobody_lived_to_see_the_end_of_counts_as_lost() -> None:
    whole, house = House(), House()
    whole.run(whole.action())
    made = house.action()
    house.driver.vanish_at = whole.driver.done.index("Dispatch")
    with suppress(ProcessDied):
        house.run(made)
    assert house.shop.calls == [], "the attempt is durable, and the process dies before the call"
    house.die()
    house.work(3600)
    feedback = feedback_of(house.store.scan())
    assert feedback.tools["ship"].answers == {"none": 1}
    assert feedback.contracts["ship"].executed == 1


@pytest.mark.parametrize(
    ("feedback", "wanted"),
    [
        (Feedback(cells=[ContractFeedback("c", actions=20, outages=1)]), "outages"),
        (
            Feedback(cells=[ContractFeedback("c", tool=ToolFeedback({"accepted": 20}, 0, 0, 20, 2))]),
            "acknowledged",
        ),
        (Feedback(readers=[SourceFeedback("s", readings=1, withheld=1)]), "out-of-scope"),
    ],
)
def test_each_threshold_names_what_is_over_it(feedback: Feedback, wanted: str) -> None:
    (found,) = poor_in(feedback)
    assert found.code == wanted
    assert found.remedy


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_never_too_small_and_little_too_large(values: list[int], percent: int) -> None:
    spread = Spread()
    for value in values:
        spread.add(value)
    exact = sorted(values)[-(-len(values) * percent // 100) - 1]
    assert exact <= spread.percentile_us(percent) <= exact * 9 / 8 + 1


def test_a_spread_is_bounded_whatever_it_is_given() -> None:
    spread, random = Spread(), Random(7)
    for _ in range(20_000):
        spread.add(random.randrange(10**15))
    assert len(spread.fine) < 450
    assert Spread().percentile_us(95) == 0
    spread.add(-5)
    assert spread.count == 20_001


if __name__ == "__main__":
    raise SystemExit(rewrite({GOLDEN: mixed()}, sys.argv[1:]))
