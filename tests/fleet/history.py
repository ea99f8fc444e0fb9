"""What a client saw, line by line: written down before it asks and after it was answered, read back by the checker.

Moments are nanoseconds of the machine's monotonic clock, which all processes share, whatever they take the time to be.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class What(StrEnum):
    """What happened to a client."""

    ASKED = "asked"
    """It is about to ask for the operation."""
    ACCEPTED = "accepted"
    """It was given an id: the operation is on record."""
    ANSWERED = "answered"
    """It was told an outcome."""
    REFUSED = "refused"
    """It was given an error: nothing is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """One moment of one client. `op` names the operation; what is not known of it is empty."""

    client: str
    what: What
    op: str
    at_ns: int
    id: str = ""
    state: str = ""
    verified: bool = False
    settled: bool = False
    may_repeat: bool = False
    code: str = ""


class Notebook:
    """A client's own file. Each line is written at once: what a process that is killed wrote stays."""

    def __init__(self, folder: Path, client: str) -> None:
        self._client = client
        self._file = os.open(folder / f"{client}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: What, op: str, **more: str | bool) -> None:
        line = Line(self._client, what, op, time.monotonic_ns(), **more)  # type: ignore[arg-type]
        os.write(self._file, json.dumps(asdict(line)).encode() + b"\n")


def read(folder: Path) -> list[Line]:
    """Everybody's lines in the order of time. A line that its writer was killed in is none."""
    found = []
    for path in folder.glob("*.jsonl"):
        for text in path.read_bytes().split(b"\n")[:-1]:
            row = json.loads(text)
            found.append(Line(**{**row, "what": What(row["what"])}))
    return sorted(found, key=lambda line: line.at_ns)
