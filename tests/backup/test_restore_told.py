"""What a restored ledger tells is told under ids of its own: whoever drops what he has heard drops none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backup.test_restore import TAKEN, TO
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixtures
from tests.cli.test_events import bus as bus
from tests.cli.test_events import lines
from tests.cli.test_events import say as say


@pytest.mark.requirement("CLAIM-events", "RESTORE-judged")
def test_an_entry_in_the_place_of_a_lost_one_is_told_under_another_id(desk: Desk, bus: Path) -> None:
    desk.ship("one", code=0)
    desk("ledger", "backup", "--out", "backup.db", code=0)
    desk.ship("lost", order_id="o-18")
    before = len(lines(bus))
    desk("ledger", "restore", "backup.db", *TO, *TAKEN, code=0)
    desk.ship("new", "--url", "sqlite:///again.db", order_id="o-19")
    told = lines(bus)
    again = ("--url", "sqlite:///again.db")
    assert told[before:]
    assert len({each["id"] for each in told}) == len(told)
    desk("events", "begin", "bus", "--from-start", *again, code=0)
    desk("events", "tail", "--json", *again, code=0)
    desk.ship("next", *again, order_id="o-17", carrier="ups")
    first = [each["id"] for each in lines(bus)[len(told) :]]
    assert first[0] == told[0]["id"]  # what both have is the same
