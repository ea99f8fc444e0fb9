"""Read a SQLite database table by table and try a statement on a copy. A program of its own.

The source of tables starts this program, and the program needs only the standard library. The database is opened
read-only. A statement runs on a private copy in memory and yields the expectation for tools with free SQL. The trial
repeats the statement at a later time and with other random values. Differences between the runs are left open.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

DATABASE_MAX_BYTES: Final = 134_217_728
"""Maximum size of a database: each reading scans the whole file."""
TABLES_MAX: Final = 1_000
STEPS_MAX: Final = 20
"""Maximum interruptions of a statement, one after each million instructions."""
_Facts: TypeAlias = dict[tuple[str, str], str]
_Now: TypeAlias = tuple[sqlite3.Connection, str]
"""The connection that computes times, and the time used in place of now."""
_INSTRUCTIONS: Final = 1_000_000
_REFUSED: Final = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA})
_ASKED_BY_FULL_TEXT: Final = "data_version"
"""The only permitted pragma: SQLite itself reads this pragma for a full-text table."""
_WRITES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_OUR_BOUNDS: Final = frozenset({"SQLITE_INTERRUPT", "SQLITE_AUTH", "SQLITE_TOOBIG", "SQLITE_NOMEM", "SQLITE_FULL"})
_LATER: Final = "+1 hour"
"""Time of the second run. Results equal in both runs are certain, since the real execution happens in between."""
_RUNS: Final = ((False, False), (True, True), (False, True))
"""Runs of the trial: later or not, other random values or not. The third runs only where the first two differ."""
_TIMES: Final = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")
_HIGH: Final = 1_000_000_007
"""A prime, so that its remainders differ from the remainders of the first value."""
_NOW: Final = {"current_date": slice(10), "current_time": slice(11, None), "current_timestamp": slice(None)}
"""The part of a time in each of these names."""
_OF_CONNECTION: Final = re.compile(r"\b(last_insert_rowid|changes|total_changes)\s*\(\s*\)", re.IGNORECASE)
"""Functions of the connection. The real connection is another, so the trial treats the values as chance."""


class _RefusedError(Exception):
    """The database is not of a readable kind."""


class _OverBoundError(Exception):
    """A bound of the trial stopped the statement."""


def _state(database: str, statement: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the facts first, then the effect of the statement."""
    try:
        with closing(_copy(database, seconds)) as copy:
            facts = _facts(copy)
            told = _lines(facts)
            yield {"facts": told, "version": sha256("\n".join(map(str, told)).encode()).hexdigest()}
            if statement:
                yield _foreseen(copy, facts, statement)
    except FileNotFoundError:
        yield {"absent": True}
    except _RefusedError as error:
        yield {"refused": str(error)}
    except (sqlite3.DatabaseError, OSError) as error:
        yield {"unavailable": str(error)}


def _copy(database: str, seconds: float) -> sqlite3.Connection:
    """Copy the database at one moment. Raises FileNotFoundError, _RefusedError, sqlite3.Error."""
    if Path(database).stat().st_size > DATABASE_MAX_BYTES:
        raise _RefusedError(f"is over {DATABASE_MAX_BYTES} bytes")
    where = f"file:{quote(database)}?mode=ro"
    with closing(sqlite3.connect(where, uri=True, timeout=seconds)) as original:
        copy = _in_memory()
        try:
            original.backup(copy)
        except BaseException:
            copy.close()
            raise
    return copy


