"""What a run tells is what the ledger tells: the outcome in hand equals the one read back, for every kind of end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from readback import Context, Outcome, Reading, State, Verdict
from readback.client.authoring.action import ActionDefinition
from readback.errors import NotDispatchedError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_of

Story = Callable[[Desk], ActionDefinition[Any]]
GROUPS = {
    "status": {"shipped": "authoritative.status == 'shipped'"},
    "carrier": {"carrier": "authoritative.carrier == requested.carrier"},
}


def _raises(error: Exception) -> Callable[[Context], object]:
    def call(_ctx: Context) -> object:
        raise error

    return call


def _verified(desk: Desk) -> ActionDefinition[Any]:
    return ship_of(desk)


def _already_so(desk: Desk) -> ActionDefinition[Any]:
    desk.order().update(status="shipped", carrier="dhl")
    desk.instead = lambda _ctx: {"status": "ok"}
    return ship_of(desk)


def _already_so_refused(desk: Desk) -> ActionDefinition[Any]:
    desk.order().update(status="shipped", carrier="dhl")
    desk.instead = lambda _ctx: {"status": "ok"}
    return ship_of(desk, noop="refuse", late_window="0s")


def _lied(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = lambda _ctx: {"status": "ok"}
    return ship_of(desk, late_window="0s")


def _lied_nowhere_to_look(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = lambda _ctx: {"status": "ok"}
    return ship_of(desk, find=False, late_window="0s")


def _unknown(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = _raises(TimeoutError("no answer"))
    return ship_of(desk)


def _pending(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = lambda _ctx: {"status": "accepted"}
    return ship_of(desk, within="1h")


def _raised(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = _raises(RuntimeError("boom"))
    return ship_of(desk, late_window="0s")


def _never_sent(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = _raises(NotDispatchedError("no route"))
    return ship_of(desk)


def _refused(desk: Desk) -> ActionDefinition[Any]:
    return ship_of(desk, require="before.status == 'packed'")


def _stale(desk: Desk) -> ActionDefinition[Any]:
    desk.order()["version"] = 4
    return ship_of(desk, expected_version="3")


def _source_down(desk: Desk) -> ActionDefinition[Any]:
    def down(_ctx: Context) -> None:
        raise ConnectionError("down")

    desk.looking = down
    return ship_of(desk)


def _reader_breaks(desk: Desk) -> ActionDefinition[Any]:
    def breaks(_ctx: Context) -> None:
        if desk.looks > 1:
            raise KeyError("row")

    desk.looking = breaks
    return ship_of(desk)


def _other_tenant(desk: Desk) -> ActionDefinition[Any]:
    def moves(_ctx: Context) -> None:
        if desk.looks > 1:
            desk.order().update(tenant="globex", stamp="")

    desk.looking = moves
    return ship_of(desk, find=False)


def _partial(desk: Desk) -> ActionDefinition[Any]:
    def half(ctx: Context) -> object:
        desk.order().update(status="shipped", stamp=ctx.stamp, version=1)
        return {"status": "ok"}

    desk.instead = half
    return ship_of(desk, ensure=GROUPS)


def _wrong_tenant(desk: Desk) -> ActionDefinition[Any]:
    desk.during = lambda _ctx: desk.order().update(tenant="globex")
    return ship_of(desk)


HIDDEN = ["requested.carrier", "authoritative.carrier", "before.carrier", "observed.card"]


def _redacted(desk: Desk) -> ActionDefinition[Any]:
    def ship(ctx: Context) -> object:
        desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
        return {"status": "ok", "card": "4111"}

    desk.instead = ship
    return ship_of(desk, redact=HIDDEN)


def _redacted_wrong(desk: Desk) -> ActionDefinition[Any]:
    desk.during = lambda _ctx: desk.order().update(carrier="nobody")
    return ship_of(desk, redact=HIDDEN, late_window="0s")


def _duplicated(desk: Desk) -> ActionDefinition[Any]:
    def twice(ctx: Context) -> object:
        for order in (desk.order(), desk.order("o-2")):
            order.update(id="o-1", status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
        return {"status": "ok"}

    desk.instead = twice
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant", "account": "not_offered"}
    return ship_of(desk, kind="create", side_effect="high_risk_external", identity=identity)


def _reversed(desk: Desk) -> ActionDefinition[Any]:
    def spoil(ctx: Context) -> object:
        desk.order().update(status="shipped", carrier="nobody", stamp=ctx.stamp, version=1)
        return {"status": "ok"}

    desk.instead = spoil
    ship = ship_of(desk, within="1s", deadline="1s")

    @ship.compensate(kind="set", ensure={"open": "authoritative.status == 'open'"}, within="1s", late_window="0s")
    def unship(ctx: Context, order_id: str, carrier: str) -> object:
        desk.order().update(status="open", carrier="", stamp=ctx.stamp, version=2)
        return {"status": "ok"}

    return ship


def _reversal_failed(desk: Desk) -> ActionDefinition[Any]:
    ship = _reversed(desk)
    assert ship.compensation is not None
    ship.compensation.unverified = _nothing
    return ship


def _nothing(ctx: Context, order_id: str, carrier: str) -> object:
    return {"status": "ok"}


class _Transaction:
    """Changes a copy, and puts it in place when it is committed."""

    def __init__(self, desk: Desk, stamp: str, carrier: str) -> None:
        self.answer = {"status": "ok"}
        self._desk, self._made = (
            desk,
            {**desk.order(), "status": "shipped", "carrier": carrier, "stamp": stamp, "version": 1},
        )

    def read(self) -> Reading:
        return Reading.of(self._made, version=1, stamp=str(self._made["stamp"]))

    def commit(self) -> None:
        self._desk.orders["o-1"] = self._made

    def abandon(self) -> None:
        self._made = {}


def _staged(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = lambda ctx: _Transaction(desk, ctx.stamp, "dhl")
    return ship_of(desk)


def _rolled_back(desk: Desk) -> ActionDefinition[Any]:
    desk.instead = lambda ctx: _Transaction(desk, ctx.stamp, "nobody")
    return ship_of(desk)


STORIES: dict[str, tuple[Story, State]] = {
    "verified": (_verified, State.RECONCILED_SUCCESS),
    "already so": (_already_so, State.RECONCILED_SUCCESS),
    "already so, refused": (_already_so_refused, State.REVIEW_REQUIRED),
    "lied": (_lied, State.REVIEW_REQUIRED),
    "lied, nowhere to look": (_lied_nowhere_to_look, State.REVIEW_REQUIRED),
    "unknown": (_unknown, State.UNKNOWN),
    "pending": (_pending, State.PENDING),
    "raised": (_raised, State.FAILED),
    "never sent": (_never_sent, State.FAILED),
    "refused": (_refused, State.FAILED),
    "stale": (_stale, State.FAILED),
    "source down": (_source_down, State.FAILED),
    "reader breaks": (_reader_breaks, State.UNKNOWN),
    "other tenant": (_other_tenant, State.REVIEW_REQUIRED),
    "partial": (_partial, State.REVIEW_REQUIRED),
    "wrong tenant": (_wrong_tenant, State.REVIEW_REQUIRED),
    "redacted": (_redacted, State.RECONCILED_SUCCESS),
    "redacted, wrong": (_redacted_wrong, State.REVIEW_REQUIRED),
    "duplicated": (_duplicated, State.REVIEW_REQUIRED),
    "reversed": (_reversed, State.COMPENSATED),
    "reversal failed": (_reversal_failed, State.REVIEW_REQUIRED),
    "staged": (_staged, State.RECONCILED_SUCCESS),
    "rolled back": (_rolled_back, State.ROLLED_BACK),
}


def _run(story: str, *, with_await: bool) -> tuple[Outcome, Outcome, Outcome]:
    """The outcome in hand, as the ledger tells it here, and as another process reads it."""
    desk, runtime, store = Desk(), VirtualRuntime(), MemoryStore()
    ship = STORIES[story][0](desk)
    wait = 5 if story == "pending" else None

    async def awaited() -> tuple[Outcome, Outcome]:
        async with opened_async(store.reopened(), runtime) as rb:
            told = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=wait)
            return told, await rb.get(told.id)

    if with_await:
        told, kept = asyncio.run(awaited())
    else:
        with opened(store.reopened(), runtime) as rb:
            told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=wait)
            kept = rb.get(told.id)
    with opened(store.reopened(), runtime) as later:
        return told, kept, later.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)


@pytest.mark.requirement("TRUST-0", "LEDGER-projection")
@pytest.mark.parametrize("with_await", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("story", STORIES)
def test_what_a_run_tells_is_what_the_ledger_tells(story: str, with_await: bool) -> None:
    told, kept, replayed = _run(story, with_await=with_await)
    assert told == kept
    assert told.as_json() == kept.as_json()
    assert json.loads(json.dumps(told.as_json())) == told.as_json()
    assert (told.message, told.for_model()) == (kept.message, kept.for_model())
    assert told.state is STORIES[story][1]
    if told.may_repeat:
        assert replayed.id != told.id
    else:
        assert replayed == replace(told, replayed=True)
    assert (told.verdict is Verdict.VERIFIED) == told.verified


@pytest.mark.parametrize(("late", "committed"), [(False, True), (True, False)])
def test_a_transaction_is_not_committed_once_somebody_else_may_have_taken_the_action_over(
    late: bool, committed: bool
) -> None:
    """A thread cannot be interrupted: its tool came back when its lease was over, and others had judged without it."""
    desk, runtime, store = Desk(), VirtualRuntime(), MemoryStore()

    def slowly(ctx: Context) -> object:
        made = _Transaction(desk, ctx.stamp, "dhl")
        if late:
            runtime.advance(3600)
        return made

    desk.instead = slowly
    with opened(store, runtime) as rb:
        outcome = rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")
    assert (desk.order()["status"] == "shipped", outcome.verified) == (committed, committed)
