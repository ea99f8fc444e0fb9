"""Start one of our programs in a separate process and return the answers received within the time limit.

Adapters for SQLite databases use this module. The program reads one JSON object from standard input and writes one JSON
object a line. The program keeps its answers small. This side never waits longer than the time limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from readback.canon import Json, parse_json
from readback.canon.frozen import dataclass
from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.errors import ReaderFailedError, ReaderTypeError

ANSWER_MAX_BYTES: Final = 67_108_864
"""Maximum bytes of all answers. The programs keep below the limit themselves."""
QUERY_MEMORY_BYTES: Final = 536_870_912
_QUERY: Final = Path(__file__).with_name("sqlite_query.py")


@dataclass(frozen=True, slots=True)
class Ended:
    """How the program ended. `late`: the time limit ended the program. `code`: the exit code otherwise."""

    answers: tuple[dict[str, Any], ...]
    late: bool
    code: int

    @property
    def why(self) -> str:
        """The reason for missing answers, or "" where the program ended by itself."""
        return "" if not self.late and self.code == 0 else "its time was over" if self.late else "its memory was over"


def answers(program: Path, request: Mapping[str, Json], *, timeout_s: float, memory_bytes: int) -> Ended:
    """Run the program. Raises OSError where the system starts no process.

    With `-I -S`, no environment variable, folder or installed package changes the program's imports.
    """
    import json

    asked = json.dumps({**request, "memory_bytes": memory_bytes, "seconds": timeout_s}).encode("ascii")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TZ") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=kept,
        start_new_session=True,  # Ctrl-C in the terminal does not reach the program
    )
    late, out = False, b""
    try:
        out, _ = process.communicate(asked, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        if process.returncode is None:
            process.kill()
            out, _ = process.communicate()
    whole = out[: out.rfind(b"\n") + 1].splitlines()
    found = [
        line for line in (parse_json(each, bytes_max=ANSWER_MAX_BYTES) for each in whole) if isinstance(line, dict)
    ]
    return Ended(tuple(found), late, process.returncode or 0)


def query(
    path: str,
    text: str,
    parameters: list[Json],
    *,
    timeout_s: float,
    steps: int,
    rows: int,
    value_bytes: int,
    as_bytes: bool = False,
) -> list[dict[str, Any]]:
    """Return the rows of one query of a database opened read-only.

    Bytes are shown in hex, or unchanged with `as_bytes`. Raises FileNotFoundError for a missing file, TimeoutError,
    ValueError for too many rows, RuntimeError with SQLite's message.
    """
    request: dict[str, Json] = {
        "path": path,
        "text": text,
        "parameters": [*parameters],
        "steps": steps,
        "rows": rows,
        "value_bytes": value_bytes,
        "marks_bytes": as_bytes,
    }
    ended = answers(_QUERY, request, timeout_s=timeout_s, memory_bytes=QUERY_MEMORY_BYTES)
    if ended.late:
        raise TimeoutError(f"the query took over {timeout_s:g} s")
    if ended.why or not ended.answers:
        raise RuntimeError("the query was ended: out of memory")
    said = ended.answers[0]
    match said:
        case {"unopened": str(why)}:
            raise FileNotFoundError(why)
        case {"refused": str(why)}:
            raise ValueError(why)
        case {"error": str(why)}:
            raise RuntimeError(why)
        case _:
            return [*map(_with_bytes, said["rows"])] if as_bytes else [*said["rows"]]


def _with_bytes(row: dict[str, Any]) -> dict[str, Any]:
    return {name: bytes.fromhex(each["hex"]) if isinstance(each, dict) else each for name, each in row.items()}


# Runs SQLite queries with long values in a separate process, where a long wait harms nothing.

STEPS_MAX: Final = 1_000_000_000


def rows(
    name: str, database: str, sql: str, params: Iterable[object], limit: int, timeout_s: float
) -> list[dict[str, object]]:
    """Return at most `limit` rows.

    Raises OSError for a timeout or a failed start, ReaderTypeError, and ReaderFailedError with SQLite's message.
    """
    given = [*params]
    plain: list[Json] = [each for each in given if each is None or isinstance(each, bool | int | float | str)]
    if len(plain) < len(given):
        raise ReaderFailedError(f"Source {name!r} cannot read values over 32 KiB with a parameter of bytes.")
    try:
        found = query(
            database,
            sql,
            plain,
            timeout_s=timeout_s,
            steps=STEPS_MAX,
            rows=limit,
            value_bytes=PAYLOAD_MAX_BYTES,
            as_bytes=True,
        )
    except ValueError as error:
        raise ReaderTypeError(f"Source {name!r}: {error}.") from error
    except RuntimeError as error:
        raise ReaderFailedError(f"Source {name!r} answered with an error: {error}") from error
    return [dict(row) for row in found]
