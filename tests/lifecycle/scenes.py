"""Scenes that a process may die in: an action, a shop that behaves in one way, and what must be true in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition
from readback.domain.context import Context
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import HIGH, STAMPED, House

Args = Any
HIGH_STAMPED: Final[dict[str, Any]] = {**HIGH, "identity": {**HIGH["identity"], "stamp": "authoritative.stamp"}}


@dataclass(frozen=True, slots=True)
class Scene:
    """`calls`: how often the tool runs if nobody dies. `end`: where it ends then."""

    name: str
    set_up: Callable[[House], ActionDefinition[Any]]
    end: State
    calls: int = 1


def _at_once(house: House) -> ActionDefinition[Any]:
    return house.action()


def _accepted(house: House) -> ActionDefinition[Any]:
    shop = house.shop
    later: dict[str, Any] = {}

    def tool(ctx: Context, args: Args) -> object:
        later["at"], later["do"] = shop.now() + 5, lambda: shop.ship(ctx, args)
        return (202, {"status": "accepted"})

    def look(ctx: Context, args: Args) -> Reading:
        if later and shop.now() >= later["at"]:
            later.pop("do", lambda: None)()
        return shop.show(args)

    shop.tool, shop.eyes = tool, look
    return house.action(**STAMPED)


def _lost_reply(house: House) -> ActionDefinition[Any]:
    def tool(ctx: Context, args: Args) -> object:
        house.shop.ship(ctx, args)
        raise CallHangs

    house.shop.tool = tool
    return house.action(find=True, lookup=True, **STAMPED)


def _first_delay(house: House) -> ActionDefinition[Any]:
    return house.action(polls=["3s", "2s"])


def _stable(house: House) -> ActionDefinition[Any]:
    return house.action(stable_for="4s")


def _high_risk(house: House) -> ActionDefinition[Any]:
    house.shop.rows.clear()
    return house.action(kind="create", find=True, **HIGH_STAMPED)


def _compensated(house: House) -> ActionDefinition[Any]:
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    return house.action(kind="create", find=True, compensate={}, **STAMPED)


def _rolled_back(house: House) -> ActionDefinition[Any]:
    before: dict[str, Json] = dict(house.shop.rows["o-1"])
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    house.shop.undo = lambda ctx, args: house.shop.rows.update({"o-1": dict(before)})
    return house.action(rollback=True, **STAMPED)


def _tried_again(house: House) -> ActionDefinition[Any]:
    shop = house.shop
    shop.record = lambda ctx, args: Lookup.landed() if shop.stamps[0] in str(shop.rows) else Lookup.failed()
    shop.tool = lambda ctx, args: shop.ship(ctx, args) if len(shop.calls) > 1 else (500, {})
    return house.action(lookup=True, execute={"timeout": "1s", "honours_key": True, "key_valid_for": "1d"}, **STAMPED)


def _refused(house: House) -> ActionDefinition[Any]:
    return house.action(require={"never": "false"})


def _lands_late(house: House) -> ActionDefinition[Any]:
    shop = house.shop
    late: list[Callable[[], object]] = []

    def tool(ctx: Context, args: Args) -> object:
        late.append(lambda: shop.ship(ctx, args))
        raise CallHangs

    def look(ctx: Context, args: Args) -> Reading:
        if late and shop.now() > 400:
            late.pop()()
        return shop.show(args)

    shop.tool, shop.eyes = tool, look
    return house.action(late_window="1h", compensate={}, **STAMPED)


SCENES: Final = (
    Scene("verified at once", _at_once, State.RECONCILED_SUCCESS),
    Scene("accepted, then done", _accepted, State.RECONCILED_SUCCESS),
    Scene("a lost reply", _lost_reply, State.RECONCILED_SUCCESS),
    Scene("a first delay", _first_delay, State.RECONCILED_SUCCESS),
    Scene("held for a time", _stable, State.RECONCILED_SUCCESS),
    Scene("high risk", _high_risk, State.RECONCILED_SUCCESS),
    Scene("compensated", _compensated, State.COMPENSATED),
    Scene("rolled back", _rolled_back, State.ROLLED_BACK),
    Scene("tried again", _tried_again, State.RECONCILED_SUCCESS, calls=2),
    Scene("refused", _refused, State.FAILED, calls=0),
    Scene("lands late", _lands_late, State.RECONCILED_SUCCESS),
)
