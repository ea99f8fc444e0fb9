"""Tools that no contract governs: passed on, passed on and recorded as not checked, or denied.

Called by the gate. Recorded calls are actions like others, of one contract that says that nothing can be read back.
What they asked and were answered is kept where it is small; of more its size and its SHA-256.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from readback.canon import CanonError, Json, json_text, json_value, sha256_hex, stored_bytes
from readback.canon.values import short_copied, short_copy
from readback.client.authoring.action import ActionDefinition
from readback.client.proposal import Proposal
from readback.domain.context import Context
from readback.domain.errors import NotDispatchedError
from readback.drivers.group_commit import MAY_WAIT_S
from readback.gateway.call import Call
from readback.gateway.policy.results import UNGOVERNED
from readback.gateway.policy.servers import IN_HAND, Servers, cleared
from readback.gateway.wire.verbatim import is_faithful, slowly

KEPT_MAX_BYTES: Final = 65_536
"""Of what a call without a contract asked, and of what it was answered."""
TIMEOUT: Final = "10m"
SHARES_S: Final = 0.01
"""So long the record of an answer waits for another commit to go along with: its client has been answered."""
TURNS: Final = 6
"""Of the event loop, which an answer takes to its client over HTTP; its record is made up behind it, not before."""
NAME_PLAIN_MAX: Final = 256
"""Of a tool's name in ASCII, whose call needs no second look."""
WHY: Final = "no contract governs this tool"


class Policy(StrEnum):
    """What becomes of a call that no contract governs."""

    PASS = "pass"
    UNVERIFIED = "unverified"
    DENY = "deny"


def contract_for_all(servers: Servers) -> ActionDefinition[[str, str, Any]]:
    """The contract of whatever has none."""

    async def call(ctx: Context, server: str, tool: str, arguments: Any) -> object:
        flight = IN_HAND.get()
        if flight is None:
            raise NotDispatchedError("Nobody waits for it any more, and nothing allows that it is called again.")
        answer = await (flight.sent or flight.send(flight.call.arguments, servers.runtime))
        flight.land()
        await _behind(asyncio.get_running_loop(), TURNS)
        MAY_WAIT_S.set(SHARES_S)
        return kept(cleared(flight.server, answer))

    return ActionDefinition(
        call,
        {
            "name": UNGOVERNED,
            "version": "1",
            "kind": "set",
            "side_effect": "low_risk_internal",
            "target": "tool/{requested.server}/{requested.tool}",
            "ensure": {"it was read back": "authoritative != null"},
            "unverifiable": WHY,
            "execute": {"timeout": TIMEOUT},
        },
    )


def _behind(loop: asyncio.AbstractEventLoop, turns: int) -> asyncio.Future[None]:
    """Done when everything has gone first that is ready in so many turns; a task is not woken for each of them."""
    over: asyncio.Future[None] = loop.create_future()
    _turn(loop, over, turns - 1)
    return over


def _turn(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None], left: int) -> None:
    if left:
        loop.call_soon(_turn, loop, over, left - 1)
    elif not over.done():
        over.set_result(None)


def proposed(contract: ActionDefinition[[str, str, Any]], call: Call) -> Proposal:
    """A call as an action of that contract."""
    server, name = call.server or "-", call.name or "-"
    whole: dict[str, Json] = {"server": server, "tool": name, "arguments": dict(call.arguments)}
    given = short_copy(whole) if is_faithful(call.arguments) else None  # they came over a wire
    if given is not None and len(name) <= NAME_PLAIN_MAX and name.isascii() and server.isascii():
        return Proposal(contract, given, given)  # nothing is left to be refused: these are two texts and an object
    return contract(server, name, kept(call.arguments))


def kept(value: Mapping[str, Json]) -> dict[str, Json]:
    """A value as the ledger keeps it: whole, or its size and hash."""
    faithful = is_faithful(value)
    small = short_copied(value) if faithful else None  # it came over a wire
    if small is not None:
        return small
    try:
        plain = json_value(dict(value))
        size = len(stored_bytes(plain))
    except CanonError:
        plain, size = None, KEPT_MAX_BYTES + 1
    if faithful and isinstance(plain, dict) and size <= KEPT_MAX_BYTES:
        return plain
    whole = json_text({**value}, sort_keys=True, compact=True).encode("ascii") if faithful else slowly(value)
    short: dict[str, Json] = {"bytes": len(whole), "sha256": sha256_hex(whole)}
    if value.get("isError") is True:
        short["isError"] = True
    return short
