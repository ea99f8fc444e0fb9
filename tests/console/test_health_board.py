"""The counts of the health page are folded beside the requests. A ledger that closes ends a fold in plain words."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from readback import Readback
from readback.server.console.health_board import HealthBoard
from readback.telemetry.fold_reader import LedgerMetrics


def fold_beside_a_close(ledger: Path, monkeypatch: pytest.MonkeyPatch, stopping: asyncio.Event) -> None:
    """Close the ledger when the fold begins, and stay until the fold has ended."""
    whole, asked = LedgerMetrics.refresh, threading.Event()
    with Readback.open(f"sqlite:///{ledger}") as client:
        session = client._session

        def late(metrics: LedgerMetrics) -> object:
            asked.wait()
            session.store.close()
            return whole(metrics)

        monkeypatch.setattr(LedgerMetrics, "refresh", late)
        HealthBoard(stopping).of(session)
        asked.set()
        for thread in threading.enumerate():
            if thread.name == "readback-health":
                thread.join()


@pytest.mark.requirement("CONSOLE-health")
@pytest.mark.parametrize("stopping", [False, True])
def test_a_ledger_that_closes_during_a_fold_is_told_in_one_line_and_not_at_the_servers_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, stopping: bool
) -> None:
    event = asyncio.Event()
    if stopping:
        event.set()
    fold_beside_a_close(tmp_path / "ledger.db", monkeypatch, event)
    said = [each.getMessage() for each in caplog.records if each.name == "readback.server"]
    assert len(said) == (0 if stopping else 1)
    assert all(each.startswith("The counts of the health page are not new. The store is closed.") for each in said)
