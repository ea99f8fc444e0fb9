"""What every ledger store must do with evidence that is erased.

Called by nobody: `StoreConformance` inherits these tests.
"""

from __future__ import annotations

from dataclasses import replace

from readback.ports.storage.store import Erasure
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.store_samples import TENANT, sample_append, sample_evidence, sample_projection

ITEM = sample_evidence(b'{"name":"Ana"}')
OTHER = sample_evidence(b'{"name":"Bob"}')
ERASES = Erasure((ITEM.digest,))


class ErasureConformance(PlacesConformance):
    """Bytes that go, digests that stay, and bytes that are recorded again."""

    def test_erased_evidence_is_known_and_has_no_bytes(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM, OTHER))])
        assert not self.store.erased(TENANT, "a1", ITEM.digest)
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) is None
        assert self.store.evidence(TENANT, "a1", OTHER.digest) == OTHER
        assert self.store.erased(TENANT, "a1", ITEM.digest)
        assert not self.store.erased("other", "a1", ITEM.digest)
        assert not self.store.erased(TENANT, "a2", ITEM.digest)
        assert not self.store.erased(TENANT, "a1", OTHER.digest)
        assert not self.store.erased(TENANT, "a1", "ab" * 32)
        assert not self.store.erased(TENANT, "a1", "no digest")
        assert self.store.bodies(TENANT, [("a1", ITEM.digest)]) == {}
        assert self.store.evidence_bytes(TENANT) == len(OTHER.body)
        assert self.store.purge()

    def test_erased_evidence_that_is_recorded_again_has_its_bytes_again(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        again = sample_append("a1", 2, evidence=(ITEM,))
        self.store.append([sample_append("a1", 1, erases=ERASES), again])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM
        assert not self.store.erased(TENANT, "a1", ITEM.digest)

    def test_the_same_bytes_of_another_action_stay(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,)), sample_append("a2", evidence=(ITEM,))])
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.erased(TENANT, "a1", ITEM.digest)
        assert self.store.evidence(TENANT, "a2", ITEM.digest) == ITEM
        self.store.append([sample_append("a2", 1, erases=ERASES)])
        assert self.store.evidence(TENANT, "a2", ITEM.digest) is None

    def test_the_text_of_a_contract_is_not_erased(self) -> None:
        contract = sample_projection("a1", contract_hash=ITEM.digest)
        self.store.append([sample_append("a1", projection=contract, evidence=(ITEM,))])
        self.store.append([sample_append("a1", 1, projection=contract, erases=ERASES)])
        assert not self.store.erased(TENANT, "a1", ITEM.digest)
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM
        assert self.store.evidence(TENANT, "", ITEM.digest) == ITEM

    def test_the_definition_of_a_saga_is_its_own(self) -> None:
        for name in ("s1", "s2"):
            saga = sample_projection(name, contract_hash=ITEM.digest, kind="saga")
            self.store.append([sample_append(name, projection=saga, evidence=(ITEM,))])
        assert self.store.evidence(TENANT, "", ITEM.digest) is None
        first = sample_projection("s1", contract_hash=ITEM.digest, kind="saga")
        self.store.append([sample_append("s1", 1, projection=first, erases=ERASES)])
        assert self.store.erased(TENANT, "s1", ITEM.digest)
        assert self.store.evidence(TENANT, "s2", ITEM.digest) == ITEM

    def test_another_tenants_action_is_not_looked_into(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        theirs = sample_append("b1", evidence=(ITEM,))
        theirs = replace(theirs, tenant="other", projection=replace(theirs.projection, tenant="other"))
        self.store.append([theirs])
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.evidence("other", "b1", ITEM.digest) == ITEM
        assert self.store.evidence(TENANT, "b1", ITEM.digest) is None

    def test_an_erasure_that_conflicts_erases_nothing(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.store.append([sample_append("a1", 7, erases=ERASES)])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM

    def test_who_keeps_evidence_is_found_by_its_digest(self) -> None:
        contract = sample_evidence(b"the terms")
        own = sample_projection("a1", contract_hash=contract.digest)
        self.store.append([sample_append("a1", projection=own, evidence=(ITEM, contract))])
        assert self.store.keeper(TENANT, ITEM.digest) == "a1"
        assert self.store.keeper(TENANT, contract.digest) is None
        assert self.store.keeper("other", ITEM.digest) is None
        assert self.store.keeper(TENANT, "ab" * 32) is None
        assert self.store.keeper(TENANT, "no digest") is None
        self.store.append([sample_append("a1", 1, projection=own, erases=ERASES)])
        assert self.store.keeper(TENANT, ITEM.digest) == "a1", "the digest stays"
        self.store.append([sample_append("a2", evidence=(ITEM,))])
        assert self.store.keeper(TENANT, ITEM.digest) == "a2", "whose bytes are there comes first"
