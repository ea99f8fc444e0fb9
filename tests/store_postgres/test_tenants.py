"""A role that was admitted to one tenant sees nothing of another: not through the store, and not through SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from readback.errors import StoreReadOnlyError
from readback.ports.storage.store import ActionFilter, Append, Count, Freeze, Incident
from readback.stores.postgres import open_postgres_store
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import NOON_US, sample_append, sample_evidence, sample_projection
from readback.testing.store_samples import sample_reservation as reservation

pytestmark = pytest.mark.slow
OURS, THEIRS = "acme", "globex"


def _everything(tenant: str) -> Append:
    """An append that leaves a row in every table that knows tenants, with the tenant's name in it."""
    name = f"{tenant}-1"
    held = sample_projection(name, tenant=tenant, due_us=5, target=f"order of {tenant}")
    return sample_append(
        name,
        events=2,
        projection=held,
        reserve=reservation(held),
        evidence=(sample_evidence(f"what {tenant} knows".encode()),),
        counts=(Count(f"source of {tenant}", "fault", 3),),
        freezes=(Freeze(tenant, f"resource:{tenant}", name, "wrong", NOON_US),),
        incidents=(Incident(tenant, f"incident of {tenant}", "cause", "high", name, NOON_US),),
        relies=(f"claim of {tenant}",),
    )


@pytest.fixture
def role(ledger_server: PostgresPair, ledger_url: str) -> Iterator[str]:
    """A login that was admitted to one of two tenants of a ledger."""
    schema = ledger_url.rpartition("schema=")[2]
    with open_postgres_store(ledger_url) as store:
        store.append([_everything(OURS), _everything(THEIRS)])
        while store.unsequenced(1):
            store.assign_sequence_numbers(10)
    name = f"auditor_{schema}"
    ledger_server.run(f"create role {name} login")
    ledger_server.run(f"create role other_{schema}")
    ledger_server.run(f"select {schema}.admit('{name}', '{OURS}'), {schema}.admit('other_{schema}', '{THEIRS}')")
    yield name
    for one in (name, f"other_{schema}"):
        ledger_server.run(f"drop owned by {one}")
        ledger_server.run(f"drop role {one}")


@pytest.fixture
def session(ledger_server: PostgresPair, ledger_url: str, role: str) -> Iterator[psycopg.Connection[Any]]:
    with closing(ledger_server.connect(user=role, autocommit=True)) as connection:
        connection.execute(f"SET search_path = {ledger_url.rpartition('schema=')[2]}".encode())
        yield connection


def _tables(session: psycopg.Connection[Any]) -> list[str]:
    found = session.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind IN ('r', 'p', 'v', 'm')"
    )
    return [row[0] for row in found]


def _rows(session: psycopg.Connection[Any], table: str) -> list[Any] | None:
    """All that a table shows; None where it may not be looked at."""
    try:
        return session.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall()
    except (errors.InsufficientPrivilege, errors.UndefinedTable):
        return None


@pytest.mark.requirement("PGSTORE-tenants")
def test_whatever_table_is_asked_shows_the_own_tenant_alone(session: psycopg.Connection[Any], role: str) -> None:
    shown = {table: _rows(session, table) for table in _tables(session)}
    of_tenants = {
        "event": 2, "action": 1, "idempotency": 1, "payload": 1, "counter": 1, "frozen": 1, "incident": 1,
        "reliance": 1, "place": 2,
    }  # fmt: skip
    assert {table: len(shown[table] or []) for table in of_tenants} == of_tenants
    said = repr(shown)
    assert OURS in said
    assert THEIRS not in said
    assert {table for table, found in shown.items() if found is None} >= {"sequencer", "subscriber", "dead_letter"}


def test_neither_settings_nor_roles_nor_cheap_functions_show_more(session: psycopg.Connection[Any], role: str) -> None:
    other = role.replace("auditor", "other")
    said: list[str] = []
    session.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    session.execute("SELECT set_config('readback.tenant', %s, false)", (THEIRS,))
    session.execute(
        "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
        " $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
    )
    found = session.execute("SELECT target FROM action WHERE pg_temp.leak(target)").fetchall()
    assert found == [(f"order of {OURS}",)]
    assert said == [f"order of {OURS}"], "what is looked at is filtered before anything of the asker's is called"
    assert session.execute("SELECT tenant_of(%s)", (other,)).fetchone() == (None,)
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(other)))
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute("SELECT admit(%s, %s)", (role, THEIRS))
    session.execute("CREATE TEMPORARY TABLE admitted AS SELECT current_user AS role, %s AS tenant", (THEIRS,))
    session.execute("GRANT SELECT ON pg_temp.admitted TO PUBLIC")
    assert session.execute("SELECT count(*), min(tenant) FROM action").fetchone() == (1, OURS)
    session.execute("SET row_security = off")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        session.execute("SELECT * FROM action")


