"""The floor: the same rows into the same tables and indexes, by a program without any other work.

The rows are the engine's rows for one action, renamed for each copy. Nothing is hashed, judged or read. Hash columns
hold random values, because random keys spread over the index, as in real use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import apsw

from readback.ports.storage.store import Append

EVENT = "insert into event values (?, ?, ?, ?, ?, ?, ?)"
PAYLOAD = "insert into payload (action_id, tenant, digest, media, body) values (?, ?, ?, ?, ?)"
WEIGHT = "insert into weight (tenant, bytes) values (?, ?) on conflict do update set bytes = bytes + excluded.bytes"
KEY = "insert into idempotency values (?, ?, ?, ?, ?, ?, ?)"
SETTLE = "update idempotency set status = ?, expires_us = ? where tenant = ? and key_hash = ? and action_id = ?"


class Floor:
    """Writes copies of an action's two appends."""

    def __init__(self, path: Path, appends: Sequence[Append]) -> None:
        self._db = apsw.Connection(str(path))
        for pragma in ("journal_mode = wal", "synchronous = full", "cache_size = -65536", "temp_store = memory"):
            list(self._db.execute(f"pragma {pragma}"))
        columns = [str(row[1]) for row in self._db.execute("pragma table_info(action)")]
        places = ", ".join("?" * len(columns))
        self._insert = " ".join(("insert into action values (", places, ")"))
        changing = [c for c in columns if c not in ("action_id", "tenant", "run", "contract", "stamp")]
        assignments = ", ".join(f'"{c}" = ?' for c in changing)
        self._update = " ".join(("update action set", assignments, "where action_id = ?"))
        self._columns, self._changing, self._appends, self._seq = columns, changing, appends, 0

    def settings(self) -> dict[str, str | int]:
        """The durability settings of the connection."""
        return {name: self._db.pragma(name) for name in ("journal_mode", "synchronous")}

    def continue_after(self) -> None:
        """Continue after the existing entries."""
        self._seq = int(next(iter(self._db.execute("select coalesce(max(seq), 0) from event")))[0])

    def write(self, names: Iterable[str]) -> None:
        """Make two commits for these actions: all attempts, then all ends."""
        keyed = [(name, os.urandom(32).hex()) for name in names]
        for append in self._appends:
            self._db.execute("begin immediate")
            for name, key in keyed:
                self._rows(append, name, key)
            self._db.execute("commit")

    def _rows(self, append: Append, name: str, key: str) -> None:
        version, at_us = append.expected_version, append.projection.updated_us
        for event in append.events:
            version, self._seq = version + 1, self._seq + 1
            row = (self._seq, name, version, event.kind, at_us, event.envelope, event.leaf)
            self._db.execute(EVENT, row)
        values = {c: getattr(append.projection, c, None) for c in self._columns}
        values |= {"action_id": name, "stamp": name, "key_hash": key, "version": version, "fence": 0}
        values["ready_us"] = None if append.projection.due_us is None else append.projection.lease_until_us
        if append.expected_version == 0:
            self._db.execute(self._insert, tuple(values[c] for c in self._columns))
            self._db.execute(KEY, (append.tenant, key, key, name, "PENDING", at_us, 0))
        else:
            self._db.execute(self._update, (*(values[c] for c in self._changing), name))
            self._db.execute(SETTLE, ("COMPLETED", at_us, append.tenant, key, name))
        for evidence in append.evidence:
            if evidence.digest != append.projection.contract_hash:  # its text is there, as it is for most actions
                self._db.execute(PAYLOAD, (name, append.tenant, os.urandom(32), evidence.media, evidence.body))
                self._db.execute(WEIGHT, (append.tenant, len(evidence.body)))

    def close(self) -> None:
        self._db.close()
