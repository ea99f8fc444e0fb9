"""A SQLite database as a system of record, table by table, and a trial of a statement on a copy.

Users and `configured.sources` construct the source. `trial` reads and tries everything in a separate process, which has
no ledger, uses its own SQLite settings, and ends with its time limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from readback.canon import Json
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError
from readback.systems.isolated import Ended, answers

MEMORY_BYTES: Final = 2_147_483_648
"""Memory of the reading process: a copy of the largest database, a second copy for the trial, and the rows."""
_TRIAL: Final = Path(__file__).with_name("trial.py")


class TablesSource:
    """Read one SQLite database file as a whole.

    Safe from any thread.

    Args:
        name: Name in readings and messages.
        database: Path of the file.
        timeout_s: Seconds for one reading, trial included.

    Example:
        >>> TablesSource("orders", "no-such.db").state().presence.value
        'absent'
    """

    def __init__(self, name: str, database: str | Path, *, timeout_s: float = 10.0) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._database = str(database)
        self._timeout_s = timeout_s

    def state(self, statement: str = "") -> Reading:
        """Read the facts of the database, and foresee the facts after a statement.

        The reading holds `facts`: the list of tables and, for each table, the form, the number of rows, and a digest of
        each column. Equal versions mean equal facts. A statement adds three parts:

        - `foreseen`: the future facts of each table that the statement changes, or would change if a row matched.
          Facts dependent on time or chance are missing.
        - `left_open`: the present values of the missing facts, where nothing else distinguishes done from not done.
        - `error`: the error of a failing statement.

        A trial over a bound, or with a failure by chance, gives only `bounded` with the reason: the result elsewhere is
        unknown.
        """
        ended = self._run_trial(statement)
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
        """Check the database. Raises ReaderFailedError where it cannot be read."""
        found = self._run_trial("")
        if isinstance(found, Reading):
            raise ReaderFailedError(
                f"The database of {self.name!r} cannot be read: {found.detail or 'it is not there'}"
            )

    def _run_trial(self, statement: str) -> Ended | Reading:
        """Return the answers of the trial, facts first, or the reading with the reason for missing facts."""
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
