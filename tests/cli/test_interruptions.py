"""Interrupts and failing stores in the middle of a command: what is said, what is kept, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from readback.errors import StoreError, StoreFullError, StoreLockedError
from readback.ports.storage.store import Append, AppendResult
from readback.stores.sqlite.store import SqliteStore
from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Desk

HERE = ("--contracts", CONTRACTS)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_it_waits_answers_pending_with_the_id(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.runtime, "sleep", interrupted)
    given = ("--arg", "order_id=o-17", "--arg", "carrier=dhl", "--arg", "how=lie", "--operation", "a")
    answer = desk("run", "ship", *HERE, *given, code=3)
    listed = desk("list", "--json").json[0]
    assert listed["state"] == "pending"
    assert f"The ledger keeps the action {listed['id']} as pending" in answer.err
    assert f"readback resume --contracts {CONTRACTS}" in answer.err
    assert listed["id"] in answer.out


def test_ctrl_c_before_anything_was_recorded_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "append", interrupted)
    answer = desk.run("ship", order_id="o-17", carrier="dhl", code=1)
    assert "nothing was recorded" in answer.err
    assert answer.json["error"]["code"] == "interrupted"
    assert not shop.path().exists()


def test_ctrl_c_in_a_pass_leaves_the_rest_due(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        desk.ship(name, "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    monkeypatch.setattr(SqliteStore, "lease", interrupted)
    answer = desk("resume", *HERE, "--json", code=3)
    assert answer.json["interrupted"]
    assert "still due" in answer.err


def failing(when: Callable[[Append], bool], error: StoreError) -> Callable[[SqliteStore, list[Append]], Any]:
    append = SqliteStore.append

    def appends(self: SqliteStore, batch: list[Append]) -> list[AppendResult]:
        if any(when(each) for each in batch):
            raise error
        return append(self, batch)

    return appends


def observes(append: Append) -> bool:
    return any(event.kind == "observed" for event in append.events)


def judges(append: Append) -> bool:
    return any(event.kind == "judged" for event in append.events)


@pytest.mark.requirement("TRUTH-words-append-failed")
def test_a_record_that_fails_after_the_effect_is_told_wherever_it_can_be_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "append", failing(observes, StoreFullError("The disk is full.")))
        answer = desk.run("ship", "--operation", "a", order_id="o-17", carrier="dhl", code=6)
    error = answer.json["error"]
    assert error["code"] == "store.unknown-outcome"
    assert error["outcome"]["state"] == "unknown"
    assert not error["outcome"]["may_repeat"]
    assert "UNKNOWN OUTCOME" in answer.err
    assert "Do not repeat the action" in answer.err
    kept = json.loads((desk.folder / "readback.db.unrecorded.jsonl").read_text(encoding="utf-8"))
    assert kept["id"] == error["outcome"]["id"]
    # The next start finds it: the attempt is in the ledger, and what became of it is read.
    desk.runtime.advance(3600)
    resumed = desk("resume", *HERE, "--json", code=0).json["actions"]
    assert [(each["id"], each["verified"]) for each in resumed] == [(kept["id"], True)]


def test_a_pass_ends_where_the_store_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        desk.ship(name, "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    monkeypatch.setattr(SqliteStore, "append", failing(judges, StoreFullError("The disk is full.")))
    answer = desk("resume", *HERE, "--json", code=6)
    assert answer.json["error"]["code"] == "store.unknown-outcome"


def test_a_worker_ends_with_6_where_the_store_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    monkeypatch.setattr(SqliteStore, "append", failing(judges, StoreFullError("The disk is full.")))
    answer = desk("worker", *HERE, "--json", code=6)
    assert answer.json["error"]["code"] == "store.unknown-outcome"
    assert "UNKNOWN OUTCOME" in answer.err


def test_a_worker_waits_where_the_store_is_locked_for_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    lease, refused = SqliteStore.lease, [StoreLockedError("Somebody holds it.")]

    def once(self: SqliteStore, *args: Any, **more: Any) -> int | None:
        if refused:
            raise refused.pop()
        return lease(self, *args, **more)

    monkeypatch.setattr(SqliteStore, "lease", once)
    answer = desk("worker", *HERE, "--until-idle", "--json")
    assert not refused
    assert answer.json["errors"] == []
    assert answer.json["advanced"] >= 1
    assert desk("list", "--json").json[0]["state"] != "pending"


def test_one_action_that_breaks_us_does_not_keep_the_others_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = desk.ship("a", "--wait", "0", how="lie", code=3)
    good = desk.ship("b", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    from readback.engine import coordinator

    advance = coordinator.advance

    def breaks(engine: Any, action_id: str, tenant: str, plans: Any) -> Any:
        if action_id == bad["id"]:
            raise ZeroDivisionError("ours")
        return advance(engine, action_id, tenant, plans)

    monkeypatch.setattr(coordinator, "advance", breaks)
    answer = desk("worker", *HERE, "--until-idle", "--json", code=6)
    assert [each["action"] for each in answer.json["errors"]] == [bad["id"]]
    assert "ZeroDivisionError: ours" in answer.err
    assert desk("show", good["id"], "--json").json["outcome"]["state"] == "unknown"
