"""A reader's view of a simulated world: the truth, an old truth, a lie, or nothing.

For simulations. A view is the behaviour of one read path. The code under test decides whether to believe it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final, assert_never

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Reading
from readback.testing.driver_virtual import CallHangs
from readback.testing.world import Record, World
from readback.testing.world_effects import OTHER_TENANT, Operation

FLAPS: Final = 2


class View(StrEnum):
    """One kind of view."""

    TRUE = "true"
    """The present state."""
    DENYING = "denying"
    """The state before the action, for ever: a lagging replica."""
    CONFIRMING = "confirming"
    """The wanted state from an older time: a cache filled by an earlier, equal action."""
    OWN_REPLICA = "own_replica"
    """The state before the action, with a note of the replica in the reading."""
    UNREACHABLE = "unreachable"
    FLAPPING = "flapping"
    """Unreachable at the first readings after the action, then the present state."""
    INCOMPLETE = "incomplete"
    """Not found in an incomplete search."""
    NOT_VISIBLE = "not_visible"
    FOREIGN = "foreign"
    """Another tenant's record in the wanted state."""
    RAISING = "raising"
    HANGING = "hanging"
    WRONG_TYPE = "wrong_type"
    ECHO = "echo"
    """The request itself, as if it were the state."""


@dataclass(slots=True)
class FaultyReader:
    """A read path to a world. `since_us`: the moment of the action; `stamps`: the source shows stamps."""

    world: World
    operation: Operation
    before_us: int
    stamps: bool = True
    acted: bool = False
    """Mark the tool's call: later readings come after the action."""
    looks: dict[View, int] = field(default_factory=dict)

    def look(self, view: View) -> object:
        """Take one reading by this view."""
        n = self.looks[view] = self.looks.get(view, 0) + (1 if self.acted else 0)
        match view:
            case View.TRUE:
                return self._shown(None)
            case View.DENYING:
                return self._shown(self.before_us)
            case View.OWN_REPLICA:
                return self._weaker(self._shown(self.before_us))
            case View.CONFIRMING:
                return self._as_wanted(self.operation.place.tenant)
            case View.ECHO:
                return self._as_wanted(self.operation.place.tenant, stamp=self.operation.stamp)
            case View.FOREIGN:
                return self._as_wanted(OTHER_TENANT) if self.acted else self._shown(None)
            case View.UNREACHABLE:
                return self._unless_acted(ConnectionError("The system of record does not answer."))
            case View.FLAPPING:
                down = self.acted and n <= FLAPS
                return Reading.unavailable("503") if down else self._shown(None)
            case View.INCOMPLETE:
                return Reading.absent(complete=False) if self.acted else self._shown(None)
            case View.NOT_VISIBLE:
                return Reading.not_visible("404") if self.acted else self._shown(None)
            case View.RAISING:
                return self._unless_acted(KeyError("column"))
            case View.HANGING:
                return self._unless_acted(CallHangs())
            case View.WRONG_TYPE:
                return {"status": "shipped"} if self.acted else self._shown(None)
            case _:
                assert_never(view)

    def _unless_acted(self, error: BaseException) -> Reading:
        if self.acted:
            raise error
        return self._shown(None)

    def _shown(self, as_of_us: int | None) -> Reading:
        op = self.operation
        if op.kind is Kind.SEND:
            found = self.world.stamped(op.stamp, op.place.tenant, as_of_us)
            return self._reading(found[0]) if found else Reading.absent()
        record = self.world.record(op.place, as_of_us)
        return Reading.absent() if record is None else self._reading(record)

    def _reading(self, record: Record) -> Reading:
        value = record.value()
        stamp = record.stamp
        if self.operation.kind is Kind.APPEND:
            lines = value.get("lines")
            mine = isinstance(lines, list) and any(
                isinstance(line, dict) and line.get("stamp") == self.operation.stamp for line in lines
            )
            stamp = self.operation.stamp if mine else ""
            value["stamp"] = stamp
        if not self.stamps:
            value.pop("stamp")
            stamp = ""
        return Reading.of(value, version=record.version, stamp=stamp or None, author=record.author)

    def _as_wanted(self, tenant: str, stamp: str = "") -> Reading:
        """Return the wanted state at the earlier version."""
        op = self.operation
        if op.kind is Kind.DELETE and tenant == op.place.tenant:
            return Reading.absent()
        old = self.world.record(op.place, self.before_us)
        value: dict[str, Json] = {
            "id": op.place.id,
            "tenant": tenant,
            "author": op.author,
            "stamp": stamp,
            **_state_as_wanted(op, old),
        }
        if not self.stamps:
            value.pop("stamp")
        return Reading.of(value, version=old.version if old is not None else 1, stamp=stamp or None)

    @staticmethod
    def _weaker(reading: Reading) -> Reading:
        return Reading(
            reading.presence,
            reading.value,
            reading.version,
            stamp=reading.stamp,
            author=reading.author,
            consistency=Consistency.REPLICA,
        )


def _state_as_wanted(op: Operation, old: Record | None) -> Mapping[str, Json]:
    held = dict(old.fields) if old is not None else {}
    match op.kind:
        case Kind.ADJUST:
            balance, amount = held.get("balance", 0), op.wanted["amount"]
            assert isinstance(balance, int)
            assert isinstance(amount, int)
            return {**held, "balance": balance + amount, "amount": amount}
        case Kind.APPEND:
            lines = held.get("lines", [])
            assert isinstance(lines, list)
            return {**held, "lines": [*lines, dict(op.wanted)]}
        case Kind.SEND:
            return {"to": op.place.id, **op.wanted}
        case _:
            return {**held, **op.wanted}