def test_it_changes_nothing_not_even_its_own(session: psycopg.Connection[Any]) -> None:
    for statement in (
        "UPDATE action SET state = 'reconciled_success'",
        "DELETE FROM frozen",
        "INSERT INTO counter VALUES ('acme', 's', 'n', 1)",
        "INSERT INTO admitted VALUES (current_user, 'globex')",
        "SELECT pg_catalog.set_config('x.y', '', false), dismiss(current_user)",
        "CREATE TABLE mine (id int)",
        "TRUNCATE event",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            session.execute(statement.encode())


def test_the_store_of_such_a_role_is_that_tenants_ledger(ledger_url: str, role: str) -> None:
    with open_postgres_store(ledger_url.replace("postgres@", f"{role}@"), read_only=True) as store:
        assert [one.projection.tenant for one in store.page(ActionFilter())] == [OURS]
        assert store.events(f"{THEIRS}-1") == []
        assert [event.seq for event in store.events(f"{OURS}-1")] == [1, 2]
        assert store.freezes(THEIRS) == []
        assert store.incidents() == store.incidents(OURS) != []
        assert store.due(9, 9) == [f"{OURS}-1"]
        assert store.evidence(THEIRS, f"{THEIRS}-1", sample_evidence(f"what {THEIRS} knows".encode()).digest) is None
        with pytest.raises(StoreReadOnlyError):
            store.append([_everything("x")])


def test_a_role_that_was_dismissed_sees_nothing_and_one_that_keeps_the_ledger_is_not_admitted(
    ledger_server: PostgresPair, session: psycopg.Connection[Any], ledger_url: str, role: str
) -> None:
    schema = ledger_url.rpartition("schema=")[2]
    ledger_server.run(f"select {schema}.dismiss('{role}')")
    assert {_rows(session, table) is None for table in ("event", "action", "payload")} == {True}
    with pytest.raises(errors.RaiseException, match="sees every tenant"):
        ledger_server.run(f"select {schema}.admit('postgres', 'acme')")


@pytest.mark.requirement("SEC-ledger-locks")
@pytest.mark.parametrize("function", ["lock", "lock_shared", "xact_lock", "xact_lock_shared"])
@pytest.mark.parametrize("begins", ["pg_advisory_", "pg_try_advisory_"])
@pytest.mark.parametrize("key", ["(1, -1)", "(1)"])
def test_an_admitted_role_takes_no_lock_that_could_stop_the_ledger(
    function: str, begins: str, key: str, session: psycopg.Connection[Any]
) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute(f"SELECT {begins}{function}{key}".encode())


@pytest.mark.requirement("SEC-ledger-locks")
def test_what_an_admitted_role_may_lock_stops_no_append(session: psycopg.Connection[Any], ledger_url: str) -> None:
    taken = 0
    for table in _tables(session):
        for mode in ("ACCESS SHARE", "ROW SHARE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
            try:
                with session.transaction():
                    session.execute(f"LOCK TABLE {table} IN {mode} MODE".encode())
            except (errors.InsufficientPrivilege, errors.WrongObjectType):
                continue
            assert mode == "ACCESS SHARE", "a stronger lock would stop what writes"
            taken += 1
    assert taken
    session.execute("BEGIN")
    session.execute("SELECT count(*) FROM action")
    with open_postgres_store(ledger_url) as store:
        store.append([sample_append("later", projection=sample_projection("later", tenant=OURS, due_us=5))])
    session.execute("ROLLBACK")


@pytest.mark.requirement("SEC-ledger-locks")
def test_a_caller_who_cannot_withhold_the_locks_is_refused_unless_the_risk_is_accepted(
    ledger_server: PostgresPair, ledger_url: str
) -> None:
    schema = ledger_url.rpartition("schema=")[2]
    with open_postgres_store(ledger_url):
        pass
    group, member = f"locks_{schema}", f"member_{schema}"
    ledger_server.run(f"create role {group}")
    ledger_server.run(f"create role {member} login in role {group}")
    ledger_server.run(f"grant execute on function pg_advisory_lock(bigint) to {group}")
    try:
        with pytest.raises(errors.RaiseException, match="could stop the ledger"):
            ledger_server.run(f"select {schema}.admit('{member}', 'acme')")
        ledger_server.run(f"select {schema}.admit('{member}', 'acme', may_lock => true)")
    finally:
        for one in (member, group):
            ledger_server.run(f"drop owned by {one}")
            ledger_server.run(f"drop role {one}")
