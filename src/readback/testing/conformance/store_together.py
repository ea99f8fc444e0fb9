"""The promises of a store with batched look-ups: the answers equal those of the port's single methods.

Inherited beside `store.StoreConformance` by the tests of a store with `BatchReads`.
"""

from __future__ import annotations

from dataclasses import replace

from readback.canon.digest import sha256_hex
from readback.ports.storage.batch_reads import BatchReads, LeaseWanted
from readback.ports.storage.store import Count, LedgerStore
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_evidence,
    sample_projection,
)

ODD = "nul \x00, escape \x1a, between \x1f"
SEVERAL = ("a1", "a2", "a3", "a4")


class TogetherConformance:
    """Inherit this class beside the class with `store`."""

    store: LedgerStore

    @property
    def together(self) -> BatchReads:
        assert isinstance(self.store, BatchReads)
        return self.store

    def test_many_actions_are_brought_as_each_of_them_is(self) -> None:
        store = self.store
        store.append([sample_creation(name, due_us=NOON_US) for name in SEVERAL])
        store.append([sample_append("a2", 1, projection=sample_projection("a2", target=ODD))])
        store.lease("a3", "w1", NOON_US, NOON_US + 9)
        asked = ["a3", "missing", "a2", "a1"]
        each = {name: (store.projection(name), store.events(name)) for name in ("a1", "a2", "a3")}
        assert self.together.actions_of(asked) == each
        assert self.together.projections_of(asked) == {name: stored for name, (stored, _) in each.items()}
        assert self.together.actions_of([]) == {}
        assert self.together.projections_of([]) == {}
        assert self.together.actions_of(["", ODD]) == {}

    def test_evidence_of_many_is_each_tenants_own(self) -> None:
        store = self.store
        one, other = sample_evidence(b"one"), sample_evidence(b"other")
        store.append([sample_append("a1", evidence=(one, other))])
        elsewhere = sample_projection("b1", tenant="globex", key_hash="0" * 64, stamp="rb-b1")
        store.append([sample_append("b1", projection=elsewhere, evidence=(other,))])
        asked = [(TENANT, "a1", other.digest), ("globex", "b1", one.digest), (TENANT, "a1", "no digest")]
        asked += [("globex", "b1", other.digest), (TENANT, "a1", one.digest), (TENANT, "b1", one.digest)]
        asked += [(TENANT, "a1", sha256_hex(b"never kept")), ("globex", "a1", one.digest), (TENANT, "a1", one.digest)]
        assert self.together.evidence_of(asked) == [other, None, None, other, one, None, None, None, one]
        assert self.together.evidence_of(asked) == [store.evidence(*each) for each in asked]
        assert self.together.evidence_of([]) == []
        assert self.together.evidence_of([(TENANT, "a1", "no digest")]) == [None]

    def test_counts_of_many_tenants_are_each_ones_own(self) -> None:
        store = self.store
        counts = (Count("source:db", "verifier_error", 2), Count("s", "n", 0), Count(ODD, "n", 1))
        store.append([replace(sample_creation("a1"), counts=counts)])
        store.pace(TENANT, NOON_US, NOON_US, 1)
        found = self.together.counts_of([TENANT, "globex"])
        assert found == {TENANT: store.counts(TENANT), "globex": []}
        assert found[TENANT], "there is something to tell apart"

    def test_many_leases_are_given_as_each_would_be(self) -> None:
        store = self.store
        store.append([sample_creation(name, due_us=NOON_US) for name in SEVERAL])
        store.lease("a2", "live", 10, 90)
        store.lease("a3", "dead", 10, 90)
        wanted = [
            LeaseWanted("a4", 40),
            LeaseWanted("missing", 40),
            LeaseWanted("a2", 40, dead="dead"),
            LeaseWanted("a3", 50, dead="dead"),
            LeaseWanted("a1", 60),
        ]
        assert self.together.leases(wanted, "w1", 20) == [1, None, None, 2, 1]
        held = {name: stored.projection for name, stored in self.together.projections_of(SEVERAL).items()}
        assert {name: (each.lease_owner, each.lease_until_us) for name, each in held.items()} == {
            "a1": ("w1", 60), "a2": ("live", 90), "a3": ("w1", 50), "a4": ("w1", 40),
        }  # fmt: skip
        assert self.together.leases(wanted, "w2", 30) == [None] * 5, "a live lease is given to no other worker"
        assert self.together.leases([LeaseWanted("a4", 80), LeaseWanted("a1", 80)], "w2", 45) == [2, None]
        assert self.together.leases([], "w2", 45) == []

    def test_whose_lease_was_given_to_another_cannot_append(self) -> None:
        store = self.store
        store.append([sample_creation(name) for name in ("a1", "a2")])
        assert self.together.leases([LeaseWanted("a1", 20), LeaseWanted("a2", 20)], "w1", 10) == [1, 1]
        assert self.together.leases([LeaseWanted("a2", 40), LeaseWanted("a1", 40)], "w2", 20) == [2, 2]
        lost, kept = store.append([sample_append("a1", 1, fence=1), sample_append("a2", 1, fence=2)])
        assert (lost.version, getattr(lost, "fence", None)) == (1, 2)  # type: ignore[union-attr]
        assert kept.version == 2  # type: ignore[union-attr]
