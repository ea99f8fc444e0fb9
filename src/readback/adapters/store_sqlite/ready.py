"""The questions about what is due, each with an index of its own; called by the reading side.

What has succeeded and is only looked at again stands apart from what is on its way to a verdict, so that it is found
last however much of it is due. Of all tenants together the soonest are found by time. Only where more is due than is
asked for does one have to leap from tenant to tenant: what is first of one may lie behind what is many of another.

Whoever asks may leave out what he cannot go on with; then what is due of that is passed by, row by row.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from readback.adapters.store_sqlite.rows import statement
from readback.canon.frozen import dataclass
from readback.ports.known import Known
from readback.ports.store_rules import SUCCEEDED

Values: TypeAlias = tuple[str | int, ...]
LOOKED_BEYOND: Final = 256
"""So many more than are asked for are looked at by time, before the tenants are asked one by one."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The questions about one of the two kinds of what is due."""

    of_tenant: str
    """Time, tenant and id of what is due of a tenant: (tenant, now, limit)."""
    soonest: str
    """The same of everybody: (now, limit)."""
    heads: str
    """The first of each tenant: (now)."""
    next_of_tenant: str
    """When the next one of a tenant is due: (tenant)."""
    next: str
    """When the next one is due."""


def _questions(kind: str, of_tenant: str, soonest: str, covered: str = "") -> Ready:
    """`covered`: a condition on each action that is found; its values come before the others."""
    mine = statement("FROM action INDEXED BY", of_tenant, "WHERE ready_us IS NOT NULL AND", kind)
    anybodys = statement("FROM action INDEXED BY", soonest, "WHERE ready_us IS NOT NULL AND", kind)
    columns = "SELECT ready_us, tenant, action_id"
    first = statement(
        "(SELECT rowid", mine, covered, "AND tenant = each.tenant AND ready_us <= ? ORDER BY ready_us, action_id"
    )
    next_tenant = statement("SELECT (SELECT min(tenant)", mine, "AND tenant > each.tenant)")
    return Ready(
        statement(columns, mine, covered, "AND tenant = ? AND ready_us <= ? ORDER BY ready_us, action_id LIMIT ?"),
        statement(columns, anybodys, covered, "AND ready_us <= ? ORDER BY ready_us LIMIT ?"),
        statement(
            "WITH RECURSIVE each(tenant) AS (SELECT min(tenant)", mine,
            "UNION ALL", next_tenant, "FROM each WHERE tenant IS NOT NULL)",
            "SELECT head.ready_us, head.tenant, head.action_id FROM each",
            "JOIN action AS head ON head.rowid =", first, "LIMIT 1)",
        ),
        statement("SELECT min(ready_us)", mine, "AND tenant = ?"),
        statement("SELECT min(ready_us)", anybodys),
    )  # fmt: skip


OPEN: Final = _questions(f"state <> '{SUCCEEDED}'", "action_ready", "action_soonest")
WATCHED: Final = _questions(f"state = '{SUCCEEDED}'", "action_watched", "action_watched_soonest")
EACH: Final = (OPEN, WATCHED)
_COVERED: Final = (
    "AND (kind = 'saga' OR (contract_hash <> '' AND contract_hash IN (SELECT value FROM json_each(?))) OR"
    " (contract IN (SELECT value FROM json_each(?)) AND (contract_hash = '' OR due_us <= ?)))"
)
KNOWN_OPEN: Final = _questions(f"state <> '{SUCCEEDED}'", "action_ready", "action_soonest", _COVERED)
KNOWN_WATCHED: Final = _questions(f"state = '{SUCCEEDED}'", "action_watched", "action_watched_soonest", _COVERED)


def values(known: Known | None) -> Values:
    """What is bound where only that is asked for."""
    if known is None:
        return ()
    return json.dumps(sorted(known.hashes)), json.dumps(sorted(known.names)), known.left_us
