"""A ledger that lost what it had acknowledged: a standby took over that lacked it, or a backup was put back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from readback import Outcome, State
from readback.errors import ReadbackError, StoreCorruptError, UnknownOutcomeError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of

pytestmark = pytest.mark.requirement("TRUTH-words-ledger-put-back")


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the last resort lies for a ledger that has no file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def lose(store: MemoryStore, action_id: str) -> None:
    """As if nothing of it had ever reached the disk that is there now."""
    content = store._content
    content.log[:] = [event for event in content.log if event.action_id != action_id]
    del content.events[action_id], content.actions[action_id]
    for name in [name for name, record in content.keys.items() if record.action_id == action_id]:
        del content.keys[name]


def _said(error: ReadbackError, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(error, UnknownOutcomeError)
    assert isinstance(error.__cause__, StoreCorruptError)
    assert error.__cause__.code == "store.lost"
    assert "look at its target" in error.remedy
    outcome = error.outcome
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.may_repeat) == (State.UNKNOWN, False)
    assert "UNKNOWN OUTCOME" in capsys.readouterr().err


@pytest.mark.parametrize("with_await", [False, True], ids=["sync", "async"])
def test_an_attempt_that_the_ledger_lost_during_the_call_is_told_as_unknown(
    with_await: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    desk, store = Desk(), MemoryStore()
    desk.during = lambda ctx: lose(store, ctx.action_id)

    async def awaited() -> None:
        async with opened_async(store) as rb:
            await rb.run(ship_async_of(desk)(order_id="o-1", carrier="dhl"), operation="op")

    def called() -> None:
        with opened(store) as rb:
            rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")

    with pytest.raises(ReadbackError) as raised:
        asyncio.run(awaited()) if with_await else called()
    assert desk.calls == 1
    _said(raised.value, capsys)


class Meanwhile(VirtualRuntime):
    """Where somebody sleeps, the ledger loses all that it has."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    def sleep(self, seconds: float) -> None:
        for action_id in [*self._store._content.actions]:
            lose(self._store, action_id)
        super().sleep(seconds)


def test_one_that_was_lost_while_it_was_waited_for_is_told_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    desk, store = Desk(), MemoryStore()
    desk.instead = lambda _ctx: {"status": "ok"}
    with opened(store, Meanwhile(store)) as rb, pytest.raises(ReadbackError) as raised:
        rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")
    _said(raised.value, capsys)
