"""Send a call while its attempt is being committed, and return the answer only after the commit.

For calls forwarded by the gateway and always reported as unverified. No caller receives an answer without a ledger
record, and no stored operation can send the call again. The gateway sets `EARLY_DISPATCH` and marks the request. The
async driver sends the call after the engine clears it and before the attempt exists.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from types import coroutine

from readback.errors import UnknownOutcomeError
from readback.ports.storage.store import Appended, AppendResult


class EarlyDispatch:
    """One early call. `make` sends the call and returns at once; `drop` abandons it."""

    __slots__ = ("_drop", "_make", "made", "recorded")

    def __init__(self, make: Callable[[], None], drop: Callable[[], None]) -> None:
        self._make, self._drop = make, drop
        self.made = self.recorded = False

    def make(self) -> None:
        """Send the call."""
        self.made = True
        self._make()

    def written(self, result: AppendResult | Exception) -> None:
        """Accept the store's result. Raises UnknownOutcomeError if the call was sent and not recorded."""
        if not self.made or self.recorded:
            return
        if isinstance(result, Appended):
            self.recorded = True
            return
        raise self.lost(str(result) if isinstance(result, Exception) else type(result).__name__)

    def lost(self, why: str) -> UnknownOutcomeError:
        """Return the error for a call sent and not recorded."""
        return UnknownOutcomeError(
            f"The call was sent, and could not be recorded: {why}",
            remedy="Do not repeat the call. Check whether it took effect, and repair the store.",
        )

    def drop(self) -> None:
        """Abandon the call: the caller is gone."""
        self._drop()


@coroutine
def a_turn() -> Generator[None, None, None]:
    """Yield once to every callback ready on the event loop."""
    yield


EARLY_DISPATCH: ContextVar[EarlyDispatch | None] = ContextVar("readback_ahead", default=None)
"""The early call of this task; None for every action under a contract."""
