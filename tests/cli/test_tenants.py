"""The command line of one tenant shows nothing of another."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk

LOOKING = ("show", "explain", "belief", "list", "doctor")


@pytest.mark.requirement("TENANT-invisible")
@pytest.mark.parametrize("command", LOOKING)
def test_what_is_anothers_is_not_shown(desk: Desk, command: str) -> None:
    mine = desk.ship("a", "--run", "r-1", code=0)
    named = {"show": [mine["id"]], "explain": [mine["stamp"]], "belief": ["--run", "r-1"]}.get(command, [])
    answer = desk(command, *named, "--tenant", "globex", "--json")
    assert answer.code == (2 if command in ("show", "explain", "belief") else 0), answer
    for told in ("dhl", "order/o-17"):
        assert told not in answer.out + answer.err
