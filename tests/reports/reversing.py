"""A saga whose first step is verified and then reversed, and a citation of it that was right before that."""

from __future__ import annotations

from typing import Any

from readback import Context, Outcome, Readback, Reading, action
from readback.domain.grounding.citation import cite
from readback.errors import NotDispatchedError

ROOMS: dict[str, dict[str, Any]] = {}


def _booking(name: str, *, works: bool) -> Any:
    @action(
        name=name, kind="create", side_effect="low_risk_internal", target="row/{requested.key}", within="2s",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        ensure={"there": "authoritative.id == requested.key"}, late_window="5s", execute={"timeout": "30s"},
    )  # fmt: skip
    def book(ctx: Context, key: str) -> object:
        if not works:
            raise NotDispatchedError("No line.")
        ROOMS[f"{name}/{key}"] = {"id": key, "tenant": ctx.tenant, "stamp": ctx.stamp}
        return {"ok": True}

    @book.read(source="rooms", consistency="strong", independence="other_client", attributes=True)
    def row(ctx: Context, key: str) -> Reading:
        found = ROOMS.get(f"{name}/{key}")
        return Reading.absent() if found is None else Reading.of(found, stamp=found["stamp"])

    book.find(lambda ctx, key: [])

    @book.compensate(name=f"undo_{name}", kind="delete", ensure={"gone": "authoritative == null"}, within="2s")
    def undo(ctx: Context, key: str) -> object:
        ROOMS.pop(f"{name}/{key}", None)
        return {"ok": True}

    return book


def reversed_saga(rb: Readback) -> tuple[str, Outcome]:
    """The citation that stood while the step did, and its outcome as it is now."""
    ROOMS.clear()
    steps = [
        _booking("hotel", works=True)(key="k").as_step("hotel"),
        _booking("car", works=False)(key="k").as_step("car", after=("hotel",)),
    ]
    told = rb.saga(steps, operation="trip")
    hotel = told.steps["hotel"].outcome
    assert hotel is not None
    assert ROOMS == {}
    session = rb._session
    kept = session.store.evidence(session.scope.tenant, hotel.id, session.fold(hotel.id).reading_ref)
    assert kept is not None
    return str(cite(session.scope.tenant, hotel.id, kept.body)), hotel
