"""What stands in the schema of a ledger on PostgreSQL beside what its own steps make is named."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.connection import connect
from readback.testing.store_samples import sample_creation

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SEC-audit-beside")]


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[tuple[str, psycopg.Connection[tuple[object, ...]]]]:
    """A ledger with one action, and a connection into its schema as the one who owns it."""
    with open_postgres_store(ledger_url) as store:
        store.append([sample_creation("a1")])
    schema = ledger_url.rpartition("schema=")[2]
    with psycopg.connect(connect.address_of(ledger_url).url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        yield ledger_url, connection


def damage(url: str) -> list[str]:
    with open_postgres_store(url, read_only=True) as store:
        return store.damage()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("create table notes (a text)", "'notes'"),
        ("create view approved as select * from action", "'approved'"),
        ("create materialized view approved as select 1 as a", "'approved'"),
        ("create table more () inherits (action)", "'more'"),
        ("create schema aside_{n}; create table aside_{n}.more () inherits (action)", "more'"),
        ("alter table frozen rename to f; create view frozen as select * from f where false", "'frozen'"),
        ("alter table frozen rename to f; create view frozen as select * from f where false", "table frozen"),
        ("create unique index once on action (action_id, target)", "'once'"),
        ("alter table action add constraint action_target_key unique (target)", "'action_target_key'"),
        ("create policy other on action using (false)", "'other'"),
        ("create trigger t after insert on counter for each row execute function event_is_for_good()", "'t'"),
        ("create rule r as on insert to counter do instead nothing", "'r'"),
        ("create table procrastinate_notes (a text)", "'procrastinate_notes'"),
        ("create table event_x (like event)", "'event_x'"),
        ("create table evidence (a text)", "'evidence'"),  # a step of it made one, and a later one took it away
    ],
)
def test_what_the_steps_do_not_make_is_named(
    ledger: tuple[str, psycopg.Connection[tuple[object, ...]]], sql: str, said: str
) -> None:
    url, connection = ledger
    assert damage(url) == []
    connection.execute(sql.format(n=url.rpartition("_")[2]).encode())
    assert any(said in each for each in damage(url))


def test_more_partitions_a_plain_index_and_a_function_are_no_fault(
    ledger: tuple[str, psycopg.Connection[tuple[object, ...]]],
) -> None:
    url, connection = ledger
    connection.execute("select add_event_partition()")
    connection.execute("create index mine on action (updated_us)")
    connection.execute("create function f() returns int language sql as 'select 1'")
    assert damage(url) == []
