"""Queries for due actions, each with its own index. Called by the reading side.

The indexes group waiting actions by contract version. A query skips from group to group and reads the first rows of the
groups known to the worker. The cost of a poll grows with the number of waiting versions, not with the number of their
actions.

Succeeded actions due for another reading are separate from actions without a verdict. They come last, in any number.
Across all tenants, a query by time finds the earliest actions. Only with more due actions than requested does a query
skip from tenant to tenant: many actions of one tenant may precede the first of another.

The worker's clock decides whether an action is due. The clock of `judge` decides whether its lease has ended: the
database's clock, or the worker's.
"""

from __future__ import annotations

from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store_rules import SUCCEEDED
from readback.stores.postgres.connection import row_encoding
from readback.stores.postgres.connection.rows import statement

LOOKED_BEYOND: Final = 256
"""Extra rows to read by time, beyond the requested number, before querying single tenants."""
_VERSION: Final = ("kind", "contract", "contract_hash")
_JUDGE: Final = "(SELECT CASE WHEN %(own)s THEN clock_us() ELSE %(now)s END)"
_IS_DUE: Final = statement(
    "ready_us <= greatest(known.until_us,", _JUDGE, "- (%(now)s - known.until_us)) AND due_us <= known.until_us",
    "AND (lease_owner = '' OR lease_ends_us <=", _JUDGE, ")",
)  # fmt: skip
_HASHES: Final = "((SELECT string_to_array(%(hashes)s, E'\\x1f'))::text[])"
_NAMES: Final = "((SELECT string_to_array(%(names)s, E'\\x1f'))::text[])"
_FOREIGN: Final = "((SELECT string_to_array(%(foreign)s, E'\\x1f'))::text[])"
_UNTIL: Final = statement(
    "CASE WHEN %(all)s THEN %(now)s::bigint WHEN each.kind = 'saga' THEN",
    "CASE WHEN each.contract_hash = '' OR each.contract_hash <> ALL", _FOREIGN, "THEN %(now)s::bigint END",
    "WHEN each.contract_hash <> '' AND each.contract_hash = ANY", _HASHES,
    "THEN %(now)s::bigint WHEN each.contract <> ALL", _NAMES, "THEN NULL",
    "WHEN each.contract_hash = '' THEN %(now)s::bigint ELSE least(%(left)s, %(now)s)::bigint END",
)  # fmt: skip
"""`ContractFilter.until_us`, for a group."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The queries for one of the two kinds of due actions.

    Bound values: own (the database's clock decides on leases), now (the worker's time), all (every version is
    requested), or hashes (requested versions), names (requested contracts), left (latest ready time of their other
    versions), and foreign (excluded versions of sagas).
    """

    of_tenant: str
    """Time, tenant and id of a tenant's due actions. Also bound: tenant, limit."""
    soonest: str
    """The same across tenants. Also bound: limit."""
    heads: str
    """The first of each version of each tenant."""
    next_of_tenant: str
    """The next due time of a tenant: tenant."""
    next: str
    """The next due time."""


def _column(name: str) -> str:
    """Return a part of a key as in the indexes. A saga has the version of all contracts behind the steps."""
    if name not in ("contract", "contract_hash"):
        return name
    version = "''" if name == "contract" else "contract_version"
    return f"(CASE kind WHEN 'saga' THEN {version} ELSE {name} END)"


def _leaps(mine: str, key: tuple[str, ...], order: str, condition: str = "") -> str:
    """Return SQL for the first row of each key, in the order of an index, plus a row before all keys."""
    names, before = ", ".join(key), ", ".join(f"each.{name}" for name in key)
    present = ", ".join(map(_column, key))
    return statement(
        f"WITH RECURSIVE each({names}, ready_us) AS (SELECT", "".join("''::text COLLATE \"C\", " for _ in key),
        "NULL::bigint UNION ALL SELECT next.* FROM each CROSS JOIN LATERAL (SELECT", present, ", ready_us", mine,
        condition, f"AND ({present}) > ({before}) ORDER BY {present}, {order} LIMIT 1) AS next)",
    )  # fmt: skip


def _due(mine: str, key: tuple[str, ...], order: str, limit: str, condition: str = "") -> str:
    """Return SQL for time, tenant and id of the first due actions of each known group of this key."""
    same = "".join(f" AND {_column(name)} = each.{name}" for name in key)
    return statement(
        "SELECT due.ready_us, due.tenant, due.action_id FROM each CROSS JOIN LATERAL (SELECT", _UNTIL, "AS until_us",
        "OFFSET 0) AS known CROSS JOIN LATERAL (SELECT ready_us, tenant, action_id", mine, condition, same, "AND",
        _IS_DUE, f"ORDER BY {order} LIMIT {limit}) AS due",
        "WHERE each.ready_us IS NOT NULL AND known.until_us IS NOT NULL",
    )  # fmt: skip


def _questions(kind: str) -> Ready:
    mine = statement("FROM action WHERE ready_us IS NOT NULL AND", kind)
    one, of_tenant, soonest = "AND tenant = %(tenant)s", "ready_us, action_id", "ready_us, tenant, action_id"
    of_one, of_everybody = _leaps(mine, _VERSION, of_tenant, one), _leaps(mine, _VERSION, soonest)
    by_tenant, limit = ("tenant", *_VERSION), "%(limit)s"
    return Ready(
        statement(of_one, _due(mine, _VERSION, of_tenant, limit, one), "ORDER BY 1, 3 LIMIT %(limit)s"),
        statement(of_everybody, _due(mine, _VERSION, soonest, limit), "ORDER BY 1 LIMIT %(limit)s"),
        statement(_leaps(mine, by_tenant, of_tenant), _due(mine, by_tenant, of_tenant, "1")),
        statement(of_one, "SELECT min(ready_us) FROM each"),
        statement(of_everybody, "SELECT min(ready_us) FROM each"),
    )


OPEN: Final = _questions(f"state <> '{SUCCEEDED}'")
WATCHED: Final = _questions(f"state = '{SUCCEEDED}'")
EACH: Final = (OPEN, WATCHED)


def values(known: ContractFilter | None) -> dict[str, Any]:
    """Return the bound values for a filter."""
    hashes, names = (sorted(known.hashes), sorted(known.names)) if known is not None else ([], [])
    left_us = known.left_us if known is not None else 0
    foreign = sorted(known.foreign_sagas) if known is not None else []
    return {
        "all": known is None,
        "hashes": row_encoding.texts(hashes),
        "names": row_encoding.texts(names),
        "left": left_us,
        "foreign": row_encoding.texts(foreign),
    }
