"""Delivery positions and dead letters of the subscribers: the store's part in delivery.

`LedgerStore` inherits this. Called by the delivery thread, by `readback events` and by audit. The entries themselves
are the outbox. This port holds only each subscriber's position, moved under a lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from readback.canon.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Cursor:
    """A subscriber's position. Times in microseconds.

    - `after_seq`: entries up to here are complete; each message was accepted or is a dead letter.
    - `done`: the number of complete messages of the next entry.
    - `tried`: refusals of the next message since `since_us`, the last with reason `said`. No retry before `next_us`.
    - `owner`: the current deliverer, exclusive until `until_us`.
    """

    name: str
    after_seq: int
    done: int = 0
    tried: int = 0
    since_us: int = 0
    next_us: int = 0
    said: str = ""
    owner: str = ""
    until_us: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message refused by a subscriber and accepted by the fallback: the `number`th (from 0) of the entry at `seq`.

    `again`: a redelivery was requested.
    """

    subscriber: str
    seq: int
    number: int
    died_us: int
    tried: int
    said: str
    again: bool = False


class Outbox(Protocol):
    """Positions and dead letters. Each change is one durable transaction; any thread and any process may call."""

    def cursors(self) -> list[Cursor]:
        """Every subscriber's position, by name."""
        ...

    def enrol(self, name: str, after_seq: int) -> Cursor:
        """Create a new subscriber's position. Returns the stored position, possibly an older one."""
        ...

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        """Acquire the lease to deliver to a subscriber until `until_us`. Returns None for a lease held elsewhere or an
        unknown subscriber.

        A live lease is not granted twice, not even to its owner. `dead` names an owner known to be gone.
        """
        ...

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        """Move a position and store the dead letters on the way, in one transaction.

        Requires the lease exactly as in `held` (owner and end). Otherwise nothing is stored, and the result is False.
        The cursor's `owner` and `until_us` become the new lease; an `owner` of "" releases it.
        """
        ...

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        """Dead letters in log order: of one subscriber or all, all or only those with a requested redelivery."""
        ...

    def put_letter(self, letter: DeadLetter) -> bool:
        """Update a dead letter. Returns False if the letter does not exist (any more)."""
        ...

    def drop_letter(self, letter: DeadLetter) -> None:
        """Remove a letter after a successful redelivery."""
        ...
