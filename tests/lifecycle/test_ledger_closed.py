"""The record cannot be anything else: its entries are closed, appended only, and each is found by its hash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from readback.audit.checks.ledger import audit
from readback.canon import ReadbackError, envelope_bytes, parse_json
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, open_envelope, seal
from readback.engine.resume import fold
from readback.errors import StoreCorruptError
from readback.log.tree import leaf_hash
from readback.ports.storage.store import Append, SealedEvent, StoredEvent, VersionConflict
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.house import TENANT, House

NEEDS_NOTHING = {
    EventKind.REJECTED,
    EventKind.RESUMED,
    EventKind.SIGNALLED,
    EventKind.CANCELLED,
}


@pytest.mark.requirement("LEDGER-closed")
def test_an_entry_with_a_field_too_many_or_too_few_is_refused_however_well_it_is_sealed(house: House) -> None:
    told = house.run(house.action())
    for stored in house.store.events(told.id):
        whole = parse_json(stored.envelope)
        assert isinstance(whole, dict)
        for odd in ({**whole, "verified": True}, *({k: v for k, v in whole.items() if k != key} for key in whole)):
            envelope = envelope_bytes(odd)
            with pytest.raises(StoreCorruptError):
                open_envelope(envelope)
            with pytest.raises(StoreCorruptError):
                fold([replace(stored, envelope=envelope, leaf=leaf_hash(envelope))])


@pytest.mark.requirement("LEDGER-closed")
@pytest.mark.parametrize("kind", [kind for kind in EventKind if kind not in NEEDS_NOTHING])
def test_an_entry_that_lacks_what_its_kind_needs_is_never_written_and_never_read(kind: EventKind) -> None:
    with pytest.raises(StoreCorruptError, match="lacks"):
        Action("a", TENANT).apply(Event(kind, 1), "00")
    envelope, leaf = seal(Event(kind, 1), "a", TENANT, 1, "")
    with pytest.raises(StoreCorruptError, match="lacks"):
        fold([StoredEvent(1, "a", 1, kind.value, 1, envelope, leaf)])


@pytest.mark.requirement("LEDGER-closed")
def test_no_field_can_be_added_to_an_entry_and_no_float_be_put_into_one() -> None:
    with pytest.raises(TypeError):
        Event(EventKind.HELD, 1, verified=True)  # type: ignore[call-arg]
    with pytest.raises(ReadbackError, match="holds"):
        seal(Event(EventKind.HELD, 1, (), {"hold": 0.5}), "a", TENANT, 1, "")


@pytest.mark.requirement("LEDGER-append-only")
def test_entries_that_were_recorded_stay_as_they_are(house: House) -> None:
    house.shop.tool = lambda ctx, args: (202, {})
    pending = house.run(house.action(), wait_s=1)
    early = house.store.events(pending.id)
    house.shop.rows["o-1"].update(status="shipped", version=2)
    assert house.wait(pending.id).verified
    later = house.store.events(pending.id)
    assert later[: len(early)] == early
    assert len(later) > len(early)


@pytest.mark.requirement("LEDGER-append-only")
def test_a_second_writer_of_the_same_version_is_refused(house: House) -> None:
    told = house.run(house.action())
    before, stored = house.store.events(told.id), house.store.projection(told.id)
    assert stored is not None
    for version in range(stored.version):
        envelope, leaf = seal(Event(EventKind.RESUMED, 1), told.id, TENANT, version + 1, "")
        event = SealedEvent("resumed", 1, envelope, leaf)
        again = Append(told.id, TENANT, version, stored.fence, (event,), stored.projection)
        assert house.store.append([again]) == [VersionConflict(stored.version, stored.fence)]
    assert house.store.events(told.id) == before


class Flipped(MemoryStore):
    """A store on a disk that shows one bit of one entry otherwise: `place` is the entry's seq and the byte."""

    place: tuple[int, int] = (0, 0)

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        for stored in super().scan(after_seq):
            yield self._seen(stored)

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        held = [next(super(Flipped, self).scan(seq - 1)) for seq, _, _ in super().entries(after_seq, limit)]
        return [(seen.seq, seen.envelope, seen.leaf) for seen in map(self._seen, held)]

    def events(self, action_id: str) -> list[StoredEvent]:
        return [self._seen(stored) for stored in super().events(action_id)]

    def _seen(self, stored: StoredEvent) -> StoredEvent:
        seq, byte = self.place
        if stored.seq != seq:
            return stored
        envelope = bytearray(stored.envelope)
        envelope[byte] ^= 1
        return replace(stored, envelope=bytes(envelope))


@pytest.mark.requirement("LEDGER-leaf-hash")
def test_every_entry_bears_its_leaf_hash_and_a_flipped_byte_is_found() -> None:
    store = Flipped()
    house = House(store=store)
    entries = store.events(house.run(house.action()).id)
    previous = ""
    for stored in entries:
        assert stored.leaf == leaf_hash(stored.envelope)
        assert open_envelope(stored.envelope).previous == previous
        previous = stored.leaf.hex()
    assert audit(store).ok
    for stored in entries:
        for byte in range(0, len(stored.envelope), 7):
            store.place = (stored.seq, byte)
            found = audit(store)
            assert not found.ok
            assert (found.faults[0].code, found.faults[0].seq) == ("entry.leaf", stored.seq)
