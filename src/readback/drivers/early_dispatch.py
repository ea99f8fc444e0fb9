"""A call that is made while its attempt is being written, and answered only when that is durable.

For what a gateway passes on and calls unverified whatever comes of it: nobody is told of such a call that is not on
record, and the ledger keeps no operation by which it could be made twice. Whoever drives the action sets
`EARLY_DISPATCH`, and says so in its request; the async driver makes the call when the engine has cleared it, and
before its attempt is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from types import coroutine

from readback.errors import UnknownOutcomeError
from readback.ports.storage.store import Appended, AppendResult


class EarlyDispatch:
    """One call's. `make` begins it and returns at once; `drop` gives it up."""

    __slots__ = ("_drop", "_make", "made", "recorded")

    def __init__(self, make: Callable[[], None], drop: Callable[[], None]) -> None:
        self._make, self._drop = make, drop
        self.made = self.recorded = False

    def make(self) -> None:
        """It goes out now."""
        self.made = True
        self._make()

    def written(self, result: AppendResult | Exception) -> None:
        """What the store said of it. Raises UnknownOutcomeError where the call was made and is not on record."""
        if not self.made or self.recorded:
            return
        if isinstance(result, Appended):
            self.recorded = True
            return
        raise self.lost(str(result) if isinstance(result, Exception) else type(result).__name__)

    def lost(self, why: str) -> UnknownOutcomeError:
        """What to tell of a call that was made and is not on record."""
        return UnknownOutcomeError(
            f"The call was sent, and could not be put on record: {why}",
            remedy="Do not repeat it; look whether it had its effect, and mend the store.",
        )

    def drop(self) -> None:
        """Whoever wanted it has gone."""
        self._drop()


@coroutine
def a_turn() -> Generator[None, None, None]:
    """Lets everything go first that is ready on the event loop."""
    yield


EARLY_DISPATCH: ContextVar[EarlyDispatch | None] = ContextVar("readback_ahead", default=None)
"""The call that this task may make ahead. Nothing for every action that a contract governs."""
