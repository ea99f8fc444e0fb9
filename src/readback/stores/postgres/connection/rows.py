"""The columns of each table, the conversion between rows and the port's values, and the encoding of texts.

Used by this adapter's writing and reading sides, so both agree on each row. PostgreSQL's texts hold every character
except NUL. Therefore NUL, and the two characters used by this module, are stored as an escape and one letter. All other
texts are stored unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeAlias

from psycopg.types.string import StrBinaryDumper

from readback.ports.storage.store import Freeze, Incident, KeyRecord, Projection, StoredEvent, StoredProjection
from readback.ports.storage.store_rules import OPEN

Row: TypeAlias = tuple[Any, ...]

ESCAPE: Final = "\x1a"
BETWEEN: Final = "\x1f"
"""Terminates each of many texts sent as one."""
_TO: Final = str.maketrans({ESCAPE: ESCAPE + "e", BETWEEN: ESCAPE + "b", "\x00": ESCAPE + "0"})
_BACK: Final = {"e": ESCAPE, "b": BETWEEN, "0": "\x00"}

PROJECTION_COLUMNS: Final = tuple(field.name for field in fields(Projection))
STORED_COLUMNS: Final = ", ".join(f'"{name}"' for name in (*PROJECTION_COLUMNS, "version", "fence"))
FREEZE_COLUMNS: Final = "tenant, subject, action_id, reason, since_us"
INCIDENT_COLUMNS: Final = "tenant, id, cause, severity, action_id, opened_us, seen, closed_us"
KEY_COLUMNS: Final = "tenant, key_hash, request_hash, action_id, status, created_us, expires_us"

projection_values = attrgetter(*PROJECTION_COLUMNS)
key_values = attrgetter("tenant", "key_hash", "request_hash", "action_id", "status", "created_us", "expires_us")
freeze_values = attrgetter("tenant", "subject", "action_id", "reason", "since_us")
incident_values = attrgetter("tenant", "id", "cause", "severity", "action_id", "opened_us", "seen", "closed_us")


def statement(*parts: str) -> str:
    """Join constant SQL parts of this package. Values are always bound, never part of the text."""
    return " ".join(parts)


EVENT_COLUMNS: Final = "coalesce(place.seq, 0), action_id, version, kind, at_us, envelope, leaf"
EVENT_FROM: Final = "FROM event LEFT JOIN place ON place.event = event.id"

LIFE_COLUMNS: Final = (
    "tenant", "principal", "run", "contract", "contract_version", "contract_hash", "kind", "side_effect", "target",
    "operation", "key_hash", "stamp", "created_us", "saga",
)  # fmt: skip
"""Columns with rare changes. An update without these columns need not send them."""
OFTEN_COLUMNS: Final = tuple(name for name in PROJECTION_COLUMNS if name not in LIFE_COLUMNS)
_NUMBERS: Final = frozenset({"created_us", "updated_us", "due_us", "lease_until_us", "version", "fence", "was", "ends"})
life_values = attrgetter(*LIFE_COLUMNS)
often_values = attrgetter(*OFTEN_COLUMNS)


def _kinds(names: Sequence[str]) -> str:
    return "".join("n" if name in _NUMBERS else "t" for name in names)


def _many(names: Sequence[str], kinds: str, alias: str = "u") -> str:
    """Return SQL for so many columns as rows. Texts have a surplus element, without number or bytes beside it."""
    forms = {
        "t": "string_to_array(%s, E'\\x1f')",
        "n": "string_to_array(%s, ',', '')::bigint[]",
        "b": "%s::bytea[]",
    }
    columns = ", ".join(f'"{name}"' for name in names)
    return statement("unnest(", ", ".join(forms[kind] for kind in kinds), f") AS {alias}({columns})")


def _quoted(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{name}"' for name in names)


_ENDS: Final = "CASE WHEN u.lease_owner = '' THEN 0 ELSE clock.us + u.ends END"
_READY: Final = statement(
    "CASE WHEN u.due_us IS NULL OR u.lease_owner = '' THEN u.due_us ELSE greatest(u.due_us, clock.us + u.ends) END"
)
_CLOCK: Final = "(SELECT CASE WHEN %s THEN clock_us() ELSE 0 END AS us) AS clock"
_NEW_NAMES: Final = (*PROJECTION_COLUMNS, "version", "fence", "ends")
_OFTEN_NAMES: Final = ("action_id", *OFTEN_COLUMNS[1:], "version", "was", "fence", "ends")
_WHOLE_NAMES: Final = (*PROJECTION_COLUMNS, "version", "was", "fence", "ends")
NEW_KINDS, OFTEN_KINDS, WHOLE_KINDS = _kinds(_NEW_NAMES), _kinds(_OFTEN_NAMES), _kinds(_WHOLE_NAMES)
EVENT_NAMES: Final = ("tenant", "action_id", "version", "kind", "at_us", "envelope", "leaf")
EVENT_KINDS, KEY_KINDS = "ttntnbb", "tttttnn"
_KEY_NAMES: Final = tuple(KEY_COLUMNS.split(", "))

INSERT_ACTIONS: Final = statement(
    "INSERT INTO action (", STORED_COLUMNS, ", lease_ends_us, ready_us) SELECT",
    _quoted(_NEW_NAMES[:-1], "u."), ",", _ENDS, ",", _READY,
    "FROM", _CLOCK, ",", _many(_NEW_NAMES, NEW_KINDS), "WHERE u.version IS NOT NULL",
)  # fmt: skip


def _update(names: Sequence[str], kinds: str) -> str:
    """Return SQL for an update of all rows in their expected state. Otherwise no row changes."""
    moved = ", ".join(f'"{name}" = u."{name}"' for name in names if name not in ("action_id", "was", "fence", "ends"))
    return statement(
        "WITH done AS (UPDATE action AS a SET", moved, ", lease_ends_us =", _ENDS, ", ready_us =", _READY,
        "FROM", _CLOCK, ",", _many(names, kinds),
        "WHERE u.version IS NOT NULL AND a.action_id = u.action_id AND a.version = u.was AND a.fence = u.fence",
        "RETURNING 1) SELECT hold((SELECT count(*) FROM done), %s)",
    )  # fmt: skip


UPDATE_OFTEN: Final = _update(_OFTEN_NAMES, OFTEN_KINDS)
UPDATE_WHOLE: Final = _update(_WHOLE_NAMES, WHOLE_KINDS)
INSERT_EVENTS: Final = statement(
    "INSERT INTO event (", _quoted(EVENT_NAMES), ") SELECT", _quoted(EVENT_NAMES, "u."),
    "FROM", _many(EVENT_NAMES, EVENT_KINDS), "WHERE u.version IS NOT NULL",
)  # fmt: skip
BEGIN: Final = (
    "SELECT pg_current_xact_id()::text, (SELECT count(*) FROM (SELECT CASE WHEN alone THEN"
    " pg_advisory_xact_lock(wanted.class, bucket) ELSE pg_advisory_xact_lock_shared(wanted.class, bucket) END"
    " FROM (SELECT %s::int AS class) AS wanted, (SELECT bucket, false AS alone FROM unnest(%s::int[]) AS s(bucket)"
    " UNION ALL SELECT bucket, true FROM unnest(%s::int[]) AS x(bucket) ORDER BY bucket) AS each OFFSET 0) AS held)"
)
SELECT_HEADS: Final = (
    "SELECT action_id, version, fence, ready_us IS NOT NULL AND state <> 'reconciled_success' FROM action"
    " WHERE action_id = ANY (string_to_array(%s, E'\\x1f'))"
)
SELECT_KEYS: Final = statement(
    "SELECT", _quoted(_KEY_NAMES, "held."), "FROM unnest(string_to_array(%s, E'\\x1f'), string_to_array(%s, E'\\x1f'))",
    "WITH ORDINALITY AS u(tenant, key_hash, place)",
    "JOIN idempotency AS held ON held.tenant = u.tenant AND held.key_hash = u.key_hash WHERE u.place <= %s",
)  # fmt: skip
INSERT_KEYS: Final = statement(
    "INSERT INTO idempotency (", KEY_COLUMNS, ") SELECT", _quoted(_KEY_NAMES, "u."),
    "FROM", _many(_KEY_NAMES, KEY_KINDS), "WHERE u.created_us IS NOT NULL",
)  # fmt: skip
REPLACE_KEYS: Final = statement(
    "WITH done AS (UPDATE idempotency AS k SET",
    ", ".join(f"{name} = u.{name}" for name in _KEY_NAMES[2:]),
    "FROM", _many((*_KEY_NAMES, "was"), KEY_KINDS + "t"),
    "WHERE u.created_us IS NOT NULL AND k.tenant = u.tenant AND k.key_hash = u.key_hash AND k.action_id = u.was",
    f"AND (k.status <> '{OPEN}' OR k.action_id = u.action_id)",
    "RETURNING 1) SELECT hold((SELECT count(*) FROM done), %s)",
)  # fmt: skip
SETTLE_KEYS: Final = statement(
    "UPDATE idempotency AS k SET status = u.status, expires_us = u.expires_us",
    "FROM", _many(("tenant", "key_hash", "action_id", "status", "expires_us"), "ttttn"),
    "WHERE u.expires_us IS NOT NULL AND k.tenant = u.tenant AND k.key_hash = u.key_hash AND k.action_id = u.action_id",
)  # fmt: skip
TEXT_KINDS, PAYLOAD_KINDS = "bttnbt", "bttnbtt"
_TEXT_NAMES: Final = ("body", "media", "object", "outside", "digest", "tenant")
_PAYLOAD_NAMES: Final = (*_TEXT_NAMES, "action_id")
_WEIGHED: Final = statement(
    "INSERT INTO weight (tenant, slot, bytes)",
    "SELECT tenant, pg_backend_pid() %% 64, sum(bytes) FROM moved GROUP BY tenant ORDER BY tenant",
    "ON CONFLICT (tenant, slot) DO UPDATE SET bytes = weight.bytes + excluded.bytes",
)  # fmt: skip
"""In one of 64 slots, so as many sessions append for one tenant without waiting."""


def _put(table: str, names: Sequence[str], kinds: str, conflict: str) -> str:
    """Return SQL for rows of evidence, with an update of each tenant's total size."""
    return statement(
        "WITH moved AS (INSERT INTO", table, "(", _quoted(names), ") SELECT", _quoted(names, "u."),
        "FROM", _many(names, kinds), "WHERE u.digest IS NOT NULL ON CONFLICT", conflict,
        "RETURNING tenant, length(body) + outside AS bytes)", _WEIGHED,
    )  # fmt: skip


