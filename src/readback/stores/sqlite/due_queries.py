"""Queries for due actions, each with its own index. Called by the reading side.

The indexes group waiting actions by contract version. A query skips from group to group and reads the first row of
each. A worker with some contracts continues only in their groups. The cost of a poll grows with the number of waiting
versions, not with the number of their actions.

Succeeded actions due for another reading are separate from actions without a verdict. They come last, in any number.
Across all tenants, a query by time finds the earliest actions. Only with more due actions than requested does a query
skip from tenant to tenant: many actions of one tenant may precede the first of another.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from readback.canon.frozen import dataclass
from readback.ports.storage.store_rules import SUCCEEDED
from readback.stores.sqlite.rows import statement

Version: TypeAlias = tuple[str, str, str]
"""Kind, contract and contract hash."""
Found: TypeAlias = tuple[int, str, str]
"""Time, tenant and id."""
Group: TypeAlias = tuple[Version, int, Found]
"""A contract version, the latest permitted ready time of its actions, and the first due action."""
LOOKED_BEYOND: Final = 256
"""Extra rows to read by time, beyond the requested number, before querying single tenants."""
_VERSION: Final = ("kind", "contract", "contract_hash")


@dataclass(frozen=True, slots=True)
class Ready:
    """The queries for one of the two kinds of due actions.

    A group is a row of kind, contract, contract hash, and the time, tenant and id of its first action.
    """

    groups: str
    """All groups, across tenants: ()."""
    groups_of_tenant: str
    """The groups of a tenant: (tenant)."""
    groups_by_tenant: str
    """The groups of each tenant: ()."""
    of_group: str
    """Time, tenant and id of due actions in a group across tenants: (kind, contract, hash, until, limit)."""
    of_group_of_tenant: str
    """The same in a group of a tenant: (tenant, kind, contract, hash, until, limit)."""
    next: str
    """The next due time: ()."""
    next_of_tenant: str
    """The next due time of a tenant: (tenant)."""


def _column(name: str, of: str = "") -> str:
    """Return a part of a key as in the indexes. A saga has the version of all contracts behind the steps."""
    if name not in ("contract", "contract_hash"):
        return f"{of}{name}"
    version = "''" if name == "contract" else f"{of}contract_version"
    return f"(CASE {of}kind WHEN 'saga' THEN {version} ELSE {of}{name} END)"


def _leaps(mine: str, key: tuple[str, ...], order: str, *, tenant: bool = False) -> str:
    """Return SQL for the first row of each key in the index named by `mine`, in index order, plus a row before all
    keys.
    `tenant`: limited to the bound tenant.
    """
    condition, before = ("AND tenant = each.tenant", "?") if tenant else ("", "''")
    columns = (*_VERSION, "ready_us", "tenant", "action_id")
    following = (_following(mine, key[:same], key[same:], order, condition) for same in reversed(range(len(key))))
    return statement(
        f"WITH RECURSIVE each({', '.join(columns)}) AS (SELECT '', '', '', NULL, {before}, '' UNION ALL",
        "SELECT", ", ".join(_column(name, "next.") for name in columns), "FROM each JOIN action AS next",
        f"ON next.rowid = coalesce({', '.join(following)}))",
    )  # fmt: skip


def _following(mine: str, same: tuple[str, ...], rest: tuple[str, ...], order: str, condition: str) -> str:
    """Return SQL for the next key with this prefix. A row value, `(a, b) > (?, ?)`, would read all rows of the previous
    key.
    """
    given = "".join(f" AND {_column(name)} = each.{name}" for name in same)
    other = f"AND {_column(rest[0])} > each.{rest[0]} ORDER BY {', '.join(map(_column, rest))}, {order} LIMIT 1)"
    return statement("(SELECT rowid", mine, condition, given, other)


def _questions(kind: str, of_tenant: str, soonest: str) -> Ready:
    mine = statement("FROM action INDEXED BY", of_tenant, "WHERE ready_us IS NOT NULL AND", kind)
    anybodys = statement("FROM action INDEXED BY", soonest, "WHERE ready_us IS NOT NULL AND", kind)
    groups = "SELECT * FROM each WHERE ready_us IS NOT NULL"
    one = statement(*(f"AND {_column(name)} = ?" for name in _VERSION), "AND ready_us <= ?")
    columns = "SELECT ready_us, tenant, action_id"
    of_everybody = _leaps(anybodys, _VERSION, "ready_us, tenant, action_id")
    of_one = _leaps(mine, _VERSION, "ready_us, action_id", tenant=True)
    return Ready(
        statement(of_everybody, groups),
        statement(of_one, groups),
        statement(_leaps(mine, ("tenant", *_VERSION), "ready_us, action_id"), groups),
        statement(columns, anybodys, one, "ORDER BY ready_us, tenant, action_id LIMIT ?"),
        statement(columns, mine, "AND tenant = ?", one, "ORDER BY ready_us, action_id LIMIT ?"),
        statement(of_everybody, "SELECT min(ready_us) FROM each"),
        statement(of_one, "SELECT min(ready_us) FROM each"),
    )


OPEN: Final = _questions(f"state <> '{SUCCEEDED}'", "action_ready", "action_soonest")
WATCHED: Final = _questions(f"state = '{SUCCEEDED}'", "action_watched", "action_watched_soonest")
EACH: Final = (OPEN, WATCHED)
