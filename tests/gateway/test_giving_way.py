"""A call over pipes is in its server's hands before the gateway goes on with the record of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from readback.gateway.wire import line_dispatch, pipes
from readback.gateway.wire.line_dispatch import LineDispatcher
from readback.gateway.wire.pipes import Outgoing
from tests.gateway.desk import until_asleep

pytestmark = pytest.mark.requirement("GATEWAY-measured")


def test_a_call_that_is_alone_gives_way_to_its_server_behind_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    seen: list[bytes] = []
    monkeypatch.setattr(line_dispatch, "give_way", lambda: seen.append(os.read(read, 1 << 16)))

    async def main() -> None:
        writer = Outgoing()
        await writer.begin(write)
        dispatcher = LineDispatcher(writer)
        calls = []
        for name in ("alone", "behind it"):
            calls.append(asyncio.create_task(dispatcher.send_raw_request("tools/call", {"name": name})))
            await until_asleep()
        assert [b'"alone"' in line and line.endswith(b"\n") for line in seen] == [True]
        dispatcher.take(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        dispatcher.take(b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
        assert await asyncio.gather(*calls) == [{}, {}]
        os.read(read, 1 << 16)
        again = asyncio.create_task(dispatcher.send_raw_request("tools/call", {"name": "again"}))
        await until_asleep()
        assert [b'"again"' in line for line in seen] == [False, True]
        dispatcher.take(b'{"jsonrpc":"2.0","id":3,"result":{}}\n')
        await again
        writer.close()

    try:
        asyncio.run(main())
    finally:
        os.close(read)


@pytest.mark.parametrize("has_it", [True, False])
def test_nothing_is_given_way_to_where_the_system_cannot(monkeypatch: pytest.MonkeyPatch, has_it: bool) -> None:
    yielded: list[None] = []
    monkeypatch.setattr(pipes, "_SCHED_YIELD", (lambda: yielded.append(None)) if has_it else None)
    pipes.give_way()
    assert yielded == [None] * has_it
