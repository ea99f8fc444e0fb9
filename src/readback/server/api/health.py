"""Health of the server and of its ledger."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from readback.server.routing import Answer, Call, Reply, Route


class Health(msgspec.Struct, frozen=True):
    """The server answers, and its ledger can be read."""

    status: str


async def healthz(call: Call) -> Reply:
    """Read the ledger's last position, so that an unreachable ledger is a 503."""
    await asyncio.to_thread(call.ledgers.main.session.store.last_seq)
    return Reply(200, Health("ok"))


ROUTES: Final = (
    Route(
        "GET",
        "/healthz",
        "getHealth",
        "Check that the server can read its ledger.",
        healthz,
        None,
        (Answer(200, "The ledger can be read.", Health),),
        tag="server",
        faults=(503,),
    ),
)
