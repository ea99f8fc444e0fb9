"""The tasks: each pattern with a tool that fails in its way, and with an honest tool of the same kind.

Standard library alone. A program gets a `Task`: the call, two read paths, and the question that decides. The question
is the same for all programs. What a program does with a call, a reading and a failure is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from bench.hallucinated_success.world import CARRIER, CENTS, ORDER, OTHER_TENANT, TENANT, Row, World

SUCCESS: Final = "success"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
TOLD: Final = (SUCCESS, FAILED, UNKNOWN)
LATE_S: Final = 0.3
"""How late an effect or a copy is. Every program may wait longer."""
PATIENCE_S: Final = 1.5
"""The time for an effect to show, as the tasks' owner states it to every program."""
STABLE_S: Final = 0.5
"""How long a result has to hold, as the tasks' owner states it to every program."""
Kind = Literal["ship", "cancel", "charge"]
Tool = Callable[[World, str], Any]


@dataclass(frozen=True)
class Pattern:
    """One run. `honest`: the tool does what it says. `knowable`: the result can be read at all."""

    code: str
    title: str
    kind: Kind
    tool: Tool
    honest: bool = False
    variant: str = ""
    status: str = "open"
    copy_lags_s: float = 0.0
    copy_status: str = ""
    down: bool = False

    @property
    def name(self) -> str:
        """The run's name: the code, and the variant."""
        return f"{self.code} {self.variant or ('honest' if self.honest else 'fault')}"

    @property
    def knowable(self) -> bool:
        return not self.down


