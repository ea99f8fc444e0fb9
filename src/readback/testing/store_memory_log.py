"""The sealed log of the store in memory. Called by that store alone; it forgets when that goes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice

from readback.canon.frozen import dataclass
from readback.log.frontier import HashTile
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.store import Evidence, KeyRecord, StoredEvent, StoredProjection


@dataclass(slots=True)
class SealedContent:
    """What several stores opened over the same content share."""

    tiles: dict[tuple[int, int], bytes] = field(default_factory=dict)
    heads: dict[int, SealedHead] = field(default_factory=dict)
    marks: dict[str, AnchorMark] = field(default_factory=dict)


@dataclass(slots=True)
class Kept:
    """The store's own content, as far as it is read here."""

    actions: dict[str, StoredProjection]
    events: dict[str, list[StoredEvent]]
    evidence: dict[tuple[str, str, str], Evidence]
    keys: dict[tuple[str, str], KeyRecord]


class MemoryLog:
    """Keeps the promises of `SealedLog`. The store brings the lock, the entries and the content."""

    def _sealed(self) -> SealedContent:
        raise NotImplementedError

    def _entries(self) -> list[StoredEvent]:
        raise NotImplementedError

    def _unplaced(self) -> deque[StoredEvent]:
        raise NotImplementedError

    def _kept(self) -> Kept:
        raise NotImplementedError

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        with self._open():
            kept = self._kept()
            found = [(kept.actions[name], list(kept.events.get(name, ()))) for name in sorted(kept.actions)]
        yield from found

    def bodies(self, tenant: str, asked: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        with self._open():
            found = {name: self._kept().evidence.get((tenant, *name)) for name in asked}
        return {name: (held.media, held.body) for name, held in found.items() if held is not None}

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        with self._open():
            found = {key: self._kept().keys.get((tenant, key)) for key in key_hashes}
        return {key: record for key, record in found.items() if record is not None}

    def _open(self) -> threading.Lock:
        raise NotImplementedError

    def take_places(self, limit: int) -> int:
        with self._open():
            log, waiting = self._entries(), self._unplaced()
            taken = min(max(limit, 0), len(waiting))
            for _ in range(taken):
                placed = replace(waiting.popleft(), seq=len(log) + 1)
                log.append(placed)
                self._kept().events[placed.action_id][placed.version - 1] = placed
            return taken

    def unplaced(self, limit: int) -> list[StoredEvent]:
        with self._open():
            return list(islice(self._unplaced(), max(limit, 0)))

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        with self._open():
            return [(e.seq, e.envelope, e.leaf) for e in self._entries()[after_seq : after_seq + limit]]

    def tile(self, level: int, place: int) -> bytes | None:
        with self._open():
            return self._sealed().tiles.get((level, place))

    def tiles(self) -> Iterator[HashTile]:
        with self._open():
            found = sorted(self._sealed().tiles.items())
        yield from (HashTile(level, place, hashes) for (level, place), hashes in found)

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        with self._open():
            heads = self._sealed().heads
            return heads.get(max(heads, default=0) if size is None else size)

    def checkpoints(self) -> Iterator[SealedHead]:
        with self._open():
            found = sorted(self._sealed().heads.items())
        yield from (head for _, head in found)

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        with self._open():
            sealed = self._sealed()
            if max(sealed.heads, default=0) != after:
                return False
            sealed.tiles.update({(tile.level, tile.place): tile.hashes for tile in tiles})
            sealed.heads[head.size] = head
            return True

    def cosigned(self, size: int, note: bytes) -> None:
        with self._open():
            heads = self._sealed().heads
            if size in heads:
                heads[size] = replace(heads[size], note=note)

    def anchors(self) -> list[AnchorMark]:
        with self._open():
            return sorted(self._sealed().marks.values(), key=lambda mark: mark.name)

    def mark(self, mark: AnchorMark) -> None:
        with self._open():
            self._sealed().marks[mark.name] = mark
