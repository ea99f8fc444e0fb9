"""Evidence that was kept once for a tenant comes to the actions that have it, as a newer release opens the ledger."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.audit.maintenance.erase import erase
from readback.domain.action.erasure import ErasureOrder
from readback.stores.migration import migrations_of
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.connection import schema
from readback.stores.postgres.connection.rows import kept
from tests.postgres import PostgresPair
from tests.store.old_ledger import IDS, rows_of
from tests.store.test_sqlite_payloads import NOW_US, assert_brought_up, digests_of
from tests.store_postgres.test_sequencing import place

pytestmark = [pytest.mark.slow, pytest.mark.requirement("FLEET-upgrade")]
BEFORE = 4
"""The last step of a release that kept evidence once for a tenant."""
TENANTS = {row["action_id"]: row["tenant"] for row in rows_of("action")}


def write_old_ledger(server: PostgresPair, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = migrations_of("readback.stores.postgres")
    name = url.rpartition("schema=")[2]
    with closing(server.connect()) as connection:
        monkeypatch.setattr(schema, "migrations", lambda: steps[:BEFORE])
        connection.autocommit = True
        connection.execute(f"SET search_path TO {name}".encode())
        schema.migrate(connection, name, url)
        monkeypatch.undo()
        for row in rows_of("event"):
            held = {key: row[key] for key in ("action_id", "version", "kind", "at_us", "envelope", "leaf")}
            _insert(connection, "event", held | {"tenant": TENANTS[row["action_id"]]})
        for row in rows_of("action"):
            _insert(connection, "action", row | {"lease_ends_us": row["lease_until_us"]})
        for row in rows_of("idempotency"):
            _insert(connection, "idempotency", row)
        for row in rows_of("evidence"):
            _insert(connection, "evidence", {key: row[key] for key in ("tenant", "digest", "media", "body")})
        for table in ("counter", "incident", "reliance"):
            for row in rows_of(table):
                _insert(connection, table, row)


def _insert(connection: Any, table: str, row: dict[str, Any]) -> None:
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
    values = [kept(value) if isinstance(value, str) else value for value in row.values()]
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})".encode(), values)


def test_each_action_has_its_own_of_what_was_kept_once(
    ledger_server: PostgresPair, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_old_ledger(ledger_server, ledger_url, monkeypatch)
    with open_postgres_store(ledger_url) as store:
        place(store)
        assert_brought_up(store)
        assert store.damage() == []
        done = erase(store, ErasureOrder("acme", "human:dpo", "x", (IDS["whole"],)), NOW_US)
        assert (done.actions, done.pieces, done.gone) == (1, len(digests_of(store, "whole")), True)
        assert audit(store).faults == []
        assert store.damage() == []


def test_an_entry_that_is_none_any_more_keeps_nobody_from_opening_the_ledger(
    ledger_server: PostgresPair, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_old_ledger(ledger_server, ledger_url, monkeypatch)
    name = ledger_url.rpartition("schema=")[2]
    ledger_server.run(f"ALTER TABLE {name}.event DISABLE TRIGGER event_is_never_changed")
    for number in (1, 2):
        ledger_server.run(f"ALTER TABLE {name}.event_{number} DISABLE TRIGGER event_is_never_changed")
    ledger_server.run(f"UPDATE {name}.event SET envelope = '\\xff7b' WHERE action_id = '{IDS['odd']}' AND version = 2")
    for number in (1, 2):
        ledger_server.run(f"ALTER TABLE {name}.event_{number} ENABLE TRIGGER event_is_never_changed")
    ledger_server.run(f"ALTER TABLE {name}.event ENABLE TRIGGER event_is_never_changed")
    with open_postgres_store(ledger_url) as store:
        place(store)
        assert {fault.action_id for fault in audit(store).faults} == {IDS["odd"]}
        assert all(store.evidence("acme", IDS["whole"], digest) for digest in digests_of(store, "whole"))
