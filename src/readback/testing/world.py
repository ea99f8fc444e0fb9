"""A simulated system of record with a known truth: records of several tenants, the history, and every effect.

For tests and simulations under any clock. The world is the oracle: `record`, `effects` and `coming` give the truth.
`world_effects` holds the deeds of tools, `world_answers` the answers of tools, `world_views` the views of readers. No
other module may lie.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import count
from typing import Any

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.verification.reading import Lookup, Reading


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of a record: the tenant and the record's id."""

    tenant: str
    id: str


@dataclass(frozen=True, slots=True)
class Record:
    """A record at a moment. `stamp` and `author` belong to the last change."""

    place: Place
    fields: Mapping[str, Json]
    version: int
    stamp: str
    author: str
    created_us: int
    changed_us: int

    def value(self) -> dict[str, Json]:
        """The visible fields of the record."""
        return {
            "id": self.place.id,
            "tenant": self.place.tenant,
            "author": self.author,
            "stamp": self.stamp,
            **self.fields,
        }


@dataclass(frozen=True, slots=True)
class Effect:
    """A real change. `fields` were written; `removed` marks a removal."""

    place: Place
    fields: Mapping[str, Json]
    stamp: str
    key: str
    author: str
    at_us: int
    removed: bool = False


@dataclass(slots=True)
class World:
    """The present and past of the world. `now_us` gives the time. Planned changes happen at the planned moment."""

    now_us: Callable[[], int]
    journal: list[Effect] = field(default_factory=list)
    _records: dict[Place, list[Record | None]] = field(default_factory=dict)
    _times: dict[Place, list[int]] = field(default_factory=dict)
    _planned: list[tuple[int, int, str, Callable[[], object]]] = field(default_factory=list)
    _order: Any = field(default_factory=count)
    _moment_us: int | None = None

    # --- what happens --------------------------------------------------------------------------------

    def put(
        self, place: Place, fields: Mapping[str, Json], *, stamp: str = "", key: str = "", author: str = "another-actor"
    ) -> Effect:
        """Create the record, or change the given fields. Adds an effect and a version."""
        now_us = self._now()
        old = self._newest(place)
        merged = {**(old.fields if old is not None else {}), **fields}
        version = 1 + sum(1 for record in self._records.get(place, ()) if record is not None)
        created_us = old.created_us if old is not None else now_us
        self._keep(place, Record(place, merged, version, stamp, author, created_us, now_us))
        return self._effect(Effect(place, dict(fields), stamp, key, author, now_us))

    def remove(self, place: Place, *, stamp: str = "", key: str = "", author: str = "another-actor") -> Effect | None:
        """Remove the record. Return None without a record."""
        if self._newest(place) is None:
            return None
        self._keep(place, None)
        return self._effect(Effect(place, {}, stamp, key, author, self._now(), removed=True))

    def later(self, after_us: int, act: Callable[[], object], *, stamp: str = "") -> None:
        """Plan a change for `after_us` from now. The effect bears `stamp`."""
        heapq.heappush(self._planned, (self._now() + after_us, next(self._order), stamp, act))

    def settle(self) -> None:
        """Apply every planned change up to now, each at the planned moment."""
        while self._planned and self._planned[0][0] <= self.now_us():
            self._moment_us, _, _, act = heapq.heappop(self._planned)
            try:
                act()
            finally:
                self._moment_us = None

    # --- what is true --------------------------------------------------------------------------------

    def record(self, place: Place, as_of_us: int | None = None) -> Record | None:
        """Return the present record, or the record at an earlier time."""
        self.settle()
        if as_of_us is None:
            return self._newest(place)
        found = None
        for at_us, record in zip(self._times.get(place, ()), self._records.get(place, ()), strict=True):
            if at_us <= as_of_us:
                found = record
        return found

    def stamped(self, stamp: str, tenant: str | None = None, as_of_us: int | None = None) -> list[Record]:
        """Return the records with a stamp, in every tenant or in the given tenant."""
        self.settle()
        shown = [self.record(place, as_of_us) for place in sorted(self._records)]
        return [r for r in shown if r is not None and r.stamp == stamp and tenant in (None, r.place.tenant)]

    def effects(self, stamp: str) -> list[Effect]:
        """Return every effect with a stamp, in any place."""
        self.settle()
        return [effect for effect in self.journal if effect.stamp == stamp]

    def by_key(self, key: str) -> list[Effect]:
        """Return every effect under an idempotency key."""
        self.settle()
        return [effect for effect in self.journal if key and effect.key == key]

    def coming(self, stamp: str) -> int:
        """Return the number of planned effects with a stamp."""
        self.settle()
        return sum(1 for _, _, whose, _ in self._planned if whose == stamp)

    # --- what a source may offer ---------------------------------------------------------------------

    def find(self, stamp: str) -> list[Reading]:
        """Search by stamp, and return a reading for each effect, over all tenants."""
        return [
            Reading.of(
                {"id": e.place.id, "tenant": e.place.tenant, "author": e.author, "stamp": e.stamp, **e.fields},
                stamp=e.stamp,
                author=e.author,
            )
            for e in self.effects(stamp)
        ]

    def lookup(self, key: str, *, final: bool = False) -> Lookup:
        """Look up by idempotency key. `final`: a key without an effect is dead, not merely unknown."""
        landed = self.by_key(key)
        if landed:
            return Lookup.landed({"id": landed[0].place.id})
        if any(True for _, _, whose, _ in self._planned if whose):
            return Lookup.pending()
        return Lookup.failed("The system has given it up.") if final else Lookup.unknown_key()

    # --- inside --------------------------------------------------------------------------------------

    def _now(self) -> int:
        return self._moment_us if self._moment_us is not None else self.now_us()

    def _newest(self, place: Place) -> Record | None:
        kept = self._records.get(place)
        return kept[-1] if kept else None

    def _keep(self, place: Place, record: Record | None) -> None:
        self._records.setdefault(place, []).append(record)
        self._times.setdefault(place, []).append(self._now())

    def _effect(self, effect: Effect) -> Effect:
        self.journal.append(effect)
        return effect
