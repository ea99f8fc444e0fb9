"""A forger with the whole ledger in hand, who hashes everything anew: what the audit finds all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.canon import Json
from readback.domain.action.approval_record import asked
from readback.domain.events import Event, EventKind, open_envelope, seal
from readback.domain.people.signed_statement import TOKEN
from readback.log.tree import leaf_hash
from readback.testing.store_memory import MemoryStore
from tests.lifecycle import test_signatures as suite
from tests.lifecycle.approving import CRITICAL, approve, listed
from tests.lifecycle.house import TENANT, House
from tests.lifecycle.rewriting import altered


def resealed(store: MemoryStore, action_id: str, version: int) -> None:
    """One entry with another text and a leaf that fits it; the entries behind it stay as they were."""
    content = store._content
    stored = content.events[action_id]
    old = stored[version - 1]
    opened = open_envelope(old.envelope)
    data: dict[str, Json] = {**opened.event.data, "beside": "the point"}
    envelope, leaf = seal(replace(opened.event, data=data), action_id, TENANT, version, opened.previous)
    new = replace(old, envelope=envelope, leaf=leaf)
    content.events[action_id] = [*stored[: version - 1], new, *stored[version:]]
    content.log[old.seq - 1] = new


@pytest.mark.requirement("L21")
def test_one_entry_that_was_sealed_anew_breaks_the_link_of_the_next(house: House) -> None:
    told = house.run(house.action())
    entries = house.store.events(told.id)
    assert audit(house.store).ok
    for version in range(1, len(entries)):
        resealed(house.store, told.id, version)
        faults = audit(house.store).faults
        assert [(fault.code, fault.action_id) for fault in faults] == [("action.fold", told.id)], version
        house.store._content.events[told.id] = [*entries]
        for each in entries:
            house.store._content.log[each.seq - 1] = each


def test_a_key_that_was_given_away_while_its_action_was_open_is_found(house: House) -> None:
    house.shop.eyes = lambda ctx, args: house.shop.show({**args, "item": "nowhere"})
    open_one = house.run(house.action(), operation="first", wait_s=0)
    other = house.run(house.action(), operation="second", wait_s=0)
    content = house.store._content
    key = (TENANT, content.actions[open_one.id].projection.key_hash)
    content.keys[key] = replace(content.keys[key], action_id=other.id)
    held = content.actions[other.id]
    content.actions[other.id] = replace(held, projection=replace(held.projection, key_hash=key[1]))
    found = [fault.what for fault in audit(house.store).faults if fault.code == "key"]
    assert any("was given to" in what and "while it was open" in what for what in found)


@pytest.mark.requirement("LEDGER-signed-words")
@pytest.mark.parametrize("late_us", [0, 1])
def test_an_attempt_on_an_approval_that_had_expired_is_found(late_us: int, house: House) -> None:
    listed(house)
    held = house.run(house.action(**CRITICAL))
    approve(house, held.id)
    house.work(60)
    said = [open_envelope(each.envelope).event for each in house.store.events(held.id)]
    assert EventKind.ATTEMPTED in [event.kind for event in said]
    expires = next(asked(event).expires_us for event in said if event.kind is EventKind.APPROVAL_REQUESTED)

    def late(event: Event) -> Event:
        return replace(event, at_us=expires + late_us) if event.kind is EventKind.ATTEMPTED else event

    altered(house.store, held.id, late)
    found = [fault.what for fault in audit(house.store, approvals=house.engine.approvals).faults]
    assert any("incomplete or expired approval" in what for what in found), found


FORGED: dict[str, Any] = {
    "on an incomplete or expired approval": (EventKind.APPROVAL_REQUESTED, {"people": 2}),
    "on an approval that was never requested": (EventKind.ATTEMPTED, {"approval": ["another"]}),
    "without the required approval": (EventKind.ATTEMPTED, {"approval": []}),
}


@pytest.mark.requirement("LEDGER-signed-words")
@pytest.mark.parametrize("said", [*FORGED])
def test_an_attempt_that_stands_on_no_whole_approval_is_found(said: str, house: House) -> None:
    listed(house)
    held = house.run(house.action(**CRITICAL))
    approve(house, held.id)
    house.work(60)
    assert audit(house.store, approvals=house.engine.approvals).ok
    kind, data = FORGED[said]
    altered(house.store, held.id, lambda e: replace(e, data={**e.data, **data}) if e.kind is kind else e)
    found = [fault.what for fault in audit(house.store, approvals=house.engine.approvals).faults]
    assert any(said in what for what in found), found


GONE: dict[str, Any] = {
    "the field is empty": lambda data: {**data, "signed_by": ""},
    "the field is gone": lambda data: {name: each for name, each in data.items() if name != "signed_by"},
    "the person is gone too": lambda data: {n: e for n, e in data.items() if n not in ("signed_by", "who")},
}


@pytest.mark.requirement("SEC-audit-signed")
@pytest.mark.parametrize("how", [*GONE])
@pytest.mark.parametrize("decide", [suite.resolved, suite.lifted, suite.attested, suite.retracted, suite.reinstated])
def test_a_person_s_entry_about_a_critical_mutation_that_bears_no_signature_is_found(
    decide: Any, how: str, house: House
) -> None:
    made = decide(house)

    def forge(event: Event) -> Event:
        return replace(suite.unkept(event), data=GONE[how](event.data)) if TOKEN in event.refs else event

    altered(made.store, made.action_id, forge)
    report = suite.looked(made.store)
    assert {fault.code for fault in report.faults} & {"signature", "action.fold"}


@pytest.mark.requirement("SEC-audit-signed")
def test_a_lift_in_an_entry_of_another_kind_is_found(house: House) -> None:
    made = suite.lifted(house)

    def forge(event: Event) -> Event:
        if event.kind is EventKind.JUDGED:
            return replace(event, data={**event.data, "lift": ["resource:item/o-1"]})
        return event

    altered(made.store, made.action_id, forge)
    assert any("is no lift" in fault.what for fault in suite.looked(made.store).faults)


@pytest.mark.parametrize(("to", "said"), [("other", "which has another key"), ("nowhere", "which is not there")])
def test_a_key_that_was_given_to_what_cannot_have_it_is_found(to: str, said: str, house: House) -> None:
    first = house.run(house.action(), operation="first")
    other = house.run(house.action(), operation="second", status="packed")
    content = house.store._content
    key = (TENANT, content.actions[first.id].projection.key_hash)
    content.keys[key] = replace(content.keys[key], action_id=other.id if to == "other" else to)
    found = [fault.what for fault in audit(house.store).faults if fault.code == "key"]
    assert any(said in what for what in found), found


def test_an_entry_that_is_not_in_canonical_form_is_found_though_its_hash_fits(house: House) -> None:
    told = house.run(house.action())
    content = house.store._content
    last = content.events[told.id][-1]
    envelope = json.dumps(json.loads(last.envelope), indent=1).encode()
    content.events[told.id][-1] = content.log[last.seq - 1] = replace(last, envelope=envelope, leaf=leaf_hash(envelope))
    found = [(fault.code, fault.seq) for fault in audit(house.store).faults]
    assert ("entry.envelope", last.seq) in found


def test_entries_that_stand_in_the_log_in_another_order_than_they_follow_each_other_are_found(house: House) -> None:
    told = house.run(house.action())
    content = house.store._content
    events = content.events[told.id]
    one, other = events[1], events[2]
    events[1], events[2] = replace(one, seq=other.seq), replace(other, seq=one.seq)
    content.log[one.seq - 1], content.log[other.seq - 1] = events[2], events[1]
    found = [(fault.code, fault.seq) for fault in audit(house.store).faults]
    assert ("entry.order", one.seq) in found


PROPOSED: dict[str, Any] = {
    "has a request that does not match its request hash": {"request_hash": "00" * 32},
    "has a key that does not match its tenant, contract and operation": {"operation": "another"},
    "of the kind 'made-up', which does not exist": {"operation_kind": "made-up"},
    "bears the stamp": {"stamp": "rb-another"},
    "stores another contract than the named one": {"contract_hash": "00" * 32},
}


@pytest.mark.requirement("L21")
@pytest.mark.parametrize("said", [*PROPOSED])
def test_a_proposal_that_was_forged_and_hashed_anew_is_found_by_what_is_made_of_it(said: str, house: House) -> None:
    told = house.run(house.action())

    def forge(event: Event) -> Event:
        proposed = event.kind is EventKind.PROPOSED
        return replace(event, data={**event.data, **PROPOSED[said]}) if proposed else event

    altered(house.store, told.id, forge)
    found = [fault.what for fault in audit(house.store).faults]
    assert any(said in what for what in found), found


@pytest.mark.parametrize(
    ("subject", "name", "value"),
    [
        ("contract:ship", "mismatch", 9),
        ("contract:ship", "sighted:0123456789abcdef", 1),
        ("source:nowhere", "made-up", 1),
        ("made-up", "verifier_error", 1),
    ],
)
def test_a_counter_beyond_what_the_entries_can_have_counted_is_found(
    subject: str, name: str, value: int, house: House
) -> None:
    house.run(house.action())
    house.store._content.counts[TENANT, subject, name] = value
    assert any(repr(name) in fault.what for fault in audit(house.store).faults if fault.code == "counter")
