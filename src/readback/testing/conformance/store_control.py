"""The promises of every ledger store about freezes, incidents and a tenant's limits. `StoreConformance` inherits these
tests.
"""

from __future__ import annotations

from dataclasses import replace

from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.store import (
    ActionFilter,
    Count,
    Erasure,
    Freeze,
    Frozen,
    Incident,
    KeyConflict,
    Opened,
    TooManyInFlight,
)
from readback.ports.storage.store_rules import SUCCEEDED
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_evidence,
    sample_projection,
)

ORDER = "resource:order/7"


def _freeze(action_id: str, subject: str = ORDER, since_us: int = NOON_US) -> Freeze:
    return Freeze(TENANT, subject, action_id, "wrong_target_modified", since_us)


def _incident(action_id: str, name: str, cause: str = "source:orders-db", opened_us: int = NOON_US) -> Incident:
    return Incident(TENANT, name, cause, "high", action_id, opened_us)


class ControlConformance(PlacesConformance):
    """Freezes, incidents, limits, and the lists of reviews and of a saga's actions."""

    def test_nothing_new_is_kept_on_a_frozen_subject_until_it_is_lifted(self) -> None:
        self.store.append([sample_append("a1", freezes=(_freeze("a1"),))])
        refused = sample_append("a2", require_not_frozen=("tool:ship_order", ORDER))
        assert self.store.append([refused]) == [Frozen(_freeze("a1"))]
        assert self.store.projection("a2") is None
        assert self.store.events("a2") == []
        self.store.append([sample_append("a1", 1, lifts=(ORDER,))])
        assert self.store.append([refused]) == [self.kept(1, 3)]

    def test_a_freeze_counts_within_the_batch_that_makes_it(self) -> None:
        freezing, refused = (
            sample_append("a1", freezes=(_freeze("a1"),)),
            sample_append("a2", require_not_frozen=(ORDER,)),
        )
        assert self.store.append([freezing, refused])[1] == Frozen(_freeze("a1"))

    def test_a_subject_is_free_when_the_last_that_froze_it_is_lifted(self) -> None:
        self.store.append([sample_append(one, freezes=(_freeze(one),)) for one in ("a1", "a2")])
        self.store.append([sample_append("a1", 1, lifts=(ORDER,))])
        assert self.store.frozen(TENANT, (ORDER,)) == _freeze("a2")
        self.store.append([sample_append("a2", 1, lifts=(ORDER, "resource:another"))])
        assert self.store.frozen(TENANT, (ORDER,)) is None
        assert self.store.freezes(TENANT) == []

    def test_freezes_are_the_tenants_own_and_listed_by_age(self) -> None:
        later, sooner = _freeze("a1", since_us=NOON_US + 1), _freeze("a1", "tool:ship_order")
        self.store.append([sample_append("a1", freezes=(later, sooner))])
        assert self.store.freezes(TENANT) == [sooner, later]
        assert self.store.freezes("globex") == []
        assert self.store.frozen("globex", (ORDER,)) is None
        assert self.store.frozen(TENANT, ()) is None
        other = sample_append("b1", projection=sample_projection("b1", tenant="globex"), require_not_frozen=(ORDER,))
        assert self.store.append([other]) == [self.kept(1, 2)]

    def test_one_look_answers_what_a_new_action_meets(self) -> None:
        store, both = self.store, ("tool:ship_order", ORDER)
        assert store.opening(TENANT, "key of a1", both) == Opened(None, {}, None)
        first = sample_creation("a1", key_hash="key of a1")
        store.append([replace(first, counts=(Count("source:db", "verifier_error", 2), Count("s", "n", 0)))])
        store.pace(TENANT, NOON_US, NOON_US, 1)
        assert store.opening(TENANT, "another", both) == Opened(None, {("source:db", "verifier_error"): 2}, None)
        older = _freeze("a2", "tool:ship_order", NOON_US - 1)
        store.append([sample_append("a2", freezes=(_freeze("a2"), older))])
        for asked in (both, ("tool:ship_order",), ()):
            for key in ("key of a1", "another"):
                found = {(subject, name): value for subject, name, value in store.counts(TENANT)}
                expected = Opened(store.key(TENANT, key), found, store.frozen(TENANT, asked))
                assert store.opening(TENANT, key, asked) == expected
                if isinstance(store, BatchReads):
                    one, other = (TENANT, key, asked), ("globex", key, asked)
                    assert store.openings([one, other, one]) == [expected, Opened(None, {}, None), expected]
        met = store.opening(TENANT, "key of a1", both)
        assert (met.record, met.freeze) == (first.reserve, older)
        assert store.opening("globex", "key of a1", both) == Opened(None, {}, None)

    def test_an_append_that_was_not_kept_freezes_nothing(self) -> None:
        self.store.append([sample_creation("a1")])
        self.store.append([sample_append("a1", 7, freezes=(_freeze("a1"),), incidents=(_incident("a1", "i1"),))])
        assert self.store.freezes(TENANT) == []
        assert self.store.incidents(TENANT) == []

    def test_an_incident_is_opened_once_a_cause(self) -> None:
        self.store.append([sample_append("a1", incidents=(_incident("a1", "i1"),))])
        self.store.append([sample_append("a2", incidents=(_incident("a2", "i2", opened_us=NOON_US + 9),))])
        [only] = self.store.incidents(TENANT)
        assert (only.id, only.seen, only.action_id, only.opened_us) == ("i1", 2, "a1", NOON_US)

    def test_a_closed_incident_makes_room_for_another_of_its_cause(self) -> None:
        self.store.append([sample_append("a1", incidents=(_incident("a1", "i1"),))])
        closing = sample_append("a1", 1, projection=sample_projection("a1", updated_us=NOON_US + 5), closes=("i1",))
        self.store.append([closing])
        assert self.store.incidents(TENANT) == []
        self.store.append([sample_append("a2", incidents=(_incident("a2", "i2", opened_us=NOON_US + 9),))])
        assert [one.id for one in self.store.incidents(TENANT)] == ["i2"]
        assert [(one.id, one.closed_us) for one in self.store.incidents(TENANT, open_only=False)] == [
            ("i2", 0),
            ("i1", NOON_US + 5),
        ]

    def test_a_tenant_has_no_more_in_flight_than_it_may(self) -> None:
        for name in ("a1", "a2"):
            self.store.append([sample_creation(name, due_us=NOON_US)])
        self.store.append([sample_creation("a3")])
        assert self.store.in_flight(TENANT) == 2
        assert self.store.append([sample_append("a4", in_flight_max=2)]) == [TooManyInFlight(2)]
        assert self.store.append([sample_append("a2", 1, in_flight_max=2)]) == [self.kept(2, 4)]
        batch = [
            sample_append(n, projection=sample_projection(n, due_us=NOON_US), in_flight_max=2) for n in ("a5", "a6")
        ]
        assert self.store.append(batch)[1] == TooManyInFlight(2)

    def test_what_is_only_looked_at_again_makes_no_room_when_it_is_taken_up(self) -> None:
        watched = sample_creation("a2", state=SUCCEEDED, due_us=NOON_US)
        self.store.append([sample_creation("a1", due_us=NOON_US), watched])
        waits = sample_projection("a2", due_us=NOON_US)
        assert self.store.append([sample_append("a2", 1, projection=waits, in_flight_max=1)]) == [TooManyInFlight(1)]

    def test_whose_key_it_is_is_said_before_what_is_frozen_and_how_many_wait(self) -> None:
        first = sample_creation("a1", key_hash="the key", due_us=NOON_US)
        self.store.append([replace(first, freezes=(_freeze("a1"),))])
        assert first.reserve is not None
        again = sample_creation("a2", key_hash="the key")
        for barred in (replace(again, require_not_frozen=(ORDER,)), replace(again, in_flight_max=1)):
            assert self.store.append([barred]) == [KeyConflict(first.reserve)]

    def test_looks_over_a_tenants_rate_are_put_into_the_minutes_after(self) -> None:
        minute, now_us = 60_000_000, NOON_US - NOON_US % 60_000_000
        wanted = [now_us + 5, now_us + 6, now_us + 7, now_us + 8, now_us + 9]
        given = [self.store.pace(TENANT, now_us, at_us, 2) for at_us in wanted]
        assert given == [now_us + 5, now_us + 6, now_us + minute, now_us + minute + minute // 2, now_us + 2 * minute]
        assert self.store.pace("globex", now_us, now_us + 5, 2) == now_us + 5, "each tenant has its own rate"
        far = self.store.pace(TENANT, now_us, now_us + 60 * minute, 2)
        assert far == now_us + 60 * minute, "an hour later there is room"
        assert self.store.pace(TENANT, now_us, now_us + 3 * minute + 1, 2) == now_us + 3 * minute + 1
        assert self.store.counts(TENANT) == [], "a reserved look is no fault"

    def test_a_look_is_put_off_by_a_day_at_most_and_minutes_that_are_over_are_forgotten(self) -> None:
        minute, now_us = 60_000_000, NOON_US - NOON_US % 60_000_000
        for number in range(24 * 60):
            self.store.pace(TENANT, now_us, now_us + number * minute, 1)
        late = self.store.pace(TENANT, now_us, now_us, 1)
        assert late == now_us + (24 * 60 - 1) * minute
        tomorrow = now_us + 24 * 60 * minute
        assert self.store.pace(TENANT, tomorrow, tomorrow, 1) == tomorrow

    def test_evidence_is_weighed_by_tenant(self) -> None:
        assert self.store.evidence_bytes(TENANT) == 0
        self.store.append([sample_append("a1", evidence=(sample_evidence(b"12345"), sample_evidence(b"123")))])
        self.store.append([sample_append("a2", evidence=(sample_evidence(b"123"),))])
        assert self.store.evidence_bytes(TENANT) == 11, "each action's own is weighed"
        self.store.append([sample_append("a2", 1, evidence=(sample_evidence(b"123"), sample_evidence(b"4")))])
        assert self.store.evidence_bytes(TENANT) == 12, "what an action has is not weighed again"
        self.store.append([sample_append("a2", 9, evidence=(sample_evidence(b"56789"),))])
        assert self.store.evidence_bytes(TENANT) == 12, "what was not kept is not weighed"
        self.store.append([sample_append("a2", 2, erases=Erasure((sample_evidence(b"123").digest,)))])
        self.store.append([sample_append("a2", 3, erases=Erasure((sample_evidence(b"123").digest,)))])
        assert self.store.evidence_bytes(TENANT) == 9
        self.store.append([sample_append("a2", 4, evidence=(sample_evidence(b"123"),))])
        assert self.store.evidence_bytes(TENANT) == 12
        assert self.store.evidence_bytes("globex") == 0

    def test_the_text_of_a_contract_is_weighed_once(self) -> None:
        text = sample_evidence(b"the terms")
        for name in ("a1", "a2"):
            projection = sample_projection(name, contract_hash=text.digest)
            self.store.append([sample_append(name, projection=projection, evidence=(text, sample_evidence(b"1")))])
        assert self.store.evidence_bytes(TENANT) == len(text.body) + 2

    def test_no_tenant_waits_behind_anothers_backlog(self) -> None:
        for n in range(5):
            self.store.append([sample_creation(f"a{n}", due_us=NOON_US + n)])
        self.store.append([sample_creation("b0", tenant="globex", due_us=NOON_US + 100)])
        assert self.store.due(NOON_US + 200, 3) == ["a0", "b0", "a1"]

    def test_what_is_in_review_and_the_steps_of_a_saga_are_found(self) -> None:
        self.store.append([sample_creation("a1", saga="s1"), sample_creation("a2", review="unknown_state")])
        self.store.append([sample_creation("s1", kind="saga")])
        found = {
            "review": self.store.page(ActionFilter(TENANT, review=True)),
            "saga": self.store.page(ActionFilter(TENANT, saga="s1")),
            "kind": self.store.page(ActionFilter(TENANT, kind="saga")),
        }
        ids = {name: [one.projection.action_id for one in held] for name, held in found.items()}
        assert ids == {"review": ["a2"], "saga": ["a1"], "kind": ["s1"]}

    def test_what_was_planned_upon_a_claim_and_what_something_was_said_against_are_found(self) -> None:
        relying = [replace(sample_creation(name), relies=("c1", "c2")) for name in ("a2", "a1")]
        self.store.append([*relying, sample_creation("a3", claim="contested")])
        assert self.store.dependants(TENANT, "c1", 10) == ["a1", "a2"]
        assert self.store.dependants(TENANT, "c2", 1) == ["a1"]
        assert self.store.dependants("elsewhere", "c1", 10) == []
        assert self.store.relies(TENANT, "c1", "a1")
        assert not self.store.relies(TENANT, "c1", "a3")
        assert not self.store.relies("elsewhere", "c1", "a1")
        assert list(self.store.reliances()) == [(TENANT, c, a) for c in ("c1", "c2") for a in ("a1", "a2")]
        found = self.store.page(ActionFilter(TENANT, claim=True))
        assert [each.projection.action_id for each in found] == ["a3"]

    def test_a_refused_append_leaves_no_reliance(self) -> None:
        self.store.append([sample_creation("a1")])
        self.store.append([replace(sample_creation("a1"), relies=("c1",))])
        assert self.store.dependants(TENANT, "c1", 10) == []
        assert list(self.store.reliances()) == []
