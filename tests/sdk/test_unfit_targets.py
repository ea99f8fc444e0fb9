"""A value that cannot stand in a target is the caller's fault, wherever it comes from: at once, later, from a step."""

from __future__ import annotations

from typing import Any

import pytest

from readback import Context, Reading, action, from_step
from readback.client.authoring.action import ActionDefinition
from readback.domain.state import State
from readback.errors import ArgumentError
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import TENANT, Desk, opened, ship_of

RAW = "two\nlines"
Rows = dict[str, dict[str, Any]]


def noted(rows: Rows, name: str, target: str, *, sound: bool = True, undone: str = "") -> ActionDefinition[...]:
    """Makes a note, or one with another text; `undone`: the target of its compensation."""
    identity = {key: f"authoritative.{key}" for key in ("tenant", "stamp")}

    def look(ctx: Context, key: str, text: str) -> Reading:
        return Reading.of(dict(rows[key]), stamp=rows[key]["stamp"]) if key in rows else Reading.absent()

    @action(
        name=name,
        kind="create",
        side_effect="medium_risk_write",
        target=target,
        identity={"target": "authoritative.at", "actor": "not_offered", **identity},
        ensure={"text": "authoritative.text == requested.text"},
        within="1s",
        late_window="1s",
    )
    def note(ctx: Context, key: str, text: str) -> object:
        shown = text if sound else "another"
        rows[key] = {"at": ctx.target, "tenant": TENANT, "stamp": ctx.stamp, "text": shown}
        return {"status": "ok"}

    note.read(source="notes", consistency="strong", independence="other_client")(look)

    @note.find
    def found(ctx: Context, key: str, text: str) -> list[Reading]:
        return [Reading.of(dict(row), stamp=row["stamp"]) for row in rows.values() if row["stamp"] == ctx.stamp]

    if undone:

        @note.compensate(name=f"un{name}", kind="delete", target=undone, ensure={"gone": "authoritative == null"})
        def unnote(ctx: Context, key: str, text: str) -> object:
            return rows.pop(key, None) and {"status": "ok"}

        unnote.read(source="notes", consistency="strong", independence="other_client")(look)
    return note


@pytest.mark.requirement("INPUT-over-long-value")
@pytest.mark.parametrize("value", [RAW, "x" * 2_000, "\u6f22" * 900], ids=["controls", "long", "bytes"])
def test_a_request_that_cannot_be_named_is_the_callers_to_correct(value: str) -> None:
    """An agent's loop takes up ArgumentError, and tells the model; an error of the contract ended it."""
    desk = Desk()
    with opened(MemoryStore()) as rb, pytest.raises(ArgumentError) as refused:
        rb.run(ship_of(desk)(order_id=value, carrier="dhl"), operation="one")
    assert (refused.value.code, refused.value.exit_code) == ("input.arguments", 2)
    problems: Any = refused.value.details["problems"]
    assert [each["argument"] for each in problems] == ["order_id"]
    assert desk.calls == 0


def test_any_name_of_an_argument_can_be_refused() -> None:
    given: dict[str, Any] = {"self": 1, "order_id": "o-1", "carrier": "dhl"}
    with pytest.raises(ArgumentError, match="self: The action has no such argument"):
        ship_of(Desk())(**given)


def test_what_cannot_be_taken_back_under_its_name_goes_to_a_person() -> None:
    """It stood in `compensating` for ever, and each look at it raised."""
    rows: Rows = {}
    note = noted(rows, "note", "note/{requested.key}", sound=False, undone="text/{requested.text}")
    with opened(MemoryStore()) as rb:
        told = rb.run(note(key="a", text=RAW), operation="one")
        assert (told.state, told.exit_code) == (State.REVIEW_REQUIRED, 4)
        assert rb.get(told.id).state is State.REVIEW_REQUIRED
    assert list(rows) == ["a"]


def test_a_step_of_a_saga_that_cannot_be_named_fails_and_what_was_done_before_it_is_reversed() -> None:
    """The saga stood in `executing` for ever, with what was done before that step."""
    rows: Rows = {}
    first = noted(rows, "first", "note/{requested.key}", undone="note/{requested.key}")
    second = noted(rows, "second", "text/{requested.text}")
    with opened(MemoryStore()) as rb:
        told = rb.saga(
            [
                first(key="a", text=RAW).as_step("first"),
                second(key="b", text=from_step("first", "authoritative.text")).as_step(
                    "second", after=("first",), pivot=True
                ),
            ],
            name="notes",
            operation="one",
        )
    assert told.state is State.COMPENSATED
    assert rows == {}
