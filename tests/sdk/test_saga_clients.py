"""Sagas by both clients: begun, waited for, looked at, cancelled, gone on with; side by side where there is a loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from readback import AsyncReadback, Context, Readback, Reading, SagaOutcome, SagaStep, State, action, from_step
from readback.client.authoring.action import ActionDefinition
from readback.errors import NotFoundError, ProposalError, SagaError, UsageError
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore

ROWS: dict[tuple[str, str], dict[str, Any]] = {}
BEGUN: dict[str, float] = {}
RUNTIMES: list[VirtualRuntime] = []
BAD: set[str] = set()


def _make(name: str, *, seconds: float = 0.0) -> ActionDefinition[Any]:
    @action(
        name=name,
        kind="create",
        side_effect="low_risk_internal",
        target="row/{requested.key}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        ensure={"price": "authoritative.price == requested.price"},
        within="2s",
        late_window="5s",
        execute={"timeout": "30s"},
    )
    async def act(ctx: Context, key: str, price: int) -> object:
        BEGUN[name] = (RUNTIMES[-1].now_us() - START_US) / 1e6
        if seconds:
            await RUNTIMES[-1].sleep_async(seconds)
        if name in BAD:
            return (422, {})
        ROWS[name, key] = {"id": key, "tenant": ctx.tenant, "price": price, "stamp": ctx.stamp}
        return {"ok": True}

    @act.read(source="rows", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, key: str, price: int) -> Reading:
        row = ROWS.get((name, key))
        return Reading.absent() if row is None else Reading.of(row, stamp=row["stamp"])

    act.find(lambda ctx, key, price: [])

    @act.compensate(name=f"undo_{name}", kind="delete", ensure={"gone": "authoritative == null"}, within="2s")
    def undo(ctx: Context, key: str, price: int) -> object:
        ROWS.pop((name, key), None)
        return {"ok": True}

    return act


HOTEL, CAR, MAIL = _make("hotel", seconds=3), _make("car", seconds=3), _make("mail")
ACTIONS = (HOTEL, CAR, MAIL)


@pytest.fixture(autouse=True)
def fresh() -> None:
    for each in (ROWS, BEGUN, RUNTIMES, BAD):
        each.clear()
    RUNTIMES.append(VirtualRuntime())


def steps(key: str = "k") -> list[SagaStep]:
    return [
        HOTEL(key=key, price=3).as_step("hotel"),
        CAR(key=key, price=4).as_step("car"),
        MAIL(key=key, price=from_step("hotel", "price")).as_step("mail", after=("hotel", "car")),
    ]


def given(store: MemoryStore | None = None) -> dict[str, Any]:
    return {
        "store": (store or MemoryStore()).reopened(),
        "runtime": RUNTIMES[-1],
        "tenant": "acme",
        "principal": "agent",
        "actions": ACTIONS,
    }


def test_independent_steps_run_side_by_side_on_a_loop() -> None:
    async def main() -> SagaOutcome:
        async with AsyncReadback.open(**given()) as rb:
            told = await rb.saga(steps(), name="trip", operation="op")
            assert (await rb.get_saga(told.id)).verified
            assert (await rb.wait(told.id)).verified
            assert (await rb.cancel(told.id)).verified, "what has ended stays"
            return told

    told = asyncio.run(main())
    assert told.state is State.RECONCILED_SUCCESS
    assert BEGUN["hotel"] == BEGUN["car"] == 0
    assert BEGUN["mail"] >= 3
    assert ROWS["mail", "k"]["price"] == 3


def test_a_cancelled_caller_leaves_a_saga_that_others_go_on_with() -> None:
    store = MemoryStore()

    async def main() -> str:
        async with AsyncReadback.open(**given(store)) as rb:
            task = asyncio.create_task(rb.saga(steps(), name="trip", operation="op"))
            await RUNTIMES[-1].sleep_async(1)
            assert "hotel" in BEGUN
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return next(p.projection.action_id for p in store.projections() if p.projection.kind == "saga")

    saga_id = asyncio.run(main())

    async def again() -> SagaOutcome:
        RUNTIMES[-1].declare_gone(RUNTIMES[-1].owner())
        RUNTIMES.append(RUNTIMES[-1].sibling("second"))
        async with AsyncReadback.open(**given(store)) as rb:
            for _ in range(50):
                await rb.resume()
                told = await rb.get_saga(saga_id)
                if told.settled and told.state is not State.UNKNOWN:
                    break
                RUNTIMES[-1].advance(10)
            return told

    told = asyncio.run(again())
    ends = (State.RECONCILED_SUCCESS, State.COMPENSATED, State.FAILED, State.REVIEW_REQUIRED)
    assert told.state in ends
    assert (told.state is State.RECONCILED_SUCCESS) == (len(ROWS) == 3)


def test_the_sync_client_begins_waits_lists_and_resumes() -> None:
    store = MemoryStore()
    with Readback.open(**given(store)) as rb:
        told = rb.saga(steps(), name="trip", operation="op", wait=0)
        assert told.state is not State.RECONCILED_SUCCESS or told.verified
        told = rb.saga(steps(), name="trip", operation="op")
        assert told.verified
        assert told.replayed
        assert isinstance(rb.get(told.id), SagaOutcome)
        assert rb.wait(told.id).id == told.id
        assert [one.id for one in rb.list() if isinstance(one, SagaOutcome)] == [told.id]
        assert rb.resume() == []


def test_the_sync_client_reverses_and_says_so() -> None:
    BAD.add("mail")
    with Readback.open(**given(), run="r-1") as rb:
        told = rb.saga(steps(), name="trip", operation="op")
        told = rb.get_saga(told.id)
        assert {fact.contract for fact in rb.belief().verified} == {"hotel", "car"}
        for _ in range(20):
            RUNTIMES[-1].advance(10)
            rb.resume()
        told = rb.get_saga(told.id)
        assert told.state is State.COMPENSATED, told.message
        words = told.wording()
        assert (words.user, words.model, words.may_repeat) == (told.message, told.for_model(), told.repeat_allowed)
        assert ROWS == {}
        again = rb.saga(steps(), name="trip", operation="op")
        assert (again.id, again.replayed, again.state) == (told.id, True, State.COMPENSATED)
        believed = rb.belief()
        assert believed.verified == (), "what was reversed is no fact any more"
        assert {item.state for item in believed.not_done} == {State.COMPENSATED, State.FAILED}


def test_what_is_no_saga_is_refused() -> None:
    with Readback.open(**given()) as rb:
        told = rb.run(MAIL(key="m", price=1), operation="one")
        with pytest.raises(NotFoundError):
            rb.get_saga(told.id)
        with pytest.raises(SagaError):
            rb.saga([], name="trip", operation="op")
        with pytest.raises(ProposalError):
            rb.saga([told], name="trip", operation="op")  # type: ignore[list-item]
        refers = MAIL(key="m", price=from_step("hotel", "price"))
        with pytest.raises(ProposalError):
            rb.run(refers, operation="two")
        refers.mark_run()
        given_steps = steps()
        with pytest.raises(UsageError):
            rb.saga(given_steps, name="trip", operation="op", wait=-1)
        for step in given_steps:
            step.proposal.mark_run()
    with pytest.raises(UsageError):
        rb.saga([], name="trip")