def _foreseen(copy: sqlite3.Connection, facts: _Facts, statement: str) -> dict[str, Any]:
    made: list[_Facts] = []
    errors: list[str] = []
    written: set[str] = set()
    moment = str(copy.execute("select datetime('now', ?)", (_LATER,)).fetchone()[0])
    # Run the statement now and an hour later with other random values. Equal results are certain. If the results
    # differ, the third run (now, other random values) shows whether chance alone changes something.
    for later, otherwise in _RUNS:
        with closing(_in_memory()) as clock, closing(_in_memory()) as tried:
            copy.backup(tried)
            try:
                errors.append(_run_on_copy(tried, statement, (clock, moment) if later else None, otherwise, written))
            except _OverBoundError as over:
                # Only the trial has this bound. The real statement may succeed, so nothing is foreseen.
                return {"bounded": str(over)}
            made.append(_facts(tried))
        if len(made) == 2 and made[0] == made[1]:
            break
    if all(errors):
        # Every run failed: the real statement fails too, and changes nothing.
        return {"foreseen": [], "left_open": [], "error": errors[0]}
    if any(errors):
        # Success depends on time or chance, for example a random value against a unique column.
        return {"bounded": f"it depends on time or chance whether it fails: {next(filter(None, errors))}"}
    one, two = made[:2]
    # Tables to tell about: changed in the first run, named for writing (a condition may match no row now), or different
    # between the runs. A fact counts as foreseen only if both runs agree and SQLite does not own the table.
    anew = {key[0] for key in one.keys() | facts.keys() if one.get(key) != facts.get(key)} | written
    anew |= {key[0] for key in one.keys() | two.keys() if one.get(key) != two.get(key)}
    internal = _internal_tables(copy)
    certain = {key: one[key] for key in one if two.get(key) == one[key] and key[0] in anew - internal}
    return {"foreseen": _lines(certain), "left_open": _lines(_left_open(facts, made, internal)), "error": ""}


def _left_open(facts: _Facts, made: list[_Facts], internal: set[str]) -> _Facts:
    """Return the present facts that the statement may change, where no certain fact tells done from not done."""
    one, two = made[:2]
    # A certain fact differs from the present: reading it distinguishes done from not done.
    if any(
        one.get(key) == two.get(key) != facts.get(key) for key in facts.keys() | one.keys() if key[0] not in internal
    ):
        return {}
    # Run now, the statement changes nothing with either random values: there is nothing to distinguish.
    if facts == one == made[-1]:
        return {}
    # Only uncertain facts change, for example a column set to the time of the run.
    return {key: fact for key, fact in facts.items() if not fact == one.get(key) == two.get(key)}


def _internal_tables(database: sqlite3.Connection) -> set[str]:
    """Return the internal tables of virtual tables, such as a full-text index.

    Another SQLite version may write these tables differently, so their content is never certain.
    """
    try:
        listed = database.execute("select name from pragma_table_list where type = 'shadow'").fetchall()
        return {str(each[0]) for each in listed}
    except sqlite3.OperationalError:  # SQLite before 3.37 has no such list: match by name
        tables = database.execute("select name, rootpage from sqlite_master where type = 'table'").fetchall()
        begun = tuple(f"{name}_".lower() for name, page in tables if not page)
        return {str(name) for name, page in tables if page and str(name).lower().startswith(begun)}


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)


# --- trying --------------------------------------------------------------------------------------------------------


def _run_on_copy(copy: sqlite3.Connection, statement: str, now: _Now | None, otherwise: bool, written: set[str]) -> str:
    """Run the statement on a copy and return the error text of SQLite, or "". Adds the tables named for writing to
    `written`.

    Raises _OverBoundError where a bound of the trial stopped the statement. Without the bound, the statement may
    succeed.
    """
    with _bounded(copy, now, otherwise, written):
        # The real connection has another last row id and other counts: both runs use different values.
        told = _HIGH if otherwise else 0
        for name in {found[1].lower() for found in _OF_CONNECTION.finditer(statement)}:
            copy.create_function(name, 0, lambda: told)
        try:
            for _ in copy.execute(statement):
                pass
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            said = str(error) or type(error).__name__
            # Interrupted, refused, too long, no memory, full: bounds of the trial. The statement causes other errors.
            if isinstance(error, MemoryError) or getattr(error, "sqlite_errorname", "") in _OUR_BOUNDS:
                raise _OverBoundError(said) from error
            return said
    return ""


