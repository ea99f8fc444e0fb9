"""A call that is made while its attempt is being written, and answered only when that is durable.

For what a gateway passes on and calls unverified whatever comes of it: nobody is told of such a call that is not on
record, and the ledger keeps no operation by which it could be made twice. Whoever drives the action sets `AHEAD`; the
async driver makes the call when the engine has admitted it and its first attempt is on its way to the store.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from readback.domain.errors import UnknownOutcomeError
from readback.domain.events import EventKind
from readback.ports.store import Append, Appended, AppendResult


class Ahead:
    """One call's. `make` begins it and returns at once; `drop` gives it up."""

    __slots__ = ("_drop", "_make", "made", "recorded")

    def __init__(self, make: Callable[[], None], drop: Callable[[], None]) -> None:
        self._make, self._drop = make, drop
        self.made = self.recorded = False

    def writing(self, append: Append) -> None:
        """The store is about to be given this: where it is the attempt, the call is made now."""
        if not self.made and append.events[-1].kind == EventKind.ATTEMPTED:
            self.made = True
            self._make()

    def written(self, result: AppendResult | Exception) -> None:
        """What the store said of it. Raises UnknownOutcomeError where the call was made and is not on record."""
        if not self.made or self.recorded:
            return
        if isinstance(result, Appended):
            self.recorded = True
            return
        why = str(result) if isinstance(result, Exception) else type(result).__name__
        raise UnknownOutcomeError(
            f"The call was sent, and could not be put on record: {why}",
            remedy="Do not repeat it; look whether it had its effect, and mend the store.",
        )

    def drop(self) -> None:
        """Whoever wanted it has gone."""
        self._drop()


AHEAD: ContextVar[Ahead | None] = ContextVar("readback_ahead", default=None)
"""The call that this task may make ahead. Nothing for every action that a contract governs."""
