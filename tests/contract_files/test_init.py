"""`readback init`: what it writes is sound, runs as it stands, and takes nothing's place."""

from __future__ import annotations

import resource
import shlex

import pytest

from readback.cli.contracts.init import CONTRACTS, DATABASE, NOTES, TRY
from tests.contract_files.conftest import Office


@pytest.fixture
def start(office: Office) -> Office:
    (office.folder / "notes").rmdir()
    return office


@pytest.mark.requirement("FILE-first")
def test_what_is_written_passes_its_check_and_runs_as_the_answer_says(start: Office) -> None:
    told = start("init", code=0)
    assert told.out.split() == [CONTRACTS, NOTES, DATABASE]
    assert [line.removeprefix("Next: ") for line in told.err.splitlines()] == [*TRY]
    for command in TRY:
        assert start(*shlex.split(command)[1:], code=0).code == 0
    assert (start.folder / "notes" / "first.txt").read_text(encoding="utf-8") == "hello"
    lost = start("run", "set_stock", "--contracts", CONTRACTS, "--arg", "sku=nothing", "--arg", "count=1", "--json")
    assert lost.json["verified"] is False
    refused = start("run", "set_stock", "--contracts", CONTRACTS, "--arg", "sku=mug", "--arg", "count=-1", "--json")
    assert refused.json["verified"] is False
    assert refused.json["attempts"] == 0


@pytest.mark.requirement("FILE-first")
def test_it_may_be_written_into_a_folder_of_its_own_and_answers_as_json(start: Office) -> None:
    answer = start("init", "new/here", "--json", code=0).json
    assert answer["written"] == [f"new/here/{name}" for name in (CONTRACTS, NOTES, DATABASE)]
    assert start("contracts", "check", "new/here/contracts.yaml", code=0).code == 0


@pytest.mark.requirement("FILE-first")
@pytest.mark.parametrize("taken", [CONTRACTS, NOTES, DATABASE])
def test_where_a_name_is_taken_nothing_is_written(taken: str, start: Office) -> None:
    start.write(taken, "mine")
    before = sorted(path.name for path in start.folder.iterdir())
    assert "is there already" in start("init", code=2).err
    assert sorted(path.name for path in start.folder.iterdir()) == before
    assert (start.folder / taken).read_text(encoding="utf-8") == "mine"


@pytest.mark.requirement("FILE-first")
def test_on_a_disk_that_takes_no_more_it_says_so_and_takes_no_name(start: Office) -> None:
    """It was told as a crash to be reported, and what it had begun stood in the way of the next attempt."""
    before, there = resource.getrlimit(resource.RLIMIT_FSIZE), sorted(start.folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        told = start("init", code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written" in told.err
    assert sorted(start.folder.iterdir()) == there
    start("init", code=0)
