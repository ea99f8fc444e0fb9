"""The end of a gateway over stdio: a client that closes its pipes, in whatever order, leaves no error behind."""

from __future__ import annotations

import os

import pytest
from anyio.lowlevel import checkpoint

from readback.gateway.serving import stdio
from tests.gateway.loops import LOOPS, run_on


@pytest.mark.requirement("WIRE-ends")
@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_stops_reading_first_ends_the_streams_without_an_error(loop: str) -> None:
    from_client, to_us = os.pipe()
    to_client, from_us = os.pipe()
    kept = os.dup(0), os.dup(1)
    os.dup2(from_client, 0)
    os.dup2(from_us, 1)
    try:

        async def serve() -> None:
            async with stdio.own_streams() as (read, _):
                os.close(to_client)
                os.close(to_us)
                async for _message in read:
                    raise AssertionError
                for _ in range(20):
                    await checkpoint()

        os.close(from_client)
        os.close(from_us)
        run_on(loop, serve())
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for each in kept:
            os.close(each)
