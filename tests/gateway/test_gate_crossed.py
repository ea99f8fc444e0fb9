"""What crosses a call on its way: a client that goes and comes again, contracts that change, a wish that comes late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from readback.gateway.call import OPERATION_KEY
from tests.gateway.desk import Desk, Told, at_a_desk, until_asleep, write_contracts
from tests.gateway.test_gate_ahead import Slow, when

OPERATION: Any = {OPERATION_KEY: "op-1"}


@pytest.mark.requirement("GATEWAY-operation")
def test_a_client_that_goes_and_comes_again_with_its_operation_joins_what_it_began(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.book.lie = "hang before"
        async with Client(desk.gateway.server) as first:
            asked = asyncio.create_task(first.call_tool("enter", {"name": "rent", "amount": 3}, meta=OPERATION))
            await desk.book.begun.wait()
            asked.cancel()
            await until_asleep()
        again = asyncio.create_task(desk.enter("rent", 3, "op-1"))
        await until_asleep()
        assert not again.done()
        desk.book.opened.set()
        desk.runtime.advance(1)
        told = await again
        assert (told.outcome["verdict"], told.outcome["pending"]) == ("verified", False)
        assert (desk.book.calls, desk.book.rows("rent")) == (1, [3])

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-operation")
def test_two_clients_at_once_with_one_operation_act_once_and_are_told_the_same(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        async with Client(desk.gateway.server) as other:
            one = asyncio.create_task(desk.enter("rent", 3, "op-1"))
            two = asyncio.create_task(other.call_tool("enter", {"name": "rent", "amount": 3}, meta=OPERATION))
            while not (one.done() and two.done()):
                await until_asleep()
                desk.runtime.advance(1)
            outcomes = [(await one).outcome, Told(await two).outcome]
        assert [each["verdict"] for each in outcomes] == ["verified", "verified"]
        assert len({each["action"] for each in outcomes}) == 1
        assert (desk.book.calls, desk.book.rows("rent")) == (1, [3])

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_contracts_that_change_while_a_call_is_made_judge_the_next_one_and_not_this(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.book.lie = "hang before"
        asked = asyncio.create_task(desk.enter("rent", 3))
        await desk.book.begun.wait()
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n <= 2"})
        desk.gateway.reload()
        desk.book.lie = "twice"
        assert (await desk.enter("food", 4)).outcome["verdict"] == "verified"  # by the new one
        desk.book.write("rent", 3)
        desk.book.opened.set()
        told = await asked
        assert desk.book.rows("rent") == [3, 3]
        assert told.outcome["verdict"] == "refuted"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_contract_that_is_taken_away_while_its_call_is_made_still_judges_it(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text = (desk.folder / "book.yaml").read_text()
        desk.book.lie = "hang before"
        asked = asyncio.create_task(desk.enter("rent", 3))
        await desk.book.begun.wait()
        (desk.folder / "book.yaml").write_text(text.replace("\n  enter:", "\n  shred:").replace("amount", "name"))
        desk.gateway.reload()
        await desk.call("total", name="rent")
        desk.book.opened.set()
        assert (await asked).outcome["verdict"] == "verified"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-client-leaves")
@pytest.mark.parametrize("when_written", [1, 2])
def test_a_client_that_cancels_while_something_is_written_leaves_an_action_that_ends(
    tmp_path: Path, when_written: int
) -> None:
    """The first commit is the attempt, the second everything after it."""
    store = Slow()

    async def work(desk: Desk) -> None:
        desk.book.lie = "hang before"
        beside = asyncio.create_task(desk.enter("beside", 1))  # so that commits are made in a thread of their own
        await desk.book.begun.wait()
        desk.book.lie = ""
        store.only_attempts = when_written == 1
        store.may_write.clear()
        store.writing.clear()
        asked = asyncio.create_task(desk.enter("rent", 3, "op-1"))
        if when_written == 2:
            store.may_write.set()
            await when(lambda: desk.book.rows("rent"))
            store.may_write.clear()
        else:
            await when(store.writing.is_set)
        asked.cancel()
        await until_asleep()
        store.may_write.set()
        desk.book.opened.set()
        await beside
        told = await desk.enter("rent", 3, "op-1")
        assert (told.outcome["verdict"], desk.book.rows("rent")) == ("verified", [3])

    at_a_desk(tmp_path, work, store=store)