@contextmanager
def _bounded(tried: sqlite3.Connection, now: _Now | None, otherwise: bool, written: set[str]) -> Iterator[None]:
    """Block other files and settings, limit the length of the statement, and set time and chance for this run."""
    left = iter(range(STEPS_MAX))

    def allowed(action: int, table: object, *_: object) -> int:
        # Asked while the statement compiles, so a table counts also where no row matches.
        if action in _WRITES:
            written.add(str(table))
        if action == sqlite3.SQLITE_PRAGMA and table == _ASKED_BY_FULL_TEXT:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY if action in _REFUSED else sqlite3.SQLITE_OK

    # The later run replaces SQLite's functions of time. The first run uses SQLite's own, with the real time.
    if now is not None:
        clock, moment = now
        for name in _TIMES:
            tried.create_function(name, -1, _in_time(clock, name, moment), deterministic=True)
        for name, part in _NOW.items():
            tried.create_function(name, 0, lambda part=part: moment[part], deterministic=True)
    chance = _chances(otherwise)
    tried.create_function("random", 0, lambda: next(chance))
    tried.create_function("randomblob", 1, lambda size: _blob(next(chance), int(size)))
    # A longer value would make the database too large to read.
    tried.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, DATABASE_MAX_BYTES)
    tried.set_progress_handler(lambda: next(left, None) is None, _INSTRUCTIONS)
    tried.set_authorizer(allowed)
    try:
        yield
    finally:
        tried.set_authorizer(None)
        tried.set_progress_handler(None, 0)


def _chances(otherwise: bool) -> Iterator[int]:
    """Yield values that differ between rows and between runs.

    The values rise in one run and fall in the other, so an order by them differs too. In the second run, every other
    value is negative.
    """
    if not otherwise:
        return count(1)
    return (-value if at % 2 else value for at, value in enumerate(count(_HIGH, -1)))


def _blob(value: int, size: int) -> bytes:
    """Return `size` bytes, ordered like the absolute value."""
    size = min(max(size, 1), 1_000_000)
    return abs(value).to_bytes(8, "big")[-size:].ljust(size, b"\0")


def _in_time(plain: sqlite3.Connection, name: str, other: str) -> Callable[..., Any]:
    """Return SQLite's own function with another time in place of now."""

    def with_other_time(*given: object) -> Any:
        at = 1 if name == "strftime" else 0
        values = [other if isinstance(each, str) and each.lower() == "now" else each for each in given]
        if len(values) <= at:
            values.append(other)
        marks = ", ".join("?" * len(values))
        return plain.execute(f"select {name}({marks})", values).fetchone()[0]

    return with_other_time


# --- facts ---------------------------------------------------------------------------------------------------------


def _facts(database: sqlite3.Connection) -> _Facts:
    """Return the facts by table and part. The list of tables stands under ""."""
    listed = database.execute("select type, name, tbl_name, sql from sqlite_master order by type, name").fetchall()
    tables = [str(name) for kind, name, _, _ in listed if kind == "table"]
    if len(tables) > TABLES_MAX:
        raise _RefusedError(f"has over {TABLES_MAX} tables")
    facts: _Facts = {("", "tables"): ", ".join(sorted(tables))}
    for owner in {str(each[2]) for each in listed}:
        facts[(owner, "form")] = _digest(each for each in listed if each[2] == owner)
    for table in tables:
        cursor = database.execute(f"select * from {_quoted(table)}")  # noqa: S608 - quoted, and the database's own name
        names = [str(each[0]) for each in cursor.description]
        rows = cursor.fetchall()
        facts[(table, "rows")] = str(len(rows))
        for at, name in enumerate(names):
            facts[(table, f"column {name}")] = _digest(row[at] for row in rows)
    return facts


def _lines(facts: _Facts) -> list[str]:
    return [f"{table}: {what}: {fact}" for (table, what), fact in sorted(facts.items())]


def _digest(values: Iterable[object]) -> str:
    whole = sha256()
    for each in values:
        whole.update(f"{type(each).__name__}:{each!r}\n".encode(errors="surrogatepass"))
    return whole.hexdigest()[:32]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _limit_process(memory_bytes: int, seconds: float) -> None:
    """Limit the memory of this process, and its processor time in case the parent dies."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def main() -> None:
    asked = json.load(sys.stdin)
    _limit_process(asked["memory_bytes"], asked["seconds"])
    for answer in _state(asked["database"], asked["statement"], asked["seconds"]):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
