"""An SQLite database as a system of record, by its tables; and what a statement would make of them, tried on a copy.

Constructed by `sdk.fitted_sources` for contract files, and by users. Everything is read and tried by `trial`, in a
process of its own: it has no ledger, its settings of SQLite are its own, and it is ended when its time is over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from readback.canon import Json
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError
from readback.systems.isolated import Ended, answers

MEMORY_BYTES: Final = 2_147_483_648
"""Of the process that reads: a copy of the largest database, one more on which a statement is tried, and their rows."""
_TRIAL: Final = Path(__file__).with_name("trial.py")


class TablesSource:
    """One SQLite database file. Safe from any thread. `timeout_s`: for one reading, trial included."""

    def __init__(self, name: str, database: str | Path, *, timeout_s: float = 10.0) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._database = str(database)
        self._timeout_s = timeout_s

    def state(self, statement: str = "") -> Reading:
        """`facts`: which tables there are, and for each its form, how many rows it has and what each column holds, as
        digests. With a statement also `foreseen`: the facts that there will be of the tables that it changes, or would
        if a row fitted, but for those that depend on time or chance; `left_open`: of these, as they are before, where
        nothing else would tell the statement done from not done; and `error`, where it fails. Where it went over a
        bound of the trial, or fails by chance, there is only `bounded`, which says so: what it does elsewhere is not
        known. Equal versions are equal facts.
        """
        ended = self._asked(statement)
        if isinstance(ended, Reading):
            return ended
        facts = ended.answers[0]
        value: dict[str, Json] = {"facts": facts["facts"]}
        if statement and len(ended.answers) > 1:
            value |= ended.answers[1]
        elif statement:
            value["bounded"] = f"interrupted: {ended.why or 'it was ended'}"
        return Reading.of(value, version=str(facts["version"]))

    def ping(self) -> None:
        """Raises ReaderFailedError where the database cannot be read."""
        found = self._asked("")
        if isinstance(found, Reading):
            raise ReaderFailedError(
                f"The database of {self.name!r} cannot be read: {found.detail or 'it is not there'}"
            )

    def _asked(self, statement: str) -> Ended | Reading:
        """What the trial answered, with the facts first; or the reading that says why it read nothing."""
        request: dict[str, Json] = {"database": self._database, "statement": statement}
        try:
            ended = answers(_TRIAL, request, timeout_s=self._timeout_s, memory_bytes=MEMORY_BYTES)
        except OSError as error:
            return Reading.unavailable(f"{self.name}: {error}")
        first: dict[str, Any] = ended.answers[0] if ended.answers else {}
        match first:
            case {"facts": list()}:
                return ended
            case {"absent": True}:
                return Reading.absent()
            case {"refused": str(why)}:
                raise ReaderTypeError(f"The database of {self.name!r} {why}.")
            case {"unavailable": str(why)}:
                return Reading.unavailable(f"{self.name}: {why}")
            case _:
                return Reading.unavailable(f"{self.name}: the reading was ended: {ended.why or 'it said nothing'}")
