"""What is refused when a ledger is opened on PostgreSQL, and in which words; what is made, and what is left alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from readback.bootstrap import store as store_of
from readback.canon.limits import ID_MAX_BYTES
from readback.contracts.templates import RENDERED_MAX_BYTES, RENDERED_MAX_CHARS
from readback.errors import (
    ReadbackError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
    UsageError,
)
from readback.ports.storage.store import Appended, Freeze, Projection
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.connection import connect, schema
from readback.stores.postgres.connection import connect as address
from readback.stores.postgres.writing.commands import AppendWork, Work
from readback.stores.shared_commit import Job
from readback.testing.postgres_server import STANDBY, PostgresPair
from readback.testing.store_samples import TENANT, sample_append, sample_creation, sample_projection

pytestmark = pytest.mark.slow


def _schema(url: str) -> str:
    return url.rpartition("schema=")[2]


@pytest.fixture
def ledger(ledger_url: str) -> str:
    """The address of a ledger with one action."""
    with open_postgres_store(ledger_url) as store:
        store.append([sample_creation("a1")])
    return ledger_url


def test_a_ledger_is_made_where_none_is_and_found_where_one_is(ledger: str) -> None:
    with open_postgres_store(ledger) as store:
        assert [event.version for event in store.events("a1")] == [1]


def test_the_url_of_the_command_line_opens_it(ledger: str) -> None:
    opened = store_of(ledger)
    assert opened.projection("a1") is not None
    opened.close()


def test_two_schemas_of_one_database_are_two_ledgers(ledger: str, ledger_server: PostgresPair) -> None:
    other = f"{ledger}_b"
    with open_postgres_store(other) as store:
        assert store.projection("a1") is None
    ledger_server.run(f"drop schema {_schema(other)} cascade")


@pytest.mark.requirement("PGSTORE-schema")
def test_a_schema_of_somebody_else_is_refused_and_left_alone(ledger_url: str, ledger_server: PostgresPair) -> None:
    name = _schema(ledger_url)
    ledger_server.run(f"create schema {name} create table orders (id int)")
    with pytest.raises(StoreCorruptError, match="not those of a Readback ledger") as caught:
        open_postgres_store(ledger_url)
    assert caught.value.code == "store.not-ours"
    assert ledger_server.run(f"select count(*) from pg_class where relnamespace = '{name}'::regnamespace") == (1,)


@pytest.mark.requirement("PGSTORE-schema")
def test_a_ledger_of_a_later_release_is_refused(ledger: str, ledger_server: PostgresPair) -> None:
    ledger_server.run(f"insert into {_schema(ledger)}.migration values (99, '0099_later.sql', 'x')")
    for read_only in (False, True):
        with pytest.raises(StoreVersionError, match="has schema 99"):
            open_postgres_store(ledger, read_only=read_only)


def test_a_ledger_whose_migration_had_another_text_is_refused(ledger: str, ledger_server: PostgresPair) -> None:
    ledger_server.run(f"update {_schema(ledger)}.migration set sha256 = 'x' where number = 1")
    with pytest.raises(StoreVersionError, match=r"another text of migration 0001_ledger\.sql"):
        open_postgres_store(ledger)


@pytest.mark.requirement("PGSTORE-schema")
def test_an_older_ledger_is_brought_up_and_read_only_it_is_refused(
    ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.migrations()
    step = schema.Migration(len(known) + 1, "9999_next.sql", "CREATE TABLE later (id int);")
    monkeypatch.setattr(schema, "migrations", lambda: [*known, step])
    with pytest.raises(StoreVersionError, match="older schema"):
        open_postgres_store(ledger, read_only=True)
    open_postgres_store(ledger).close()
    open_postgres_store(ledger, read_only=True).close()


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema.migrations()
    step = schema.Migration(len(known) + 1, "9999_next.sql", "CREATE TABLE later (id int); SELECT 1 / 0;")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: [*known, step])
        with pytest.raises(StoreError, match="division by zero"):
            open_postgres_store(ledger)
    with open_postgres_store(ledger) as store:
        assert store.append([sample_creation("a2")]) == [Appended(1, 0)]


def test_read_only_nothing_is_made_and_nothing_is_changed(ledger_url: str, ledger_server: PostgresPair) -> None:
    with pytest.raises(StoreError, match="There is no ledger"):
        open_postgres_store(ledger_url, read_only=True)
    assert ledger_server.run(f"select to_regnamespace('{_schema(ledger_url)}') is null") == (True,)
    open_postgres_store(ledger_url).close()
    with open_postgres_store(ledger_url, read_only=True) as store:
        assert store.due(0, 1) == []
        for call in (
            lambda: store.append([sample_creation("a1")]),
            lambda: store.lease("a1", "w", 0, 1),
            lambda: store.make_due("a1", 0),
        ):
            with pytest.raises(StoreReadOnlyError):
                call()


def test_a_role_that_may_only_look_is_told_so(ledger: str, ledger_server: PostgresPair) -> None:
    name = _schema(ledger)
    role = f"looker_of_{name}"
    ledger_server.run(f"create role {role} login")
    ledger_server.run(f"select {name}.admit('{role}', '{TENANT}')")
    url = ledger.replace("postgres@", f"{role}@")
    with open_postgres_store(url, read_only=True) as store:
        assert store.projection("a1") is not None
    with open_postgres_store(url) as store, pytest.raises(StoreReadOnlyError, match="cannot be written"):
        store.append([sample_creation("a2")])
    ledger_server.run(f"drop owned by {role}")
    ledger_server.run(f"drop role {role}")


def test_an_old_server_is_refused(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "SERVER_VERSION_MIN", 990_000)
    with pytest.raises(StoreError, match="99 or later is needed") as caught:
        open_postgres_store(ledger_url)
    assert caught.value.code == "store.server-too-old"


def test_an_administrators_limits_of_time_do_not_end_our_transactions(ledger_url: str) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
    limits = "%20".join(f"-c%20{name}%3D777ms" for name in names)
    with open_postgres_store(f"{ledger_url}&options={limits}") as store:
        for connection in (store._opening.again(), store._opening.reader()):
            with closing(connection):
                found = [connection.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in names]
            assert ("777ms",) not in found
        assert store.append([sample_creation("a1")]) == [Appended(1, 0)]


def test_a_session_that_does_not_commit_to_the_disk_is_refused(ledger_url: str) -> None:
    with pytest.raises(StoreError, match="synchronous_commit = off") as caught:
        _open_with(ledger_url, {"synchronous_commit": "off"})
    assert caught.value.code == "store.not-durable"


def _open_with(url: str, settings: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connect, "WRITES", settings)
        open_postgres_store(url).close()


def test_a_database_in_another_encoding_is_refused(ledger_url: str, ledger_server: PostgresPair) -> None:
    ledger_server.run("create database latin encoding 'LATIN1' template template0")
    with pytest.raises(StoreError, match="encoded in LATIN1") as caught:
        open_postgres_store(ledger_url.replace("/postgres?", "/latin?"))
    assert caught.value.code == "store.encoding"
    ledger_server.run("drop database latin")


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with PostgresPair() as running:
        yield running


def test_on_a_standby_a_ledger_is_looked_at_and_not_written(pair: PostgresPair) -> None:
    url = f"postgresql://postgres@/postgres?host={pair.home}&port=5432"
    with open_postgres_store(url) as store:
        store.append([sample_creation("a1")])
    pair.catch_up()
    standby = url.replace("port=5432", f"port={STANDBY}")
    with open_postgres_store(standby, read_only=True) as store:
        assert store.projection("a1") is not None
    with pytest.raises(StoreError, match="is a standby") as caught:
        open_postgres_store(standby)
    assert caught.value.code == "store.standby"


@pytest.mark.parametrize(
    "url", ["postgresql://host/db?schema=Has Space", "postgresql://host/db?schema=a;drop", "mysql://host/db"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        address.address_of(url)


def test_a_password_is_never_shown() -> None:
    found = address.address_of("postgresql://ops:s3cret@db.example:5433/ledgers?schema=acme&password=s3cret")
    assert "s3cret" not in found.shown
    assert found.shown == "postgresql://ops@db.example:5433/ledgers (schema acme)"
    assert found.url == "postgresql://ops:s3cret@db.example:5433/ledgers?password=s3cret"


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("postgresql:///x?options=-c%20geqo%3Doff&schema=a", {"dbname": "x", "options": "-c geqo=off"}),
        ("postgresql://a@/x?host=/run/my%20sockets&passfile=/a+b", {"host": "/run/my sockets", "passfile": "/a+b"}),
        ("postgresql://a:p%20q@h/x?objects=file:///a%20b", {"password": "p q", "host": "h"}),
        ("postgresql://a:p#?[q]@h:1,g:2/x", {"password": "p#?[q]", "host": "h,g", "port": "1,2"}),
        ("postgresql://[::1]:5432/x?user=a@b", {"host": "::1", "user": "a@b"}),
        ("postgres://?schema=a&user=b", {"user": "b"}),
    ],
)
def test_what_libpq_takes_reaches_it_as_it_was_written(url: str, taken: dict[str, str]) -> None:
    found = address.address_of(url)
    assert conninfo_to_dict(found.url).items() >= taken.items()
    assert "p#" not in found.shown
    assert "p q" not in found.shown


@pytest.mark.parametrize(
    ("url", "which"),
    [
        ("postgresql://h:1,g:2/x", "primary"),
        ("postgresql:///x?host=/a,/b&port=1,2", "primary"),
        ("postgresql:///x?hostaddr=10.0.0.1,10.0.0.2&target_session_attrs=read-write", "read-write"),
        ("postgresql://a:p,q@h/x", None),
    ],
)
def test_of_several_hosts_the_primary_is_looked_for_where_a_ledger_is_written(url: str, which: str | None) -> None:
    taken = conninfo_to_dict(address.address_of(url, primary=True).url)
    assert taken.get("target_session_attrs") == which
    read = conninfo_to_dict(address.address_of(url).url)
    assert read.get("target_session_attrs") == (which if "target_session_attrs" in url else None)


@pytest.mark.parametrize("password", ["s3c/ret", "s3c@ret", "12/s3c", "s3c ret", "%s3c"])
def test_a_password_that_is_not_written_as_it_has_to_be_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_postgres_store(f"postgresql://ops:{password}@db.invalid/x")
    assert "s3c" not in str(caught.value)
    assert caught.value.remedy


# --- values that no database takes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "projection",
    [
        sample_projection("a2", target="\ud800"),
        sample_projection("a2", due_us=2**63),
        sample_projection("a2", operation=7),
        sample_projection("a2", created_us="noon"),
    ],
)
def test_a_value_that_cannot_be_kept_fails_its_own_append_alone(ledger: str, projection: object) -> None:
    item = sample_creation("a2")
    bad = replace(item, projection=cast("Projection", projection), reserve=None)
    with open_postgres_store(ledger) as store:
        jobs: list[Job[Work]] = [Job(AppendWork([one])) for one in (sample_creation("a3"), bad, sample_creation("a4"))]
        store._run(jobs)
        assert [job.error.code if isinstance(job.error, ReadbackError) else job.error for job in jobs] == [
            None, "store.value", None,
        ]  # fmt: skip
        assert [store.events(name) != [] for name in ("a2", "a3", "a4")] == [False, True, True]


@pytest.mark.requirement("INPUT-over-long-value")
def test_the_longest_target_of_the_longest_tenant_can_be_frozen(ledger: str) -> None:
    hard = hashlib.shake_128(b"no compression helps").digest(RENDERED_MAX_BYTES)
    tenant, target = hard.hex()[:ID_MAX_BYTES], hard.hex()[:RENDERED_MAX_CHARS]
    target = "".join(chr(0x100 + ord(one) + 7 * place % 0x600) for place, one in enumerate(target))
    assert len(target.encode()) == RENDERED_MAX_BYTES
    item = sample_append("a2", projection=sample_projection("a2", tenant=tenant, target=target))
    freeze = Freeze(tenant, f"resource:{target}", "a2", "x", 1)
    with open_postgres_store(ledger) as store:
        assert store.append([replace(item, freezes=(freeze,))]) == [Appended(1, 0)]
        assert store.frozen(tenant, [freeze.subject]) == freeze


def test_an_event_cannot_be_changed_or_removed(ledger: str, ledger_server: PostgresPair) -> None:
    for statement in ("UPDATE {}.event SET kind = 'x'", "DELETE FROM {}.event", "TRUNCATE {}.event CASCADE"):
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="never changed or removed"):
            ledger_server.run(statement.format(_schema(ledger)))


def test_separators_of_our_own_come_back_as_they_were(ledger: str) -> None:
    odd = "a\x1fb\x1ac\x00d\x1ae\x1a0"
    with open_postgres_store(ledger) as store:
        held = sample_projection("a2", target=odd, tenant=odd, run=odd)
        store.append([sample_append("a2", projection=held), sample_creation("a3")])
        stored = store.projection("a2")
        assert stored is not None
        assert stored.projection == held
        assert store.by_stamp(odd, "rb-a2") == "a2"
