"""The worst case: the effect has landed and its record has not. It is said everywhere, and the next start finds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, State, Verdict
from readback.errors import StoreError, StoreFullError, UnknownOutcomeError
from readback.ports.storage.store import Append, AppendResult
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of

FALLBACK = "ledger.db.unrecorded.jsonl"


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the last resort lies for a ledger that has no file."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def _in_doubt(outcome: object) -> Outcome:
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.verdict, outcome.verified) == (State.UNKNOWN, Verdict.UNDETERMINED, False)
    assert not outcome.may_repeat
    assert "do not repeat" in outcome.for_model()
    assert "completed" not in outcome.message
    return outcome


@pytest.mark.requirement("TRUTH-words-append-failed", "L17", "INPUT-store-full")
def test_a_disk_that_fills_up_behind_the_effect_is_said_everywhere_and_the_next_start_finds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk, path, runtime = Desk(), tmp_path / "ledger.db", VirtualRuntime(owner="process/1")
    ship = ship_of(desk)
    store = open_sqlite_store(path, pages_max=10_000)
    desk.during = lambda _ctx: fill_up(store)
    with opened(store, runtime) as rb:
        with pytest.raises(UnknownOutcomeError) as raised:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        assert isinstance(raised.value.__cause__, StoreFullError)
        outcome = _in_doubt(raised.value.outcome)
        assert desk.order()["status"] == "shipped"
        # The ledger can still be read: it has the attempt, and nothing of what followed.
        kept = rb.get(outcome.id)
        assert (kept.state, kept.attempts, kept.observation) == (State.EXECUTING, 1, None)
    said = capsys.readouterr().err
    assert "UNKNOWN OUTCOME" in said
    assert outcome.id in said
    [line] = (tmp_path / FALLBACK).read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == outcome.as_json()

    runtime.declare_gone("process/1")
    with opened(open_sqlite_store(path), runtime.sibling("process/2"), actions=[ship]) as rb:
        [found] = rb.resume()
        assert (found.id, found.verified) == (outcome.id, True)
    assert desk.calls == 1


def fill_up(store: SqliteStore) -> None:
    """No page more: what is there can be read, and what needs another one cannot be added."""
    writer = store._writer
    assert writer is not None
    writer.execute("VACUUM")  # else pages that are free take what comes
    writer.pragma("max_page_count", writer.pragma("page_count"))


@pytest.mark.requirement("TRUTH-words-append-failed")
@pytest.mark.parametrize("kept", [False, True], ids=["not kept", "kept all the same"])
@pytest.mark.parametrize("with_await", [False, True], ids=["sync", "async"])
def test_an_append_that_fails_behind_the_effect_raises_what_is_unknown(
    kept: bool, with_await: bool, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk, store = Desk(), MemoryStore()
    mine = store.reopened()
    desk.during = lambda _ctx: mine.fail_next(kept=kept)
    ship = ship_async_of(desk) if with_await else ship_of(desk)

    async def awaited() -> None:
        async with opened_async(mine) as rb:
            await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")

    def called() -> None:
        with opened(mine) as rb:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")

    with pytest.raises(UnknownOutcomeError) as raised:
        asyncio.run(awaited()) if with_await else called()
    outcome = _in_doubt(raised.value.outcome)
    assert "UNKNOWN OUTCOME" in capsys.readouterr().err
    [line] = (temporary / "readback.unrecorded.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["id"] == outcome.id

    with opened(store.reopened(), actions=[ship]) as rb:
        now = rb.wait(outcome.id)
        assert now.verified
        assert rb.run(ship(order_id="o-1", carrier="dhl"), operation="op").id == outcome.id
    assert desk.calls == 1


class Broken:
    """Standard error whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.requirement("TRUTH-words-append-failed")
@pytest.mark.parametrize("stderr", [None, Broken()], ids=["none", "broken"])
def test_what_is_unknown_is_raised_though_it_can_be_said_nowhere_else(
    stderr: object, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service without standard error was raised what is no error of ours, and may mean that nothing was done."""
    desk, store = Desk(), MemoryStore()
    mine = store.reopened()
    desk.during = lambda _ctx: mine.fail_next(kept=False)
    ship = ship_of(desk)
    with opened(mine) as rb:
        monkeypatch.setattr("sys.stderr", stderr)
        with pytest.raises(UnknownOutcomeError) as raised:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    _in_doubt(raised.value.outcome)
    assert len((temporary / "readback.unrecorded.jsonl").read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.parametrize("kept", [False, True], ids=["not kept", "kept all the same"])
def test_an_attempt_that_cannot_be_made_durable_is_not_made(kept: bool) -> None:
    desk, store = Desk(), MemoryStore()
    mine = store.reopened()
    mine.fail_next(kept=kept)
    ship = ship_of(desk)
    with opened(mine) as rb:
        with pytest.raises(StoreError) as raised:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        assert not isinstance(raised.value, UnknownOutcomeError)
        assert desk.calls == 0
        # Kept all the same, it is an attempt that nobody made: looked for, not found, and not made blindly.
        again = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert (again.verified, desk.calls) == ((False, 0) if kept else (True, 1))


class Full:
    """A store whose every append fails from some moment on, as a disk does that stays full."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner, self.full = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.full:
            raise StoreFullError("No space is left.")
        return self._inner.append(batch)


def test_a_store_that_stays_broken_is_said_again_by_whoever_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    desk, store = Desk(), Full(MemoryStore())

    def accept(_ctx: object) -> object:
        return {"status": "accepted"}

    desk.instead = accept
    ship = ship_of(desk, within="1h", polls=["0s", "1s"])
    with opened(store, actions=[ship]) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        store.full = True
        asks: list[Callable[[], object]] = [lambda: rb.wait(pending.id), lambda: rb.cancel(pending.id)]
        for number, ask in enumerate(asks, 1):
            with pytest.raises(StoreError):
                ask()
            assert capsys.readouterr().err.count("UNKNOWN OUTCOME") == 1, number
            rb._session.runtime.advance(3600)  # type: ignore[attr-defined]
    assert desk.calls == 1
