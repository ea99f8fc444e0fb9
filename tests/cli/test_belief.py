"""`readback belief`: for a person, for the model, and as data."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk


@pytest.mark.requirement("BELIEF-from-ledger")
def test_a_run_is_told_to_a_person_to_the_model_and_to_programs(desk: Desk) -> None:
    desk.ship("a", "--run", "morning", code=0)
    desk.ship("b", "--run", "morning", "--wait", "0", how="lie", carrier="ups", code=3)
    desk.ship("c", "--run", "evening", carrier="gls", code=0)
    person = desk("belief", "--run", "morning", code=0).out
    assert person.startswith("Run morning: Actions: 2 in all, 1 verified, 1 unresolved")
    told = desk("belief", "--run", "morning", "--model", "--max-bytes", "4096", code=0).out
    assert told.startswith('[task state] Run "morning".')
    assert "Rule: wait. Repetition: forbidden." in told
    said = desk("belief", "--run", "morning", "--json", code=0).json
    assert [each["operation"] for each in said["verified"]] == ["a"]
    assert [each["rule"] for each in said["unresolved"]] == ["wait"]


def test_without_a_name_it_is_the_newest_run(desk: Desk) -> None:
    desk.ship("a", "--run", "morning", code=0)
    answer = desk("belief", code=0)
    assert "The newest run is morning." in answer.err
    assert "1 verified" in answer.out


def test_where_no_action_belongs_to_a_run_it_says_what_to_do(desk: Desk) -> None:
    desk.ship("a", code=0)
    answer = desk("belief", code=2)
    assert "belongs to a run" in answer.err
    assert "Readback.open(run=...)" in answer.err


def test_a_run_that_no_action_belongs_to_is_not_found(desk: Desk) -> None:
    desk.ship("a", "--run", "morning", code=0)
    answer = desk("belief", "--run", "mornign", code=2)
    assert "mornign" in answer.err
