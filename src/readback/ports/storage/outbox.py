"""How far each subscriber was told what the ledger says, and what was given up: the store's part in telling.

`LedgerStore` inherits this. Called by the sdk's delivery, by `readback events` and by audit. The entries themselves are
the outbox; here is only a position in them for each subscriber, moved under a lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from readback.canon.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Cursor:
    """A subscriber's position. Times in microseconds.

    `after_seq`: entries up to here are done, each message taken or a dead letter; `done`: so many messages of the next
    entry are done too. `tried`: how often the next message was refused since `since_us`, the last time because of
    `said`; it is not tried before `next_us`. `owner` delivers, and until `until_us` nobody else does.
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
    """A message that a subscriber did not take, and the fallback did: the `number`th (from 0) of the entry at `seq`.

    `again`: somebody asked that it be delivered once more.
    """

    subscriber: str
    seq: int
    number: int
    died_us: int
    tried: int
    said: str
    again: bool = False


class Outbox(Protocol):
    """Positions and dead letters. Each change is one durable transaction; any thread and any process may ask."""

    def cursors(self) -> list[Cursor]:
        """Every subscriber's position, by name."""
        ...

    def enrol(self, name: str, after_seq: int) -> Cursor:
        """Gives a new subscriber its position; the answer is the one that it has, which may be an older one."""
        ...

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        """Takes the right to deliver to a subscriber until `until_us`; None where somebody else has it, or nobody knows
        that subscriber.

        A live lease is not given twice, not even to its owner. `dead` names an owner known to be gone.
        """
        ...

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        """Moves a position on, and keeps what died on the way, in one transaction.

        Only for whoever still has the lease as `held` has it (owner and end); else nothing is kept, and the answer is
        False. What the cursor says of `owner` and `until_us` is the lease from now on: an `owner` of "" gives it back.
        """
        ...

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        """Dead letters in the order of the log: of one subscriber or all, all or only those asked for once more."""
        ...

    def put_letter(self, letter: DeadLetter) -> bool:
        """Changes what is known of a dead letter; False where there is no such letter (any more)."""
        ...

    def drop_letter(self, letter: DeadLetter) -> None:
        """It was taken after all."""
        ...