PUT_TEXTS: Final = _put("contract_text", _TEXT_NAMES, TEXT_KINDS, "(digest, tenant) DO NOTHING")
PUT_PAYLOADS: Final = _put(
    "payload", _PAYLOAD_NAMES, PAYLOAD_KINDS,
    "(action_id, digest) DO UPDATE SET media = excluded.media, body = excluded.body, object = excluded.object,"
    " outside = excluded.outside WHERE payload.body IS NULL",
)  # fmt: skip
"""Erased bytes recorded again are stored again. Present bytes stay unchanged."""
ANYTHING_ERASED: Final = "SELECT EXISTS (SELECT 1 FROM payload WHERE body IS NULL)"
TENANTS_TO_REMOVE: Final = "SELECT DISTINCT tenant FROM payload WHERE body IS NULL AND object <> ''"
TO_REMOVE: Final = (
    "SELECT DISTINCT object, EXISTS (SELECT FROM payload AS other WHERE other.object = payload.object"
    " AND other.body IS NOT NULL AND other.object <> '')"
    " FROM payload WHERE tenant = %s AND body IS NULL AND object <> ''"
)
"""Objects of erased evidence, and whether another action still uses the same object."""
REMOVED: Final = (
    "UPDATE payload SET object = '', outside = 0 WHERE tenant = %s AND object = %s AND body IS NULL AND object <> ''"
)
ERASE: Final = statement(
    "WITH held AS (SELECT digest, length(body) + outside AS bytes FROM payload WHERE action_id = %(id)s",
    "AND tenant = %(tenant)s AND digest = ANY (%(digests)s) AND body IS NOT NULL FOR UPDATE),",
    "moved AS (UPDATE payload SET media = '', body = NULL FROM held",
    "WHERE payload.action_id = %(id)s AND payload.digest = held.digest",
    "RETURNING payload.tenant, -held.bytes AS bytes)", _WEIGHED,
)  # fmt: skip
PUT_COUNT: Final = (
    "INSERT INTO counter (tenant, subject, name, value) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, subject, name) DO UPDATE SET value = counter.value + excluded.value"
)
RESET_COUNT: Final = "DELETE FROM counter WHERE tenant = %s AND subject = %s AND name = %s"
FORGET_PACE: Final = "DELETE FROM counter WHERE tenant = %s AND subject = %s AND name::bigint < %s"
SELECT_PACE: Final = "SELECT name::bigint, value FROM counter WHERE tenant = %s AND subject = %s AND name::bigint >= %s"
PUT_FREEZE: Final = statement(
    "INSERT INTO frozen (", FREEZE_COLUMNS, ") VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
LIFT: Final = "DELETE FROM frozen WHERE tenant = %s AND subject = %s AND action_id = %s"
SELECT_FREEZES_OF: Final = statement(
    "SELECT", FREEZE_COLUMNS, "FROM frozen WHERE tenant = ANY (string_to_array(%s, E'\\x1f'))",
    "AND subject = ANY (string_to_array(%s, E'\\x1f'))",
)  # fmt: skip
PUT_RELIANCE: Final = "INSERT INTO reliance (tenant, claim, action_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
PUT_INCIDENT: Final = statement(
    "INSERT INTO incident (", INCIDENT_COLUMNS, ") VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
    "ON CONFLICT (tenant, cause) WHERE closed_us = 0 DO UPDATE SET seen = incident.seen + 1",
)  # fmt: skip
CLOSE_INCIDENT: Final = "UPDATE incident SET closed_us = %s WHERE tenant = %s AND id = %s AND closed_us = 0"

NOT_READY_WHEN_DUE: Final = (
    "SELECT action_id FROM action WHERE ready_us IS DISTINCT FROM CASE WHEN due_us IS NULL OR lease_owner = ''"
    " THEN due_us ELSE greatest(due_us, lease_ends_us) END LIMIT 20"
)
KEY_OF_NO_ACTION: Final = (
    "SELECT key_hash FROM idempotency AS held WHERE NOT EXISTS (SELECT 1 FROM action WHERE"
    " action.action_id = held.action_id AND action.tenant = held.tenant AND action.key_hash = held.key_hash) LIMIT 20"
)
MISWEIGHED: Final = (
    "SELECT tenant, sum(bytes), sum(counted) FROM (SELECT tenant, length(body) + outside AS bytes, 0 AS counted"
    " FROM payload WHERE body IS NOT NULL UNION ALL SELECT tenant, length(body) + outside, 0 FROM contract_text"
    " UNION ALL SELECT tenant, 0, bytes FROM weight) AS held GROUP BY tenant HAVING sum(bytes) <> sum(counted) LIMIT 20"
)
FREEZE_OF_NO_ACTION: Final = (
    "SELECT tenant, subject FROM frozen AS held WHERE NOT EXISTS (SELECT 1 FROM action WHERE"
    " action.action_id = held.action_id AND action.tenant = held.tenant) LIMIT 20"
)
IN_FLIGHT_UP_TO: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM action WHERE tenant = %s AND ready_us IS NOT NULL"
    " AND state <> 'reconciled_success' LIMIT %s) AS waiting"
)
TAKE_LEASE: Final = (
    "UPDATE action SET lease_owner = %(owner)s, lease_until_us = %(until)s, fence = fence + 1,"
    " lease_ends_us = clock.base + %(ends)s,"
    " ready_us = CASE WHEN due_us IS NULL OR %(owner)s = '' THEN due_us"
    " ELSE greatest(due_us, clock.base + %(ends)s) END"
    " FROM (SELECT CASE WHEN %(own)s THEN clock_us() ELSE %(now)s END AS now,"
    " CASE WHEN %(own)s THEN clock_us() ELSE 0 END AS base) AS clock"
    " WHERE action_id = %(id)s AND (lease_owner IN ('', %(dead)s) OR lease_ends_us <= clock.now)"
    " RETURNING fence"
)
HOLD_ACTIONS: Final = (
    "SELECT 1 FROM action WHERE action_id = ANY (string_to_array(%(ids)s, E'\\x1f')) ORDER BY action_id FOR UPDATE"
)
"""In a fixed order, so two sessions leasing the same actions cannot deadlock."""
TAKE_LEASES: Final = statement(
    "UPDATE action SET lease_owner = %(owner)s, lease_until_us = u.until, fence = fence + 1,",
    "lease_ends_us = clock.base + u.ends,",
    "ready_us = CASE WHEN due_us IS NULL OR %(owner)s = '' THEN due_us ELSE greatest(due_us, clock.base + u.ends) END",
    "FROM (SELECT CASE WHEN %(own)s THEN clock_us() ELSE %(now)s END AS now,",
    "CASE WHEN %(own)s THEN clock_us() ELSE 0 END AS base) AS clock,",
    "unnest(string_to_array(%(ids)s, E'\\x1f'), string_to_array(%(untils)s, ',', '')::bigint[],",
    "string_to_array(%(ends)s, ',', '')::bigint[], string_to_array(%(dead)s, E'\\x1f')) AS u(id, until, ends, dead)",
    "WHERE u.until IS NOT NULL AND action_id = u.id AND (lease_owner IN ('', u.dead) OR lease_ends_us <= clock.now)",
    "RETURNING action_id, fence",
)
RELEASE: Final = (
    "UPDATE action SET lease_owner = '', lease_until_us = 0, lease_ends_us = 0, ready_us = due_us"
    " WHERE lease_owner = %s AND lease_owner <> ''"
)
WAKE: Final = (
    "UPDATE action SET due_us = least(due_us, %(at)s), ready_us = CASE WHEN lease_owner = ''"
    " THEN least(due_us, %(at)s) ELSE greatest(least(due_us, %(at)s), lease_ends_us) END"
    " WHERE action_id = %(id)s AND due_us IS NOT NULL RETURNING 1"
)

