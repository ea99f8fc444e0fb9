"""An entry that cannot be read keeps nobody from what comes after it, and is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from readback.canon import envelope_bytes
from tests.cli.conftest import Desk
from tests.cli.test_events import bus as bus  # the fixtures
from tests.cli.test_events import lines
from tests.cli.test_events import say as say


def forged(change: Any) -> int:
    """Writes another envelope in the last judgement's place, and gives that."""
    connection = apsw.Connection("readback.db")
    connection.execute("drop trigger event_is_never_changed")
    seq, envelope = connection.execute("select seq, envelope from event where kind = 'judged' order by seq desc").get
    connection.execute("update event set envelope = ? where seq = ?", (change(envelope), seq))
    connection.close()
    return int(seq)


def _otherwise(envelope: bytes) -> bytes:
    raw = json.loads(envelope)
    raw["data"]["polls"] = "many"
    return envelope_bytes(raw)


def _lacking(envelope: bytes) -> bytes:
    raw = json.loads(envelope)
    del raw["data"]["due"]
    return envelope_bytes(raw)


FORGED: dict[str, Any] = {
    "no-json": lambda envelope: b"\xff\x00 forged",
    "another-form": lambda envelope: b"{}",
    "too-deep": lambda envelope: b"[" * 5000,
    "lacking": _lacking,
    "other-type": _otherwise,
}


@pytest.mark.requirement("CLAIM-events")
@pytest.mark.parametrize("name", FORGED)
def test_a_subscriber_is_told_what_comes_after_an_entry_that_cannot_be_read(desk: Desk, bus: Path, name: str) -> None:
    desk.ship("one", code=0)
    seq = forged(FORGED[name])
    desk("events", "begin", "bus", "--from-start", code=0)
    two = desk.ship("two", order_id="o-18")["id"]
    assert {each["subject"] for each in lines(bus)[1:]} == {two}
    [row] = desk("events", "list", "--json", code=0).json
    assert (row["waiting"], row["dead"]) == (0, 0)
    desk("events", "begin", "bus", "--from-start", code=0)
    for command in (("list",), ("tail", "--from-start"), ("tail", "--json")):
        said = desk("events", *command, code=0)
        assert said.out
        assert f"Unreadable entries send no messages: {seq}." in said.err
        assert "Next: readback ledger verify" in said.err
    assert two in desk("events", "tail", code=0).out


@pytest.mark.requirement("CLAIM-fallback")
def test_a_dead_letter_of_an_entry_that_cannot_be_read_is_named(desk: Desk, bus: Path) -> None:
    bus.parent.rename(bus.parent.with_name("away"))
    desk.ship("one", code=0)
    seq = forged(FORGED["no-json"])
    said = desk("events", "dead", code=0)
    assert f"Unreadable entries send no messages: {seq}." in said.err
    assert desk("events", "dead", "--json", code=0).json == []
    assert f": {seq}." in desk("events", "resend", "--all", code=0).err
