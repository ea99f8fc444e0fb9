"""The reading before execution: what a clause that names it says of a no-op, and what user code is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition, action
from readback.client.client import Readback
from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verdict import Attribution, Why
from readback.domain.verification.reading import Reading
from readback.ports.storage.store import Append, AppendResult
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

STRONG: dict[str, Any] = {"source": "shelf", "consistency": "strong", "independence": "other_client"}


class Died(BaseException):
    """The process ends here: nothing more is recorded."""


class Mortal(MemoryStore):
    """A store whose process dies: from then on nothing is appended by it."""

    dead = False

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.dead:
            raise Died
        return super().append(batch)


@dataclass
class Shelf:
    """A source that takes no stamp and numbers what it takes in. `take` is what the tool does with it."""

    items: list[str] = field(default_factory=list)
    label: str = "plain"
    told: list[Json] = field(default_factory=list)
    take: Callable[[Shelf, str], object] = lambda shelf, item: shelf.items.append(item)

    def value(self) -> dict[str, Json]:
        return {"shelf": "s-1", "tenant": "acme", "label": self.label, "items": list(self.items)}


def _label(shelf: Shelf, noop: str) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="shelf/s-1",
        identity={"target": "authoritative.shelf", "tenant": "authoritative.tenant"},
        ensure={
            "label": "authoritative.label == requested.label",
            "items stay": "authoritative.items == before.items",
        },
        noop=noop,  # type: ignore[arg-type]
        within="5s",
    )
    def label(ctx: Context, label: str) -> object:
        return shelf.take(shelf, label)

    @label.read(**STRONG)
    def look(ctx: Context, label: str) -> Reading:
        return Reading.of(shelf.value())

    return label


def _add(shelf: Shelf) -> ActionDefinition[Any]:
    @action(
        kind="append",
        side_effect="low_risk_internal",
        target="shelf/s-1",
        identity={"target": "authoritative.shelf", "tenant": "authoritative.tenant"},
        ensure={
            "one more": "size(authoritative.items) == size(before.items) + 1",
            "the item": "authoritative.items[size(before.items)] == requested.item",
        },
        within="5s",
    )
    def add(ctx: Context, item: str) -> object:
        shelf.told.append(ctx.before)
        if isinstance(ctx.before, dict):
            ctx.before.clear()
        return shelf.take(shelf, item)

    @add.read(**STRONG, attributes=True)
    def look(ctx: Context, item: str) -> Reading:
        shelf.told.append(ctx.before)
        old = ctx.before["items"] if isinstance(ctx.before, dict) else None
        newer = isinstance(old, list) and shelf.items[len(old) :] == [item]
        if isinstance(ctx.before, dict):
            ctx.before["items"] = []
        return Reading.of(shelf.value(), stamp=ctx.stamp if newer else None)

    return add


def _opened(store: MemoryStore, runtime: VirtualRuntime, made: ActionDefinition[Any]) -> Readback:
    return Readback.open(tenant="acme", principal="agent:ops", store=store, runtime=runtime, actions=[made])


@pytest.mark.parametrize("noop", ["allow", "refuse"])
def test_a_clause_that_names_before_does_not_make_a_change_of_a_no_op(noop: str) -> None:
    shelf = Shelf(label="red", take=lambda _shelf, _label: None)
    label = _label(shelf, noop)
    with _opened(MemoryStore(), VirtualRuntime(), label) as rb:
        outcome = rb.run(label(label="red"), operation="label it")
    assert outcome.attribution is Attribution.ALREADY_SO
    assert outcome.verified is (noop == "allow")
    expected = Discrepancy.NO_OP_SUCCESS if noop == "allow" else Discrepancy.NO_OP_FAILURE
    assert outcome.discrepancy is expected


def test_readers_and_the_tool_are_told_a_copy_of_what_was_there_before() -> None:
    shelf = Shelf(items=["a"])
    add = _add(shelf)
    with _opened(MemoryStore(), VirtualRuntime(), add) as rb:
        outcome = rb.run(add(item="b"), operation="add b")
    assert outcome.verified
    assert outcome.attribution is Attribution.OURS
    assert outcome.before == {"shelf": "s-1", "tenant": "acme", "label": "plain", "items": ["a"]}
    assert len(shelf.told) == 3, "once before execution, once at it, once after it"
    assert shelf.told[0] is None


def test_what_was_there_before_is_known_after_a_restart() -> None:
    def die(shelf: Shelf, item: str) -> object:
        shelf.items.append(item)
        store.dead = True
        raise Died

    shelf, store, runtime = Shelf(items=["a"], take=die), Mortal(), VirtualRuntime()
    add = _add(shelf)
    with pytest.raises(Died), _opened(store, runtime, add) as rb:
        rb.run(add(item="b"), operation="add b")
    runtime.declare_gone(runtime.owner())
    with _opened(store.reopened(), runtime.sibling("virtual/2"), _add(shelf)) as rb:
        (outcome,) = rb.resume()
    assert outcome.state is State.RECONCILED_SUCCESS
    assert outcome.attribution is Attribution.OURS
    assert shelf.items == ["a", "b"]


@pytest.mark.parametrize("writes", [False, True])
def test_a_read_that_writes_outside_its_frame_is_not_told_as_done(writes: bool) -> None:
    def read(shelf: Shelf, item: str) -> object:
        if writes:
            shelf.items.append(item)
        return {"label": shelf.label}

    shelf = Shelf(items=["a"], take=read)

    @action(
        kind="read",
        side_effect="read_only",
        target="shelf/s-1",
        identity={"tenant": "authoritative.tenant"},
        ensure={"the label on record": "observed.label == authoritative.label"},
        may_change=[],
        within="5s",
    )
    def label_of(ctx: Context) -> object:
        return shelf.take(shelf, "b")

    @label_of.read(**STRONG)
    def look(ctx: Context) -> Reading:
        return Reading.of(shelf.value())

    with _opened(MemoryStore(), VirtualRuntime(), label_of) as rb:
        outcome = rb.run(label_of())
    assert outcome.verified is not writes
    assert outcome.state is (State.REVIEW_REQUIRED if writes else State.RECONCILED_SUCCESS)


def _secretive(shelf: Shelf, redacted: str, frame: list[str] | None, noop: str) -> ActionDefinition[Any]:
    """A contract whose readings hold something that it keeps out of the record."""
    framed: dict[str, Any] = {} if frame is None else {"may_change": frame}

    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="shelf/s-1",
        identity={"target": "authoritative.shelf", "tenant": "authoritative.tenant"},
        ensure={"label": "authoritative.label == requested.label"},
        redact=[f"before.{redacted}", f"authoritative.{redacted}"],
        noop=noop,  # type: ignore[arg-type]
        within="5s",
        **framed,
    )
    def label(ctx: Context, label: str) -> object:
        return shelf.take(shelf, label)

    @label.read(**STRONG)
    def look(ctx: Context, label: str) -> Reading:
        return Reading.of(shelf.value())

    return label


def _resumed(
    shelf: Shelf,
    redacted: str,
    writes: Callable[[Shelf, str], object],
    frame: list[str] | None,
    noop: str = "refuse",
) -> Outcome:
    """The outcome as another process tells it, after the first one died in the tool."""

    def die(shelf: Shelf, label: str) -> object:
        writes(shelf, label)
        store.dead = True
        raise Died

    shelf.take = die
    store, runtime = Mortal(), VirtualRuntime()
    made = _secretive(shelf, redacted, frame, noop)
    with pytest.raises(Died), _opened(store, runtime, made) as rb:
        rb.run(made(label="red"), operation="label it")
    runtime.declare_gone(runtime.owner())
    with _opened(store.reopened(), runtime.sibling("virtual/2"), _secretive(shelf, redacted, frame, noop)) as rb:
        rb.resume()
        (outcome,) = rb.list()
        return rb.wait(outcome.id)


def _write_label(shelf: Shelf, label: str) -> object:
    shelf.label = label
    return None


def test_what_is_redacted_is_not_taken_for_a_change_after_a_restart() -> None:
    """Else a no-op that the contract refuses would be told as done by whoever comes later."""
    outcome = _resumed(Shelf(items=["a"], label="red"), "items", lambda _shelf, _label: None, None)
    assert not outcome.verified
    assert outcome.attribution is Attribution.ALREADY_SO
    assert outcome.discrepancy is Discrepancy.NO_OP_FAILURE


def test_what_is_redacted_inside_the_frame_does_not_stand_in_the_way() -> None:
    outcome = _resumed(Shelf(items=["a"]), "label", _write_label, ["label"], "allow")
    assert outcome.verified


def test_where_what_was_asked_for_is_known_as_redacted_a_refused_no_op_cannot_be_told_from_a_change() -> None:
    for label, writes in (("red", lambda _shelf, _label: None), ("plain", _write_label)):
        outcome = _resumed(Shelf(items=["a"], label=label), "label", writes, ["label"])
        assert not outcome.verified
        assert outcome.state is not State.FAILED


def test_what_is_redacted_outside_the_frame_cannot_be_judged_later_and_is_not_alleged() -> None:
    """Whether it changed cannot be told any more: held, and nobody is accused of a hidden side effect."""
    outcome = _resumed(Shelf(items=["a"]), "items", _write_label, ["label"])
    assert not outcome.verified
    assert outcome.state is not State.FAILED
    assert outcome.why is Why.INCOMPLETE
    assert outcome.incident == ""
    assert "items" in outcome.detail
