"""What a tool, a reader or a check does to what it was given changes nothing for the others, and no verdict."""

from __future__ import annotations

from typing import Any

import pytest

from readback import Context, Outcome, Reading, action
from readback.domain.predicate import Truth
from readback.engine.resume import WITHHELD
from readback.engine.values.argument_copies import copy_arguments, has_mutable
from tests.sdk.given import TENANT, opened

TERMS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "table/{requested.table}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "within": "4s",
    "polls": ["0s", "1s"],
}
DECLARED: dict[str, Any] = {"source": "db", "consistency": "strong", "independence": "other_client"}


def run_on(proposal: Any) -> Outcome:
    with opened() as rb:
        return rb.run(proposal, operation="once")


def test_a_tool_that_empties_its_list_does_not_have_its_reader_look_for_nothing() -> None:
    there: list[str] = []
    looked_for: list[list[str]] = []

    @action(name="load", ensure={"none missing": "authoritative.missing == 0"}, **TERMS)
    def load(_ctx: Context, table: str, rows: list[str]) -> object:
        while rows:
            rows.pop()  # and writes none of them
        return {"status": "ok", "table": table}

    @load.read(**DECLARED)
    def look(ctx: Context, table: str, rows: list[str]) -> Reading:
        looked_for.append([*rows])
        missing = sum(row not in there for row in rows)
        rows.clear()
        return Reading.of({"id": table, "tenant": TENANT, "missing": missing}, version=1, stamp=ctx.stamp)

    outcome = run_on(load(table="t", rows=["a", "b"]))
    assert not outcome.verified
    assert len(looked_for) > 1
    assert all(rows == ["a", "b"] for rows in looked_for)


def test_a_reader_that_writes_into_what_the_tool_said_does_not_change_what_it_said() -> None:
    @action(name="pay", ensure={"as told": "authoritative.amount == observed.amount"}, **TERMS)
    def pay(_ctx: Context, table: str) -> object:
        return {"status": "ok", "amount": 100, "table": table}

    @pay.read(**DECLARED)
    def look(ctx: Context, table: str) -> Reading:
        found = ctx.observed if isinstance(ctx.observed, dict) else {}
        found.update({"id": table, "tenant": TENANT, "amount": 5})
        return Reading.of(found, version=1, stamp=ctx.stamp)

    assert not run_on(pay(table="t")).verified


def test_a_check_that_sorts_in_place_does_not_change_what_the_next_one_compares() -> None:
    def same(requested: dict[str, Any], authoritative: dict[str, Any]) -> bool:
        requested["rows"].sort()
        authoritative["rows"].sort()
        return bool(requested["rows"] == authoritative["rows"])

    @action(name="order", ensure={"same": same, "in order": "authoritative.rows == requested.rows"}, **TERMS)
    def order(_ctx: Context, table: str, rows: list[str]) -> object:
        return {"status": "ok", "table": table, "rows": len(rows)}

    @order.read(**DECLARED)
    def look(ctx: Context, table: str, rows: list[str]) -> Reading:
        found = {"id": table, "tenant": TENANT, "rows": sorted(rows, reverse=True)}
        return Reading.of(found, version=1, stamp=ctx.stamp)

    outcome = run_on(order(table="t", rows=["b", "a", "c"]))
    assert not outcome.verified
    assert [p.truth for p in outcome.postconditions] == [Truth.HOLDS, Truth.VIOLATED]


def test_what_is_changed_in_a_proposal_changes_nothing_of_what_is_run() -> None:
    given: list[object] = []
    rows = ["a"]

    @action(name="load", ensure={"all": "authoritative.rows == requested.rows"}, **TERMS)
    def load(_ctx: Context, table: str, rows: list[str], cents: int = 5) -> object:
        given.append((table, [*rows], cents))
        change(proposal)
        return {"status": "ok"}

    @load.read(**DECLARED)
    def look(ctx: Context, table: str, rows: list[str], cents: int = 5) -> Reading:
        return Reading.of({"id": table, "tenant": TENANT, "rows": ["b"]}, version=1, stamp=ctx.stamp)

    def change(made: Any) -> None:
        for values in (made.arguments, made.requested, made.intended):
            values["cents"] = "no number"
            values["rows"][:] = ["b"]
        with pytest.raises(AttributeError):
            made.arguments = {"table": "t", "rows": ["b"], "cents": 0}

    proposal: Any = load(table="t", rows=rows).planned(intended={"rows": ["c"]})
    rows.append("b")
    change(proposal)
    outcome = run_on(proposal)
    assert given == [("t", ["a"], 5)]
    assert not outcome.verified  # as it would be, had the tool's change of what was asked for counted
    assert proposal.arguments == proposal.requested == {"table": "t", "rows": ["a"], "cents": 5}
    assert proposal.intended == {"rows": ["c"]}


class Uncopied:
    """Something that says no when it is copied."""

    def __deepcopy__(self, _known: object) -> object:
        raise TypeError("there is one of it")


@pytest.mark.parametrize("kept", [WITHHELD, Uncopied()], ids=["withheld", "uncopied"])
def test_what_cannot_be_copied_is_handed_on_as_it_is(kept: object) -> None:
    nested: dict[str, Any] = {"a": [1, {"b": (2, [3])}]}
    assert has_mutable({"nested": nested})
    assert not has_mutable({"a": 1, "b": "x", "c": None})
    own: dict[str, Any] = copy_arguments({"kept": kept, "nested": nested})
    assert own["kept"] is kept
    assert own["nested"] == nested
    assert own["nested"] is not nested
    own["nested"]["a"][1]["b"][1].append(4)
    assert nested == {"a": [1, {"b": (2, [3])}]}
