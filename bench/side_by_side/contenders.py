"""Who is measured: a row for each, in the order of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Store = Literal["file", "sqlite", "postgres"]


class Contender(NamedTuple):
    """A program with one store. `environment`: the name of its requirements; empty for Readback's own.

    `commits`: its durable steps for one action, in words. `wal`: its SQLite file is switched to the write-ahead log
    beforehand. `promises`: what happens to an action that was cut off behind its effect, in words.
    """

    name: str
    title: str
    program: str
    environment: str
    store: Store
    commits: str
    promises: str
    wal: bool = False
    recovers: bool = True


READ_BACK: Final = "read back; the tool is not called again"
AGAIN: Final = "the step runs again, and calls the tool again"
SHARED: Final = "2 commits, shared by what is in flight"
WORKFLOW: Final = "5 commits: start, 3 steps, end"
GRAPH: Final = "the input's checkpoint, and the writes and the checkpoint of each of 3 nodes"
CLAIMED: Final = "2 commits: claim, result"
CLAIM: Final = "the claim runs out; then all of it runs again"

CONTENDERS: Final[Sequence[Contender]] = (
    Contender("lines", "JSON lines by hand", "json_lines", "", "file", "2 fsyncs", READ_BACK),
    Contender("floor-sqlite", "bare commits, SQLite", "floor_sqlite", "", "sqlite", SHARED, "", recovers=False),
    Contender("readback-sqlite", "Readback, SQLite", "readback_ledger", "", "sqlite", SHARED, READ_BACK),
    Contender("dbos-sqlite", "DBOS, SQLite", "dbos_workflow", "dbos", "sqlite", WORKFLOW, AGAIN),
    Contender(
        "dbos-sqlite-wal", "DBOS, SQLite, WAL by hand", "dbos_workflow", "dbos", "sqlite", WORKFLOW, AGAIN, wal=True
    ),
    Contender("langgraph-sqlite", "LangGraph, SqliteSaver", "langgraph_graph", "langgraph", "sqlite", GRAPH, AGAIN),
    Contender("justonce-sqlite", "justonce, SQLite", "justonce_effects", "justonce", "sqlite", CLAIMED, CLAIM),
    Contender(
        "floor-postgres", "bare commits, PostgreSQL", "floor_postgres", "", "postgres", SHARED, "", recovers=False
    ),
    Contender("readback-postgres", "Readback, PostgreSQL", "readback_ledger", "", "postgres", SHARED, READ_BACK),
    Contender("dbos-postgres", "DBOS, PostgreSQL", "dbos_workflow", "dbos", "postgres", WORKFLOW, AGAIN),
    Contender(
        "langgraph-postgres", "LangGraph, PostgresSaver", "langgraph_graph", "langgraph", "postgres", GRAPH, AGAIN
    ),
    Contender(
        "langgraph-postgres-16",
        "LangGraph, 16 PostgresSavers",
        "langgraph_many_savers",
        "langgraph",
        "postgres",
        GRAPH,
        AGAIN,
    ),
    Contender("justonce-postgres", "justonce, PostgreSQL", "justonce_effects", "justonce", "postgres", CLAIMED, CLAIM),
    Contender("idemkit-postgres", "idemkit, PostgreSQL", "idemkit_calls", "idemkit", "postgres", CLAIMED, CLAIM),
)

RATIOS: Final[Sequence[tuple[str, str, int, str]]] = (
    ("readback-sqlite", "dbos-sqlite", 16, "at least 30"),
    ("readback-sqlite", "dbos-sqlite-wal", 16, "at least 30"),
    ("readback-postgres", "dbos-postgres", 16, "at least 10"),
    ("readback-sqlite", "langgraph-sqlite", 16, "at least 5"),
    ("readback-postgres", "langgraph-postgres", 16, "at least 5"),
    ("readback-postgres", "langgraph-postgres-16", 16, "at least 5"),
    ("readback-sqlite", "justonce-sqlite", 16, ""),
    ("readback-postgres", "justonce-postgres", 16, ""),
    ("readback-postgres", "idemkit-postgres", 16, ""),
    ("readback-sqlite", "lines", 16, ""),
    ("readback-sqlite", "floor-sqlite", 256, "at least 0.30"),
    ("readback-postgres", "floor-postgres", 256, "at least 0.35"),
)
"""Who is held against whom, at how many in flight, and what is asked for; nothing where it is only for reading."""
