"""LangGraph: a graph of three nodes with a checkpointer, `SqliteSaver` or `PostgresSaver` by the URL.

`durability="sync"`: each checkpoint is written before the next node starts; the first of them, of the input, is the
attempt on record. A thread id for each action. The savers are LangGraph's own, PostgreSQL's over its pool; threads,
which were quicker than coroutines with the savers for these.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from bench.against.slices import Sync, serve_threads, sqlite_path, sqlite_settings
from bench.against.work import NotShippedError, Orders, shipped

CONNECTIONS: Final = 16


class State(TypedDict, total=False):
    """What goes from node to node."""

    name: str
    answered: dict[str, Any]
    found: dict[str, Any] | None
    verified: bool


@contextmanager
def opened(url: str, orders: Orders, savers: int = 1) -> Iterator[Sync]:
    """`savers`: PostgreSQL only, each with a graph of its own, since a saver lets one thread through at a time."""
    if url.startswith("sqlite"):
        with sqlite3.connect(sqlite_path(url), check_same_thread=False) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield _program([_graph(saver, orders)], sqlite_settings(url, connection))
        return
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(url, min_size=CONNECTIONS, max_size=CONNECTIONS, timeout=300, kwargs=options) as pool:
        kept = [PostgresSaver(pool) for _ in range(savers)]
        kept[0].setup()
        yield _program([_graph(each, orders) for each in kept], {"connections": CONNECTIONS, "savers": savers})


def _graph(saver: Any, orders: Orders) -> Any:
    def act(state: State) -> State:
        return {"answered": orders.ship(state["name"])}

    def read(state: State) -> State:
        return {"found": orders.look(state["name"])}

    def judge(state: State) -> State:
        return {"verified": shipped(state["found"], state["name"])}

    builder = StateGraph(State)
    builder.add_sequence([act, read, judge])
    builder.add_edge(START, "act")
    builder.add_edge("judge", END)
    return builder.compile(checkpointer=saver)


def _program(graphs: Sequence[Any], settings: dict[str, Any]) -> Sync:
    turn = itertools.cycle(graphs)

    def run(name: str, given: State | None) -> None:
        ended = next(turn).invoke(given, {"configurable": {"thread_id": name}}, durability="sync")
        if not ended["verified"]:
            raise NotShippedError(name)

    def act(name: str) -> None:
        run(name, {"name": name})

    def recover(name: str) -> None:
        """No input: the thread goes on at its last checkpoint, and runs the node behind it again."""
        run(name, None)

    return Sync(act, recover, settings)


if __name__ == "__main__":
    serve_threads(opened)
