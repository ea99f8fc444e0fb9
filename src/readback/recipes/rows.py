"""Verified row: write one row with a stamp, and read the row through another connection or an up-to-date replica.

Authors pass a database for writing, its primary for reading, and optionally a replica. A replica's row counts after the
replica has replayed the write's commit. Otherwise the same read uses the primary. A lost commit reply is settled by the
state of the transaction.

Source: "The Verification Ledger Pattern", adapting it to database writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from readback.canon import ExactNumber, Json, decimal_of
from readback.canon.frozen import dataclass
from readback.client.authoring.action import ActionDefinition
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.domain.verification.change import alike
from readback.domain.verification.reading import Lookup, Presence, Reading
from readback.errors import ContractFieldError
from readback.recipes.choices import Choices, quoted

if TYPE_CHECKING:
    from readback.client.proposal import Proposal
    from readback.systems import SqlExecutor, SqlSource

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_EXACT: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""An exact number in a database's notation. Python also accepts blanks, underscores and other digits."""


class RowAction(ActionDefinition[[str, dict[str, Any]]]):
    """Propose one row: `write(row=..., values={...})`.

    Example:
        >>> def propose(write: RowAction):
        ...     return write(row="7", values={"status": "shipped"})
    """

    if TYPE_CHECKING:

        def __call__(self, row: str, values: dict[str, Any]) -> Proposal: ...


@dataclass(frozen=True, slots=True)
class Table:
    """The table to write. Names are checked and quoted. Values never enter a statement's text.

    Attributes:
        name: Name of the table.
        key: Column that identifies a row.
        columns: Writable columns.
        stamp: Column with the last writer's stamp.
        version: Column with a number that grows with each write, or "".
        tenant: Column with the tenant, or "".
        placeholder: The driver's placeholder: `%s` for psycopg, `?` for sqlite3.
        booleans: Writable columns with truth values as 0 and 1, as in SQLite.

    Example:
        >>> Table("orders", "id", ("status", "paid"), placeholder="?", booleans=("paid",)).stamp
        'stamp'
    """

    name: str
    key: str
    columns: tuple[str, ...]
    stamp: str = "stamp"
    version: str = ""
    tenant: str = ""
    placeholder: str = "%s"
    booleans: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = [self.name, self.key, self.stamp, *self.columns, *filter(None, (self.version, self.tenant))]
        odd = [name for name in named if not _IDENTIFIER.fullmatch(name)]
        if odd or not self.columns or self.placeholder not in ("%s", "?"):
            raise ContractFieldError(f"A table needs plain names (got {odd or self.placeholder}).")
        if {self.key, self.stamp, self.version, self.tenant} & set(self.columns):
            raise ContractFieldError("`columns` must not contain key, stamp, version or tenant.")
        if not set(self.booleans) <= set(self.columns):
            raise ContractFieldError("`booleans` must be a subset of `columns`.")

    def change(self, kind: str, ctx: Context, row: str, values: Mapping[str, object]) -> tuple[str, list[object]]:
        """Return the statement that writes the row, and its parameters."""
        names = [name for name in self.columns if name in values]
        if kind == "create":
            own: dict[str, object] = {self.key: row, self.stamp: ctx.stamp}
            if self.tenant:
                own[self.tenant] = ctx.tenant
            if self.version:
                own[self.version] = 1
            every = [*names, *own]
            marks = ", ".join([self.placeholder] * len(every))
            text = f"insert into {_q(self.name)} ({', '.join(map(_q, every))}) values ({marks})"  # noqa: S608 - quoted
            return text, [*(values[name] for name in names), *own.values()]
        sets = [f"{_q(name)} = {self.placeholder}" for name in (*names, self.stamp)]
        sets += [f"{_q(self.version)} = {_q(self.version)} + 1"] if self.version else []
        where, given = self._where(ctx, row)
        text = f"update {_q(self.name)} set {', '.join(sets)} where {where}"  # noqa: S608 - quoted
        return text, [*(values[name] for name in names), ctx.stamp, *given]

    def row(self, ctx: Context, row: str) -> tuple[str, list[object]]:
        """Return the query for the row."""
        where, given = self._where(ctx, row)
        return f"{self._select()} where {where}", given

    def stamped(self, ctx: Context) -> tuple[str, list[object]]:
        """Return the query for every row with the stamp."""
        return f"{self._select()} where {_q(self.stamp)} = {self.placeholder}", [ctx.stamp]

    def _select(self) -> str:
        more = [_q(name) for name in (self.version, self.tenant) if name]
        shown = ", ".join([f"cast({_q(self.key)} as text) as {_q(self.key)}", _q(self.stamp), *more])
        return f"select {shown}, {', '.join(map(_q, self.columns))} from {_q(self.name)}"  # noqa: S608 - quoted

    def _where(self, ctx: Context, row: str) -> tuple[str, list[object]]:
        where = f"{_q(self.key)} = {self.placeholder}"
        if not self.tenant:
            return where, [row]
        return f"{where} and {_q(self.tenant)} = {self.placeholder}", [row, ctx.tenant]