SELECT_KEY: Final = statement("SELECT", KEY_COLUMNS, "FROM idempotency WHERE tenant = %s AND key_hash = %s")
SELECT_EVIDENCE: Final = (
    "SELECT media, body, object FROM payload WHERE action_id = %(id)s AND digest = %(raw)s AND tenant = %(tenant)s"
    " AND body IS NOT NULL UNION ALL"
    " SELECT media, body, object FROM contract_text WHERE digest = %(raw)s AND tenant = %(tenant)s"
)
IS_ERASED: Final = "SELECT 1 FROM payload WHERE action_id = %s AND digest = %s AND tenant = %s AND body IS NULL"
KEEPER: Final = "SELECT action_id FROM payload WHERE digest = %s AND tenant = %s ORDER BY body IS NULL LIMIT 1"
SELECT_FREEZES: Final = statement(
    "SELECT", FREEZE_COLUMNS, "FROM frozen WHERE tenant = %s ORDER BY since_us, subject, action_id"
)
SELECT_FROZEN: Final = statement(
    "SELECT", FREEZE_COLUMNS, "FROM frozen WHERE tenant = %s AND subject = ANY (string_to_array(%s, E'\\x1f'))",
    "ORDER BY since_us, subject, action_id LIMIT 1",
)  # fmt: skip
SELECT_DEPENDANTS: Final = "SELECT action_id FROM reliance WHERE tenant = %s AND claim = %s ORDER BY action_id LIMIT %s"
SELECT_RELIANCE: Final = "SELECT 1 FROM reliance WHERE tenant = %s AND claim = %s AND action_id = %s"
SELECT_RELIANCES: Final = statement(
    "SELECT tenant, claim, action_id FROM reliance WHERE (tenant, claim, action_id) > (%s, %s, %s)",
    "ORDER BY tenant, claim, action_id LIMIT %s",
)
SELECT_INCIDENTS: Final = statement("SELECT", INCIDENT_COLUMNS, "FROM incident")
SELECT_COUNTS: Final = (
    "SELECT subject, name, value FROM counter WHERE tenant = %s AND value > 0 AND subject <> %s ORDER BY subject, name"
)
OPENING: Final = statement(
    "SELECT EXISTS (SELECT 1 FROM frozen WHERE tenant = %s),",
    "EXISTS (SELECT 1 FROM counter WHERE tenant = %s AND value > 0 AND subject <> %s),",
    ", ".join(f"held.{name}" for name in KEY_COLUMNS.split(", ")),
    "FROM (SELECT 1) AS one LEFT JOIN idempotency AS held ON held.tenant = %s AND held.key_hash = %s",
)
"""Whether any freeze or counter exists, and the holder of the key: always one row."""
TENANTS_MET: Final = (
    "SELECT u.tenant, EXISTS (SELECT 1 FROM frozen WHERE frozen.tenant = u.tenant),"
    " EXISTS (SELECT 1 FROM counter WHERE counter.tenant = u.tenant AND value > 0 AND subject <> %s)"
    " FROM unnest(string_to_array(%s, E'\\x1f')) WITH ORDINALITY AS u(tenant, place) WHERE u.place <= %s"
)
"""Whether any freeze or counter exists, for each of several tenants."""
EVIDENCE_BYTES: Final = "SELECT coalesce(sum(bytes), 0)::bigint FROM weight WHERE tenant = %s"
IN_FLIGHT: Final = (
    "SELECT count(*) FROM action WHERE tenant = %s AND ready_us IS NOT NULL AND state <> 'reconciled_success'"
)


def kept(text: str) -> str:
    """Return a text in stored form."""
    return text.translate(_TO)


def told(text: str) -> str:
    """Return the original of a stored text."""
    first, *rest = text.split(ESCAPE)
    return first + "".join(_BACK[part[0]] + part[1:] for part in rest)


def plain(row: Row) -> Row:
    """Return a row with its original texts."""
    for value in row:
        if value.__class__ is str and ESCAPE in value:
            return tuple(told(value) if value.__class__ is str and ESCAPE in value else value for value in row)
    return row


class TextDumper(StrBinaryDumper):
    """Encodes a text sent by itself."""

    def dump(self, obj: str) -> Any:
        return super().dump(kept(obj) if "\x00" in obj or ESCAPE in obj or BETWEEN in obj else obj)


def stored_event(row: Row) -> StoredEvent:
    return StoredEvent(*plain(row))


def key_record(row: Row) -> KeyRecord:
    return KeyRecord(*plain(row))


def freeze(row: Row) -> Freeze:
    return Freeze(*plain(row))


def incident(row: Row) -> Incident:
    return Incident(*plain(row))


def stored_projection(row: Row) -> StoredProjection:
    *columns, version, fence = plain(row)
    return StoredProjection(Projection(*columns), version, fence)
