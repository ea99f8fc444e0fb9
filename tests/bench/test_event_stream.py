"""The bench of the event stream in small: every listener hears every entry, soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import event_stream


@pytest.mark.slow
@pytest.mark.requirement("SERVER-stream")
def test_every_listener_hears_every_entry_within_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LISTENERS": 12, "ROUNDS": 2, "ACTIONS": 16, "LEVEL_ROUNDS": 1}.items():
        monkeypatch.setattr(event_stream, name, value)
    found = asyncio.run(event_stream.measure(tmp_path))
    assert found["entries_heard_by_each"] >= 2 * 16
    assert found["longest_delay_s"] < 5 * event_stream.BEHIND_MAX_S  # on a loaded machine
