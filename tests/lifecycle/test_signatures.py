"""Signatures on decisions in review, on lifted freezes and on words about claims: kept, and checked by the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from readback.audit.checks.ledger import AuditReport, audit
from readback.audit.maintenance.erase import erase
from readback.audit.record.bundle import make_bundle, open_bundle
from readback.canon import Json, sha256_hex
from readback.domain.action.claim import ClaimKind, ClaimStatement, ClaimStatus, claim_bytes, claim_id
from readback.domain.action.erasure import ErasureOrder
from readback.domain.contract.approval import Approver, Policy
from readback.domain.events import Event, EventKind, open_envelope
from readback.domain.people.review import Decision, lift_bytes, resolution_bytes
from readback.domain.people.signed_statement import TOKEN, SignedStatement, signed_statement_of
from readback.engine.people import claims, review
from readback.engine.people.claims import ClaimOrder
from readback.engine.people.review import Order
from readback.engine.saga import review as saga_review
from readback.engine.stages.approve import Approvals
from readback.errors import ReviewError
from readback.ports.storage.store import Evidence
from readback.testing.signer_memory import MemorySigner, verify_memory
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.claiming import person
from tests.lifecycle.house import TENANT, House
from tests.lifecycle.reviewing import CRITICAL, EVE, lift, resolve, word
from tests.lifecycle.rewriting import altered
from tests.lifecycle.trip import DAY, Trip

K, C = ClaimKind, ClaimStatus
SUBJECT: Final = "resource:item/o-1"
PEOPLE: Final = Approvals(Policy.of([Approver(EVE, MemorySigner(EVE).public_key, ())]), verify_memory)
"""Eve approves nothing any more; she is listed, so that what she signed can be checked."""
NOT_CHECKED: Final = "signatures of decisions not checked: no list of approvers was given"


def looked(store: MemoryStore, approvals: Approvals | None = PEOPLE) -> AuditReport:
    return audit(store, approvals=approvals)


def signed_entries(store: MemoryStore, action_id: str) -> list[tuple[Event, SignedStatement]]:
    """The entries that keep a signature, each with what it keeps."""
    found = []
    for stored in store.events(action_id):
        event = open_envelope(stored.envelope).event
        if TOKEN in event.refs:
            kept = store.evidence(TENANT, action_id, event.refs[TOKEN])
            assert kept is not None
            read = signed_statement_of(kept.body)
            assert read is not None
            found.append((event, read))
    return found


def keep(store: MemoryStore, body: bytes) -> str:
    digest = sha256_hex(body)
    store._content.evidence[TENANT, "", digest] = Evidence(digest, "application/json", body)
    return digest


@dataclass
class Decided:
    """Something that a person decided and signed. `statement`: what he signed last; `entries`: how many say it."""

    store: MemoryStore
    action_id: str
    statement: bytes
    entries: int = 1


def wiped(house: House, *, wrong: bool = False) -> str:
    """A critical mutation that was executed under break-glass, and verified, or not."""
    house.scope = replace(house.scope, break_glass="The site is down.")
    if wrong:
        house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    return house.run(house.action(**CRITICAL, late_window="0s")).id


def resolved(house: House) -> Decided:
    action_id = wiped(house, wrong=True)
    resolve(house, action_id, "abandon", signed=True)
    version = len(house.store.events(action_id)) - 1
    said = resolution_bytes(action_id, TENANT, version, "abandon", EVE, "Looked at it.")
    return Decided(house.store, action_id, said)


def attested(house: House) -> Decided:
    """One signature that makes three entries: the decision, and the claim contested and retracted."""
    action_id = wiped(house)
    version = len(house.store.events(action_id))
    resolve(house, action_id, "attest_not_done", signed=True)
    said = resolution_bytes(action_id, TENANT, version, "attest_not_done", EVE, "Looked at it.")
    return Decided(house.store, action_id, said, 3)


def lifted(house: House) -> Decided:
    action_id = wiped(house, wrong=True)
    [freeze] = house.store.freezes(TENANT)
    lift(house, SUBJECT, action_id, signed=True)
    said = lift_bytes(TENANT, SUBJECT, ((action_id, freeze.since_us),), EVE, "It is in order.")
    return Decided(house.store, action_id, said)


def retracted(house: House) -> Decided:
    action_id = wiped(house)
    version = len(house.store.events(action_id))
    person(house, action_id, C.RETRACTED, version=version, signed=True)
    said = claim_bytes(claim_id(action_id, K.HAPPENED), TENANT, version, "retracted", EVE, "Seen by hand.")
    return Decided(house.store, action_id, said, 2)


def reinstated(house: House) -> Decided:
    made = retracted(house)
    version = len(house.store.events(made.action_id))
    person(house, made.action_id, C.REINSTATED, signed=True)
    said = claim_bytes(claim_id(made.action_id, K.HAPPENED), TENANT, version, "reinstated", EVE, "Seen by hand.")
    return Decided(house.store, made.action_id, said, 3)


def decided_saga(_house: House) -> Decided:
    trip = Trip()
    trip.world.faults["hotel"] = "blind"
    told = trip.run()
    trip.work(30 * DAY)
    stored = trip.store.projection(told.id)
    assert stored is not None
    said = resolution_bytes(told.id, TENANT, stored.version, "abandon", EVE, "Stop.")
    order = Order(told.id, Decision.ABANDON, stored.version, EVE, "Stop.", word(said))
    trip.driver.drive(saga_review.resolve(trip.session.engine, order, TENANT, trip.session.plan_of))
    assert isinstance(trip.store, MemoryStore)
    return Decided(trip.store, told.id, said)


WAYS: Final = [resolved, attested, lifted, retracted, reinstated, decided_saga]
every_way = pytest.mark.parametrize("decide", WAYS, ids=[way.__name__ for way in WAYS])
Way = Callable[[House], Decided]


# --- kept -------------------------------------------------------------------------------------------------------


@every_way
@pytest.mark.requirement("LEDGER-signed-words")
def test_what_was_signed_and_the_signature_are_kept_with_the_entry_and_can_be_checked_later(
    house: House, decide: Way
) -> None:
    made = decide(house)
    kept = signed_entries(made.store, made.action_id)
    assert len(kept) == made.entries
    assert (kept[-1][1].statement, kept[-1][1].signer) == (made.statement, EVE)
    assert verify_memory(MemorySigner(EVE).public_key, made.statement, kept[-1][1].signature)
    report = looked(made.store)
    assert (report.faults, report.unchecked) == ([], ())
    assert (report.signatures.kept, report.signatures.not_kept) == (made.entries, 0)
    unnamed = looked(made.store, None)
    assert (unnamed.faults, unnamed.unchecked) == ([], (NOT_CHECKED,))


def test_what_nobody_signed_keeps_nothing_and_is_no_want(house: House) -> None:
    told = house.run(house.action())
    person(house, told.id, C.RETRACTED)
    report = looked(house.store, None)
    assert (report.faults, report.unchecked) == ([], ())
    assert (report.signatures.kept, report.signatures.not_kept) == (0, 0)
    assert signed_entries(house.store, told.id) == []


def test_each_of_the_actions_that_froze_a_subject_keeps_the_one_signature_that_lifted_it(house: House) -> None:
    house.scope = replace(house.scope, break_glass="The site is down.")
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    made = house.action(**CRITICAL, late_window="0s", polls=["30s"], within="60s")
    ids = [house.run(made, operation, wait_s=1).id for operation in ("op-1", "op-2")]
    house.work(120)
    named = tuple(sorted((one.action_id, one.since_us) for one in house.store.freezes(TENANT)))
    assert [action_id for action_id, _ in named] == sorted(ids)
    signed = word(lift_bytes(TENANT, SUBJECT, named, EVE, "In order."))
    for action_id in ids:
        order = Order(action_id, Decision.ABANDON, 0, EVE, "In order.", signed)
        house.driver.drive(review.lift(action_id, SUBJECT, order, TENANT))
    assert [kept for each in ids for _, kept in signed_entries(house.store, each)] == [signed, signed]
    report = looked(house.store)
    assert (report.faults, report.signatures.kept) == ([], 2)


@pytest.mark.requirement("LEDGER-signed-words")
def test_a_bundle_of_the_action_carries_the_signature(house: House) -> None:
    made = resolved(house)
    events = house.store.events(made.action_id)

    def load(digest: str) -> bytes | None:
        found = house.store.evidence(
            TENANT, "" if digest == house.folded(made.action_id).contract_ref else made.action_id, digest
        )
        return None if found is None else found.body

    opened = open_bundle(make_bundle(events, load, [house.engine.table]))
    [(event, kept)] = signed_entries(house.store, made.action_id)
    assert opened.evidence[event.refs[TOKEN]] == kept.body()


@every_way
@pytest.mark.requirement("LEDGER-signed-words", "PRIVACY-erased-entry")
def test_an_erasure_leaves_signatures_and_they_are_checked_as_before(house: House, decide: Way) -> None:
    made = erased(house, decide)
    report = looked(made.store)
    assert (report.faults, report.unchecked) == ([], ())
    assert report.erased > 0
    assert report.signatures.kept == made.entries


def erased(house: House, decide: Way) -> Decided:
    """The same, its review closed, and its payloads erased."""
    made = decide(house)
    stored = made.store.projection(made.action_id)
    assert stored is not None
    if stored.projection.review:
        resolve(house, made.action_id, "abandon", signed=True)
        made.entries += 1
    erase(made.store, ErasureOrder(TENANT, "human:dpo", "Ana asked for it."), 2**52)
    assert len(signed_entries(made.store, made.action_id)) == made.entries
    return made


@every_way
@pytest.mark.requirement("LEDGER-signed-words", "PRIVACY-audit")
def test_an_erasure_that_is_said_to_have_taken_a_signature_is_found(house: House, decide: Way) -> None:
    made = erased(house, decide)
    digest = signed_entries(made.store, made.action_id)[0][0].refs[TOKEN]
    del made.store._content.evidence[TENANT, made.action_id, digest]
    made.store._content.erased.add((TENANT, made.action_id, digest))

    def change(event: Event) -> Event:
        named = event.kind is EventKind.ERASED
        return replace(event, data={**event.data, "digests": [digest]}) if named else event

    altered(made.store, made.action_id, change)
    assert {"erasure", "signature"} <= {fault.code for fault in looked(made.store, None).faults}


# --- missing, altered, forged -----------------------------------------------------------------------------------


@every_way
@pytest.mark.requirement("LEDGER-signed-words")
def test_a_bit_flipped_in_what_is_kept_is_found(house: House, decide: Way) -> None:
    made = decide(house)
    digest = signed_entries(made.store, made.action_id)[-1][0].refs[TOKEN]
    kept = made.store._content.evidence[TENANT, made.action_id, digest]
    for at in (kept.body.index(b"readback/"), kept.body.index(b'"signature":"') + 20):
        body = bytearray(kept.body)
        body[at] ^= 1
        made.store._content.evidence[TENANT, made.action_id, digest] = replace(kept, body=bytes(body))
        assert {fault.code for fault in looked(made.store, None).faults} == {"evidence", "signature"}
    del made.store._content.evidence[TENANT, made.action_id, digest]
    faults = looked(made.store).faults
    assert {fault.code for fault in faults} == {"evidence", "signature"}
    assert {fault.action_id for fault in faults} == {made.action_id}


def _other_signature(kept: SignedStatement) -> bytes:
    flipped = bytes([kept.signature[0] ^ 1, *kept.signature[1:]])
    return replace(kept, signature=flipped).body()


def _other_statement(kept: SignedStatement) -> bytes:
    return replace(kept, statement=kept.statement.replace(EVE.encode(), b"human:bob")).body()


def _signed_anew_by_another(kept: SignedStatement) -> bytes:
    return replace(kept, signature=MemorySigner("mallory").sign(kept.statement)).body()


def _another_key(kept: SignedStatement) -> bytes:
    return replace(word(kept.statement, "mallory"), signer=EVE).body()


def _another_person(kept: SignedStatement) -> bytes:
    return word(kept.statement, "human:bob").body()


def _something_else_that_eve_signed(_kept: SignedStatement) -> bytes:
    return word(resolution_bytes("another", TENANT, 3, "abandon", EVE, "Looked at it.")).body()


def _no_word(_kept: SignedStatement) -> bytes:
    return b"{}"


FORGED: Final[dict[Callable[[SignedStatement], bytes], tuple[str, bool]]] = {
    _other_signature: ("that does not count: it is not that key's signature.", True),
    _signed_anew_by_another: ("that does not count: it is not that key's signature.", True),
    _another_key: ("that does not count: no listed approver has this name and key.", True),
    _other_statement: ("stores a signature over other content.", False),
    _another_person: ("stores a signature over other content.", False),
    _something_else_that_eve_signed: ("stores a signature over other content.", False),
    _no_word: ("stores a malformed signature of 'human:eve'.", False),
}
"""What a forger keeps in its place, with all hashes made anew: what is said of it, and whether it takes keys to see."""


@every_way
@pytest.mark.parametrize("forge", FORGED, ids=[each.__name__ for each in FORGED])
@pytest.mark.requirement("LEDGER-signed-words")
def test_what_a_forger_keeps_instead_is_found_though_all_hashes_fit(
    house: House, decide: Way, forge: Callable[[SignedStatement], bytes]
) -> None:
    made = decide(house)
    digest = signed_entries(made.store, made.action_id)[-1][0].refs[TOKEN]
    kept = signed_statement_of(made.store._content.evidence[TENANT, made.action_id, digest].body)
    assert kept is not None
    other, (why, by_key) = keep(made.store, forge(kept)), FORGED[forge]

    def change(event: Event) -> Event:
        return replace(event, refs={n: other if d == digest else d for n, d in event.refs.items()})

    altered(made.store, made.action_id, change)
    faults = looked(made.store).faults
    assert {fault.code for fault in faults} == {"signature"}
    assert all(fault.what.endswith(why) for fault in faults), faults
    assert bool(looked(made.store, None).faults) is not by_key


REWRITTEN: Final[list[tuple[Way, str, Json]]] = [
    (resolved, "who", "human:bob"),
    (resolved, "signed_by", "human:bob"),
    (resolved, "reason", "Because."),
    (resolved, "decision", "attest_done"),
    (decided_saga, "who", "human:bob"),
    (decided_saga, "reason", "Because."),
    (decided_saga, "decision", "attest_done"),
    (lifted, "who", "human:bob"),
    (lifted, "reason", "Because."),
    (lifted, "lift", ["resource:item/o-2"]),
    (lifted, "lift", [SUBJECT, "resource:item/o-2"]),
    (lifted, "lift", []),
    (retracted, "who", "human:bob"),
    (retracted, "note", "Because."),
    (retracted, "claim", "holds"),
    (reinstated, "note", "Because."),
    (attested, "note", "Because."),
    (attested, "claim", "holds"),
    (attested, "decision", "abandon"),
]
"""What a signed entry says, by field, where somebody rewrote it under its signature."""


@pytest.mark.parametrize(("decide", "name", "value"), REWRITTEN)
@pytest.mark.requirement("LEDGER-signed-words")
def test_an_entry_that_was_rewritten_under_its_signature_is_found(
    house: House, decide: Way, name: str, value: Json
) -> None:
    made = decide(house)

    def change(event: Event) -> Event:
        signed = TOKEN in event.refs and name in event.data
        return replace(event, data={**event.data, name: value}) if signed else event

    altered(made.store, made.action_id, change)
    assert "signature" in {fault.code for fault in looked(made.store, None).faults}


@every_way
@pytest.mark.parametrize("value", [None, 7, True, "", [], ["x"], {}, {"a": []}, "\u2028"], ids=repr)
def test_whatever_somebody_writes_into_a_signed_entry_is_named_and_ends_no_audit(
    house: House, decide: Way, value: Json
) -> None:
    made = decide(house)
    events = made.store._content.events[made.action_id]
    names = {name for event, _ in signed_entries(made.store, made.action_id) for name in event.data}
    for name in sorted(names):

        def change(event: Event, name: str = name) -> Event:
            signed = TOKEN in event.refs and name in event.data and event.data[name] != value
            return replace(event, data={**event.data, name: value}) if signed else event

        altered(made.store, made.action_id, change)
        report = looked(made.store)
        if name in SAID:
            assert {fault.code for fault in report.faults} & {"signature", "action.fold"}, name
        made.store._content.events[made.action_id] = events
        for old in events:
            made.store._content.log[old.seq - 1] = old
    assert looked(made.store).ok


SAID: Final = ("who", "signed_by", "note", "decision", "lift")
"""Fields of an entry that a signature is about, whatever entry it is."""


def test_a_signature_for_another_version_does_not_serve(house: House) -> None:
    made = resolved(house)
    other = resolution_bytes(made.action_id, TENANT, 3, "abandon", EVE, "Looked at it.")
    digest = keep(house.store, word(other).body())
    altered(
        house.store,
        made.action_id,
        lambda event: replace(event, refs={TOKEN: digest}) if TOKEN in event.refs else event,
    )
    assert {fault.code for fault in looked(house.store).faults} == {"signature"}


def test_a_signature_beside_an_entry_of_another_kind_is_none_of_it(house: House) -> None:
    told = house.run(house.action())
    digest = keep(house.store, word(b"[]").body())

    def change(event: Event) -> Event:
        said: dict[str, Json] = {**event.data, "who": EVE, "signed_by": EVE}
        return (
            replace(event, data=said, refs={**event.refs, TOKEN: digest}) if event.kind is EventKind.JUDGED else event
        )

    altered(house.store, told.id, change)
    assert "signature" in {fault.code for fault in looked(house.store).faults}


# --- what is not kept -------------------------------------------------------------------------------------------


def unkept(event: Event) -> Event:
    """The entry as it was written before signatures were kept."""
    return replace(event, refs={name: digest for name, digest in event.refs.items() if name != TOKEN})


@every_way
@pytest.mark.requirement("LEDGER-signed-words")
def test_an_entry_of_before_signatures_were_kept_is_neither_valid_nor_invalid(house: House, decide: Way) -> None:
    made = decide(house)
    altered(made.store, made.action_id, unkept)
    for approvals in (PEOPLE, None):
        report = looked(made.store, approvals)
        assert report.faults == []
        said = f"signatures of decisions not kept when {made.entries} entries were recorded: neither valid nor invalid"
        assert report.unchecked == (said,)
        assert (report.signatures.kept, report.signatures.not_kept) == (0, made.entries)


@pytest.mark.parametrize("decide", [resolved, attested, lifted, retracted])
def test_a_decision_about_a_critical_mutation_that_names_no_signer_is_found(house: House, decide: Way) -> None:
    made = decide(house)

    def change(event: Event) -> Event:
        return replace(unkept(event), data={**event.data, "signed_by": ""}) if TOKEN in event.refs else event

    altered(made.store, made.action_id, change)
    faults = [fault for fault in looked(made.store, None).faults if fault.code == "signature"]
    assert len(faults) == made.entries
    assert all("without a signature" in fault.what for fault in faults)


# --- a freeze that was made again while its lift was signed -----------------------------------------------------


def test_what_was_signed_lifts_no_freeze_that_was_made_meanwhile(house: House) -> None:
    action_id = wiped(house, wrong=True)
    [freeze] = house.store.freezes(TENANT)
    said = lift_bytes(TENANT, SUBJECT, ((action_id, freeze.since_us - 1),), EVE, "It is in order.")
    order = Order(action_id, Decision.ABANDON, 0, EVE, "It is in order.", word(said))
    with pytest.raises(ReviewError) as refused:
        house.driver.drive(review.lift(action_id, SUBJECT, order, TENANT))
    assert refused.value.code == "review.stale"
    assert house.store.freezes(TENANT) == [freeze]


def test_a_freeze_that_was_lifted_and_made_again_is_signed_for_anew(house: House) -> None:
    made = critical_again(house)
    kept = signed_entries(house.store, made)
    assert len({signed.statement for _, signed in kept if b"readback/lift" in signed.statement}) == 2
    report = looked(house.store)
    assert (report.faults, report.unchecked) == ([], ())


def critical_again(house: House) -> str:
    action_id = wiped(house, wrong=True)
    lift(house, SUBJECT, action_id, signed=True)
    house.runtime.advance(60)
    resolve(house, action_id, "verify_again", signed=True)
    assert [one.subject for one in house.store.freezes(TENANT)] == [SUBJECT]
    lift(house, SUBJECT, action_id, signed=True)
    return action_id


def test_a_signature_that_was_given_for_whichever_version_is_none_for_this_one(house: House) -> None:
    action_id, why = wiped(house), "Seen by hand."
    said = claim_bytes(claim_id(action_id, K.HAPPENED), TENANT, 0, "retracted", EVE, why)
    order = ClaimOrder(action_id, K.HAPPENED, C.RETRACTED, ClaimStatement(EVE, why, word(said)))
    house.driver.drive(claims.decide(order, TENANT))
    assert {fault.code for fault in looked(house.store).faults} == {"signature"}
