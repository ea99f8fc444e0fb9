"""The promises of every ledger store about finding work: due times, leases, wake-ups, lists.

`store.StoreConformance` inherits these tests.
"""

from __future__ import annotations

from collections.abc import Callable

from readback.errors import ReadbackError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import ActionFilter, Appended, LedgerStore, VersionConflict
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_evidence,
    sample_projection,
)

HOUR_US = 3_600_000_000
MANY = 1_100
"""More rows than a store fetches at once."""


class WorkConformance(PlacesConformance):
    """Creates a store for each test and closes it afterwards."""

    def make_store(self) -> LedgerStore:
        """Return a new and empty store. A test calls this once or twice."""
        raise NotImplementedError("say how to make the store under test")

    def reopen(self, store: LedgerStore) -> LedgerStore:
        """Return the same content as another process would find it. A store without sharing returns itself."""
        return store

    def setup_method(self) -> None:
        self.store = self.make_store()

    def teardown_method(self) -> None:
        self.store.close()

    # --- due -----------------------------------------------------------------------------------------

    def test_due_are_those_whose_time_has_come_the_longest_due_first(self) -> None:
        times = {"a1": NOON_US + 2, "a2": NOON_US, "a3": NOON_US + 3, "a4": NOON_US + 1}
        self.store.append([sample_creation(name, due_us=at_us) for name, at_us in times.items()])
        self.store.append([sample_creation("a5")])
        assert self.store.due(NOON_US - 1, 10) == []
        assert self.store.due(NOON_US + 2, 10) == ["a2", "a4", "a1"]
        assert self.store.due(NOON_US + 2, 2) == ["a2", "a4"]
        assert self.store.due(NOON_US + 2, 0) == []

    def test_due_of_the_same_moment_come_in_order_of_creation(self) -> None:
        self.store.append([sample_creation(name, due_us=5) for name in ("a2", "a3", "a1")])
        assert self.store.due(5, 10) == ["a1", "a2", "a3"]

    def test_what_has_succeeded_and_is_looked_at_again_comes_last_and_is_not_in_flight(self) -> None:
        self.store.append(
            [
                *(sample_creation(f"a{n}", due_us=n, state="reconciled_success") for n in (1, 2, 3)),
                sample_creation("b1", due_us=9, tenant="x", state="reconciled_success"),
                sample_creation("b2", due_us=40, tenant="x"),
                sample_creation("a4", due_us=30),
                sample_creation("a5", due_us=20, state="failed"),
            ]
        )
        assert self.store.due(50, 10) == ["a5", "b2", "a4", "a1", "b1", "a2", "a3"]
        assert self.store.due(50, 4) == ["a5", "b2", "a4", "a1"]
        assert self.store.due(10, 10, TENANT) == ["a1", "a2", "a3"]
        assert (self.store.next_due_us(), self.store.next_due_us("x")) == (1, 9)
        assert (self.store.in_flight(TENANT), self.store.in_flight("x")) == (2, 1)
        assert isinstance(self.store.append([sample_append("a6", in_flight_max=3)])[0], Appended)

    def test_due_and_next_keep_tenants_apart_or_take_them_together(self) -> None:
        self.store.append(
            [
                sample_creation("a1", due_us=30, tenant="x"),
                sample_creation("a2", due_us=20, tenant="y"),
                sample_creation("a3", due_us=10, tenant="x"),
                sample_creation("a4", tenant="z"),
            ]
        )
        assert self.store.due(50, 10, "x") == ["a3", "a1"]
        assert self.store.due(50, 10, "z") == []
        assert self.store.due(50, 10) == ["a3", "a2", "a1"]
        assert self.store.due(50, 2) == ["a3", "a2"]
        assert (self.store.next_due_us("y"), self.store.next_due_us("z")) == (20, None)
        assert self.store.next_due_us() == 10

    def test_next_due_is_none_where_nothing_waits(self) -> None:
        assert self.store.next_due_us() is None
        self.store.append([sample_creation("a1")])
        assert self.store.next_due_us() is None
        assert self.store.next_due_us(TENANT) is None

    def test_a_due_time_follows_the_projection(self) -> None:
        self.store.append([sample_creation("a1", due_us=10)])
        self.store.append([sample_append("a1", 1, projection=sample_projection("a1", due_us=20))])
        assert (self.store.due(15, 10), self.store.next_due_us()) == ([], 20)
        self.store.append([sample_append("a1", 2)])
        assert (self.store.due(50, 10), self.store.next_due_us()) == ([], None)

    def test_due_omits_actions_that_the_asking_worker_does_not_know(self) -> None:
        """By version; by name for actions without a version, and for actions without an eligible worker."""
        begun = {
            "a1": ("ship", "h1"),
            "a2": ("ship", "h2"),
            "a3": ("ship", ""),
            "a4": ("bill", "h9"),
            "a5": ("bill", ""),
        }
        self.store.append(
            [
                sample_creation(name, due_us=10 * place, contract=contract, contract_hash=version)
                for place, (name, (contract, version)) in enumerate(begun.items(), 1)
            ]
            + [
                sample_creation("s1", due_us=60, contract="trip", contract_hash="", kind="saga"),
                sample_creation("w1", due_us=5, contract="bill", contract_hash="h8", state="reconciled_success"),
                sample_creation("w2", due_us=6, contract="ship", contract_hash="h1", state="reconciled_success"),
                sample_creation("x1", due_us=70, contract="ship", contract_hash="h1", tenant="x"),
            ]
        )
        none, names = frozenset[str](), frozenset({"ship"})
        cases = {
            ContractFilter(none, frozenset({"h1"}), 0): ["a1", "x1", "s1", "w2"],
            ContractFilter(names, frozenset({"h1"}), 0): ["a1", "x1", "a3", "s1", "w2"],
            ContractFilter(names, frozenset({"h1"}), 19): ["a1", "x1", "a3", "s1", "w2"],
            ContractFilter(names, frozenset({"h1"}), 20): ["a1", "x1", "a2", "a3", "s1", "w2"],
            ContractFilter(none, none, 100): ["s1"],
            ContractFilter(frozenset({"bill", ""}), frozenset({""}), 0): ["a5", "s1"],
        }
        for known, expected in cases.items():
            assert self.store.due(100, 20, "", known) == expected, known
            assert self.store.due(100, 2, "", known) == expected[:2]
            mine = [each for each in expected if each != "x1"]
            assert self.store.due(100, 20, TENANT, known) == mine

    def test_what_is_known_is_found_behind_a_backlog_of_what_is_not(self) -> None:
        names = ["t0", "t1", "t2"]
        old = [
            sample_creation(f"a{n:04d}", due_us=n + 1, tenant=names[n % 3], contract="old", contract_hash="h0")
            for n in range(600)
        ]
        new = [sample_creation(f"b{n}", due_us=900, tenant=name, contract_hash="h1") for n, name in enumerate(names)]
        self.store.append(old + new)
        known = ContractFilter(frozenset(), frozenset({"h1"}), 0)
        assert self.store.due(1_000, 5, "", known) == ["b0", "b1", "b2"]
        assert self.store.due(1_000, 5, "t2", known) == ["b2"]

    def test_a_saga_is_found_behind_a_backlog_of_sagas_of_other_contracts(self) -> None:
        names = ["t0", "t1", "t2"]
        old = [
            sample_creation(f"a{n:04d}", due_us=n + 1, tenant=names[n % 3], kind="saga", contract_version="c0")
            for n in range(600)
        ]
        early = sample_creation("e0", due_us=800, kind="saga", contract_version="")
        new = [
            sample_creation(f"b{n}", due_us=900, tenant=name, kind="saga", contract_hash=name, contract_version="c1")
            for n, name in enumerate(names)
        ]
        self.store.append([*old, early, *new])
        known = ContractFilter(frozenset(), frozenset(), 0, frozenset({"c0", "c2"}))
        assert sorted(self.store.due(1_000, 9, "", known)) == ["b0", "b1", "b2", "e0"]
        assert self.store.due(1_000, 9, "t2", known) == ["b2"]
        assert self.store.due(1_000, 9, TENANT, known) == ["e0"]
        everything = ContractFilter(frozenset(), frozenset(), 0)
        assert len(self.store.due(1_000, 700, "", everything)) == 604

    def test_each_known_version_is_found_among_many_that_are_not(self) -> None:
        """Versions of several kinds and contracts, before and behind the known versions in any order of names."""
        kinds, contracts, versions = ["create", "set"], ["bill", "ship", "stow"], ["", "h1", "h2", "h3"]
        many = [(kind, name, version) for kind in kinds for name in contracts for version in versions]
        self.store.append(
            [
                sample_creation(f"a{n:03d}", due_us=10 + n, kind=kind, contract=name, contract_hash=version)
                for n, (kind, name, version) in enumerate(3 * many)
            ]
        )
        for versions_known in [{"h1"}, {"h2"}, {"h1", "h3"}, {"h9"}, set[str]()]:
            for named in [set[str](), {"ship"}, {"bill", "stow"}]:
                known = ContractFilter(frozenset(named), frozenset(versions_known), 30)
                expected = [
                    f"a{n:03d}"
                    for n, (_, name, version) in enumerate(3 * many)
                    if version in versions_known or (name in named and (not version or 10 + n <= 30))
                ]
                for tenant in ("", TENANT):
                    assert self.store.due(1_000, 100, tenant, known) == expected, known
                    assert self.store.due(1_000, 4, tenant, known) == expected[:4]
                assert self.store.due(1_000, 100, "x", known) == []

    def test_another_version_is_left_as_long_after_a_lease_that_ended(self) -> None:
        """The last worker may have had the version: other workers of the version come first."""
        self.store.append([sample_creation("a1", due_us=10, contract="ship", contract_hash="h2")])
        assert self.store.lease("a1", "w1", 10, 50) == 1
        names = frozenset({"ship"})
        assert self.store.due(60, 5, "", ContractFilter(names, frozenset({"h2"}), 0)) == ["a1"]
        assert self.store.due(60, 5, "", ContractFilter(names, frozenset(), 49)) == []
        assert self.store.due(60, 5, "", ContractFilter(names, frozenset(), 50)) == ["a1"]
        assert self.store.due(60, 5, "", ContractFilter(names, frozenset(), 99)) == ["a1"]
        assert self.store.due(40, 5, "", ContractFilter(names, frozenset(), 99)) == []

    def test_what_changes_its_version_is_found_by_the_new_one(self) -> None:
        """A submitted action names no version; its start does. A store finds the action by its present version."""
        self.store.append([sample_creation("a1", due_us=10, contract="ship", contract_hash="")])
        by_name, by_version = (
            ContractFilter(frozenset({"ship"}), frozenset(), 0),
            ContractFilter(frozenset(), frozenset({"h1"}), 0),
        )
        assert (self.store.due(50, 5, "", by_name), self.store.due(50, 5, "", by_version)) == (["a1"], [])
        begun = sample_projection("a1", due_us=20, contract="ship", contract_hash="h1")
        self.store.append([sample_append("a1", 1, projection=begun)])
        assert (self.store.due(50, 5, "", by_name), self.store.due(50, 5, "", by_version)) == ([], ["a1"])
        watched = sample_projection("a1", due_us=30, contract="ship", contract_hash="h1", state="reconciled_success")
        self.store.append([sample_append("a1", 2, projection=watched)])
        assert (self.store.due(50, 5, "", by_version), self.store.next_due_us()) == (["a1"], 30)
        self.store.append([sample_append("a1", 3, projection=sample_projection("a1", contract="ship"))])
        assert (self.store.due(50, 5, "", by_version), self.store.next_due_us()) == ([], None)

    # --- leases --------------------------------------------------------------------------------------

    def test_each_lease_has_a_higher_fence(self) -> None:
        self.store.append([sample_creation("a1")])
        assert self.store.lease("a1", "w1", 10, 20) == 1
        assert self.store.lease("a1", "w1", 20, 30) == 2
        stored = self.store.projection("a1")
        assert stored is not None
        assert (stored.fence, stored.version) == (2, 1)
        assert (stored.projection.lease_owner, stored.projection.lease_until_us) == ("w1", 30)

    def test_a_live_lease_is_given_to_no_other_worker(self) -> None:
        self.store.append([sample_creation("a1")])
        self.store.lease("a1", "w1", 10, 20)
        assert self.store.lease("a1", "w1", 19, 40) is None
        assert self.store.lease("a1", "w2", 19, 40) is None
        assert self.store.lease("a1", "w2", 20, 40) == 2
        assert self.store.lease("a1", "w1", 20, 40) is None

    def test_the_lease_of_an_owner_known_to_be_gone_does_not_count(self) -> None:
        self.store.append([sample_creation("a1")])
        self.store.lease("a1", "w1", 10, 20)
        assert self.store.lease("a1", "w2", 11, 40, dead="w3") is None
        assert self.store.lease("a1", "w2", 11, 40, dead="w1") == 2

    def test_an_action_that_is_not_there_cannot_be_leased(self) -> None:
        assert self.store.lease("a1", "w1", 10, 20) is None

    def test_who_lost_the_lease_cannot_append(self) -> None:
        self.store.append([sample_creation("a1")])
        assert self.store.lease("a1", "w1", 10, 20) == 1
        assert self.store.lease("a1", "w2", 20, 40) == 2
        assert self.store.append([sample_append("a1", 1, fence=1)]) == [VersionConflict(version=1, fence=2)]
        assert self.store.append([sample_append("a1", 1, fence=2)]) == [self.kept(2, 2)]

    def test_an_append_takes_prolongs_and_releases_a_lease_by_its_projection(self) -> None:
        self.store.append([sample_creation("a1", lease_owner="w1", lease_until_us=20)])
        assert self.store.lease("a1", "w2", 10, 40) is None
        longer = sample_projection("a1", lease_owner="w1", lease_until_us=30)
        self.store.append([sample_append("a1", 1, projection=longer)])
        assert self.store.lease("a1", "w2", 25, 40) is None
        self.store.append([sample_append("a1", 2)])
        assert self.store.lease("a1", "w2", 25, 40) == 1

    def test_what_is_leased_is_not_due_until_the_lease_ends(self) -> None:
        self.store.append([sample_creation("a1", due_us=10), sample_creation("a2", due_us=15)])
        self.store.lease("a1", "w1", 10, 20)
        assert self.store.due(19, 10) == ["a2"]
        assert self.store.next_due_us() == 15
        assert self.store.due(20, 10) == ["a2", "a1"]
        self.store.lease("a2", "w1", 10, 30)
        assert self.store.next_due_us() == 20

    def test_a_lease_of_what_waits_for_nothing_makes_nothing_due(self) -> None:
        self.store.append([sample_creation("a1")])
        self.store.lease("a1", "w1", 10, 20)
        assert (self.store.due(50, 10), self.store.next_due_us()) == ([], None)

    def test_a_lease_that_ends_before_the_due_time_changes_nothing(self) -> None:
        self.store.append([sample_creation("a1", due_us=30)])
        self.store.lease("a1", "w1", 10, 20)
        assert (self.store.due(29, 10), self.store.due(30, 10), self.store.next_due_us()) == ([], ["a1"], 30)

    def test_owners_are_all_who_hold_a_lease_live_or_not(self) -> None:
        assert self.store.owners() == []
        self.store.append([sample_creation("a1", lease_owner="w2", lease_until_us=5, due_us=9)])
        self.store.append([sample_creation(name) for name in ("a2", "a3", "a4")])
        self.store.lease("a2", "w1", 10, 20)
        self.store.lease("a3", "w2", 10, 20)
        assert sorted(self.store.owners()) == ["w1", "w2"]

    def test_the_leases_of_who_is_gone_end_and_their_fences_stay(self) -> None:
        self.store.append([sample_creation(f"a{n}", due_us=10, tenant=f"t{n}") for n in (1, 2, 3)])
        for name, owner in (("a1", "w1"), ("a2", "w1"), ("a3", "w2")):
            self.store.lease(name, owner, 10, 90)
        self.store.release("w1")
        self.store.release("w9")
        self.store.release("")
        assert self.store.owners() == ["w2"]
        assert self.store.due(10, 9) == ["a1", "a2"]
        stored = self.store.projection("a1")
        assert stored is not None
        assert (stored.projection.lease_owner, stored.projection.lease_until_us, stored.fence) == ("", 0, 1)
        late = sample_append("a1", 1, projection=sample_projection("a1", tenant="t1"))
        assert self.store.append([late]) == [VersionConflict(version=1, fence=1)]
        assert self.store.lease("a1", "w3", 10, 20) == 2

    # --- wake ----------------------------------------------------------------------------------------

    def test_waking_brings_a_due_time_forward_and_never_back(self) -> None:
        self.store.append([sample_creation("a1", due_us=NOON_US + HOUR_US)])
        assert self.store.make_due("a1", NOON_US)
        assert self.store.next_due_us() == NOON_US
        assert self.store.make_due("a1", NOON_US + 5)
        assert self.store.due(NOON_US, 1) == ["a1"]
        stored = self.store.projection("a1")
        assert stored is not None
        assert (stored.projection.due_us, stored.version, stored.fence) == (NOON_US, 1, 0)

    def test_what_waits_for_nothing_is_not_woken(self) -> None:
        self.store.append([sample_creation("a1")])
        assert not self.store.make_due("a1", NOON_US)
        assert not self.store.make_due("a2", NOON_US)
        assert self.store.next_due_us() is None

    def test_waking_does_not_end_a_lease(self) -> None:
        self.store.append([sample_creation("a1", due_us=50)])
        self.store.lease("a1", "w1", 10, 20)
        assert self.store.make_due("a1", 12)
        assert (self.store.due(19, 10), self.store.due(20, 10)) == ([], ["a1"])

    # --- lists ---------------------------------------------------------------------------------------

    def test_pages_are_newest_first_and_follow_each_other(self) -> None:
        self.store.append([sample_creation(f"a{n}") for n in (3, 1, 5, 2, 4)])
        assert self._page(limit=2) == ["a5", "a4"]
        assert self._page(limit=2, before_id="a4") == ["a3", "a2"]
        assert self._page(limit=2, before_id="a2") == ["a1"]
        assert self._page(limit=0) == []

    def test_a_page_may_be_oldest_first_and_a_count_reads_no_more_than_its_limit(self) -> None:
        self.store.append([sample_creation(f"a{n}", tenant="x", state="pending") for n in (3, 1, 5, 2, 4)])
        self.store.append([sample_creation("b1", tenant="y", state="pending", hold="approval")])
        found = self.store.page(ActionFilter("x", state="pending", oldest=True, limit=3))
        assert [each.projection.action_id for each in found] == ["a1", "a2", "a3"]
        later = self.store.page(ActionFilter("x", state="pending", oldest=True, after_id="a3", limit=9))
        assert [each.projection.action_id for each in later] == ["a4", "a5"]
        everywhere = self.store.page(ActionFilter(oldest=True, limit=9))
        assert [each.projection.action_id for each in everywhere] == ["a1", "a2", "a3", "a4", "a5", "b1"]
        counts = [self.store.counted(ActionFilter(tenant, state="pending", limit=3)) for tenant in ("x", "y", "z")]
        assert counts == [3, 1, 0]
        assert self.store.counted(ActionFilter("x", open=True, limit=4)) == 4
        held = self.store.page(ActionFilter("y", hold="approval"))
        assert [each.projection.action_id for each in held] == ["b1"]
        assert self.store.counted(ActionFilter("x", hold="approval")) == 0

    def test_pages_hold_what_was_asked_for(self) -> None:
        self.store.append(
            [
                sample_creation("a1", tenant="x", state="PENDING", contract="c1", run="r1"),
                sample_creation("a2", tenant="x", state="UNKNOWN", contract="c1", run=""),
                sample_creation("a3", tenant="y", state="PENDING", contract="c2", run="r1"),
                sample_creation("a4", tenant="y", state="UNKNOWN", contract="c1", run="r2"),
            ]
        )
        assert self._page() == ["a4", "a3", "a2", "a1"]
        assert self._page(tenant="x") == ["a2", "a1"]
        assert self._page(state="PENDING") == ["a3", "a1"]
        assert self._page(contract="c1") == ["a4", "a2", "a1"]
        assert self._page(run="r1") == ["a3", "a1"]
        assert self._page(tenant="y", contract="c1", state="UNKNOWN", run="r2") == ["a4"]
        assert self._page(contract="c1", before_id="a4", limit=1) == ["a2"]
        assert self._page(state="NONE") == []
        assert self._page(tenant="none") == []

    def test_a_stamp_leads_to_its_action(self) -> None:
        self.store.append([sample_creation("a1", stamp="s"), sample_creation("a2", stamp="s", tenant="other")])
        self.store.append([sample_creation("a3", stamp=""), sample_creation("a4", stamp="t")])
        assert [self.store.by_stamp(TENANT, stamp) for stamp in ("s", "t", "u", "")] == ["a1", "a4", None, None]
        assert self.store.by_stamp("other", "s") == "a2"

    def test_long_answers_are_streamed_whole_and_in_order(self) -> None:
        names = [f"a{n:05}" for n in range(MANY)]
        self.store.append([sample_creation(name) for name in reversed(names)])
        assert [stored.projection.action_id for stored in self.store.projections()] == names
        self.place()
        assert [event.seq for event in self.store.scan()] == list(range(1, MANY + 1))
        assert [event.action_id for event in self.store.scan()] == names[::-1]

    def test_the_log_may_grow_while_it_is_read(self) -> None:
        self.store.append([sample_creation("a1", events=2)])
        self.place()
        log = self.store.scan()
        assert next(log).seq == 1
        self.store.append([sample_creation("a2")])
        self.place()
        assert [event.seq for event in log][:1] == [2]

    def _page(self, **fields: str | int) -> list[str]:
        query = ActionFilter(**fields)  # type: ignore[arg-type]
        return [stored.projection.action_id for stored in self.store.page(query)]


def everything(store: LedgerStore) -> dict[str, object]:
    """Return a store's whole content, for comparisons over time or between stores."""
    held = list(store.projections())
    tenants = sorted({stored.projection.tenant for stored in held} | {TENANT})
    return {
        "log": list(store.scan()),
        "unplaced": store.unsequenced(len(held) * 1_000),
        "actions": held,
        "keys": [store.key(s.projection.tenant, s.projection.key_hash) for s in held],
        "counts": [store.counts(tenant) for tenant in tenants],
        "evidence": [
            store.evidence(s.projection.tenant, s.projection.action_id, digest)
            for s in held
            for digest in _digests(s.projection.action_id)
        ],
        "due": store.due(2**63 - 1, len(held)),
        "next": store.next_due_us(),
    }


def _digests(action_id: str) -> list[str]:
    return [sample_evidence(f"evidence of {action_id}".encode()).digest]


def raised_by(call: Callable[[], object]) -> ReadbackError | None:
    """Return the error of a call, if it is ours."""
    try:
        call()
    except ReadbackError as error:
        return error
    return None
