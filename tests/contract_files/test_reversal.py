"""A compensation that takes other arguments than its action: made of what was read back, not of what was said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from readback import Readback
from readback.client.files import contract_files
from readback.contracts.files.contract import FileContract
from readback.errors import ArgumentError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.contract_files.writing import HEAD, faults, loaded, written

BOOK = f"""{HEAD}contracts:
  enter:
    kind: set
    side_effect: ephemeral_write
    target: entry/{{requested.name}}
    arguments: {{name: string, amount: integer}}
    execute:
      sql:
        database: book.db
        statement: insert into entries (name, amount) values ({{requested.name}}, {{requested.amount}})
    readers:
      - sql: {{database: book.db, query: "select id, name, amount from entries where name = {{requested.name}}"}}
    ensure: {{entered: authoritative.amount == requested.amount}}
    compensate:
      contract: strike
      arguments: {{id: "{{authoritative.id}}", why: "{{requested.name}} was entered in vain"}}
    operation: enter {{requested.name}}
  strike:
    kind: delete
    side_effect: ephemeral_write
    target: row/{{requested.id}}
    arguments: {{id: integer, why: string}}
    execute:
      sql: {{database: book.db, statement: "delete from entries where id = {{requested.id}}"}}
    readers:
      - sql: {{database: book.db, query: "select id from entries where id = {{requested.id}}"}}
    ensure: {{gone: authoritative == null}}
  refuse:
    kind: set
    side_effect: ephemeral_write
    target: never/{{requested.name}}
    arguments: {{name: string}}
    execute: {{command: {{argv: ["false"], cwd: work}}}}
    readers:
      - sql: {{database: book.db, query: "select id from entries where name = {{requested.name}} and amount < 0"}}
    ensure: {{never: authoritative != null}}
    within: 1s
    operation: refuse {{requested.name}}
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "book.db")) as made, made:
        made.execute("create table entries (id integer primary key, name text, amount integer)")
        made.execute("insert into entries values (41, 'kept', 1)")
    return tmp_path


def rows(folder: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(folder / "book.db")) as opened:
        return opened.execute("select id, name from entries order by id").fetchall()


def turned_back(folder: Path, text: str) -> str:
    """The end of a saga whose second step fails."""
    actions = contract_files(written(folder / "book.yaml", text))
    with Readback.open(
        "sqlite:///unused.db", tenant="t", principal="agent:ops", runtime=VirtualRuntime(), store=MemoryStore()
    ) as rb:
        steps = [
            actions["enter"](name="mine", amount=5).as_step("enter"),
            actions["refuse"](name="mine").as_step("refuse", after=("enter",)),
        ]
        return str(rb.saga(steps, name="entries", operation="entries 1").state)


@pytest.mark.requirement("FILE-reversal")
def test_a_step_is_reversed_with_arguments_made_of_what_was_read_back(book: Path) -> None:
    assert turned_back(book, BOOK) == "compensated"
    assert rows(book) == [(41, "kept")]


@pytest.mark.requirement("FILE-reversal")
@pytest.mark.parametrize("path", ["authoritative.nothing", "authoritative.name"])
def test_a_step_whose_reversal_cannot_be_given_its_arguments_goes_to_a_person(book: Path, path: str) -> None:
    assert turned_back(book, BOOK.replace("authoritative.id}", f"{path}}}")) == "review_required"
    assert [name for _, name in rows(book)] == ["kept", "mine"]


def made(text: str = BOOK) -> FileContract:
    return loaded(text).sound().contracts["enter"]


@pytest.mark.requirement("FILE-reversal")
def test_what_a_reversal_cannot_be_given_is_a_refusal_and_not_a_guess() -> None:
    reversing = made().plan.reversing
    assert reversing is not None
    shown: dict[str, Any] = {"requested": {"name": "n", "amount": 1}, "authoritative": {"id": 7}}
    assert reversing(shown)[1] == {"id": 7, "why": "n was entered in vain"}
    others: tuple[Any, ...] = ({"id": "7"}, {}, None, {"id": [7]})
    for other in others:
        with pytest.raises(ArgumentError):
            reversing({**shown, "authoritative": other})


@pytest.mark.requirement("FILE-reversal")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("authoritative.id}", "observed.id}", "'observed' is unknown at call time"),
        ("{authoritative.id}", "{requested.nme}", "no argument 'nme'. Did you mean 'name'"),
        ('id: "{authoritative.id}", ', "", "'strike' needs 'id'"),
        ('why: "', 'wy: "', "'strike' has no argument 'wy'. Did you mean 'why'"),
        ("      contract: strike\n", "      contract: stroke\n", "no contract 'stroke'. Did you mean 'strike'"),
    ],
)
def test_what_is_wrong_with_the_arguments_of_a_reversal_is_told_where_it_stands(old: str, new: str, said: str) -> None:
    assert old in BOOK
    found = faults(BOOK.replace(old, new))
    assert any(said in each and " contracts.enter.compensate" in each for each in found), found
