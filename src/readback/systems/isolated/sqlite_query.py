"""One query of one SQLite database, as a program: a JSON object in, a JSON object out.

`process.query` starts this program, and the program needs only the standard library. The database is opened
read-only. An authorizer allows selects and a few read-only pragmas. The statement ends with its time, its steps or its
memory.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing, suppress
from math import isfinite
from typing import Any, Final
from urllib.parse import quote

_LOOKS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_OF_VIRTUAL_TABLES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE})
"""Actions of SQLite in its own table while a virtual table describes itself. A statement may not write there."""
_LOADS: Final = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_ASKED_FOR: Final = frozenset(
    {
        "application_id", "collation_list", "compile_options", "data_version", "encoding", "foreign_key_check",
        "foreign_key_list", "function_list", "index_info", "index_list", "index_xinfo", "integrity_check",
        "page_count", "page_size", "quick_check", "schema_version", "table_info", "table_list", "table_xinfo",
        "user_version",
    }
)  # fmt: skip
"""Read-only pragmas. A pragma that sets something with a value is allowed without a value."""
_SETTERS: Final = frozenset({"application_id", "encoding", "page_size", "schema_version", "user_version"})
_SHOWN_MAX_BYTES: Final = 16_777_216


def looks_only(action: int, first: object, second: object, *_: object) -> int:
    """Authorize reads and refuse everything else."""
    if action in _LOOKS or (action in _OF_VIRTUAL_TABLES and str(first).startswith("sqlite_")):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_CREATE_TABLE:  # by `json_each` and similar; the file is read-only
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if str(second).lower() in _LOADS else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        name = str(first).lower()
        looks = name in _ASKED_FOR and (second is None or name not in _SETTERS)
        return sqlite3.SQLITE_OK if looks else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY


def limit_process(memory_bytes: int, seconds: float) -> None:
    """Limit the memory of this process, and its processor time in case the parent dies."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def found(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the rows, or the reason for missing rows."""
    try:
        opened = sqlite3.connect(
            f"file:{quote(asked['path'])}?mode=ro", uri=True, timeout=asked["seconds"], isolation_level=None
        )
        opened.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN:
            return {"unopened": str(error)}
        return {"error": f"{type(error).__name__}: {error}"}
    except sqlite3.Error as error:
        return {"error": f"{type(error).__name__}: {error}"}
    with closing(opened):
        opened.execute("pragma query_only = on")
        opened.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, asked["value_bytes"])
        opened.set_progress_handler(lambda: 1, asked["steps"])
        opened.set_authorizer(looks_only)
        try:
            return _rows(opened, asked)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            return {"error": f"{type(error).__name__}: {error}"}


def _rows(opened: sqlite3.Connection, asked: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    size = 0
    cursor = opened.execute(asked["text"], asked["parameters"])
    names = [column[0] for column in cursor.description or ()]
    for row in cursor:
        if len(rows) >= asked["rows"]:
            return {"refused": f"the query gives more than {asked['rows']} rows"}
        shown = {name: _shown(each, asked) for name, each in zip(names, row, strict=True)}
        if not all(isfinite(each) for each in shown.values() if isinstance(each, float)):
            return {"refused": "the query gives a number that is not finite"}
        size += sum(len(each) if isinstance(each, str | bytes) else 8 for each in row)
        if size > _SHOWN_MAX_BYTES:
            return {"refused": f"the query gives more than {_SHOWN_MAX_BYTES} bytes"}
        rows.append(shown)
    return {"rows": rows}


def _shown(value: Any, asked: dict[str, Any]) -> Any:
    if not isinstance(value, bytes):
        return value
    return {"hex": value.hex()} if asked.get("marks_bytes") else value.hex()


def main() -> None:
    asked = json.load(sys.stdin)
    limit_process(asked["memory_bytes"], asked["seconds"])
    sys.stdout.write(json.dumps(found(asked)) + "\n")


if __name__ == "__main__":
    main()
