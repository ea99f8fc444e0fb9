"""Two spellings of one name: what is verified by which rule, what stays open, and what no alias slips past."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from readback import Context, Reading, action
from readback.audit.checks.ledger import audit
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.engine.stages import execute
from readback.errors import PayloadConflictError
from readback.ports.storage.store import Freeze
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import sample_creation
from tests.lifecycle.house import SHIP, TENANT, House
from tests.lifecycle.reviewing import frozen, lift, sound, wrong_target
from tests.sdk.given import TERMS, opened

NFC, NFD = (unicodedata.normalize(form, "résumé") for form in ("NFC", "NFD"))
ONE = "550e8400-e29b-41d4-a716-446655440000"


def _run(asked: str, shown: object, *, form: str | None = None, stated: str = "") -> tuple[Outcome, list[object]]:
    """One action on `asked`, and a reading that says `shown`: its outcome, and who was blamed for it."""
    target: Any = "authoritative.id" if form is None else {"path": "authoritative.id", "as": form}
    terms: dict[str, Any] = {**TERMS, "name": "put", "target": "thing/{requested.name}", "within": "1s"}
    identity = {"target": target, "tenant": "not_offered"}

    @action(**{**terms, "identity": identity, "ensure": {"there": "authoritative.there == true"}})
    def put(_ctx: Context, name: str) -> object:
        return {"status": "ok"}

    @put.read(source="disk", consistency="strong", independence="other_client")
    def look(_ctx: Context, name: str) -> Reading:
        return Reading.of({"id": shown, "there": True}, version=1, forms={"id": stated} if stated else None)

    store = MemoryStore()
    with opened(store) as rb:
        outcome = rb.run(put(name=asked), operation="once")
        assert audit(store).ok, audit(store).faults
        faults = [one for one in store.counts(TENANT) if one[1] == "verifier_error"]
        return outcome, [*store.freezes(TENANT), *store.incidents(TENANT, open_only=False), *faults]


@pytest.mark.requirement("IDENT-normal-form")
@pytest.mark.parametrize(
    ("form", "asked", "shown"),
    [
        ("email", "ana@ACME.example", "ana@acme.example"),
        ("uuid", ONE.upper(), ONE),
        ("path", "./a//b", "a/b"),
        ("nfc", NFD, NFC),
        ("casefold", "Order-7", "ORDER-7"),
        ("casefold", "Order-7", "thing/ORDER-7"),
    ],
)
@pytest.mark.parametrize("said_by", ["the contract", "the system"])
def test_another_spelling_is_the_same_object_by_the_rule_of_the_contract_or_of_the_system(
    form: str, asked: str, shown: str, said_by: str
) -> None:
    said = {"form": form} if said_by == "the contract" else {"stated": form}
    assert _run(asked, shown, **said)[0].verified
    assert not _run(asked, shown)[0].verified
    assert not _run(asked, shown, form="exact", stated=form)[0].verified, "the contract's word outranks the system's"


@pytest.mark.requirement("IDENT-normal-form")
@pytest.mark.parametrize(
    ("form", "asked", "shown"),
    [
        ("email", "ana@a.example", "bo@a.example"),
        ("uuid", ONE, ONE[:-1] + "1"),
        ("path", "a/b", "b"),
        ("nfc", NFC, "resume"),
    ],
)
def test_another_name_is_another_object_whatever_the_rule(form: str, asked: str, shown: str) -> None:
    outcome, _ = _run(asked, shown, form=form)
    assert (outcome.verified, outcome.code) == (False, "reader.out-of-scope")


@pytest.mark.requirement("IDENT-no-guilt")
@pytest.mark.parametrize(
    ("asked", "shown"), [("A", "a"), (NFC, NFD), ("./a", "a"), (ONE, ONE.upper()), ("a b", "a%20b")]
)
def test_a_difference_of_spelling_refutes_nothing_freezes_nothing_and_opens_no_incident(asked: str, shown: str) -> None:
    outcome, blamed = _run(asked, shown)
    assert (outcome.verdict, outcome.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)
    assert "spells its target in another way" in outcome.detail
    assert "with `as`" in outcome.detail
    assert blamed == []


@pytest.mark.requirement("IDENT-no-guilt", "TRUTH-verdict-5")
def test_what_may_be_another_tenants_is_not_stored(house: House) -> None:
    house.shop.eyes = lambda ctx, args: Reading.of({**house.shop.rows["o-1"], "tenant": TENANT.upper()}, version=2)
    told = house.run(house.action())
    assert (told.verdict, told.verified) == (Verdict.UNDETERMINED, False)
    readings = [event for event in house.events(told.id) if event.data.get("role") in ("before", "check")]
    assert readings
    assert all(event.data["withheld"] and not event.refs for event in readings)
    assert house.store.incidents(TENANT, open_only=False) == []


@pytest.mark.requirement("IDENT-widest-freezes", "STRATEGY-fail-closed-hold")
@pytest.mark.parametrize("alias", ["./o-1", "O-1", "o-1/", "/o-1", "x/../o-1", "%6f-1"])
def test_no_other_spelling_slips_past_a_freeze(house: House, alias: str) -> None:
    first = house.run(wrong_target(house))
    house.shop.tool, calls = None, len(house.shop.calls)
    house.shop.rows[alias] = {**house.shop.rows["o-1"], "id": alias}
    told = house.run(house.action(), "op-2", item=alias)
    assert (told.state, told.code, len(house.shop.calls)) == (State.FAILED, "frozen", calls)
    lift(house, "resource:item/o-1", first.id)
    assert house.run(house.action(), "op-3", item=alias).code != "frozen"
    sound(house)


@pytest.mark.requirement("IDENT-widest-freezes")
def test_a_target_is_frozen_by_its_widest_form_and_one_of_an_older_ledger_as_it_is_written(house: House) -> None:
    house.shop.rows["O-7"] = {"id": "O-7", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    house.run(wrong_target(house), item="O-7")
    assert frozen(house) == ["resource:item/o-7"]
    before = House()
    as_written = Freeze(TENANT, "resource:item/O-7", "old", "wrong_target", 1)  # by releases that had no such form
    before.store.append([replace(sample_creation("old"), freezes=(as_written,))])
    told = before.run(before.action(), item="O-7")
    assert (told.code, before.shop.calls) == ("frozen", [])


# --- operations ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("IDENT-operation-id", "TRUTH-keys-second-run")
def test_an_operations_id_is_what_the_caller_wrote(house: House) -> None:
    made = house.action()
    first, second = house.run(made, NFC), house.run(made, NFD)
    assert (first.id != second.id, second.replayed) == (True, False)
    assert (house.run(made, NFC).id, house.run(made, NFD).id) == (first.id, second.id)
    assert len(house.shop.calls) == 2
    sound(house)


@pytest.mark.requirement("IDENT-operation-id")
def test_an_operation_of_an_older_ledger_is_found_under_the_form_that_its_key_had(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = house.action()
    with monkeypatch.context() as older:
        older.setattr(execute, "WRAPPER_VERSION", "1")
        first = house.run(made, NFC)  # an id in NFD was composed before its key was made
    again = house.run(made, NFD)
    assert (again.id, again.replayed, len(house.shop.calls)) == (first.id, True, 1)
    with pytest.raises(PayloadConflictError):
        house.run(made, NFD, status="held")
    sound(house)


FIELDS: dict[str, Any] = {**SHIP, "key_fields": ["item"]}
BY_PATH: dict[str, Any] = {
    **FIELDS,
    "identity": {"target": {"path": "authoritative.id", "as": "path"}, "tenant": "authoritative.tenant"},
}


@pytest.mark.requirement("IDENT-operation-id")
def test_two_spellings_of_a_target_are_one_operation_where_its_key_is_made_of_it(house: House) -> None:
    made = house.action(**BY_PATH)
    first = house.run(made, "", item="o-1")
    again = house.run(made, "", item="./o-1")
    assert (again.id, again.replayed, len(house.shop.calls)) == (first.id, True, 1)
    with pytest.raises(PayloadConflictError):
        house.run(made, "", item="./o-1", status="held")
    sound(house)


@pytest.mark.requirement("IDENT-operation-id")
def test_an_operation_that_was_begun_before_its_contract_named_a_form_is_found(house: House) -> None:
    house.shop.rows["./o-1"] = {**house.shop.rows["o-1"], "id": "./o-1"}
    first = house.run(house.action(**FIELDS), "", item="./o-1")
    again = house.run(house.action(**BY_PATH), "", item="./o-1")
    assert (again.id, again.replayed, len(house.shop.calls)) == (first.id, True, 1)
    sound(house)