class Task:
    """One run of a pattern, as a program sees it. `stamp` marks the effects of a call."""

    def __init__(self, pattern: Pattern, folder: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self.pattern = pattern
        self.kind = pattern.kind
        self.name = pattern.name
        self.world = World(
            folder / f"{pattern.name.replace(' ', '-')}.db",
            status=pattern.status,
            copy_lags_s=pattern.copy_lags_s,
            down=pattern.down,
            now_s=now_s,
        )
        if pattern.copy_status:
            shipped = int(pattern.copy_status == "shipped")
            self.world.copy_shows(status=pattern.copy_status, carrier=CARRIER, reserved=shipped, indexed=shipped)
        self.stamps: list[str] = []

    def call(self, stamp: str = "") -> Any:
        """Call the tool. Returns its answer, or raises as the tool does."""
        self.world.calls += 1
        self.stamps.append(stamp)
        return self.pattern.tool(self.world, stamp)

    def look(self, *, fresh: bool = False) -> Row | None:
        """Read back. `fresh`: from the primary instead of the copy. Raises ConnectionError."""
        return self.world.charged(fresh=fresh) if self.kind == "charge" else self.world.order(fresh=fresh)

    def find(self, stamp: str) -> list[Row]:
        """Search charges by the stamp of a call."""
        return self.world.charges_with(stamp)

    def holds(self, found: Row | None) -> bool:
        """The question that decides: what the owner of the task wants to find."""
        if found is None or found["tenant"] != TENANT:
            return False
        if self.kind == "charge":
            return bool(found["order_id"] == ORDER and found["cents"] == CENTS and found["count"] == 1)
        if found["id"] != ORDER:
            return False
        if self.kind == "cancel":
            return bool(found["status"] == "cancelled" and not found["reserved"])
        return bool(
            found["status"] == "shipped" and found["carrier"] == CARRIER and found["reserved"] and found["indexed"]
        )

    def done(self) -> bool:
        """The referee's answer: whether the task is done in truth, and once."""
        found = self.world.truth()
        if self.kind == "charge":
            return bool(found["charges"] == 1)
        return self.holds(found)

    @property
    def doubled(self) -> int:
        """Effects beyond the first."""
        return max(0, int(self.world.truth()["charges"]) - 1)


WANTED: Final[dict[str, dict[str, Any]]] = {
    "ship": {"id": ORDER, "tenant": TENANT, "status": "shipped", "carrier": CARRIER, "reserved": 1, "indexed": 1},
    "cancel": {"id": ORDER, "tenant": TENANT, "status": "cancelled", "reserved": 0},
    "charge": {"order_id": ORDER, "tenant": TENANT, "cents": CENTS, "count": 1},
}
"""The same question as `Task.holds`, as values of fields, for programs that compare fields."""
OK: Final = {"status": "ok"}


def answers(answer: Any, effect: Callable[[World, str], None] | None = None, after_s: float = 0.0) -> Tool:
    """Return a tool with this answer, and an effect at once or later."""

    def tool(world: World, stamp: str) -> Any:
        if effect is not None and after_s:
            world.later(after_s, lambda: effect(world, stamp))
        elif effect is not None:
            effect(world, stamp)
        return answer

    return tool


def raises(error: Exception, effect: Callable[[World, str], None] | None = None) -> Tool:
    """Return a tool that raises, with or without an effect before."""

    def tool(world: World, stamp: str) -> Any:
        if effect is not None:
            effect(world, stamp)
        raise error

    return tool


def raises_once(error: Exception, effect: Callable[[World, str], None]) -> Tool:
    """Return a tool with an effect at each call, whose first answer is lost."""

    def tool(world: World, stamp: str) -> Any:
        effect(world, stamp)
        if world.calls == 1:
            raise error
        return OK

    return tool


def ship(world: World, stamp: str) -> None:
    world.ship(stamp)


def charge(world: World, stamp: str) -> None:
    world.charge(stamp)


def cancel(world: World, stamp: str) -> None:
    world.cancel(stamp)


def ship_half(world: World, stamp: str) -> None:
    world.ship(stamp, reserve=False)


def ship_unindexed(world: World, stamp: str) -> None:
    world.ship(stamp, index=False)


def ship_and_index_later(world: World, stamp: str) -> None:
    world.ship(stamp, index=False)
    world.later(LATE_S, world.index)


def ship_for_a_moment(world: World, stamp: str) -> None:
    world.ship(stamp)
    world.later(LATE_S, world.reopen)


def ship_elsewhere(world: World, stamp: str) -> None:
    world.ship(stamp, tenant=OTHER_TENANT)


ACCEPTED: Final = {"status": "accepted", "job": "j1"}
INVALID: Final = {"status": "ok", "message": "422 validation failed: unknown carrier; request processed"}
RAW: Final = (
    'Traceback (most recent call last):\n  File "ship.py", line 7\nConnectionError: refused\nlast step: ship ok'
)
TIMED_OUT: Final = TimeoutError("no answer within 30 s")
BAD_GATEWAY: Final = ConnectionError("502 bad gateway")

PATTERNS: Final[tuple[Pattern, ...]] = (
    Pattern("HS-01", "Phantom Execution", "ship", answers(OK)),
    Pattern("HS-01", "Phantom Execution", "ship", answers(OK, ship), honest=True),
    Pattern("HS-02", "Validation Error Collapse", "ship", answers(INVALID)),
    Pattern("HS-02", "Validation Error Collapse", "ship", answers({**OK, "message": "valid"}, ship), honest=True),
    Pattern("HS-03", "Accepted-as-Completed", "ship", answers(ACCEPTED)),
    Pattern("HS-03", "Accepted-as-Completed", "ship", answers(ACCEPTED, ship, LATE_S), honest=True),
    Pattern("HS-04", "Flattened Partial Success", "ship", answers(OK, ship_half)),
    Pattern("HS-04", "Flattened Partial Success", "ship", answers(OK, ship), honest=True),
    Pattern("HS-05", "Timeout Blindspot", "ship", raises(TIMED_OUT), variant="before the commit"),
    Pattern("HS-05", "Timeout Blindspot", "ship", raises(TIMED_OUT, ship), honest=True, variant="after the commit"),
    Pattern("HS-06", "Uncontrolled Retry Mutation", "charge", raises_once(BAD_GATEWAY, charge)),
    Pattern("HS-06", "Uncontrolled Retry Mutation", "charge", answers(OK, charge), honest=True),
    Pattern("HS-07", "Stale-Replica Confirmation", "ship", answers(OK), copy_lags_s=2.5, copy_status="shipped"),
    Pattern("HS-07", "Stale-Replica Confirmation", "ship", answers(OK, ship), honest=True, copy_lags_s=LATE_S),
    Pattern("HS-08", "Stale-Cache Read", "cancel", answers(OK), status="shipped", copy_lags_s=2.5,
            copy_status="cancelled"),
    Pattern("HS-08", "Stale-Cache Read", "ship", answers(OK, ship), honest=True, copy_lags_s=2.5),
    Pattern("HS-09", "Premature Propagation Success", "ship", answers(OK, ship_unindexed)),
    Pattern("HS-09", "Premature Propagation Success", "ship", answers(OK, ship_and_index_later), honest=True),
    Pattern("HS-10", "Error Summarization Collapse", "ship", answers(RAW)),
    Pattern("HS-10", "Error Summarization Collapse", "ship", answers("Order o1 shipped.", ship), honest=True),
    Pattern("HS-11", "Outrun Status Reporting", "ship", answers(OK, ship_for_a_moment)),
    Pattern("HS-11", "Outrun Status Reporting", "ship", answers(OK, ship), honest=True),
    Pattern("HS-12", "Wrong Target Success", "ship", answers(OK, ship_elsewhere)),
    Pattern("HS-12", "Wrong Target Success", "ship", answers(OK, ship), honest=True),
    Pattern("HS-13", "Compensation Blindspot", "cancel", answers({**OK, "cancelled": True}), status="shipped"),
    Pattern("HS-13", "Compensation Blindspot", "cancel", answers(OK, cancel), honest=True, status="shipped"),
    Pattern("HS-14", "Unknown State Flattening", "ship", raises(TIMED_OUT), variant="not done", down=True),
    Pattern("HS-14", "Unknown State Flattening", "ship", raises(TIMED_OUT, ship), variant="done", down=True),
    Pattern("HS-14", "Unknown State Flattening", "ship", answers(OK, ship), honest=True),
)  # fmt: skip
"""In the order of the specification: the faulty run first, then the honest one."""
