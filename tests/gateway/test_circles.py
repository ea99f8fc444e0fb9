"""A call that is answered leaves nothing for Python to look for, at the cost of another call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.circles import circles
from tests.gateway.desk import Desk, at_a_desk, until_asleep

pytestmark = pytest.mark.requirement("GATEWAY-circles")


@pytest.mark.parametrize("ungoverned", ["unverified", "pass", "deny"])
def test_a_call_without_a_contract_leaves_no_circle(tmp_path: Path, ungoverned: str) -> None:
    async def work(desk: Desk) -> None:
        @desk.server.tool()
        async def count(name: str) -> str:
            return name

        await desk.call("count", name="rent")
        await until_asleep()
        with circles() as left:
            for _ in range(3):
                told = await desk.call("count", name="rent")
                assert told.failed is (ungoverned == "deny")
            del told
            await until_asleep()
        assert left == []

    at_a_desk(tmp_path, work, ungoverned=ungoverned)


def test_a_governed_call_leaves_none_either(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.enter("rent", operation="op-0")
        await until_asleep()
        with circles() as left:
            for n in range(1, 4):
                assert not (await desk.enter(f"rent-{n}", operation=f"op-{n}")).failed
            await until_asleep()
        assert left == []

    at_a_desk(tmp_path, work)