def verified_row(
    database: SqlExecutor,
    primary: SqlSource,
    table: Table,
    *,
    replica: SqlSource | None = None,
    kind: Literal["set", "create"] = "set",
    recorded: bool = True,
    **choices: Unpack[Choices],
) -> RowAction:
    """Return an action that writes one row.

    The action is verified when another connection shows the row as requested, with the stamp.

    Args:
        database: The database for writing.
        primary: Source on the same server.
        table: The table.
        replica: Source on a replica of that server.
        kind: "set" changes a row, "create" inserts a row.
        recorded: The database is PostgreSQL, with transaction ids and log positions for replicas. Pass False
            for other databases.
        choices: Contract keys to change.

    Example:
        >>> import sqlite3
        >>> from readback.systems import SqlExecutor, SqlSource
        >>> database = SqlExecutor("shop", lambda: sqlite3.connect("shop.db"))
        >>> primary = SqlSource("shop", lambda: sqlite3.connect("shop.db"))
        >>> write = verified_row(database, primary, Table("orders", "id", ("status",), placeholder="?"), recorded=False)
    """

    def seen(source: SqlSource, ctx: Context, row: str, token: str | None = None) -> Reading:
        query, given = table.row(ctx, row)
        marks = {"version": table.version or None, "stamp": table.stamp, "commit_token": token}
        return source.one(query, given, booleans=table.booleans, **marks)

    def write(ctx: Context, row: str, values: dict[str, Any]) -> object:
        statement, given = table.change(kind, ctx, row, values)
        return (database.execute_recorded if recorded else database.execute)(ctx, statement, given)

    def near(ctx: Context, row: str, values: dict[str, Any]) -> Reading:
        """Read the replica if the write is replayed and visible there, else the primary."""
        token = _told(ctx, "commit_token")
        if replica is not None and token is not None:
            found = seen(replica, ctx, row, token)
            if found.commit_token_honoured and found.presence is Presence.PRESENT and found.stamp == ctx.stamp:
                return found
        return seen(primary, ctx, row)

    def there(ctx: Context, row: str, values: dict[str, Any]) -> Reading:
        return seen(primary, ctx, row)

    def everywhere(ctx: Context, row: str, values: dict[str, Any]) -> Sequence[Reading]:
        query, given = table.stamped(ctx)
        return primary.all(query, given, version=table.version or None, stamp=table.stamp, booleans=table.booleans)

    def transaction(ctx: Context, row: str, values: dict[str, Any]) -> Lookup:
        xid = _told(ctx, "xid")
        return Lookup.unknown_key() if xid is None else primary.settled(xid)

    action = RowAction(write, {**_contract(table, kind), **choices})
    if replica is not None:
        action.read(source=replica.name, consistency="session", independence="other_client", name="near")(near)
    action.read(source=primary.name, consistency="strong", independence="other_client", name="primary")(there)
    action.find(complete=True)(everywhere)  # the recipe inserts only into this table
    if recorded:
        action.lookup(transaction)
    return action


def _contract(table: Table, kind: str) -> dict[str, object]:
    columns = ", ".join(map(quoted, table.columns))
    return {
        "name": f"verified_{table.name}",
        "kind": kind,
        "side_effect": "low_risk_internal",
        "target": f"{table.name}/{{requested.row}}",
        "identity": {
            "target": f"authoritative.{table.key}",
            "tenant": f"authoritative.{table.tenant}" if table.tenant else "not_offered",
            "account": "not_offered",
            "actor": "not_offered",
            "stamp": f"authoritative.{table.stamp}",
        },
        "require": {"known columns": f"requested.values.all(name, name in [{columns}])"},
        "ensure": {"as asked for": written_as_asked},
    }


@postcondition(version="1", name="written as asked for")
def written_as_asked(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """Every requested value is present.

    Numbers are equal in every scale: 7 equals 7.00. A requested text never equals a number. Exact numbers are read as
    text, so a text column may hold one.
    """
    values = requested["values"]
    assert isinstance(values, dict)
    if not set(values) <= set(authoritative):
        return None
    return all(_same(asked, authoritative[name]) for name, asked in values.items())


def _same(asked: Json, shown: Json) -> bool:
    if isinstance(asked, bool) or not isinstance(asked, int | float | ExactNumber):
        return alike(asked, shown)
    if isinstance(shown, bool) or not isinstance(shown, int | float | ExactNumber | str):
        return False
    if isinstance(shown, str) and _EXACT.fullmatch(shown) is None:
        return False
    try:  # databases return exact numbers as text
        return decimal_of(asked) == (Decimal(shown) if isinstance(shown, str) else decimal_of(shown))
    except InvalidOperation:
        return False


def _told(ctx: Context, name: str) -> str | None:
    """Return a value from the database's answer to the writer: only a hint for where to read."""
    said = ctx.observed.get(name) if isinstance(ctx.observed, dict) else None
    return said if isinstance(said, str) else None


def _q(name: str) -> str:
    return f'"{name}"'
