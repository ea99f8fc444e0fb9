"""The questions about what is due, each with an index of its own; called by the reading side.

What has succeeded and is only looked at again stands apart from what is on its way to a verdict, so that it is found
last however much of it is due. Of all tenants together the soonest are found by time. Only where more is due than is
asked for does one have to leap from tenant to tenant: what is first of one may lie behind what is many of another.

Whoever asks may leave out what he cannot go on with; then what is due of that is passed by, row by row.

An action is due by the time of whoever asks, and its lease has ended by the time of `judge`: the database's, or his.
"""

from __future__ import annotations

from typing import Any, Final

from readback.adapters.store_postgres import packing
from readback.adapters.store_postgres.rows import statement
from readback.canon.frozen import dataclass
from readback.ports.known import Known
from readback.ports.store_rules import SUCCEEDED

LOOKED_BEYOND: Final = 256
"""So many more than are asked for are looked at by time, before the tenants are asked one by one."""
_JUDGE: Final = "(SELECT CASE WHEN %(own)s THEN clock_us() ELSE %(now)s END)"
_IS_DUE: Final = statement(
    "ready_us <= greatest(%(now)s,", _JUDGE, ") AND due_us <= %(now)s AND (lease_owner = '' OR lease_ends_us <=",
    _JUDGE, ")",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ready:
    """The questions about one of the two kinds of what is due. `own`: the database judges leases; `now`: who asks."""

    of_tenant: str
    """Time, tenant and id of what is due of a tenant: own, now, tenant, limit."""
    soonest: str
    """The same of everybody: own, now, limit."""
    heads: str
    """The first of each tenant: own, now."""
    next_of_tenant: str
    """When the next one of a tenant is due: tenant."""
    next: str
    """When the next one is due."""


def _questions(kind: str, covered: str = "") -> Ready:
    """`covered`: a condition on each action that is found."""
    mine = statement("FROM action WHERE ready_us IS NOT NULL AND", kind)
    columns = "SELECT ready_us, tenant, action_id"
    next_tenant = statement("SELECT (SELECT min(tenant)", mine, "AND tenant > each.tenant)")
    return Ready(
        statement(
            columns, mine, covered, "AND tenant = %(tenant)s AND", _IS_DUE,
            "ORDER BY ready_us, action_id LIMIT %(limit)s",
        ),
        statement(columns, mine, covered, "AND", _IS_DUE, "ORDER BY ready_us LIMIT %(limit)s"),
        statement(
            "WITH RECURSIVE each(tenant) AS (SELECT min(tenant)", mine,
            "UNION ALL", next_tenant, "FROM each WHERE tenant IS NOT NULL)",
            "SELECT head.ready_us, head.tenant, head.action_id FROM each CROSS JOIN LATERAL (", columns, mine, covered,
            "AND tenant = each.tenant AND", _IS_DUE, "ORDER BY ready_us, action_id LIMIT 1) AS head",
        ),
        statement("SELECT min(ready_us)", mine, "AND tenant = %(tenant)s"),
        statement("SELECT min(ready_us)", mine),
    )  # fmt: skip


OPEN: Final = _questions(f"state <> '{SUCCEEDED}'")
WATCHED: Final = _questions(f"state = '{SUCCEEDED}'")
EACH: Final = (OPEN, WATCHED)
_HASHES: Final = "((SELECT string_to_array(%(hashes)s, E'\\x1f'))::text[])"
_NAMES: Final = "((SELECT string_to_array(%(names)s, E'\\x1f'))::text[])"
_COVERED: Final = statement(
    "AND (kind = 'saga' OR contract_hash <> '' AND contract_hash = ANY", _HASHES,
    "OR contract = ANY", _NAMES, "AND (contract_hash = '' OR due_us <= %(left)s))",
)  # fmt: skip
KNOWN_OPEN: Final = _questions(f"state <> '{SUCCEEDED}'", _COVERED)
KNOWN_WATCHED: Final = _questions(f"state = '{SUCCEEDED}'", _COVERED)


def values(known: Known | None) -> dict[str, Any]:
    """What is bound where only that is asked for."""
    if known is None:
        return {}
    hashes, names = packing.texts(sorted(known.hashes)), packing.texts(sorted(known.names))
    return {"hashes": hashes, "names": names, "left": known.left_us}
