"""The actions of the crash tests: one of each way that a run can take.

Loaded by every victim before it is forked. `here` names the world and the clock of the process that runs.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from readback import Context, Lookup, Reading, action
from tests.crash.world import World

IDENTITY = {"target": "authoritative.target", "tenant": "authoritative.tenant"}
TIMES: dict[str, Any] = {"within": "2s", "polls": ["0s", "1s"], "deadline": "2s", "late_window": "4s"}


@dataclass(slots=True)
class Here:
    """What the process that runs has at hand."""

    world: World | None = None
    now_us: Any = None

    @property
    def w(self) -> World:
        assert self.world is not None
        return self.world


here = Here()


def _called(tool: str, ctx: Context, *, refused: bool = False) -> int:
    here.w.tick("before the call")
    count = here.w.called(tool, ctx.stamp, ctx.idempotency_key, ctx.attempt, refused=refused)
    here.w.tick("before the effect")
    return count


def _note(target: str) -> Reading:
    """The newest effect on a target, as a record of its own."""
    here.w.tick("before a reading")
    rows = here.w.visible(here.now_us(), target=target)
    here.w.tick("after a reading")
    if not rows:
        return Reading.absent()
    return Reading.of({**rows[-1], "tenant": "acme"}, stamp=str(rows[-1]["stamp"]))


def _thing(target: str) -> Reading:
    here.w.tick("before a reading")
    row = here.w.thing(target)
    here.w.tick("after a reading")
    if row is None:
        return Reading.absent()
    return Reading.of(row, version=int(str(row["version"])), stamp=str(row["stamp"]))


def _with_stamp(ctx: Context) -> list[Reading]:
    here.w.tick("before a search")
    rows = here.w.visible(here.now_us(), stamp=ctx.stamp)
    here.w.tick("after a search")
    return [Reading.of({**row, "tenant": "acme"}, stamp=ctx.stamp) for row in rows]


# --- create: the stamp is found in the record ---


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}", identity=IDENTITY,
    ensure={"there": "authoritative.value == requested.value"}, **TIMES,
)  # fmt: skip
def create(ctx: Context, name: str, value: str) -> object:
    _called("create", ctx)
    here.w.add("create", ctx.stamp, ctx.idempotency_key, f"note/{name}", value)
    return {"status": "ok"}


@create.read(source="world", consistency="strong", independence="other_client", attributes=True)
def created(ctx: Context, name: str, value: str) -> Reading:
    return _note(f"note/{name}")


@create.find
def created_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- set: the state before is compared ---


@action(
    kind="set", side_effect="low_risk_internal", target="thing/{requested.name}", identity=IDENTITY,
    ensure={"value": "authoritative.value == requested.value"}, may_change=["value", "version", "stamp"], **TIMES,
)  # fmt: skip
def assign(ctx: Context, name: str, value: str) -> object:
    _called("assign", ctx)
    here.w.put("assign", ctx.stamp, ctx.idempotency_key, f"thing/{name}", value)
    return {"status": "ok"}


@assign.read(source="world", consistency="strong", independence="other_client")
def assigned(ctx: Context, name: str, value: str) -> Reading:
    return _thing(f"thing/{name}")


@assign.find
def assigned_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- a wrong value is reversed by an action of its own ---


@action(
    kind="set", side_effect="low_risk_internal", target="thing/{requested.name}", identity=IDENTITY,
    ensure={"value": "authoritative.value == requested.value"}, **TIMES,
)  # fmt: skip
def spoil(ctx: Context, name: str, value: str) -> object:
    _called("spoil", ctx)
    here.w.put("spoil", ctx.stamp, ctx.idempotency_key, f"thing/{name}", value + ", not quite")
    return {"status": "ok"}


@spoil.read(source="world", consistency="strong", independence="other_client")
def spoiled(ctx: Context, name: str, value: str) -> Reading:
    return _thing(f"thing/{name}")


@spoil.find
def spoiled_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


@spoil.compensate(kind="set", ensure={"back": "authoritative.value == 'original'"}, **TIMES)
def mend(ctx: Context, name: str, value: str) -> object:
    _called("mend", ctx)
    here.w.put("mend", ctx.stamp, ctx.idempotency_key, f"thing/{name}", "original")
    return {"status": "ok"}


@mend.find
def mended_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- a transaction that is verified before it is committed ---


class OpenTransaction:
    """Left open by the tool; the process's end drops it."""

    def __init__(self, db: sqlite3.Connection, target: str, tool: str) -> None:
        self.answer = {"status": "ok"}
        self._db, self._target, self._tool = db, target, tool

    def read(self) -> Reading:
        here.w.tick("before the look inside")
        row = self._db.execute("SELECT * FROM things WHERE target = ?", (self._target,)).fetchone()
        here.w.tick("after the look inside")
        return Reading.of(dict(row), version=row["version"], stamp=row["stamp"])

    def commit(self) -> None:
        here.w.tick("before the commit")
        self._db.execute("COMMIT")
        self._db.close()
        here.w.tick("after the commit")

    def abandon(self) -> None:
        here.w.tick("before the abandoning")
        self._db.execute("ROLLBACK")
        self._db.close()
        here.w.tick("after the abandoning")


def _staged(tool: str, ctx: Context, name: str, value: str) -> OpenTransaction:
    _called(tool, ctx)
    db = here.w.open()
    db.execute("BEGIN IMMEDIATE")
    here.w.change(db, tool, ctx.stamp, ctx.idempotency_key, f"thing/{name}", value)
    here.w.tick("in the open transaction")
    return OpenTransaction(db, f"thing/{name}", tool)


