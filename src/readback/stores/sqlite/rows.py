"""The columns of each table, the conversion between rows and the port's values, and the SQL for writing.

Used by this adapter's writing and reading sides, so both agree on each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final, TypeAlias

from readback.ports.storage.store import Freeze, Incident, KeyRecord, Projection, StoredEvent, StoredProjection

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]

PROJECTION_COLUMNS: Final = tuple(field.name for field in fields(Projection))
STORED_COLUMNS: Final = ", ".join(f'"{name}"' for name in (*PROJECTION_COLUMNS, "version", "fence"))
EVENT_COLUMNS: Final = "seq, action_id, version, kind, at_us, envelope, leaf"
FREEZE_COLUMNS: Final = "tenant, subject, action_id, reason, since_us"
INCIDENT_COLUMNS: Final = "tenant, id, cause, severity, action_id, opened_us, seen, closed_us"
KEY_COLUMNS: Final = "tenant, key_hash, request_hash, action_id, status, created_us, expires_us"

INDEXED_FOR_LIFE: Final = ("tenant", "run", "contract", "stamp", "kind", "saga")
"""Indexed columns with rare changes. An update without these columns saves four indexes."""
_SELDOM: Final = frozenset({"action_id", *INDEXED_FOR_LIFE})
_OFTEN: Final = tuple(name for name in PROJECTION_COLUMNS if name not in _SELDOM)

projection_values = attrgetter(*PROJECTION_COLUMNS)
often_values = attrgetter(*_OFTEN)
seldom_values = attrgetter(*INDEXED_FOR_LIFE)
key_values = attrgetter("tenant", "key_hash", "request_hash", "action_id", "status", "created_us", "expires_us")


def statement(*parts: str) -> str:
    """Join constant SQL parts of this package. Values are always bound, never part of the text."""
    return " ".join(parts)


def _marks(count: int) -> str:
    return f"({', '.join('?' * count)})"


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}" = ?' for name in names)


INSERT_EVENT: Final = statement("INSERT INTO event VALUES", _marks(7))
INSERT_ACTION: Final = statement(
    "INSERT INTO action (", STORED_COLUMNS, ", ready_us) VALUES", _marks(len(PROJECTION_COLUMNS) + 3)
)
UPDATE_ACTION: Final = statement(
    "UPDATE action SET", _assignments(_OFTEN), ", version = ?, ready_us = ? WHERE action_id = ?"
)
UPDATE_ACTION_SELDOM: Final = statement("UPDATE action SET", _assignments(INDEXED_FOR_LIFE), "WHERE action_id = ?")
LOOKED_UP_AT_ONCE: Final = 64
"""Names a statement. One such statement costs a tenth of as many single statements."""
_HEAD_COLUMNS: Final = ", ".join(("action_id", "version", "fence", *INDEXED_FOR_LIFE))
SELECT_HEAD: Final = statement("SELECT", _HEAD_COLUMNS, "FROM action WHERE action_id = ?")
SELECT_HEADS: Final = statement("SELECT", _HEAD_COLUMNS, "FROM action WHERE action_id IN", _marks(LOOKED_UP_AT_ONCE))

SELECT_KEY: Final = statement("SELECT", KEY_COLUMNS, "FROM idempotency WHERE tenant = ? AND key_hash = ?")
SELECT_KEYS: Final = statement(
    "SELECT", KEY_COLUMNS, "FROM idempotency WHERE tenant = ? AND key_hash IN", _marks(LOOKED_UP_AT_ONCE)
)
INSERT_KEY: Final = statement("INSERT INTO idempotency (", KEY_COLUMNS, ") VALUES", _marks(7))
PUT_KEY: Final = statement(
    INSERT_KEY, "ON CONFLICT DO UPDATE SET",
    "request_hash = excluded.request_hash, action_id = excluded.action_id, status = excluded.status,",
    "created_us = excluded.created_us, expires_us = excluded.expires_us",
)  # fmt: skip
SETTLE_KEY: Final = (
    "UPDATE idempotency SET status = ?, expires_us = ? WHERE tenant = ? AND key_hash = ? AND action_id = ?"
)
PUT_PAYLOAD: Final = (
    "INSERT INTO payload (action_id, tenant, digest, media, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
"""No `RETURNING`: SQLite would build a table in memory for each row, at the cost of the insertion itself."""
PAYLOADS_AFTER: Final = "SELECT tenant, sum(length(body)) FROM payload WHERE id > ? GROUP BY tenant"
PUT_PAYLOAD_AGAIN: Final = (
    "UPDATE payload SET media = ?4, body = ?5 WHERE action_id = ?1 AND tenant = ?2 AND digest = ?3 AND body IS NULL"
    " RETURNING tenant, length(body)"
)
"""Erased bytes recorded again are stored again. Present bytes stay unchanged, and return no row."""
PUT_CONTRACT: Final = (
    "INSERT INTO contract_text (tenant, digest, media, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    " RETURNING tenant, length(body)"
)
PUT_WEIGHT: Final = (
    "INSERT INTO weight (tenant, bytes) VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
)
ERASABLE: Final = "SELECT id, length(body) FROM payload WHERE action_id = ? AND digest = ? AND body IS NOT NULL"
ERASE: Final = "UPDATE payload SET media = '', body = NULL WHERE id = ?"
SELECT_EVIDENCE: Final = (
    "SELECT media, body FROM payload WHERE action_id = ?1 AND digest = ?3 AND tenant = ?2 AND body IS NOT NULL"
    " UNION ALL SELECT media, body FROM contract_text WHERE tenant = ?2 AND digest = ?3"
)
IS_ERASED: Final = (
    "SELECT 1 FROM payload WHERE action_id = ? AND digest = ? AND tenant = ? AND body IS NULL AND media = ''"
)
KEEPER: Final = (
    "SELECT action_id FROM payload INDEXED BY payload_of_action WHERE digest = ? AND tenant = ?"
    " ORDER BY body IS NULL LIMIT 1"
)
PUT_COUNT: Final = (
    "INSERT INTO counter (tenant, subject, name, value) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET value = value + excluded.value"
)
RESET_COUNT: Final = "DELETE FROM counter WHERE tenant = ? AND subject = ? AND name = ?"

PUT_FREEZE: Final = statement("INSERT OR IGNORE INTO freeze (", FREEZE_COLUMNS, ") VALUES", _marks(5))
LIFT: Final = "DELETE FROM freeze WHERE tenant = ? AND subject = ? AND action_id = ?"
ANY_FREEZE: Final = "SELECT 1 FROM freeze LIMIT 1"
SELECT_FREEZES: Final = statement(
    "SELECT", FREEZE_COLUMNS, "FROM freeze WHERE tenant = ? ORDER BY since_us, subject, action_id"
)
PUT_RELIANCE: Final = "INSERT OR IGNORE INTO reliance (tenant, claim, action_id) VALUES (?, ?, ?)"
SELECT_DEPENDANTS: Final = "SELECT action_id FROM reliance WHERE tenant = ? AND claim = ? ORDER BY action_id LIMIT ?"
SELECT_RELIANCE: Final = "SELECT 1 FROM reliance WHERE tenant = ? AND claim = ? AND action_id = ?"
SELECT_RELIANCES: Final = statement(
    "SELECT tenant, claim, action_id FROM reliance WHERE (tenant, claim, action_id) > (?, ?, ?)",
    "ORDER BY tenant, claim, action_id LIMIT ?",
)
PUT_INCIDENT: Final = statement(
    "INSERT INTO incident (", INCIDENT_COLUMNS, ") VALUES", _marks(8),
    "ON CONFLICT DO UPDATE SET seen = seen + 1",
)  # fmt: skip
CLOSE_INCIDENT: Final = "UPDATE incident SET closed_us = ? WHERE tenant = ? AND id = ? AND closed_us = 0"
SELECT_INCIDENTS: Final = statement("SELECT", INCIDENT_COLUMNS, "FROM incident")
SELECT_COUNTS: Final = (
    "SELECT subject, name, value FROM counter WHERE tenant = ? AND value > 0 AND subject <> ? ORDER BY subject, name"
)
_OF_NO_KEY: Final = "'', '', '', '', '', 0, 0"
OPENING: Final = statement(
    "SELECT 0, ", KEY_COLUMNS, "FROM idempotency WHERE tenant = ? AND key_hash = ?",
    "UNION ALL SELECT * FROM (SELECT 1, ", _OF_NO_KEY, "FROM freeze WHERE tenant = ? LIMIT 1)",
    "UNION ALL SELECT * FROM (SELECT 2, ", _OF_NO_KEY, "FROM counter WHERE tenant = ? AND value > 0 AND subject <> ?",
    "LIMIT 1)",
)  # fmt: skip
"""The holder of the key (0), whether any freeze exists (1) and whether any counter exists (2): one row for each present
item. A join would cost four times as much, before every action.
"""
FORGET_PACE: Final = "DELETE FROM counter WHERE tenant = ? AND subject = ? AND CAST(name AS INTEGER) < ?"
SELECT_PACE: Final = "SELECT CAST(name AS INTEGER), value FROM counter WHERE tenant = ? AND subject = ?"
EVIDENCE_BYTES: Final = "SELECT bytes FROM weight WHERE tenant = ?"
IN_FLIGHT: Final = (
    "SELECT count(*) FROM action WHERE tenant = ? AND ready_us IS NOT NULL AND state <> 'reconciled_success'"
)
IS_IN_FLIGHT: Final = (
    "SELECT 1 FROM action WHERE action_id = ? AND ready_us IS NOT NULL AND state <> 'reconciled_success'"
)
IN_FLIGHT_UP_TO: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM action WHERE tenant = ? AND ready_us IS NOT NULL"
    " AND state <> 'reconciled_success' LIMIT ?)"
)
"""Counts only up to the limit: a tenant with a million waiting actions is not counted fully at each attempt."""

TAKE_LEASE: Final = (
    "UPDATE action SET lease_owner = :owner, lease_until_us = :until, fence = fence + 1,"
    " ready_us = CASE WHEN due_us IS NULL THEN NULL WHEN :owner = '' THEN due_us ELSE max(due_us, :until) END"
    " WHERE action_id = :id AND (lease_owner IN ('', :dead) OR lease_until_us <= :now)"
    " RETURNING fence"
)
RELEASE: Final = (
    "UPDATE action SET lease_owner = '', lease_until_us = 0, ready_us = due_us"
    " WHERE lease_owner = ? AND lease_owner <> ''"
)
WAKE: Final = (
    "UPDATE action SET due_us = min(due_us, :at), ready_us = CASE WHEN lease_owner = ''"
    " THEN min(due_us, :at) ELSE max(min(due_us, :at), lease_until_us) END"
    " WHERE action_id = :id AND due_us IS NOT NULL RETURNING 1"
)

NOT_READY_WHEN_DUE: Final = (
    "SELECT action_id FROM action WHERE ready_us IS NOT CASE WHEN due_us IS NULL OR lease_owner = '' THEN due_us"
    " ELSE max(due_us, lease_until_us) END LIMIT 20"
)
KEY_OF_NO_ACTION: Final = (
    "SELECT key_hash FROM idempotency AS held WHERE NOT EXISTS (SELECT 1 FROM action WHERE"
    " action.action_id = held.action_id AND action.tenant = held.tenant AND action.key_hash = held.key_hash) LIMIT 20"
)
MISWEIGHED: Final = (
    "SELECT tenant, sum(bytes), sum(counted) FROM (SELECT tenant, length(body) AS bytes, 0 AS counted FROM payload"
    " UNION ALL SELECT tenant, length(body), 0 FROM contract_text UNION ALL SELECT tenant, 0, bytes FROM weight)"
    " GROUP BY tenant HAVING coalesce(sum(bytes), 0) <> sum(counted) LIMIT 20"
)
FREEZE_OF_NO_ACTION: Final = (
    "SELECT tenant, subject FROM freeze AS held WHERE NOT EXISTS (SELECT 1 FROM action WHERE"
    " action.action_id = held.action_id AND action.tenant = held.tenant) LIMIT 20"
)


def stored_event(row: Row) -> StoredEvent:
    return StoredEvent(*row)  # type: ignore[arg-type]  # the columns stand in the order of the fields


def key_record(row: Row) -> KeyRecord:
    return KeyRecord(*row)  # type: ignore[arg-type]


freeze_values = attrgetter("tenant", "subject", "action_id", "reason", "since_us")
incident_values = attrgetter("tenant", "id", "cause", "severity", "action_id", "opened_us", "seen", "closed_us")


def select_frozen(subjects: int) -> str:
    """Return SQL for the oldest freeze of so many subjects."""
    return statement(
        "SELECT", FREEZE_COLUMNS, "FROM freeze WHERE tenant = ? AND subject IN", _marks(subjects),
        "ORDER BY since_us, subject, action_id LIMIT 1",
    )  # fmt: skip


def pick(kinds: int) -> str:
    """Return SQL for entries of so many kinds after a sequence number."""
    return statement(
        "SELECT", EVENT_COLUMNS, "FROM event WHERE seq > ? AND kind IN", _marks(kinds), "ORDER BY seq LIMIT ?"
    )


def freeze(row: Row) -> Freeze:
    return Freeze(*row)  # type: ignore[arg-type]


def incident(row: Row) -> Incident:
    return Incident(*row)  # type: ignore[arg-type]


def stored_projection(row: Row) -> StoredProjection:
    *columns, version, fence = row
    return StoredProjection(Projection(*columns), version, fence)  # type: ignore[arg-type]
