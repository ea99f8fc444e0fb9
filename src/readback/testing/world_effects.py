"""The effect of a tool call on a simulated world: the truth behind an answer.

For simulations. Each `Landing` is one possible effect of a request. `prepare` sets the scene before the action. `land`
applies the effect at the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, assert_never

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.kind import Kind
from readback.testing.world import Place, World

OTHER_TENANT: Final = "globex"
OTHER_ACTOR: Final = "human:eve"


class Landing(StrEnum):
    """The real effect of one request."""

    NONE = "none"
    ONCE = "once"
    TWICE = "twice"
    LATE = "late"
    """Once, later, inside the window."""
    TOO_LATE = "too_late"
    """Once, after the deadline."""
    WRONG_TARGET = "wrong_target"
    WRONG_TENANT = "wrong_tenant"
    WRONG_VALUE = "wrong_value"
    PARTIAL = "partial"
    """The fields of the first effect group, without those of the second."""
    ALREADY_SO = "already_so"
    """The state was so before, and nothing happens."""
    BY_OTHER = "by_other"
    """No effect of ours; another actor makes the same change."""
    OVERWRITTEN = "overwritten"
    """Once, and another actor changes the record right afterwards."""
    DUPLICATED_AT_CLOSE = "duplicated_at_close"
    """Once, and a second time by the provider itself just before the window closes."""
    SPILLED = "spilled"
    """Once, with a change beyond the permitted fields."""
    STRAYED = "strayed"
    """Once in the right place, and once in another tenant."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A request in the system's view. `wanted`: the fields to write; `second`: the fields of the second group."""

    kind: Kind
    place: Place
    wanted: Mapping[str, Json]
    stamp: str
    key: str
    author: str
    second: tuple[str, ...] = ()
    wrong: Mapping[str, Json] | None = None
    """Return the fields as a faulty system writes them."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of late effects, in microseconds after the call."""

    late_us: int
    too_late_us: int
    before_close_us: int


def prepare(world: World, landing: Landing, operation: Operation, initial: Mapping[str, Json] | None) -> None:
    """Set the scene before the action. `initial` is the record's state, or None without a record."""
    if landing is Landing.ALREADY_SO:
        match operation.kind:
            case Kind.DELETE:
                return
            case Kind.SET | Kind.CREATE:
                world.put(operation.place, {**(initial or {}), **operation.wanted}, author=OTHER_ACTOR)
                return
            case _:
                pass
    if initial is not None:
        world.put(operation.place, initial)


def perform(world: World, operation: Operation) -> None:
    """Apply the request once in the operation's place."""
    op, place = operation, operation.place
    marks = {"stamp": op.stamp, "key": op.key, "author": op.author}
    match op.kind:
        case Kind.READ:
            return
        case Kind.SET:
            if world.record(place) is not None:
                world.put(place, op.wanted, **marks)
        case Kind.CREATE:
            free = world.record(place) is None
            world.put(place if free else replace(place, id=f"{place.id}-{len(world.journal)}"), op.wanted, **marks)
        case Kind.DELETE:
            world.remove(place, **marks)
        case Kind.ADJUST:
            _adjust(world, op, marks)
        case Kind.APPEND:
            _append(world, op, marks)
        case Kind.SEND:
            world.put(replace(place, id=f"{place.id}#{len(world.journal)}"), {"to": place.id, **op.wanted}, **marks)
        case _:
            assert_never(op.kind)


def _adjust(world: World, op: Operation, marks: dict[str, str]) -> None:
    old = world.record(op.place)
    held = old.fields.get("balance", 0) if old is not None else 0
    amount = op.wanted["amount"]
    assert isinstance(held, int)
    assert isinstance(amount, int)
    world.put(op.place, {"balance": held + amount, "amount": amount}, **marks)


def _append(world: World, op: Operation, marks: dict[str, str]) -> None:
    old = world.record(op.place)
    lines = old.fields.get("lines", []) if old is not None else []
    assert isinstance(lines, list)
    line: dict[str, Json] = {**op.wanted, "stamp": op.stamp}
    world.put(op.place, {"lines": [*lines, line]}, **marks)


def land(world: World, landing: Landing, operation: Operation, moments: Moments) -> None:
    """Apply the effect of the call, now or later."""
    op, place = operation, operation.place
    match landing:
        case Landing.NONE | Landing.ALREADY_SO:
            return
        case Landing.ONCE:
            perform(world, op)
        case Landing.TWICE:
            perform(world, op)
            perform(world, op)
        case Landing.LATE:
            world.later(moments.late_us, lambda: perform(world, op), stamp=op.stamp)
        case Landing.TOO_LATE:
            world.later(moments.too_late_us, lambda: perform(world, op), stamp=op.stamp)
        case Landing.WRONG_TARGET:
            _elsewhere(world, op, replace(place, id=f"{place.id}0"))
        case Landing.WRONG_TENANT:
            _elsewhere(world, op, replace(place, tenant=OTHER_TENANT))
        case Landing.WRONG_VALUE:
            perform(world, replace(op, wanted=op.wrong if op.wrong is not None else op.wanted))
        case Landing.PARTIAL:
            perform(world, replace(op, wanted={k: v for k, v in op.wanted.items() if k not in op.second}))
        case Landing.BY_OTHER:
            perform(world, replace(op, stamp="", key="", author=OTHER_ACTOR))
        case Landing.OVERWRITTEN:
            perform(world, op)
            _overwrite(world, op)
        case Landing.DUPLICATED_AT_CLOSE:
            perform(world, op)
            world.later(moments.before_close_us, lambda: perform(world, op), stamp=op.stamp)
        case Landing.SPILLED:
            perform(world, op)
            if world.record(place) is not None:
                world.put(place, {"note": "changed beside it"}, stamp=op.stamp, key=op.key, author=op.author)
        case Landing.STRAYED:
            perform(world, op)
            _elsewhere(world, op, replace(place, tenant=OTHER_TENANT))
        case _:
            assert_never(landing)


def _elsewhere(world: World, op: Operation, place: Place) -> None:
    """Apply the same change in another place, with a record of its own if the kind needs one."""
    here = world.record(op.place)
    if world.record(place) is None and op.kind in (Kind.SET, Kind.DELETE, Kind.ADJUST, Kind.APPEND):
        world.put(place, here.fields if here is not None else {})
    perform(world, replace(op, place=place))


def _overwrite(world: World, op: Operation) -> None:
    if op.kind is Kind.DELETE:
        world.put(op.place, {"note": "made again"}, author=OTHER_ACTOR)
    elif op.kind is Kind.SEND:
        return  # what was sent cannot be changed any more
    elif op.kind is Kind.ADJUST:
        world.put(op.place, {"balance": 0}, author=OTHER_ACTOR)
    elif op.kind is Kind.APPEND:
        world.put(op.place, {"lines": []}, author=OTHER_ACTOR)
    else:
        world.put(op.place, op.wrong or {}, author=OTHER_ACTOR)