@action(
    kind="set", side_effect="low_risk_internal", target="thing/{requested.name}", identity=IDENTITY,
    ensure={"value": "authoritative.value == requested.value"}, **TIMES,
)  # fmt: skip
def stage(ctx: Context, name: str, value: str) -> object:
    return _staged("stage", ctx, name, value)


@stage.read(source="world", consistency="strong", independence="other_client")
def staged(ctx: Context, name: str, value: str) -> Reading:
    return _thing(f"thing/{name}")


@stage.find
def staged_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


@action(
    kind="set", side_effect="low_risk_internal", target="thing/{requested.name}", identity=IDENTITY,
    ensure={"value": "authoritative.value == requested.value"}, **TIMES,
)  # fmt: skip
def stage_wrongly(ctx: Context, name: str, value: str) -> object:
    return _staged("stage_wrongly", ctx, name, value + ", not quite")


@stage_wrongly.read(source="world", consistency="strong", independence="other_client")
def staged_wrongly(ctx: Context, name: str, value: str) -> Reading:
    return _thing(f"thing/{name}")


@stage_wrongly.find
def staged_wrongly_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- accepted, and there only after several polls ---


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}", identity=IDENTITY,
    ensure={"there": "authoritative.value == requested.value"},
    within="6s", polls=["0s", "1s", "1s", "1s", "1s"], deadline="6s", late_window="8s",
)  # fmt: skip
def queue(ctx: Context, name: str, value: str) -> object:
    _called("queue", ctx)
    here.w.add("queue", ctx.stamp, ctx.idempotency_key, f"note/{name}", value, visible_us=here.now_us() + 3_000_000)
    return {"status": "accepted", "id": "job-1"}


@queue.read(source="world", consistency="strong", independence="other_client", attributes=True)
def queued(ctx: Context, name: str, value: str) -> Reading:
    return _note(f"note/{name}")


@queue.find
def queued_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- refused at first, and repeated under the same key ---


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}", identity=IDENTITY,
    ensure={"there": "authoritative.value == requested.value"},
    execute={"honours_key": True, "key_valid_for": "1h"},
    within="2s", polls=["0s", "1s"], deadline="2s", late_window="3s",
)  # fmt: skip
def insist(ctx: Context, name: str, value: str) -> object:
    """The world is in no state to serve the first call with a key; what it serves, it serves once."""
    if _called("insist", ctx) == 1:
        raise RuntimeError("not now")
    here.w.add("insist", ctx.stamp, ctx.idempotency_key, f"note/{name}", value, once=True)
    return {"status": "ok"}


@insist.read(source="world", consistency="strong", independence="other_client", attributes=True)
def insisted(ctx: Context, name: str, value: str) -> Reading:
    return _note(f"note/{name}")


@insist.find
def insisted_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


# --- the same, where the key's record says what became of each attempt, and the effect lands slowly ---


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}", identity=IDENTITY,
    ensure={"there": "authoritative.value == requested.value"},
    execute={"honours_key": True, "key_valid_for": "1h"},
    within="2s", polls=["0s", "1s"], deadline="2s",
)  # fmt: skip
def ask_again(ctx: Context, name: str, value: str) -> object:
    """The first attempt is refused for good; a later one lands long after its window."""
    refused = ctx.attempt == 1
    _called("ask_again", ctx, refused=refused)
    if refused:
        raise RuntimeError("refused")
    when = here.now_us() + 9_000_000
    here.w.add("ask_again", ctx.stamp, ctx.idempotency_key, f"note/{name}", value, visible_us=when, once=True)
    return {"status": "accepted"}


@ask_again.read(source="world", consistency="strong", independence="other_client", attributes=True)
def asked_again(ctx: Context, name: str, value: str) -> Reading:
    return _note(f"note/{name}")


@ask_again.lookup
def record_of_key(ctx: Context, name: str, value: str) -> Lookup:
    here.w.tick("before a look-up")
    refused = here.w.refused(ctx.idempotency_key)
    landed = here.w.visible(here.now_us(), stamp=ctx.stamp)
    here.w.tick("after a look-up")
    if refused:
        return Lookup.failed("refused")
    return Lookup.landed() if landed else Lookup.unknown_key()


# --- said to be done, and never done ---


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}", identity=IDENTITY,
    ensure={"there": "authoritative.value == requested.value"}, **TIMES,
)  # fmt: skip
def pretend(ctx: Context, name: str, value: str) -> object:
    _called("pretend", ctx)
    return {"status": "ok", "created": True}


@pretend.read(source="world", consistency="strong", independence="other_client", attributes=True)
def pretended(ctx: Context, name: str, value: str) -> Reading:
    return _note(f"note/{name}")


@pretend.find
def pretended_found(ctx: Context, name: str, value: str) -> list[Reading]:
    return _with_stamp(ctx)


SCENARIOS = {
    each.name: each
    for each in (create, assign, spoil, stage, stage_wrongly, queue, insist, ask_again, pretend)
}  # fmt: skip
ON_THINGS = {"assign", "spoil", "stage", "stage_wrongly"}


def proposal_of(scenario: str) -> Any:
    """What the victim proposes: the same each time it is asked."""
    return SCENARIOS[scenario](name="old" if scenario in ON_THINGS else "new", value="wanted")
