"""What this process wrote last, so that the next transaction need not ask for it.

Called by the transaction. Nothing of it is believed: each write is held to the version and the fence that are
remembered here, and fails where somebody else was there meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon.frozen import dataclass
from readback.stores.postgres.connection.rows import Row
from readback.stores.postgres.connection.schema_guard import Watched
from readback.stores.postgres.writing.wakeup_jobs import Deferring

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
