"""The programs, in the order of the page: title, environment, and how each is configured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class Contender(NamedTuple):
    """A program. `environment`: the name of its lock under bench/environments; "" for Readback's own."""

    name: str
    title: str
    environment: str
    configured: str


CONTENDERS: Final[Sequence[Contender]] = (
    Contender("trust", "trust the tool", "", "an answer is a success, an exception a failure"),
    Contender("retries", "three retries", "", "an exception calls the tool again, four calls in all"),
    Contender("read_once", "read back once", "", "one reading by the default path, at once"),
    Contender("poll_primary", "poll the primary by hand", "", "the primary, every 50 ms for 1.5 s, until it holds"),
    Contender("idemkit_calls", "idemkit", "idemkit", "`@idempotent` by arguments; the caller retries"),
    Contender("justonce_effects", "justonce", "justonce", "one operation key, SQLite; the caller retries"),
    Contender("dbos_workflow", "DBOS", "dbos", "the tool as a step with retries, SQLite"),
    Contender("langgraph_graph", "LangGraph", "langgraph", "the tool as a node with a retry policy and a checkpointer"),
    Contender("worldstate_checks", "WorldState Check", "worldstate", "HTTP checks of the primary, `--wait 1.5`"),
    Contender("fourgate_guard", "Fourgate", "fourgate", "`fourgate guard --mode enforce`, a command as verifier"),
    Contender("verimcp_proxy", "verimcp", "verimcp", "its MCP proxy, with a verifier plugin"),
    Contender("runmantle_task", "Runmantle", "runmantle", "a mediated action; evidence by a reading of the primary"),
    Contender("readback_contract", "Readback", "", "two contracts; `within` 1.5 s, `stable_for` 0.5 s"),
)
LEFT_OUT: Final[Sequence[tuple[str, str]]] = (
    (
        "AgentSkeptic 8.8.3",
        "reads a database itself after a run of CrewAI or LangGraph, and not by the tasks' read paths",
    ),
    ("Consequa-X 2.1.2", "explains finished runs from given evidence; by its own words it watches no live agent"),
    ("Corrobo 0.1.7 (PyPI)", "its licence is PolyForm Noncommercial"),
    ("Undolith 0.3.0", "compares an effect with its own simulation, and the tasks' tools have none"),
)
"""Verification programs of the package index without a run, and the reason."""
