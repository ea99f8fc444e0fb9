"""The bench of the console in small: every page answers within its size, and reads a bounded number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import console
from readback.ports.storage.store import ActionFilter, StoredProjection
from readback.server.console.listing import EXAMINED_MAX, PIECE
from readback.stores.sqlite.store import SqliteStore
from readback.views import attention

ACTIONS = 4_000


@pytest.mark.slow
@pytest.mark.requirement("CONSOLE-speed", "CONSOLE-size")
def test_every_page_of_a_large_ledger_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = SqliteStore.page

    def counting(store: SqliteStore, query: ActionFilter) -> list[StoredProjection]:
        found = whole(store, query)
        read.append(len(found))
        return found

    monkeypatch.setattr(SqliteStore, "page", counting)
    monkeypatch.setattr(console, "ENTRIES_OF", 50)
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", "")  # the bench names its own key
    found: dict[str, Any] = console.bench(ACTIONS, 1, tmp_path)
    fold = found["pages"].pop("health, the first fold")
    assert fold["seconds"] < console.FOLD_S
    sizes = {name: each["bytes"] for name, each in found["pages"].items() if each["bytes"] > console.SIZE_MAX_BYTES}
    assert sizes == {}
    assert max(read) <= max(PIECE, attention.SEARCHED_MAX)
    pages = 2 * len(found["pages"]) + 1
    assert sum(read) <= pages * (EXAMINED_MAX + PIECE)
