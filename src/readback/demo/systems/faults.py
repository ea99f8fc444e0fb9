"""Faults on demand, and the channel to the parent process that orders them.

Each system owns one `FaultBook` and looks for a matching rule at every request. The system alone knows the meaning of a
fault. Orders arrive on stdin, and answers leave on stdout: one JSON object a line.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LOOPBACK = "127.0.0.1"
HOLD_S = 30.0
"""How long a request without an answer is held open."""


def now_us() -> int:
    """Wall-clock time in microseconds since the epoch. The systems run in real time."""
    return time.time_ns() // 1_000


@dataclass(slots=True)
class Rule:
    """One ordered fault: matching requests, fault, and number of uses (`times` -1: unlimited)."""

    fault: str
    match: dict[str, str]
    times: int
    params: dict[str, Any]

    def fits(self, request: Mapping[str, str]) -> bool:
        """True if every field of `match` has its value; `*` and `?` are wildcards."""
        return all(fnmatch.fnmatchcase(request.get(name, ""), glob) for name, glob in self.match.items())


class FaultBook:
    """The active rules, in order. Safe to use from several threads."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, fault: str, match: Mapping[str, str], times: int, params: dict[str, Any]) -> None:
        """Add a rule. Raises `ValueError` for a fault unknown to this system."""
        if fault not in self._names:
            raise ValueError(f"unknown fault {fault!r}; this system knows {sorted(self._names)}")
        with self._lock:
            self._rules.append(Rule(fault, dict(match), times, params))

    def take(self, request: Mapping[str, str], *among: str) -> Rule | None:
        """The first matching rule, counted as used, or None for an honest answer."""
        with self._lock:
            for rule in self._rules:
                if rule.times and rule.fits(request) and (not among or rule.fault in among):
                    rule.times -= rule.times > 0
                    return rule
        return None

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()


def live(
    book: FaultBook,
    *,
    recover: Callable[[], None] = lambda: None,
    busy: Callable[[], int] = lambda: 0,
    on_end: Callable[[], None] = lambda: None,
    **addresses: object,
) -> None:
    """Report the addresses, and obey the parent until the parent closes stdin or dies: no system outlives its parent.

    `recover` ends lasting effects of faults. `busy` counts requests and effects still to come.
    """
    _say(addresses)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if (name := order.pop("order")) == "fault":
                book.add(**order)
            elif name == "clear":
                book.clear()
                recover()
            _say({"busy": busy()})
        except ValueError as error:
            _say({"error": str(error)})
    on_end()
    os._exit(0)  # held connections and delayed effects end with the process, as in a power cut


def _say(answer: Mapping[str, object]) -> None:
    print(json.dumps(answer), flush=True)
