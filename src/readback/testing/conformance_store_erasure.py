"""What every ledger store must do with evidence that is erased.

Called by nobody: `StoreConformance` inherits these tests.
"""

from __future__ import annotations

from dataclasses import replace

from readback.ports.store import Append, Erasure, Evidence
from readback.testing.conformance_store_places import PlacesConformance
from readback.testing.store_samples import TENANT, sample_append, sample_event, sample_evidence, sample_projection

ITEM = sample_evidence(b'{"name":"Ana"}')


def _mention(action_id: str, version: int, kind: str, item: Evidence = ITEM) -> Append:
    """An append whose entry names the evidence."""
    plain = sample_append(action_id, version)
    event = sample_event(f'{{"action":"{action_id}","version":{version + 1},"refs":"{item.digest}"}}', kind)
    return replace(plain, events=(event,))


class ErasureConformance(PlacesConformance):
    """Bytes that go, digests that stay, and bytes that are recorded again."""

    def test_erased_evidence_is_known_and_has_no_bytes(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.place()
        assert self.store.last_seq() == 1
        assert not self.store.erased(TENANT, ITEM.digest)
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.evidence(TENANT, ITEM.digest) is None
        assert self.store.erased(TENANT, ITEM.digest)
        assert not self.store.erased("other", ITEM.digest)
        assert not self.store.erased(TENANT, "ab" * 32)
        assert not self.store.erased(TENANT, "no digest")
        assert self.store.evidence_bytes(TENANT) == 0
        assert self.store.purge()

    def test_erased_evidence_that_is_recorded_again_has_its_bytes_again(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        again = sample_append("a2", evidence=(ITEM,))
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), 1)), again])
        assert self.store.evidence(TENANT, ITEM.digest) == ITEM
        assert not self.store.erased(TENANT, ITEM.digest)

    def test_a_contract_whose_text_was_erased_has_it_again_with_the_next_action(self) -> None:
        contract = sample_projection("a1", contract_hash=ITEM.digest)
        self.store.append([sample_append("a1", projection=contract, evidence=(ITEM,))])
        self.place()
        self.store.append([sample_append("a1", 1, projection=contract, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.erased(TENANT, ITEM.digest)
        self.store.append([sample_append("a2", projection=replace(contract, action_id="a2"), evidence=(ITEM,))])
        assert self.store.evidence(TENANT, ITEM.digest) == ITEM

    def test_only_one_tenants_bytes_are_erased(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        theirs = sample_append("b1", evidence=(ITEM,))
        theirs = replace(theirs, tenant="other", projection=replace(theirs.projection, tenant="other"))
        self.store.append([theirs])
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), 2))])
        assert self.store.evidence("other", ITEM.digest) == ITEM

    def test_bytes_that_another_action_has_referred_to_since_are_kept(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.store.append([_mention("a2", 0, "observed")])
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.evidence(TENANT, ITEM.digest) == ITEM
        self.place()
        self.store.append([sample_append("a1", 2, erases=Erasure((ITEM.digest,), self.store.last_seq()))])
        assert self.store.erased(TENANT, ITEM.digest)

    def test_bytes_that_another_tenants_action_has_referred_to_since_go(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        theirs = _mention("b1", 0, "observed")
        theirs = replace(theirs, tenant="other", projection=replace(theirs.projection, tenant="other"))
        self.store.append([theirs])
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.erased(TENANT, ITEM.digest)

    def test_bytes_that_an_entry_without_a_place_refers_to_are_kept(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.place()
        self.store.append([_mention("a2", 0, "observed")])
        as_of = 1
        self.store.append([sample_append("a1", 1, erases=Erasure((ITEM.digest,), as_of))])
        assert self.store.evidence(TENANT, ITEM.digest) == ITEM

    def test_what_another_action_said_when_it_was_erased_keeps_nothing(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.store.append([_mention("a2", 0, "erased"), _mention("a1", 1, "observed")])
        self.store.append([sample_append("a1", 2, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.erased(TENANT, ITEM.digest)

    def test_an_erasure_that_conflicts_erases_nothing(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.store.append([sample_append("a1", 7, erases=Erasure((ITEM.digest,), 1))])
        assert self.store.evidence(TENANT, ITEM.digest) == ITEM
