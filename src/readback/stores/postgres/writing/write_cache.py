"""What this process wrote last, so that the next transaction need not ask for it.

Called by the transaction. Nothing of it is believed: each write is held to the version and the fence that are
remembered here, and fails where somebody else was there meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.ports.storage.contract_filter import key_of
from readback.ports.storage.store import Projection
from readback.ports.storage.store_rules import SUCCEEDED
from readback.ports.storage.wakeups import DEFER_AHEAD_US, TASK, queue_of
from readback.stores.postgres.connection.connect import Connection
from readback.stores.postgres.connection.rows import Row
from readback.stores.postgres.connection.second_connection import Watched

# Defers wake-ups in the ledger's own transaction, by the SQL functions of the queue that stands beside it.

LOOKED_FOR_EVERY: Final = 64
"""A queue that is not there is looked for again after so many groups that would have deferred something."""
_IS_THERE: Final = "SELECT to_regprocedure('procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[])') IS NOT NULL"
_DEFER: Final = """
SELECT procrastinate_defer_jobs_v1(array_agg(ROW(
    queue, task, rank, NULL, NULL, jsonb_build_object('action', id),
    CASE WHEN ahead > 0 THEN now() + ahead * interval '1 microsecond' END)::procrastinate_job_to_defer_v1))
FROM jsonb_to_recordset(%s::jsonb) AS due(id text, queue text, task text, ahead bigint, rank integer)
"""
"""Delays, and not moments: the hosts' clocks and the database's may differ."""


class Deferring:
    """What one writer knows of the queue."""

    def __init__(self) -> None:
        self._there: bool | None = None
        self._missed = 0

    def forget(self) -> None:
        """It is looked for again: something was wrong with it, or the connection is another one."""
        self._there = None

    @staticmethod
    def is_soon(p: Projection) -> bool:
        """Whether somebody has to be woken for it: it is due soon, and in nobody's hand."""
        return p.due_us is not None and not p.lease_owner and p.due_us - p.updated_us <= DEFER_AHEAD_US

    def is_there(self, connection: Connection) -> bool:
        """Asked outside a pipeline, seldom."""
        if self._there is None or (not self._there and self._missed >= LOOKED_FOR_EVERY):
            found = connection.execute(_IS_THERE).fetchone()
            self._there, self._missed = bool(found and found[0]), 0
        self._missed += not self._there
        return self._there

    @staticmethod
    def defer(execute: Callable[[str, Sequence[Any]], object], due: list[Projection]) -> None:
        """One statement for all of them."""
        jobs = [
            {
                "id": p.action_id,
                "queue": queue_of(p.tenant, key_of(p)),
                "task": TASK,
                "ahead": max((p.due_us or 0) - p.updated_us, 0),
                "rank": -1 if p.state == SUCCEEDED else 0,
            }
            for p in due
        ]
        execute(_DEFER, (json.dumps(jobs),))


KNOWN_HEADS_MAX: Final = 8192
"""Actions whose version is remembered between transactions; about 4 MB."""
KNOWN_CONTRACTS_MAX: Final = 8192
"""Texts of contracts, one for each tenant that has them; about 3 MB."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where an action stands."""

    version: int
    fence: int
    life: Row | None
    """The columns that hardly ever change, as they are; None where they were not looked at."""
    waiting: bool
    """Whether it is in flight and waits for something."""

    @classmethod
    def of(cls, row: Row) -> Head:
        """From a row of `rows.SELECT_HEADS`."""
        return cls(row[1], row[2], None, row[3])


class WriteCache:
    """Heads of actions by id, and texts of contracts by digest and tenant. `watched`: the schema that they are in."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.heads: dict[str, Head] = {}
        self.contracts: set[tuple[bytes, str]] = set()
        """Texts of contracts that are in it: each action brings its contract's."""
        self.queue = Deferring()

    def believe(self, heads: Mapping[str, Head], contracts: set[tuple[bytes, str]]) -> None:
        """After a commit: this is how they were left."""
        if len(self.heads) > KNOWN_HEADS_MAX:
            self.heads.clear()
        self.heads.update({action_id: head for action_id, head in heads.items() if head.version})
        if len(self.contracts) > KNOWN_CONTRACTS_MAX:
            self.contracts.clear()
        self.contracts |= contracts

    def forget(self) -> None:
        """After a transaction that came to nothing."""
        self.heads.clear()
        self.contracts.clear()
        self.queue.forget()
