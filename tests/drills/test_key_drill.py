"""A claim that a tool honours a key is believed when its twin was called twice and had one effect; for nothing less."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Reading, action
from readback.errors import (
    AnswersDifferError,
    ArgumentError,
    DoubledEffectError,
    DrillError,
    DrillRefusedError,
    DrillUndeterminedError,
)
from readback.testing import KeyDrill, drill_key
from readback.testing.runtime_virtual import VirtualRuntime
from tests.drills.charging import charging
from tests.drills.service import Service, serving

LIVE = "http://127.0.0.1:9"
"""Nothing listens there: a drill that would touch it fails."""
ASKED = {"account": "sandbox", "cents": 900}


@pytest.fixture
def books(tmp_path: Path) -> Path:
    return tmp_path / "books.db"


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, books: Path) -> Iterator[Service]:
    with serving(books, request.param) as service:
        yield service


def calls(books: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(books)) as db:
        return list(db.execute("select key, stamp from calls"))


def drill(service: Service, **more: Any) -> KeyDrill:
    live, twin = charging(LIVE), charging(service.url)
    live.twin(twin)
    return drill_key(live, ASKED, **{"runtime": VirtualRuntime(), **more})


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize("sandbox", ["honours"], indirect=True)
def test_a_tool_that_honours_the_key_passes_with_one_effect(sandbox: Service, books: Path) -> None:
    runtime = VirtualRuntime()
    passed = drill(sandbox, runtime=runtime)
    assert (passed.effects, passed.first, passed.second) == (1, "success", "success")
    assert (passed.contract, passed.target, passed.seen_by) == ("charge", "account/sandbox", "with_stamp")
    assert calls(books) == [(passed.idempotency_key, passed.stamp)] * 2, "the key and the stamp are handed to the tool"
    assert passed.as_json()["honours_key"] is True
    assert drill(sandbox, runtime=runtime).effects == 1, "a second drill is another operation"


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize("sandbox", ["ignores", "late"], indirect=True)
def test_a_tool_that_has_two_effects_fails_also_when_the_second_comes_late(sandbox: Service, books: Path) -> None:
    with pytest.raises(DoubledEffectError, match="2 effects") as caught:
        drill(sandbox)
    assert (caught.value.code, caught.value.exit_code) == ("drill.two-effects", 1)
    assert caught.value.details["effects"] == 2
    assert len(calls(books)) == 2


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize("sandbox", ["conflicts", "renames"], indirect=True)
def test_a_second_answer_that_differs_where_it_matters_fails(sandbox: Service) -> None:
    with pytest.raises(AnswersDifferError) as caught:
        drill(sandbox)
    assert caught.value.exit_code == 1
    assert "the first" in str(caught.value)


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize("sandbox", ["nothing"], indirect=True)
def test_where_no_effect_is_seen_nothing_is_concluded(sandbox: Service, books: Path) -> None:
    with pytest.raises(DrillUndeterminedError, match="No effect") as caught:
        drill(sandbox)
    assert caught.value.exit_code == 3
    assert len(calls(books)) == 1


def test_a_service_that_cannot_be_reached_shows_nothing() -> None:
    live, twin = charging(LIVE), charging("http://127.0.0.1:10")
    live.twin(twin)
    with pytest.raises(DrillUndeterminedError):
        drill_key(live, ASKED, runtime=VirtualRuntime())


# --- only the declared twin ---------------------------------------------------------------------------------------


def refused(action_: Any, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(DrillRefusedError) as caught:
        drill_key(action_, ASKED if arguments is None else arguments, runtime=VirtualRuntime(), **more)
    assert isinstance(caught.value, DrillError)
    assert caught.value.exit_code == 5
    return str(caught.value)


@pytest.mark.requirement("TRUTH-keys-drill-twin")
@pytest.mark.parametrize("sandbox", ["honours"], indirect=True)
def test_nothing_but_the_declared_twin_is_ever_called(sandbox: Service, books: Path) -> None:
    live = charging(sandbox.url)
    assert "no safe twin" in refused(live)
    other = charging(LIVE)
    other.twin(charging(LIVE))
    assert "not the twin" in refused(other, twin=charging(sandbox.url))
    assert "acts on the action's own target" in refused(live, twin=live)
    assert calls(books) == []


@pytest.mark.requirement("TRUTH-keys-drill-twin")
def test_a_twin_that_runs_other_code_or_claims_something_else_is_refused() -> None:
    @action(
        kind="create", side_effect="low_risk_internal", target="account/{requested.account}",
        identity={"target": "authoritative.account", "tenant": "not_offered"}, ensure={"there": "true"},
        execute={"honours_key": True},
    )  # fmt: skip
    def other(ctx: Context, account: str, cents: int) -> object:
        return {"status": "ok"}

    @other.read(source="s", consistency="strong", independence="other_client", attributes=True)
    def look(ctx: Context, account: str, cents: int) -> Reading:
        return Reading.absent()

    assert "other code" in refused(charging(LIVE), twin=other)
    assert "makes other claims" in refused(charging(LIVE), twin=charging(LIVE + "9", execute={"timeout": "1s"}))
    unclaimed = {"execute": {"timeout": "20s"}}
    assert "does not claim" in refused(charging(LIVE, **unclaimed), twin=charging(LIVE + "9", **unclaimed))


# --- the action itself, with arguments that only mean a sandbox -----------------------------------------------------


class Shelf:
    """A system with versions. `honours`: a repeated key changes nothing."""

    def __init__(self, honours: bool, versioned: bool = True) -> None:
        self.honours, self.versioned, self.rows, self.keys = honours, versioned, {}, set[str]()  # type: ignore[var-annotated]

    def put(self, ctx: Context, sku: str, n: int, add: bool) -> object:
        old = self.rows.get(sku, {"sku": sku, "n": 0, "version": 0})
        if not (self.honours and ctx.idempotency_key in self.keys):
            self.rows[sku] = {**old, "n": old["n"] + n if add else n, "version": old["version"] + 1}
        self.keys.add(ctx.idempotency_key)
        return {"status": "ok"}

    def look(self, sku: str) -> Reading:
        row = self.rows.get(sku)
        if row is None:
            return Reading.absent()
        return Reading.of(row, version=row["version"] if self.versioned else None)


def stocking(shelf: Shelf, kind: str, target: str = "stock/{requested.sku}") -> Any:
    @action(
        name="stock", kind=kind, side_effect="low_risk_internal", target=target,  # type: ignore[arg-type]
        identity={"target": "authoritative.sku", "tenant": "not_offered"},
        ensure={"n": "authoritative.n >= requested.n"},
        execute={"honours_key": True}, within="2s",
    )  # fmt: skip
    def stock(ctx: Context, sku: str, n: int) -> object:
        return shelf.put(ctx, sku, n, kind == "adjust")

    @stock.read(source="shelf", consistency="strong", independence="other_client", attributes=True)
    def row(ctx: Context, sku: str, n: int) -> Reading:
        return shelf.look(sku)

    return stock


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize("kind", ["set", "adjust"])
def test_without_a_search_a_second_effect_shows_in_the_version_or_the_amount(kind: str) -> None:
    honest = stocking(Shelf(honours=True), kind)
    honest.twin(sku="sandbox")
    assert drill_key(honest, {"n": 3}, runtime=VirtualRuntime()).target == "stock/sandbox"
    doubling = stocking(Shelf(honours=False), kind)
    doubling.twin(sku="sandbox")
    with pytest.raises(DoubledEffectError):
        drill_key(doubling, {"n": 3}, runtime=VirtualRuntime())


@pytest.mark.requirement("TRUTH-keys-drill")
def test_what_would_not_show_is_undetermined_or_refused() -> None:
    shelf = Shelf(honours=False, versioned=False)
    shelf.rows["sandbox"] = {"sku": "sandbox", "n": 0, "version": 0}
    blind = stocking(shelf, "set")
    blind.twin(sku="sandbox")
    with pytest.raises(DrillUndeterminedError, match="version"):
        drill_key(blind, {"n": 3}, runtime=VirtualRuntime())
    making = stocking(Shelf(honours=True), "create")
    making.twin(sku="sandbox")
    assert "would not be seen" in refused(making, {"n": 3})


@pytest.mark.requirement("TRUTH-keys-drill-twin")
def test_other_arguments_than_the_declared_ones_are_refused() -> None:
    shelf = Shelf(honours=True)
    stock = stocking(shelf, "set")
    stock.twin(sku="sandbox")
    assert "not the declared twin" in refused(stock, {"sku": "tea", "n": 3})
    open_ = stocking(shelf, "set")
    open_.twin(n=3)
    assert "does not fix sku" in refused(open_, {"sku": "tea"})
    fixed = stocking(shelf, "set", "stock")
    fixed.twin(sku="sandbox")
    assert "does not fix" in refused(fixed, {"n": 3})
    with pytest.raises(ArgumentError):
        drill_key(stock, {"n": "three"}, runtime=VirtualRuntime())
    assert shelf.rows == {}
