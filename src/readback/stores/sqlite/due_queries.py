"""The questions about what is due, each with an index of its own; called by the reading side.

The indexes have what waits in groups, one for each version of a contract. A question leaps from group to group and
reads the first row of each. A worker that knows some contracts reads on in their groups alone. What a poll costs grows
with the number of versions that wait, and not with the number of their actions.

What has succeeded and is only looked at again stands apart from what is on its way to a verdict, so that it is found
last however much of it is due. Of all tenants together the soonest are found by time. Only where more is due than is
asked for does a question leap from tenant to tenant: what is first of one may lie behind what is many of another.
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
"""A version of a contract, by when an action of the version has to be ready, and the first of them."""
LOOKED_BEYOND: Final = 256
"""So many more than are asked for are looked at by time, before the tenants are asked one by one."""
_VERSION: Final = ("kind", "contract", "contract_hash")


@dataclass(frozen=True, slots=True)
class Ready:
    """The questions about one of the two kinds of what is due.

    A group is a row of kind, contract, contract hash, and the time, tenant and id of its first action.
    """

    groups: str
    """The groups of everybody: ()."""
    groups_of_tenant: str
    """The groups of a tenant: (tenant)."""
    groups_by_tenant: str
    """The groups of each tenant: ()."""
    of_group: str
    """Time, tenant and id of what is due in a group of everybody: (kind, contract, hash, until, limit)."""
    of_group_of_tenant: str
    """The same in a group of a tenant: (tenant, kind, contract, hash, until, limit)."""
    next: str
    """When the next one is due: ()."""
    next_of_tenant: str
    """When the next one of a tenant is due: (tenant)."""


def _column(name: str, of: str = "") -> str:
    """A part of a key as the indexes have it: all sagas are one version, since each has a definition of its own."""
    if name not in ("contract", "contract_hash"):
        return f"{of}{name}"
    return f"(CASE {of}kind WHEN 'saga' THEN '' ELSE {of}{name} END)"


def _leaps(mine: str, key: tuple[str, ...], order: str, *, tenant: bool = False) -> str:
    """A first row of each key in the index that `mine` names, in its order; beside what stands before all of them.
    `tenant`: of the tenant that is bound.
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
    """The next key that has this beginning. A row value, `(a, b) > (?, ?)`, would read all rows of the key before."""
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
