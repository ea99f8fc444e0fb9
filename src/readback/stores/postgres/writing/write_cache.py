"""Cache of this process's last writes, to save reads in the next transaction.

Called by the transaction. The cache is never trusted alone: each write is conditional on the cached version and fence,
and fails after a change by another process.
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

# Defers wake-ups in the ledger's own transaction, by the SQL functions of the queue in the same schema.

LOOKED_FOR_EVERY: Final = 64
"""A missing queue is searched again after so many groups with a job to defer."""
_IS_THERE: Final = "SELECT to_regprocedure('procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[])') IS NOT NULL"
_DEFER: Final = """
SELECT procrastinate_defer_jobs_v1(array_agg(ROW(
    queue, task, rank, NULL, NULL, jsonb_build_object('action', id),
    CASE WHEN ahead > 0 THEN now() + ahead * interval '1 microsecond' END)::procrastinate_job_to_defer_v1))
FROM jsonb_to_recordset(%s::jsonb) AS due(id text, queue text, task text, ahead bigint, rank integer)
"""
"""Delays in place of times: the hosts' clocks and the database's may differ."""


class Deferring:
    """One writer's knowledge of the queue."""

    def __init__(self) -> None:
        self._there: bool | None = None
        self._missed = 0

    def forget(self) -> None:
        """Search the queue again, after a fault of the queue or on another connection."""
        self._there = None

    @staticmethod
    def is_soon(p: Projection) -> bool:
        """Return whether the action needs a wake-up: due soon, and without an owner."""
        return p.due_us is not None and not p.lease_owner and p.due_us - p.updated_us <= DEFER_AHEAD_US

    def is_there(self, connection: Connection) -> bool:
        """Return whether the queue exists. Called outside a pipeline, and rarely."""
        if self._there is None or (not self._there and self._missed >= LOOKED_FOR_EVERY):
            found = connection.execute(_IS_THERE).fetchone()
            self._there, self._missed = bool(found and found[0]), 0
        self._missed += not self._there
        return self._there

    @staticmethod
    def defer(execute: Callable[[str, Sequence[Any]], object], due: list[Projection]) -> None:
        """Defer all jobs in one statement."""
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
"""Actions whose version is cached between transactions; about 4 MB."""
KNOWN_CONTRACTS_MAX: Final = 8192
"""Contract texts cached, one for each tenant; about 3 MB."""


@dataclass(frozen=True, slots=True)
class Head:
    """The state of an action."""

    version: int
    fence: int
    life: Row | None
    """The present columns with rare changes. None: not read."""
    waiting: bool
    """Whether the action is in flight and waiting."""

    @classmethod
    def of(cls, row: Row) -> Head:
        """Return the head in a row of `rows.SELECT_HEADS`."""
        return cls(row[1], row[2], None, row[3])


class WriteCache:
    """Heads of actions by id, and contract texts by digest and tenant. `watched`: their schema."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.heads: dict[str, Head] = {}
        self.contracts: set[tuple[bytes, str]] = set()
        """Stored contract texts. Each action brings its contract's text."""
        self.queue = Deferring()

    def mark_current(self, heads: Mapping[str, Head], contracts: set[tuple[bytes, str]]) -> None:
        """After a commit: cache the written state."""
        if len(self.heads) > KNOWN_HEADS_MAX:
            self.heads.clear()
        self.heads.update({action_id: head for action_id, head in heads.items() if head.version})
        if len(self.contracts) > KNOWN_CONTRACTS_MAX:
            self.contracts.clear()
        self.contracts |= contracts

    def forget(self) -> None:
        """After a failed transaction: drop the cache."""
        self.heads.clear()
        self.contracts.clear()
        self.queue.forget()
