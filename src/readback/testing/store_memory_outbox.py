"""The outbox's part of the store in memory: positions of subscribers and dead letters.

Inherited by the store in memory, which says where they are kept and under which lock. It keeps the same promises.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import field, replace

from readback.canon.frozen import dataclass
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store_rules import lease_is_live


@dataclass(slots=True)
class OutboxContent:
    """What several stores opened over the same content share."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    letters: dict[tuple[int, int, str], DeadLetter] = field(default_factory=dict)


class MemoryOutbox:
    """Keeps the promises of `Outbox`."""

    def _outbox(self) -> OutboxContent:
        raise NotImplementedError

    def _open(self) -> threading.Lock:
        raise NotImplementedError

    def cursors(self) -> list[Cursor]:
        with self._open():
            return sorted(self._outbox().cursors.values(), key=lambda each: each.name)

    def enrol(self, name: str, after_seq: int) -> Cursor:
        with self._open():
            return self._outbox().cursors.setdefault(name, Cursor(name, after_seq))

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        with self._open():
            found = self._outbox().cursors.get(name)
            if found is None or (found.owner != dead and lease_is_live(found.owner, found.until_us, now_us)):
                return None
            taken = self._outbox().cursors[name] = replace(found, owner=owner, until_us=until_us)
            return taken

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        with self._open():
            found = self._outbox().cursors.get(cursor.name)
            if found is None or (found.owner, found.until_us) != (held.owner, held.until_us):
                return False
            self._outbox().cursors[cursor.name] = cursor
            self._outbox().letters.update({_place(letter): letter for letter in letters})
            return True

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        with self._open():
            held = sorted(self._outbox().letters.items())
        found = [one for _, one in held if subscriber in ("", one.subscriber) and (one.again or not again)]
        return found[: max(limit, 0)]

    def put_letter(self, letter: DeadLetter) -> bool:
        with self._open():
            known = _place(letter) in self._outbox().letters
            if known:
                self._outbox().letters[_place(letter)] = letter
            return known

    def drop_letter(self, letter: DeadLetter) -> None:
        with self._open():
            self._outbox().letters.pop(_place(letter), None)


def _place(letter: DeadLetter) -> tuple[int, int, str]:
    return letter.seq, letter.number, letter.subscriber
